//! Write, run and test Kubernetes operators in Rust.
//!
//! This is the crate to add. It re-exports the runtime, and `kube`, `k8s_openapi` and `schemars` in the versions that
//! fit, so that an operator needs no other Kubernetes crate. With the feature `cluster` it brings the embedded
//! cluster and `#[evenkeel::test]`: an operator enables it for its tests alone, and compiles no API server for
//! production. With the feature `cli` it brings an operator's command line.

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
