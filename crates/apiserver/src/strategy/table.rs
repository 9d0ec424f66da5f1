//! The strategies of the built-in kinds, by API group and kind.

use super::{Conversion, Deletion, Report, Strategy, Unstored};

const ADMISSION: &str = "admissionregistration.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
const FLOW_CONTROL: &str = "flowcontrol.apiserver.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const RESOURCE: &str = "resource.k8s.io";
const STORAGE: &str = "storage.k8s.io";

const BUILT_IN: Strategy = Strategy::BUILT_IN;
/// A deletion returns the deleted object.
const RETURNS_DELETED: Strategy = Strategy { returns_deleted_object: true, ..BUILT_IN };
/// A PUT creates an object that does not exist.
const CREATES_ON_UPDATE: Strategy = Strategy { allow_create_on_update: true, ..BUILT_IN };
/// A PUT needs a resource version.
const CONDITIONAL: Strategy = Strategy { allow_unconditional_update: false, ..BUILT_IN };
/// Mutating admission policies and their bindings, which Kubernetes still stores as `v1beta1`.
const MUTATING_POLICY: Strategy = Strategy { storage_version: Some((ADMISSION, "v1beta1")), ..CONDITIONAL };

const fn unstored(unstored: Unstored) -> Strategy {
    Strategy { unstored: Some(unstored), ..BUILT_IN }
}

/// The strategies of all kinds that differ from [`Strategy::BUILT_IN`], with their API group and kind.
pub(super) static STRATEGIES: &[(&str, &str, Strategy)] = &[
    ("", "Binding", unstored(Unstored::Binding)),
    (
        "",
        "ComponentStatus",
        Strategy {
            deprecation: Some("v1 ComponentStatus is deprecated in v1.19+"),
            ..unstored(Unstored::ComponentStatus)
        },
    ),
    (
        "",
        "Endpoints",
        Strategy {
            deprecation: Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
            ..CREATES_ON_UPDATE
        },
    ),
    ("", "Event", Strategy { ignores_dependents: true, ..CREATES_ON_UPDATE }),
    ("", "LimitRange", Strategy { generates_missing_name: true, ..CREATES_ON_UPDATE }),
    ("", "Namespace", Strategy { deletion: Deletion::NamespaceContents, ..RETURNS_DELETED }),
    ("", "PersistentVolume", RETURNS_DELETED),
    ("", "PersistentVolumeClaim", RETURNS_DELETED),
    ("", "Pod", Strategy { deletion: Deletion::Graceful, runs_on_node: true, ..RETURNS_DELETED }),
    ("", "PodTemplate", RETURNS_DELETED),
    (
        "",
        "ReplicationController",
        Strategy { orphans_dependents: true, selects_by_label_map: true, ..BUILT_IN },
    ),
    ("", "ResourceQuota", RETURNS_DELETED),
    ("", "Secret", Strategy { has_string_data: true, ..BUILT_IN }),
    ("", "Service", Strategy { allow_create_on_update: true, allocates_addresses: true, ..RETURNS_DELETED }),
    ("", "ServiceAccount", RETURNS_DELETED),
    (ADMISSION, "MutatingAdmissionPolicy", MUTATING_POLICY),
    (ADMISSION, "MutatingAdmissionPolicyBinding", MUTATING_POLICY),
    (ADMISSION, "MutatingWebhookConfiguration", CONDITIONAL),
    (ADMISSION, "ValidatingAdmissionPolicy", CONDITIONAL),
    (ADMISSION, "ValidatingAdmissionPolicyBinding", CONDITIONAL),
    (ADMISSION, "ValidatingWebhookConfiguration", CONDITIONAL),
    (
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        Strategy {
            deletion: Deletion::CustomResources,
            declares_resources: true,
            storage_version: Some(("apiextensions.k8s.io", "v1beta1")),
            ..CONDITIONAL
        },
    ),
    ("apiregistration.k8s.io", "APIService", Strategy { report: Some(Report::Availability), ..CONDITIONAL }),
    (AUTHENTICATION, "SelfSubjectReview", unstored(Unstored::SelfSubjectReview)),
    (AUTHENTICATION, "TokenReview", unstored(Unstored::TokenReview)),
    (AUTHORIZATION, "LocalSubjectAccessReview", unstored(Unstored::LocalSubjectAccessReview)),
    (AUTHORIZATION, "SelfSubjectAccessReview", unstored(Unstored::SelfSubjectAccessReview)),
    (AUTHORIZATION, "SelfSubjectRulesReview", unstored(Unstored::SelfSubjectRulesReview)),
    (AUTHORIZATION, "SubjectAccessReview", unstored(Unstored::SubjectAccessReview)),
    (
        "autoscaling",
        "HorizontalPodAutoscaler",
        Strategy {
            storage_version: Some(("autoscaling", "v2")),
            conversion: Some(("v1", Conversion::HorizontalPodAutoscaler)),
            ..BUILT_IN
        },
    ),
    (
        "batch",
        "Job",
        Strategy {
            orphans_dependents: true,
            takes_template_labels: true,
            deletion_warning: Some(
                "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove \
                 them or set propagationPolicy=Orphan to suppress this warning",
            ),
            ..BUILT_IN
        },
    ),
    ("certificates.k8s.io", "CertificateSigningRequest", Strategy { records_requester: true, ..BUILT_IN }),
    ("coordination.k8s.io", "Lease", Strategy { allow_create_on_update: true, ..CONDITIONAL }),
    (
        "events.k8s.io",
        "Event",
        Strategy {
            error_group: Some(""),
            ignores_dependents: true,
            storage_version: Some(("", "v1")),
            conversion: Some(("v1", Conversion::Event)),
            ..CREATES_ON_UPDATE
        },
    ),
    (FLOW_CONTROL, "FlowSchema", Strategy { report: Some(Report::Reference), ..BUILT_IN }),
    (FLOW_CONTROL, "PriorityLevelConfiguration", Strategy { report: Some(Report::Referenced), ..BUILT_IN }),
    ("node.k8s.io", "RuntimeClass", Strategy { allow_create_on_update: true, ..CONDITIONAL }),
    ("policy", "PodDisruptionBudget", CONDITIONAL),
    (RBAC, "ClusterRole", CREATES_ON_UPDATE),
    (RBAC, "ClusterRoleBinding", CREATES_ON_UPDATE),
    (RBAC, "Role", CREATES_ON_UPDATE),
    (RBAC, "RoleBinding", CREATES_ON_UPDATE),
    (RESOURCE, "DeviceClass", RETURNS_DELETED),
    (RESOURCE, "ResourceClaim", RETURNS_DELETED),
    (RESOURCE, "ResourceClaimTemplate", RETURNS_DELETED),
    (RESOURCE, "ResourceSlice", RETURNS_DELETED),
    (
        "scheduling.k8s.io",
        "PriorityClass",
        Strategy { undeletable: &["system-node-critical", "system-cluster-critical"], ..BUILT_IN },
    ),
    (STORAGE, "CSIDriver", Strategy { returns_deleted_object: true, ..CONDITIONAL }),
    (STORAGE, "CSINode", Strategy { returns_deleted_object: true, ..CONDITIONAL }),
    (STORAGE, "CSIStorageCapacity", CONDITIONAL),
    (STORAGE, "StorageClass", RETURNS_DELETED),
    (STORAGE, "VolumeAttachment", Strategy { returns_deleted_object: true, ..CONDITIONAL }),
    (STORAGE, "VolumeAttributesClass", RETURNS_DELETED),
];
