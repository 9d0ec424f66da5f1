//! The cells of built-in kinds: one pure function of the object and the current time for each kind.

mod cluster;
mod network;
mod pod;
mod policy;
mod storage;
mod view;
mod workloads;

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde_json::Value;

use view::View;

/// Returns the cells of one object's row.
pub(super) type Row = fn(View<'_>) -> Vec<Value>;

/// Returns the row function of a built-in kind; `None` if the kind shows only its name and creation time.
pub(super) fn of(group: &str, kind: &str) -> Option<Row> {
    let row: Row = match (group, kind) {
        ("", "Pod") => pod::pod,
        ("", "PodTemplate") => pod::template,
        ("", "ReplicationController") => workloads::replication_controller,
        ("", "Service") => network::service,
        ("", "Endpoints") => network::endpoints,
        ("", "Namespace") => cluster::namespace,
        ("", "Node") => cluster::node,
        ("", "ConfigMap") => cluster::config_map,
        ("", "Secret") => cluster::secret,
        ("", "ComponentStatus") => cluster::component_status,
        ("", "ResourceQuota") => cluster::resource_quota,
        ("", "PersistentVolume") => storage::persistent_volume,
        ("", "PersistentVolumeClaim") => storage::persistent_volume_claim,
        ("" | "events.k8s.io", "Event") => cluster::event,
        ("", "ServiceAccount") => cluster::name_and_age,
        ("apps", "Deployment") => workloads::deployment,
        ("apps", "ReplicaSet") => workloads::replica_set,
        ("apps", "StatefulSet") => workloads::stateful_set,
        ("apps", "DaemonSet") => workloads::daemon_set,
        ("apps", "ControllerRevision") => workloads::controller_revision,
        ("batch", "Job") => workloads::job,
        ("batch", "CronJob") => workloads::cron_job,
        ("autoscaling", "HorizontalPodAutoscaler") => workloads::horizontal_pod_autoscaler,
        ("policy", "PodDisruptionBudget") => workloads::pod_disruption_budget,
        ("discovery.k8s.io", "EndpointSlice") => network::endpoint_slice,
        ("coordination.k8s.io", "Lease") => cluster::lease,
        ("apiregistration.k8s.io", "APIService") => policy::api_service,
        ("certificates.k8s.io", "CertificateSigningRequest") => policy::certificate_signing_request,
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => policy::flow_schema,
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => policy::priority_level,
        ("scheduling.k8s.io", "PriorityClass") => policy::priority_class,
        ("node.k8s.io", "RuntimeClass") => policy::runtime_class,
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => policy::role_binding,
        ("networking.k8s.io", kind) => return of_networking(kind),
        ("storage.k8s.io", kind) => return of_storage(kind),
        ("admissionregistration.k8s.io", kind) => return of_admission(kind),
        ("resource.k8s.io", kind) => return of_resource(kind),
        _ => return None,
    };
    Some(row)
}

fn of_networking(kind: &str) -> Option<Row> {
    Some(match kind {
        "Ingress" => network::ingress,
        "IngressClass" => network::ingress_class,
        "NetworkPolicy" => network::network_policy,
        "ServiceCIDR" => network::service_cidr,
        "IPAddress" => network::ip_address,
        _ => return None,
    })
}

fn of_storage(kind: &str) -> Option<Row> {
    Some(match kind {
        "StorageClass" => storage::storage_class,
        "VolumeAttributesClass" => storage::volume_attributes_class,
        "VolumeAttachment" => storage::volume_attachment,
        "CSINode" => storage::csi_node,
        "CSIDriver" => storage::csi_driver,
        _ => return None,
    })
}

fn of_admission(kind: &str) -> Option<Row> {
    Some(match kind {
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => policy::webhook_configuration,
        "ValidatingAdmissionPolicy" => policy::validating_policy,
        "MutatingAdmissionPolicy" => policy::mutating_policy,
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => {
            policy::admission_policy_binding
        }
        _ => return None,
    })
}

fn of_resource(kind: &str) -> Option<Row> {
    Some(match kind {
        "DeviceClass" | "ResourceClaimTemplate" => cluster::name_and_age,
        "ResourceClaim" => policy::resource_claim,
        "ResourceSlice" => policy::resource_slice,
        _ => return None,
    })
}

pub(super) fn cells(row: Row, object: &Value, now: Timestamp) -> Vec<Value> {
    row(View { value: object, now })
}

/// Returns the conditions of a pod's row; `None` while the pod has not finished.
pub(super) fn pod_conditions(object: &Value, now: Timestamp) -> Option<Value> {
    pod::row_conditions(View { value: object, now })
}
