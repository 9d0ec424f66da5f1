//! A resource without a version.

/// An API group and the plural name of a resource in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupResource {
    /// The API group; empty for the core group.
    pub(crate) group: &'static str,
    /// The plural name of the resource.
    pub(crate) resource: &'static str,
}

impl GroupResource {
    pub(crate) const INGRESSES: Self = Self::new("networking.k8s.io", "ingresses");
    pub(crate) const NAMESPACES: Self = Self::new("", "namespaces");
    pub(crate) const NODES: Self = Self::new("", "nodes");
    pub(crate) const PERSISTENT_VOLUME_CLAIMS: Self = Self::new("", "persistentvolumeclaims");
    pub(crate) const PERSISTENT_VOLUMES: Self = Self::new("", "persistentvolumes");
    pub(crate) const PODS: Self = Self::new("", "pods");
    pub(crate) const VOLUME_ATTRIBUTES_CLASSES: Self = Self::new("storage.k8s.io", "volumeattributesclasses");

    pub(crate) const fn new(group: &'static str, resource: &'static str) -> Self {
        Self { group, resource }
    }
}
