//! The types of Kubernetes objects that the runtime can read and write.

use std::any::TypeId;
use std::fmt::Debug;
use std::sync::Arc;

use kube::Resource;
use kube::core::{ApiResource, ClusterResourceScope, NamespaceResourceScope};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Any object that the runtime can cache and write: types of `k8s-openapi`, derived custom resources, `DynamicObject`
/// and `PartialObjectMeta`. The trait is implemented for every type that qualifies.
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
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a Kubernetes object that the runtime can read and write",
    label = "not a Kubernetes object",
    note = "use a type of `k8s_openapi`, or the kind that `#[derive(CustomResource)]` makes: `Site` of `SiteSpec`",
    note = "an object is `kube::Resource + Clone + Debug + Serialize + DeserializeOwned + Send + Sync`"
)]
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

#[diagnostic::do_not_recommend]
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

/// A reference to an object as a reconcile has it: `&K`, or the `&Arc<K>` of its first argument and of the caches.
///
/// The kind must be known at compile time. `M` tells the two apart for the compiler, which always infers it.
///
/// ```
/// use std::sync::Arc;
/// use evenkeel_runtime::object::AsObject;
/// use k8s_openapi::api::core::v1::Pod;
///
/// fn generation<O: AsObject<M>, M>(pod: &O) -> Option<i64> {
///     kube::Resource::meta(pod.as_object()).generation
/// }
///
/// let pod = Arc::new(Pod::default());
/// assert_eq!(generation(&pod), generation(&*pod));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a Kubernetes object whose kind is known at compile time",
    label = "expected an object: `&K` or `&Arc<K>`",
    note = "for `DynamicObject` and `PartialObjectMeta`, use the method of the same name on `ctx.objects(resource)`"
)]
pub trait AsObject<M> {
    /// The type of the object.
    type Kind: Object<DynamicType: Default>;

    /// The object.
    fn as_object(&self) -> &Self::Kind;
}

/// Marks [`AsObject`] for the object itself.
#[derive(Debug)]
pub struct Plain(());

/// Marks [`AsObject`] for an object in an `Arc`.
#[derive(Debug)]
pub struct Shared(());

#[diagnostic::do_not_recommend]
impl<K: Object<DynamicType: Default>> AsObject<Plain> for K {
    type Kind = K;

    fn as_object(&self) -> &K {
        self
    }
}

#[diagnostic::do_not_recommend]
impl<K: Object<DynamicType: Default>> AsObject<Shared> for Arc<K> {
    type Kind = K;

    fn as_object(&self) -> &K {
        self
    }
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
