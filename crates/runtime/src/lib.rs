//! The controller runtime: what an operator author links.
//!
//! The modules are the stations of the road from a change in the API server to a reconcile and back:
//!
//! ```text
//! source ▸ informer ▸ cache ▸ predicate ▸ trigger ▸ queue ▸ controller ▸ reconcile(object, context) ▸ API server
//! ```
//!
//! | station | module | what it is |
//! |---|---|---|
//! | what to watch | [`source`] | kind, namespaces, selectors |
//! | the watch | [`informer`] | list, then watch; one for each source in a manager |
//! | what is known | [`cache`], [`index`] | objects by key and by index |
//! | what matters | [`event`], [`predicate`] | which changes pass |
//! | whom it concerns | [`trigger`], [`request`] | from a change to keys |
//! | in which order | [`queue`], [`cause`] | deduplicated keys with priorities and backoff |
//! | who works | [`controller`], [`action`], [`error`] | workers, retries, results |
//! | with what | [`context`], [`owner`], [`finalizer`], [`conditions`], [`rollout`], [`recorder`] | reads and writes of a reconcile |
//! | all together | [`manager`] | start, stop, sharing |
//!
//! Guides: [from controller-runtime](docs::from_controller_runtime), [from kube-rs](docs::from_kube_rs).
//!
//! *Invariant:* nothing here knows our API server; a `kube::Client` is all it needs.
//! *Invariant:* clock, randomness and the ledger of pending work come from one [`Env`].

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
pub mod index;
pub mod informer;
#[cfg(feature = "leader-election")]
pub mod leader;
pub mod manager;
pub mod manifests;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(not(feature = "metrics"))]
#[path = "metrics/off.rs"]
mod metrics;
pub mod object;
pub mod observe;
mod own_writes;
pub mod owner;
pub mod predicate;
pub mod queue;
mod rate_limit;
pub mod recorder;
pub mod request;
pub mod rollout;
#[cfg(feature = "health")]
mod serve;
pub mod source;
mod tasks;
#[cfg(feature = "otel")]
pub mod telemetry;
pub mod trigger;
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
pub use source::Source;
pub use trigger::Trigger;
