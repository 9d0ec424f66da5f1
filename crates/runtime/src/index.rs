//! Indexes of a cache: from a value to the objects that have it, updated with every change.

use std::fmt;
use std::sync::Arc;

use kube::ResourceExt;

use crate::Object;

type Values<K> = dyn Fn(&K) -> Vec<String> + Send + Sync;

/// A named function that returns the values by which an object can be found in a cache.
///
/// ```
/// use evenkeel_runtime::Index;
/// use k8s_openapi::api::core::v1::Pod;
///
/// let by_node: Index<Pod> = Index::new("node", |pod: &Pod| {
///     pod.spec.iter().filter_map(|spec| spec.node_name.clone()).collect()
/// });
/// assert_eq!(by_node.name(), "node");
/// ```
#[must_use]
pub struct Index<K> {
    name: Arc<str>,
    values: Arc<Values<K>>,
}

/// The name of [`Index::by_owner`].
pub const BY_OWNER: &str = "evenkeel/owner-uid";

impl<K> Index<K> {
    /// An index by any function of the object. In one cache, two indexes with the same name are the same index.
    pub fn new(
        name: impl Into<Arc<str>>,
        values: impl Fn(&K) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), values: Arc::new(values) }
    }

    /// The name of the index.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The values by which this object is found.
    pub fn values(&self, object: &K) -> Vec<String> {
        (self.values)(object)
    }
}

impl<K: Object> Index<K> {
    /// An index from the uid of an owner to its objects, whether or not the owner is the controller.
    pub fn by_owner() -> Self {
        Self::new(BY_OWNER, |object: &K| {
            object.owner_references().iter().map(|owner| owner.uid.clone()).collect()
        })
    }

    /// An index from the value of a label to the objects that carry it.
    pub fn by_label(label: impl Into<String>) -> Self {
        let label = label.into();
        let name = format!("evenkeel/label:{label}");
        Self::new(name, move |object: &K| object.labels().get(&label).cloned().into_iter().collect())
    }
}

impl<K> Clone for Index<K> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), values: self.values.clone() }
    }
}

impl<K> fmt::Debug for Index<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Index").field(&self.name).finish()
    }
}
