//! Write, run and test Kubernetes operators in Rust.
//!
//! This is the crate to add. It re-exports the runtime, and `kube`, `k8s_openapi`, `schemars`, `serde` and
//! `serde_json` in versions that fit together, so that an operator needs no other Kubernetes crate.
//!
//! ```no_run
//! use std::sync::Arc;
//! use evenkeel::Result;
//! use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Secret};
//! use evenkeel::prelude::*;
//!
//! evenkeel::kinds! {
//!     /// The kinds of the controller. If `reconcile` uses another kind, the compiler names the line to add here.
//!     struct TwinKinds for ConfigMap {
//!         owns Secret,
//!     }
//! }
//!
//! /// Every ConfigMap has a Secret of the same name.
//! async fn reconcile(map: Arc<ConfigMap>, ctx: Ctx<(), TwinKinds>) -> Result<Action> {
//!     let mut secret = Secret::default();
//!     secret.metadata.name = map.metadata.name.clone();
//!     ctx.apply(secret).await?;                       // server-side apply, with `map` as the owner
//!     Ok(Action::await_change())
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let controller = Controller::new("twin", reconcile);
//! Manager::new(Client::try_default().await?).controller(controller).run().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A reconcile may return `anyhow::Result<Action>` or any other error instead of [`Result`]; see
//! [`Controller::new`]. Custom resources are derived under [`#[evenkeel::api]`](macro@api).
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `health` | yes | the endpoints `/healthz` and `/readyz` |
//! | `leader-election` | yes | a leader election, so that only one of several replicas works |
//! | `metrics` | yes | metrics for Prometheus, and the endpoint `/metrics` with the feature `health` |
//! | `webhooks` | yes | admission and conversion webhooks, as a service |
//! | `webhook-server` | no | the server of the webhooks, with TLS and certificates of its own |
//! | `secured-server` | no | metrics over TLS, for those whom the API server allows to read them; `cli` enables it |
//! | `ring`, `aws-lc-rs` | `ring` | TLS to the API server, by rustls with this provider of cryptography |
//! | `otel` | no | traces of reconciles and metrics, sent to an OpenTelemetry collector; `cli` reads its environment variables |
//! | `base` | yes | the features above that are on by default, without a Kubernetes version |
//! | `v1_33` to `v1_37` | `v1_36` | the types of this Kubernetes version; exactly one is enabled, here or of `k8s-openapi` |
//! | `cli` | no | the command line of an operator, for its `main` |
//! | `cluster` | no | the embedded cluster and `#[evenkeel::test]`; an operator enables it for its tests only, and compiles no API server for production |
//! | `sim` | no | exploration of scenarios by `#[evenkeel::explore]`, and the feature `cluster` |
//!
//! Two versions of Kubernetes that differ do not compile, so that another version takes the place of the default:
//! `evenkeel = { version = "0.1", default-features = false, features = ["base", "v1_34"] }`. A library leaves the choice to
//! the program that uses it: it depends on `evenkeel` without default features, and enables `base`.

#[cfg(feature = "cli")]
pub mod cli;

#[doc(inline)]
pub use evenkeel_runtime::{
    Action, Backoff, BoxError, Cache, Cause, Causes, ContextError, Controller, Ctx, Ensured, Env, Error,
    ErrorExt, Event, EventMeta, EventType, Index, Informer, Informers, Manager, ManagerError, Manifests,
    Object, Objects, Owner, Predicate, Queue, Reconciler, Recorder, Request, Result, ResultExt, Rollout,
    Source, SyncError, Trigger,
};
#[doc(inline)]
pub use evenkeel_runtime::{
    action, cache, cause, conditions, context, controller, docs, error, event, finalizer, index, informer,
    kinds, kubeconfig, manager, manifests, object, observe, owner, predicate, queue, recorder, request,
    rollout, source, trigger, yaml,
};

#[cfg(feature = "leader-election")]
#[doc(inline)]
pub use evenkeel_runtime::{LeaderElection, leader};

#[cfg(feature = "metrics")]
#[doc(inline)]
pub use evenkeel_runtime::{Metrics, metrics};

#[cfg(feature = "webhooks")]
#[doc(inline)]
pub use evenkeel_runtime::{Conversion, Webhook, Webhooks, webhook};

#[cfg(feature = "webhook-server")]
#[doc(inline)]
pub use evenkeel_runtime::WebhookServer;

#[cfg(feature = "secured-server")]
#[doc(inline)]
pub use evenkeel_runtime::SecuredServer;

#[cfg(feature = "otel")]
#[doc(inline)]
pub use evenkeel_runtime::telemetry;

pub use {k8s_openapi, kube, schemars, serde, serde_json};

pub use evenkeel_macros::api;

#[cfg(feature = "cluster")]
pub use evenkeel_cluster::Cluster;
#[cfg(feature = "sim")]
pub use evenkeel_macros::explore;
#[cfg(feature = "cluster")]
pub use evenkeel_macros::test;

/// The expansions of `#[evenkeel::test]` and `#[evenkeel::explore]`, and checks for operators.
#[cfg(feature = "cluster")]
pub mod testing {
    pub use evenkeel_cluster::testing::*;
    #[cfg(feature = "sim")]
    pub use evenkeel_explore::explore;
}

/// Exploration: plays a scenario under everything that a real Kubernetes cluster may do to an operator, and explains
/// what it finds.
#[cfg(feature = "sim")]
pub use evenkeel_explore as explore;

/// The embedded cluster with everything around it: faults, recorded requests, serving on a port, kubeconfigs, options.
///
/// ```
/// use evenkeel::k8s_openapi::api::core::v1::Namespace;
/// use evenkeel::testing;
///
/// // What `#[evenkeel::test]` makes of a function: a test with a cluster of its own, in virtual time.
/// testing::run(testing::options().nodes(2), |cluster| async move {
///     assert_eq!(cluster.get::<Namespace>("default").await?.metadata.name.as_deref(), Some("default"));
///     Ok::<_, evenkeel::kube::Error>(())
/// }).unwrap();
/// ```
#[cfg(feature = "cluster")]
pub use evenkeel_cluster as cluster;

/// The names that every operator uses: `use evenkeel::prelude::*;`.
///
/// The prelude has no name of `std` or `anyhow`: `use anyhow::{Context, Result};` beside it does what it says. That
/// is why the context of a reconcile is called [`Ctx`], and why [`Result`] and [`Error`], for operators
/// without `anyhow`, are imported by name.
///
/// ```
/// use std::sync::Arc;
/// use anyhow::{Context, Result};
/// use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
/// use evenkeel::prelude::*;
///
/// async fn reconcile(map: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
///     let data = map.data.as_ref().context("the map has no data").terminal()?;
///     ctx.event(&map, "Counted", format!("{} entries", data.len()));
///     Ok(Action::await_change())
/// }
///
/// let controller = Controller::new("count", reconcile);
/// ```
pub mod prelude {
    pub use crate::{Action, Controller, Ctx, Manager, Predicate, Trigger};
    pub use crate::{ErrorExt as _, ResultExt as _, Rollout as _};
    pub use crate::{k8s_openapi, kube, schemars};
    pub use kube::{Client, CustomResource, CustomResourceExt, Resource, ResourceExt};
    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};

    #[cfg(feature = "cluster")]
    pub use crate::Cluster;
}
