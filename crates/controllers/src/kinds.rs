//! The kinds that the controllers watch and write.
//!
//! All kinds share one Rust type, [`Object`]. Signatures use these aliases to say which kind they mean.

use crate::object::{Kind, Object};

macro_rules! kinds {
    ($($name:ident $constant:ident $group:literal $version:literal $plural:literal;)*) => {
        $(
            #[doc = concat!("An object that is a ", stringify!($name), ".")]
            #[allow(dead_code, reason = "a kind that is handled like another has no signature of its own")]
            pub(crate) type $name = Object;

            #[doc = concat!("The kind ", stringify!($name), ".")]
            pub(crate) static $constant: Kind =
                Kind { group: $group, version: $version, kind: stringify!($name), plural: $plural };
        )*
    };
}

kinds! {
    CertificateSigningRequest CERTIFICATE_SIGNING_REQUEST "certificates.k8s.io" "v1" "certificatesigningrequests";
    ClusterRole CLUSTER_ROLE "rbac.authorization.k8s.io" "v1" "clusterroles";
    ConfigMap CONFIG_MAP "" "v1" "configmaps";
    ControllerRevision CONTROLLER_REVISION "apps" "v1" "controllerrevisions";
    CronJob CRON_JOB "batch" "v1" "cronjobs";
    DaemonSet DAEMON_SET "apps" "v1" "daemonsets";
    Deployment DEPLOYMENT "apps" "v1" "deployments";
    EndpointSlice ENDPOINT_SLICE "discovery.k8s.io" "v1" "endpointslices";
    Endpoints ENDPOINTS "" "v1" "endpoints";
    HorizontalPodAutoscaler HORIZONTAL_POD_AUTOSCALER "autoscaling" "v2" "horizontalpodautoscalers";
    Job JOB "batch" "v1" "jobs";
    Lease LEASE "coordination.k8s.io" "v1" "leases";
    Namespace NAMESPACE "" "v1" "namespaces";
    Node NODE "" "v1" "nodes";
    PersistentVolume PERSISTENT_VOLUME "" "v1" "persistentvolumes";
    PersistentVolumeClaim PERSISTENT_VOLUME_CLAIM "" "v1" "persistentvolumeclaims";
    Pod POD "" "v1" "pods";
    PodDisruptionBudget POD_DISRUPTION_BUDGET "policy" "v1" "poddisruptionbudgets";
    ReplicaSet REPLICA_SET "apps" "v1" "replicasets";
    ReplicationController REPLICATION_CONTROLLER "" "v1" "replicationcontrollers";
    ResourceQuota RESOURCE_QUOTA "" "v1" "resourcequotas";
    Secret SECRET "" "v1" "secrets";
    Service SERVICE "" "v1" "services";
    ServiceAccount SERVICE_ACCOUNT "" "v1" "serviceaccounts";
    StatefulSet STATEFUL_SET "apps" "v1" "statefulsets";
    StorageClass STORAGE_CLASS "storage.k8s.io" "v1" "storageclasses";
    SubjectAccessReview SUBJECT_ACCESS_REVIEW "authorization.k8s.io" "v1" "subjectaccessreviews";
    ValidatingAdmissionPolicy VALIDATING_ADMISSION_POLICY "admissionregistration.k8s.io" "v1" "validatingadmissionpolicies";
    VolumeAttributesClass VOLUME_ATTRIBUTES_CLASS "storage.k8s.io" "v1" "volumeattributesclasses";
}

/// The kinds that a controller watches as whole objects, in all namespaces and without a selector.
pub(crate) static WATCHED: [&Kind; 25] = [
    &POD,
    &SERVICE,
    &ENDPOINTS,
    &ENDPOINT_SLICE,
    &NAMESPACE,
    &NODE,
    &SERVICE_ACCOUNT,
    &PERSISTENT_VOLUME,
    &PERSISTENT_VOLUME_CLAIM,
    &STORAGE_CLASS,
    &VOLUME_ATTRIBUTES_CLASS,
    &RESOURCE_QUOTA,
    &REPLICATION_CONTROLLER,
    &REPLICA_SET,
    &DEPLOYMENT,
    &STATEFUL_SET,
    &DAEMON_SET,
    &CONTROLLER_REVISION,
    &JOB,
    &CRON_JOB,
    &HORIZONTAL_POD_AUTOSCALER,
    &POD_DISRUPTION_BUDGET,
    &CLUSTER_ROLE,
    &CERTIFICATE_SIGNING_REQUEST,
    &VALIDATING_ADMISSION_POLICY,
];

#[cfg(test)]
mod tests {
    use super::*;
    use kube::Resource as _;

    #[test]
    fn kinds_are_served_where_kubernetes_serves_them() {
        let path = |kind: &'static Kind, namespace| Object::url_path(&kind, namespace);
        assert_eq!(path(&POD, Some("a")), "/api/v1/namespaces/a/pods");
        assert_eq!(path(&DEPLOYMENT, None), "/apis/apps/v1/deployments");
        assert_eq!(DEPLOYMENT.api_version(), "apps/v1");
    }
}
