//! Write, run and test Kubernetes operators in Rust.
//!
//! This is the crate to add. It re-exports the runtime, and `kube`, `k8s_openapi` and `schemars` in the versions that
//! fit, so that an operator needs no other Kubernetes crate. With the feature `cluster` it brings the embedded
//! cluster and `#[evenkeel::test]`: an operator enables it for its tests alone, and compiles no API server for
//! production. With the feature `cli` it brings an operator's command line.
//!
//! ```no_run
//! use std::sync::Arc;
//! use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Secret};
//! use evenkeel::prelude::*;
//!
//! /// Every ConfigMap has a Secret of the same name.
//! async fn reconcile(map: Arc<ConfigMap>, ctx: Context) -> Result<Action> {
//!     let mut secret = Secret::default();
//!     secret.metadata.name = map.metadata.name.clone();
//!     ctx.apply(secret).await?;                       // server-side, owned by `map`
//!     Ok(Action::done())
//! }
//!
//! # async fn example() -> std::result::Result<(), Box<dyn std::error::Error>> {
//! let controller = Controller::new("twin", reconcile).owns::<Secret>();
//! Manager::new(Client::try_default().await?).controller(controller).run().await?;
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "cli")]
pub mod cli;

pub use evenkeel_runtime::*;

pub use {k8s_openapi, kube, schemars};

#[cfg(feature = "cluster")]
pub use evenkeel_cluster::{
    Builder as ClusterBuilder, Cluster, CrashPoint, Exchange, Fault, Mark, Matcher, StartError, User, Write,
    testing,
};
#[cfg(feature = "cluster")]
pub use evenkeel_macros::test;

/// The embedded cluster with everything around it: serving it on a port, kubeconfigs, options.
///
/// ```
/// use evenkeel::k8s_openapi::api::core::v1::Namespace;
/// use evenkeel::testing;
///
/// // What `#[evenkeel::test]` makes of a function: a cluster of its own, in virtual time.
/// testing::run(testing::options().nodes(2), |cluster| async move {
///     assert_eq!(cluster.get::<Namespace>("default").await?.metadata.name.as_deref(), Some("default"));
///     Ok::<_, evenkeel::kube::Error>(())
/// }).unwrap();
/// ```
#[cfg(feature = "cluster")]
pub use evenkeel_cluster as cluster;

/// What an operator's source begins with: `use evenkeel::prelude::*;`.
pub mod prelude {
    pub use crate::{
        Action, Context, Controller, Env, Error, ErrorExt, Manager, Owner, Predicate, Reconciler, Request,
        Result, ResultExt, Rollout, Trigger,
    };
    pub use crate::{k8s_openapi, kube, schemars};
    pub use kube::{Client, CustomResource, CustomResourceExt, Resource, ResourceExt};
    pub use schemars::JsonSchema;

    #[cfg(feature = "cluster")]
    pub use crate::{Cluster, CrashPoint, Fault, Matcher};
}
