//! What the runtime asks of a Kubernetes object type.

use std::any::TypeId;
use std::fmt::Debug;

use kube::Resource;
use kube::core::{ApiResource, ClusterResourceScope, NamespaceResourceScope};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Any object the runtime can cache and write: types of `k8s-openapi`, derived custom resources, `DynamicObject`
/// and `PartialObjectMeta`. It is implemented for all that qualify.
///
/// ```
/// use evenkeel_runtime::{Object, Request};
/// use k8s_openapi::api::core::v1::Pod;
///
/// fn keys<K: Object>(objects: &[K]) -> Vec<Request> {
///     objects.iter().map(Request::of).collect()
/// }
///
/// assert!(keys::<Pod>(&[]).is_empty());
/// ```
pub trait Object:
    Resource<DynamicType: Clone, Scope: 'static>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> Object for K where
    K: Resource<DynamicType: Clone, Scope: 'static>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// Whether objects of a type live in namespaces, as far as the type says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scoping {
    Namespaced,
    Cluster,
    /// `DynamicObject` and `PartialObjectMeta`: only the object itself tells.
    Unknown,
}

pub(crate) fn scoping<K: Object>() -> Scoping {
    let scope = TypeId::of::<K::Scope>();
    if scope == TypeId::of::<NamespaceResourceScope>() {
        Scoping::Namespaced
    } else if scope == TypeId::of::<ClusterResourceScope>() {
        Scoping::Cluster
    } else {
        Scoping::Unknown
    }
}

/// `Deployment`, or `Deployment.apps` where the group helps: for messages.
pub(crate) fn kind_name(resource: &ApiResource) -> String {
    if resource.group.is_empty() {
        resource.kind.clone()
    } else {
        format!("{}.{}", resource.kind, resource.group)
    }
}
