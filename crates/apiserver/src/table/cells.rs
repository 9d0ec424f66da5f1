//! The cells of built-in kinds: one pure function of the object and the current time for each kind.

mod admission_registration;
mod cluster;
mod network;
mod pod;
mod storage;
mod view;
mod workloads;

#[cfg(test)]
mod tests;

use evenkeel_schema::json::Value;
use jiff::Timestamp;

use view::View;

/// Returns the cells of one object's row.
pub(super) type Row = fn(View<'_>) -> Vec<Value>;

/// The row functions of the built-in kinds, by API group and kind.
const ROWS: &[(&str, &str, Row)] = &[
    ("", "Pod", pod::pod),
    ("", "PodTemplate", pod::template),
    ("", "ReplicationController", workloads::replication_controller),
    ("", "Service", network::service),
    ("", "Endpoints", network::endpoints),
    ("", "Namespace", cluster::namespace),
    ("", "Node", cluster::node),
    ("", "ConfigMap", cluster::config_map),
    ("", "Secret", cluster::secret),
    ("", "ComponentStatus", cluster::component_status),
    ("", "ResourceQuota", cluster::resource_quota),
    ("", "PersistentVolume", storage::persistent_volume),
    ("", "PersistentVolumeClaim", storage::persistent_volume_claim),
    ("", "Event", cluster::event),
    ("events.k8s.io", "Event", cluster::event),
    ("", "ServiceAccount", cluster::name_and_age),
    ("apps", "Deployment", workloads::deployment),
    ("apps", "ReplicaSet", workloads::replica_set),
    ("apps", "StatefulSet", workloads::stateful_set),
    ("apps", "DaemonSet", workloads::daemon_set),
    ("apps", "ControllerRevision", workloads::controller_revision),
    ("batch", "Job", workloads::job),
    ("batch", "CronJob", workloads::cron_job),
    ("autoscaling", "HorizontalPodAutoscaler", workloads::horizontal_pod_autoscaler),
    ("policy", "PodDisruptionBudget", workloads::pod_disruption_budget),
    ("discovery.k8s.io", "EndpointSlice", network::endpoint_slice),
    ("coordination.k8s.io", "Lease", cluster::lease),
    ("apiregistration.k8s.io", "APIService", cluster::api_service),
    ("certificates.k8s.io", "CertificateSigningRequest", cluster::certificate_signing_request),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema", cluster::flow_schema),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration", cluster::priority_level),
    ("scheduling.k8s.io", "PriorityClass", cluster::priority_class),
    ("node.k8s.io", "RuntimeClass", cluster::runtime_class),
    ("rbac.authorization.k8s.io", "RoleBinding", cluster::role_binding),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", cluster::role_binding),
    ("networking.k8s.io", "Ingress", network::ingress),
    ("networking.k8s.io", "IngressClass", network::ingress_class),
    ("networking.k8s.io", "NetworkPolicy", network::network_policy),
    ("networking.k8s.io", "ServiceCIDR", network::service_cidr),
    ("networking.k8s.io", "IPAddress", network::ip_address),
    ("storage.k8s.io", "StorageClass", storage::storage_class),
    ("storage.k8s.io", "VolumeAttributesClass", storage::volume_attributes_class),
    ("storage.k8s.io", "VolumeAttachment", storage::volume_attachment),
    ("storage.k8s.io", "CSINode", storage::csi_node),
    ("storage.k8s.io", "CSIDriver", storage::csi_driver),
    (
        "admissionregistration.k8s.io",
        "MutatingWebhookConfiguration",
        admission_registration::webhook_configuration,
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        admission_registration::webhook_configuration,
    ),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy", admission_registration::validating_policy),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy", admission_registration::mutating_policy),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
        admission_registration::admission_policy_binding,
    ),
    (
        "admissionregistration.k8s.io",
        "MutatingAdmissionPolicyBinding",
        admission_registration::admission_policy_binding,
    ),
    ("resource.k8s.io", "DeviceClass", cluster::name_and_age),
    ("resource.k8s.io", "ResourceClaimTemplate", cluster::name_and_age),
    ("resource.k8s.io", "ResourceClaim", cluster::resource_claim),
    ("resource.k8s.io", "ResourceSlice", cluster::resource_slice),
];

/// Returns the row function of a built-in kind; `None` if the kind shows only its name and creation time.
pub(super) fn of(group: &str, kind: &str) -> Option<Row> {
    ROWS.iter().find(|it| it.0 == group && it.1 == kind).map(|(_, _, row)| *row)
}

pub(super) fn cells(row: Row, object: &Value, now: Timestamp) -> Vec<Value> {
    row(View { value: object, now })
}

/// Returns the conditions of a pod's row; `None` while the pod has not finished.
pub(super) fn pod_conditions(object: &Value, now: Timestamp) -> Option<Value> {
    pod::row_conditions(View { value: object, now })
}
