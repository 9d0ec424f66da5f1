//! An informer of one resource whose type is erased.

use std::sync::Arc;

use evenkeel_runtime::informer::{Informer, Informers, Subscription};
use evenkeel_runtime::{EventMeta, Object, Source};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    Endpoints, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController,
    ResourceQuota, Service, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::core::{ApiResource, ObjectMeta};

use super::Metadata;
use crate::cluster_role_aggregation::LazyClusterRole;
use crate::persistent_volume::attributes_class::VolumeAttributesClass;

/// The function that is called for every event.
pub(super) type Tell = Arc<dyn Fn(&EventMeta<'_>) + Send + Sync>;

/// An informer without its type. The subscription ends when it is dropped.
pub(super) trait ErasedInformer: Send + Sync {
    /// Returns how many objects the namespace has.
    fn count_in(&self, namespace: &str) -> usize;

    /// Returns the metadata of all objects.
    fn metadata(&self) -> Vec<ObjectMeta>;
}

struct TypedInformer<K: Object> {
    informer: Informer<K>,
    _subscription: Subscription,
}

impl<K: Object> ErasedInformer for TypedInformer<K> {
    fn count_in(&self, namespace: &str) -> usize {
        self.informer.cache().snapshot().iter_in(namespace).count()
    }

    fn metadata(&self) -> Vec<ObjectMeta> {
        self.informer.cache().snapshot().iter().map(|object| object.meta().clone()).collect()
    }
}

/// Subscribes to a resource, through the typed informer of other controllers if there is one.
pub(super) fn watch(informers: &Informers, api: &ApiResource, tell: Tell) -> Box<dyn ErasedInformer> {
    match TYPED.iter().find(|kind| (kind.is)(api)) {
        Some(kind) => (kind.watch)(informers, tell),
        None => subscribe(informers, Source::<Metadata>::of(api.clone()), tell),
    }
}

fn subscribe<K: Object>(informers: &Informers, source: Source<K>, tell: Tell) -> Box<dyn ErasedInformer> {
    let informer = informers.get(source);
    let subscription = informer.subscribe(move |event| tell(&event.meta()));
    Box::new(TypedInformer { informer, _subscription: subscription })
}

/// A kind that another controller watches in all namespaces, without a selector and with its type.
struct TypedKind {
    is: fn(&ApiResource) -> bool,
    watch: fn(&Informers, Tell) -> Box<dyn ErasedInformer>,
}

const fn typed<K: Object<DynamicType = ()>>() -> TypedKind {
    TypedKind {
        is: |api| {
            api.plural == K::plural(&()) && api.group == K::group(&()) && api.version == K::version(&())
        },
        watch: |informers, tell| subscribe(informers, Source::<K>::new(), tell),
    }
}

/// The kinds with a typed informer. A kind that is missing here is watched twice. A kind that no other controller watches
/// must not be here, because whole objects would be decoded for nothing.
const TYPED: &[TypedKind] = &[
    typed::<Pod>(),
    typed::<Service>(),
    typed::<Endpoints>(),
    typed::<EndpointSlice>(),
    typed::<Namespace>(),
    typed::<Node>(),
    typed::<ServiceAccount>(),
    typed::<PersistentVolume>(),
    typed::<PersistentVolumeClaim>(),
    typed::<StorageClass>(),
    typed::<VolumeAttributesClass>(),
    typed::<ResourceQuota>(),
    typed::<ReplicationController>(),
    typed::<ReplicaSet>(),
    typed::<Deployment>(),
    typed::<StatefulSet>(),
    typed::<DaemonSet>(),
    typed::<ControllerRevision>(),
    typed::<Job>(),
    typed::<CronJob>(),
    typed::<HorizontalPodAutoscaler>(),
    typed::<PodDisruptionBudget>(),
    typed::<LazyClusterRole>(),
    typed::<ValidatingAdmissionPolicy>(),
];
