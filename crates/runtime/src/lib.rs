//! The controller runtime: the library that an operator is built on.
//!
//! The modules are the stations between a change in the API server and the reconcile that answers it:
//!
//! ```text
//! source ▸ informer ▸ cache ▸ predicate ▸ trigger ▸ queue ▸ controller ▸ reconcile(object, context) ▸ API server
//! ```
//!
//! | station | module | what it is |
//! |---|---|---|
//! | declare a watch | [`source`], [`kinds`](mod@kinds) | kind, namespaces, selectors; the kinds of a controller as a list |
//! | watch | [`informer`] | list, then watch; one for each source in a manager |
//! | cache | [`cache`], [`index`] | objects by key and by index |
//! | filter events | [`event`], [`predicate`] | which changes pass |
//! | find keys | [`trigger`], [`request`] | which keys to reconcile for a change |
//! | queue keys | [`queue`], [`cause`] | deduplicated keys with priorities and backoff |
//! | reconcile | [`controller`], [`action`], [`error`] | workers, results, retries |
//! | read and write | [`context`], [`owner`], [`finalizer`], [`conditions`], [`rollout`], [`recorder`] | what a reconcile works with |
//! | admit and convert | `webhook` | functions that the API server calls |
//! | record | [`flight`] | what was reconciled lately, and why |
//! | run | [`manager`] | starts, stops and shares all of these |
//!
//! Guides: [from controller-runtime](docs::from_controller_runtime), [from kube-rs](docs::from_kube_rs).
//!
//! *Invariant:* nothing here depends on our API server: the runtime works with any `kube::Client`.
//! *Invariant:* the clock, randomness and the ledger of pending work come from one [`Env`].

pub mod action;
pub mod cache;
pub mod cause;
pub mod conditions;
pub mod context;
pub mod controller;
mod declaration;
pub mod error;
pub mod event;
#[cfg(test)]
mod fake;
mod fence;
pub mod finalizer;
pub mod flight;
pub mod index;
pub mod informer;
pub mod kinds;
pub mod kubeconfig;
#[cfg(feature = "leader-election")]
pub mod leader;
#[cfg(any(feature = "health", feature = "tls-server"))]
mod listen;
pub mod manager;
pub mod manifests;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(not(feature = "metrics"))]
#[path = "metrics/off.rs"]
mod metrics;
#[cfg(feature = "webhooks")]
mod migration;
pub mod object;
pub mod observe;
mod own_writes;
pub mod owner;
pub mod predicate;
pub mod queue;
mod rate_limit;
pub mod recorder;
pub mod request;
pub mod resource_use;
pub mod rollout;
#[cfg(feature = "health")]
mod serve;
pub mod source;
mod tasks;
#[cfg(feature = "otel")]
pub mod telemetry;
#[cfg(feature = "tls-server")]
mod tls;
pub mod trigger;
#[cfg(feature = "webhooks")]
mod wake;
#[cfg(feature = "webhooks")]
pub mod webhook;
mod wire;
pub mod yaml;

/// Guides for users of other controller runtimes.
pub mod docs {
    #[doc = include_str!("docs/from-controller-runtime.md")]
    pub mod from_controller_runtime {}
    #[doc = include_str!("docs/from-kube-rs.md")]
    pub mod from_kube_rs {}
}

pub use action::Action;
pub use cache::Cache;
pub use cause::{Cause, Causes, Change};
pub use context::{Ctx, Ensured, Objects};
pub use controller::{Controller, Reconciler};
pub use error::{BoxError, ContextError, Error, ErrorExt, Result, ResultExt};
pub use evenkeel_env::Env;
pub use event::{Event, EventMeta, Origin};
pub use flight::Flight;
pub use index::Index;
pub use informer::{Informer, Informers, Subscription, SyncError};
#[cfg(feature = "leader-election")]
pub use leader::LeaderElection;
pub use manager::{Manager, ManagerError};
pub use manifests::Manifests;
#[cfg(feature = "metrics")]
pub use metrics::Metrics;
pub use object::Object;
pub use observe::{Observed, Stage};
pub use owner::Owner;
pub use predicate::Predicate;
pub use queue::{Backoff, Queue};
pub use recorder::{EventType, Recorder};
pub use request::Request;
pub use rollout::Rollout;
#[cfg(feature = "secured-server")]
pub use serve::SecuredServer;
pub use source::Source;
pub use trigger::Trigger;
#[cfg(feature = "webhook-server")]
pub use webhook::WebhookServer;
#[cfg(feature = "webhooks")]
pub use webhook::{Conversion, Webhook, Webhooks};
