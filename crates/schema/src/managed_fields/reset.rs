//! The fields that an endpoint cannot own.

use std::sync::OnceLock;

use crate::fieldset::{FieldSet, PathElement};
use crate::json::Value;

/// The fields that an endpoint can own. It ignores all others in requests.
#[derive(Debug, Clone, PartialEq)]
pub enum Reset {
    /// All fields except these and those beneath them.
    Except(FieldSet),
}

impl Reset {
    /// An endpoint whose managers can own every field.
    pub fn none() -> &'static Self {
        static NONE: OnceLock<Reset> = OnceLock::new();
        NONE.get_or_init(|| Self::Except(FieldSet::new()))
    }

    /// The endpoint of a built-in kind.
    ///
    /// `has_status` says whether the kind has a status subresource.
    pub fn builtin(group: &str, kind: &str, subresource: &str, has_status: bool) -> &'static Self {
        static SETS: OnceLock<Sets> = OnceLock::new();
        let sets = SETS.get_or_init(Sets::new);
        match (subresource, group, kind) {
            ("approval", "certificates.k8s.io", _) => &sets.approval,
            ("status", "certificates.k8s.io", "CertificateSigningRequest") => &sets.certificate_status,
            ("", "certificates.k8s.io", "CertificateSigningRequest") => &sets.certificate,
            ("status", "", "Pod") => &sets.pod_status,
            ("status", "apps", "Deployment") => &sets.deployment_status,
            ("status", _, _) if STATUS_WITHOUT_METADATA.contains(&(group, kind)) => &sets.status_and_metadata,
            ("status", _, _) => &sets.status,
            ("" | "finalize", _, _) if has_status => &sets.main,
            _ => Self::none(),
        }
    }

    /// The endpoint of a custom resource.
    pub fn custom(subresource: &str, has_status: bool) -> &'static Self {
        match subresource {
            "status" => Self::builtin("flowcontrol.apiserver.k8s.io", "FlowSchema", "status", true),
            _ => Self::builtin("", "", subresource, has_status),
        }
    }

    /// Whether a configuration may contain fields that cannot be owned.
    pub(super) fn touches(&self, config: &Value) -> bool {
        match self {
            Self::Except(fields) => fields.paths().iter().any(|path| {
                let mut at = Some(config);
                for element in &path.0 {
                    if let (Some(value), PathElement::Field(name)) = (at, element) {
                        at = value.get(name.as_ref());
                    }
                }
                at.is_some()
            }),
        }
    }

    /// Removes the fields that cannot be owned from a set.
    pub(super) fn filter(&self, set: FieldSet) -> FieldSet {
        match self {
            Self::Except(fields) if fields.is_empty() => set,
            Self::Except(fields) => set.recursive_difference(fields),
        }
    }
}

/// Kinds whose status subresource ignores the metadata, too.
static STATUS_WITHOUT_METADATA: [(&str, &str); 8] = [
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
    ("apiregistration.k8s.io", "APIService"),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"),
    ("internal.apiserver.k8s.io", "StorageVersion"),
    ("networking.k8s.io", "ServiceCIDR"),
    ("resource.k8s.io", "ResourceClaim"),
    ("storage.k8s.io", "VolumeAttachment"),
];

struct Sets {
    main: Reset,
    status: Reset,
    status_and_metadata: Reset,
    pod_status: Reset,
    deployment_status: Reset,
    certificate: Reset,
    certificate_status: Reset,
    approval: Reset,
}

impl Sets {
    fn new() -> Self {
        let except = |paths: &[&[&str]]| Reset::Except(FieldSet::of(paths));
        Self {
            main: except(&[&["status"]]),
            status: except(&[&["spec"]]),
            status_and_metadata: except(&[&["spec"], &["metadata"]]),
            pod_status: except(&[
                &["spec"],
                &["metadata", "deletionTimestamp"],
                &["metadata", "ownerReferences"],
            ]),
            deployment_status: except(&[&["spec"], &["metadata", "labels"]]),
            certificate: except(&[&["spec"], &["status"]]),
            certificate_status: except(&[&["spec"], &["status", "conditions"]]),
            approval: except(&[&["spec"], &["status", "certificate"]]),
        }
    }
}
