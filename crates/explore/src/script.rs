//! A scenario without the types of its author, as runs use it.

use evenkeel_cluster::{Builder, Cluster};
use futures::future::LocalBoxFuture;

/// A scenario and the options of its clusters.
pub(crate) struct Script {
    pub(crate) options: Builder,
    pub(crate) play: Box<Play>,
    /// Whether the built-in controllers are explored like an operator.
    pub(crate) explores_controllers: bool,
}

/// Plays the scenario on a cluster, and returns the text of its error, if it fails.
pub(crate) type Play = dyn Fn(Cluster) -> LocalBoxFuture<'static, Option<String>> + Send + Sync;
