//! Indexes of a cache: from a value to the objects that have it, kept up with every change.

use std::fmt;
use std::sync::Arc;

use kube::ResourceExt;

use crate::Object;

type Values<K> = dyn Fn(&K) -> Vec<String> + Send + Sync;

/// A function from an object to the values it is found by, under a name.
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
    /// An index by any function of the object. Two indexes of one cache with the same name are the same index.
    pub fn new(
        name: impl Into<Arc<str>>,
        values: impl Fn(&K) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), values: Arc::new(values) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The values of one object.
    pub fn values(&self, object: &K) -> Vec<String> {
        (self.values)(object)
    }
}

impl<K: Object> Index<K> {
    /// From the uid of an owner to the objects it owns, whether as controller or not.
    pub fn by_owner() -> Self {
        Self::new(BY_OWNER, |object: &K| {
            object.owner_references().iter().map(|owner| owner.uid.clone()).collect()
        })
    }

    /// From the value of a label to the objects that carry it.
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
