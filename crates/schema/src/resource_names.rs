//! The names of compute resources, storage and object counts, as resource lists and ResourceQuotas use them.

use crate::names;

/// The compute resources that every container may have.
pub(crate) const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// The compute resources as quotas limit them: requests under two names, and limits.
pub(crate) const QUOTA_COMPUTE: [&str; 9] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];

/// The quota names of cpu and memory. Every container must specify those that a quota limits.
pub(crate) const QUOTA_CPU_AND_MEMORY: [&str; 6] =
    ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];

/// The names under which quotas count objects or ports. Their amounts are integers.
const QUOTA_COUNTS: [&str; 9] = [
    "pods",
    "services",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// Whether a name denotes huge pages of some size.
pub(crate) fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Whether a name denotes huge pages of some size, as containers or as quotas name them.
pub(crate) fn is_quota_huge_page(name: &str) -> bool {
    is_huge_page(name) || name.starts_with("requests.hugepages-")
}

/// Whether a name denotes cpu, memory, ephemeral storage or huge pages.
pub(crate) fn is_compute(name: &str) -> bool {
    COMPUTE.contains(&name) || is_huge_page(name)
}

/// Whether a resource is one of Kubernetes' own.
pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether a resource of a container is an extended resource, which quotas limit as `requests.NAME` alone.
pub(crate) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified_name(&format!("requests.{name}")).is_empty()
}

/// Whether the limit of a resource may exceed its request.
pub(crate) fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// Whether the amounts of a resource must be integers.
pub(crate) fn is_integer(name: &str) -> bool {
    QUOTA_COUNTS.contains(&name) || is_extended(name)
}

/// Whether quotas may limit this resource, among the names without a domain.
pub(crate) fn is_standard_for_quota(name: &str) -> bool {
    QUOTA_COMPUTE.contains(&name)
        || QUOTA_COUNTS.contains(&name)
        || name == "requests.storage"
        || is_quota_huge_page(name)
}

/// Whether a resource without a domain is known at all.
pub(crate) fn is_standard(name: &str) -> bool {
    is_standard_for_quota(name) || matches!(name, "storage" | "resourceclaims" | "")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quota and validation once disagreed on domains that only begin like Kubernetes' own.
    #[test]
    fn only_the_domain_of_kubernetes_is_native() {
        for native in ["cpu", "hugepages-2Mi", "kubernetes.io/gpu", "node.kubernetes.io/gpu"] {
            assert!(is_native(native) && !is_extended(native), "{native}");
        }
        for extended in ["example.com/gpu", "kubernetes.io.example.com/gpu"] {
            assert!(!is_native(extended) && is_extended(extended), "{extended}");
        }
        assert!(!is_extended("requests.example.com/gpu"));
    }

    #[test]
    fn every_standard_name_is_in_its_lists() {
        for name in
            ["requests.cpu", "pods", "services.nodeports", "requests.storage", "requests.hugepages-1Gi"]
        {
            assert!(is_standard_for_quota(name) && is_standard(name), "{name}");
        }
        for name in ["storage", "resourceclaims", ""] {
            assert!(is_standard(name) && !is_standard_for_quota(name), "{name:?}");
        }
        assert!(is_integer("pods") && is_integer("example.com/gpu") && !is_integer("cpu"));
    }
}
