//! Whether a workload has completed its rollout.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, DeploymentSpec, StatefulSet, StatefulSetSpec};

/// Workloads whose status tells whether they are rolled out.
///
/// ```
/// use evenkeel_runtime::Rollout;
/// use k8s_openapi::api::apps::v1::Deployment;
///
/// assert!(!Deployment::default().is_rolled_out(), "nothing is known of one that has no status");
/// ```
pub trait Rollout {
    /// Whether the controller has observed the newest spec, as many pods as the spec asks for run it and are available,
    /// and no other pods are left.
    fn is_rolled_out(&self) -> bool;
}

impl Rollout for Deployment {
    fn is_rolled_out(&self) -> bool {
        // In the types of some Kubernetes versions the spec is optional, in others it is not.
        let spec: Option<&DeploymentSpec> = (&self.spec).into();
        let wanted = spec.and_then(|spec| spec.replicas).unwrap_or(1);
        self.status.as_ref().is_some_and(|status| {
            let counts = [status.replicas, status.updated_replicas, status.available_replicas];
            status.observed_generation == self.metadata.generation
                && counts.into_iter().all(|count| count.unwrap_or(0) == wanted)
        })
    }
}

impl Rollout for StatefulSet {
    fn is_rolled_out(&self) -> bool {
        let spec: Option<&StatefulSetSpec> = (&self.spec).into();
        let wanted = spec.and_then(|spec| spec.replicas).unwrap_or(1);
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

#[cfg(test)]
mod tests {
    use k8s_openapi::Metadata;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    /// Checks a workload that is rolled out, then with each field of its status set back to the value before.
    fn check<W: Rollout + DeserializeOwned + Metadata<Ty = ObjectMeta>>(status: Value, before: Value) {
        let workload = |status: &Value| -> W {
            let metadata = json!({ "name": "web", "generation": 2 });
            let labels = json!({ "app": "web" });
            let template = json!({ "metadata": { "labels": labels } });
            let spec = json!({
                "replicas": 3, "serviceName": "web", "selector": { "matchLabels": labels }, "template": template,
            });
            serde_json::from_value(json!({ "metadata": metadata, "spec": spec, "status": status })).unwrap()
        };
        assert!(workload(&status).is_rolled_out());
        for (field, value) in before.as_object().unwrap() {
            let mut status = status.clone();
            status[field] = value.clone();
            assert!(!workload(&status).is_rolled_out(), "{field}: {value}");
        }
    }

    #[test]
    fn a_workload_is_rolled_out_when_all_of_its_newest_spec_runs_and_nothing_else() {
        check::<Deployment>(
            json!({ "observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3 }),
            json!({ "observedGeneration": 1, "replicas": 4, "updatedReplicas": 2, "availableReplicas": 2 }),
        );
        check::<StatefulSet>(
            json!({
                "observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3,
                "currentRevision": "web-2", "updateRevision": "web-2",
            }),
            json!({
                "observedGeneration": 1, "replicas": 4, "updatedReplicas": 2, "availableReplicas": 2,
                "currentRevision": "web-1",
            }),
        );
        check::<DaemonSet>(
            json!({
                "observedGeneration": 2, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2,
                "numberAvailable": 2, "currentNumberScheduled": 2, "numberMisscheduled": 0, "numberReady": 2,
            }),
            json!({ "observedGeneration": 1, "updatedNumberScheduled": 1, "numberAvailable": 1 }),
        );
    }
}
