//! Whether a workload runs what its newest spec asks for.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};

/// Workloads that tell how far they are.
///
/// ```
/// use evenkeel_runtime::Rollout;
/// use k8s_openapi::api::apps::v1::Deployment;
///
/// assert!(!Deployment::default().is_rolled_out(), "nothing is known of one that has no status");
/// ```
pub trait Rollout {
    /// Whether its controller has seen the newest spec, and as many pods as that asks for run it and are available,
    /// and no others are left.
    fn is_rolled_out(&self) -> bool;
}

impl Rollout for Deployment {
    fn is_rolled_out(&self) -> bool {
        let wanted = self.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        self.status.as_ref().is_some_and(|status| {
            let counts = [status.replicas, status.updated_replicas, status.available_replicas];
            status.observed_generation == self.metadata.generation
                && counts.into_iter().all(|count| count.unwrap_or(0) == wanted)
        })
    }
}

impl Rollout for StatefulSet {
    fn is_rolled_out(&self) -> bool {
        let wanted = self.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        self.status.as_ref().is_some_and(|status| {
            let counts = [Some(status.replicas), status.updated_replicas, status.available_replicas];
            status.observed_generation == self.metadata.generation
                && status.update_revision == status.current_revision
                && counts.into_iter().all(|count| count.unwrap_or(0) == wanted)
        })
    }
}

impl Rollout for DaemonSet {
    fn is_rolled_out(&self) -> bool {
        self.status.as_ref().is_some_and(|status| {
            let counts = [status.updated_number_scheduled, status.number_available];
            status.observed_generation == self.metadata.generation
                && counts.into_iter().all(|count| count.unwrap_or(0) == status.desired_number_scheduled)
        })
    }
}
