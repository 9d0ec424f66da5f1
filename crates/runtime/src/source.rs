//! What to watch: a kind, its namespaces, selectors.

use std::any::TypeId;
use std::collections::BTreeSet;
use std::fmt;

use kube::core::ApiResource;

use crate::Object;
use crate::index::Index;
use crate::object::kind_name;

/// A declaration of what to watch. Equal sources in one manager share one watch and one cache.
///
/// ```
/// use evenkeel_runtime::{Index, Source};
/// use k8s_openapi::api::core::v1::Secret;
///
/// let tokens = Source::<Secret>::new().namespace("prod").labels("app=web").index(Index::by_owner());
/// assert_eq!(tokens.to_string(), "Secret in prod with labels app=web");
/// ```
#[must_use]
pub struct Source<K: Object> {
    pub(crate) dynamic: K::DynamicType,
    pub(crate) key: SourceKey,
    pub(crate) indexes: Vec<Index<K>>,
}

/// The parts of a source that decide whether two sources share a watch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SourceKey {
    pub(crate) resource: ApiResource,
    /// The Rust type: typed, dynamic and metadata caches of one kind are different caches.
    pub(crate) type_id: TypeId,
    /// Empty means all namespaces.
    pub(crate) namespaces: BTreeSet<String>,
    pub(crate) labels: Option<String>,
    pub(crate) fields: Option<String>,
}

impl<K: Object> Source<K> {
    /// All objects of a kind that is known at compile time, in all namespaces.
    pub fn new() -> Self
    where
        K::DynamicType: Default,
    {
        Self::of(K::DynamicType::default())
    }

    /// All objects of a kind that is known at run time, such as `DynamicObject` with its `ApiResource`.
    pub fn of(dynamic: K::DynamicType) -> Self {
        let key = SourceKey {
            resource: ApiResource::erase::<K>(&dynamic),
            type_id: TypeId::of::<K>(),
            namespaces: BTreeSet::new(),
            labels: None,
            fields: None,
        };
        Self { dynamic, key, indexes: Vec::new() }
    }

    /// Watches only this namespace; each further call adds one.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.key.namespaces.insert(namespace.into());
        self
    }

    /// Watches only objects that match this label selector.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.key.labels = Some(selector.into());
        self
    }

    /// Watches only objects that match this field selector.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.key.fields = Some(selector.into());
        self
    }

    /// Adds an index to the cache.
    pub fn index(mut self, index: Index<K>) -> Self {
        self.indexes.push(index);
        self
    }

    /// The kind that is watched.
    pub fn resource(&self) -> &ApiResource {
        &self.key.resource
    }
}

impl<K: Object> Default for Source<K>
where
    K::DynamicType: Default,
{
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Object> Clone for Source<K> {
    fn clone(&self) -> Self {
        Self { dynamic: self.dynamic.clone(), key: self.key.clone(), indexes: self.indexes.clone() }
    }
}

impl<K: Object> fmt::Debug for Source<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({self})")
    }
}

impl<K: Object> fmt::Display for Source<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}

impl fmt::Display for SourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&kind_name(&self.resource))?;
        for (at, namespace) in self.namespaces.iter().enumerate() {
            write!(f, "{}{namespace}", if at == 0 { " in " } else { ", " })?;
        }
        if let Some(labels) = &self.labels {
            write!(f, " with labels {labels}")?;
        }
        if let Some(fields) = &self.fields {
            write!(f, " with fields {fields}")?;
        }
        Ok(())
    }
}
