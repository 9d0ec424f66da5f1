//! One watched kind without its type.

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
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{ApiResource, ObjectMeta};

use super::Metadata;
use crate::cluster_role::Role;
use crate::volume::attributes::VolumeAttributesClass;

/// Who is told of every change.
pub(super) type Tell = Arc<dyn Fn(&EventMeta<'_>) + Send + Sync>;

/// A watch that lasts as long as it is held.
pub(super) trait Watched: Send + Sync {
    /// How many objects the namespace holds.
    fn count_in(&self, namespace: &str) -> usize;

    /// The metadata of all objects.
    fn metadata(&self) -> Vec<ObjectMeta>;
}

struct Watch<K: Object> {
    informer: Informer<K>,
    _subscription: Subscription,
}

impl<K: Object> Watched for Watch<K> {
    fn count_in(&self, namespace: &str) -> usize {
        self.informer.cache().snapshot().iter_in(namespace).count()
    }

    fn metadata(&self) -> Vec<ObjectMeta> {
        self.informer.cache().snapshot().iter().map(|object| object.meta().clone()).collect()
    }
}

/// Watches a kind, through the watch that other controllers have of it where there is one.
pub(super) fn watch(informers: &Informers, api: &ApiResource, tell: Tell) -> Box<dyn Watched> {
    match WHOLE.iter().find(|kind| (kind.is)(api)) {
        Some(kind) => (kind.watch)(informers, tell),
        None => subscribe(informers, Source::<Metadata>::of(api.clone()), tell),
    }
}

fn subscribe<K: Object>(informers: &Informers, source: Source<K>, tell: Tell) -> Box<dyn Watched> {
    let informer = informers.get(source);
    let subscription = informer.subscribe(move |event| tell(&event.meta()));
    Box::new(Watch { informer, _subscription: subscription })
}

/// A kind that some controller watches in all namespaces, without a selector and by its type.
struct Whole {
    is: fn(&ApiResource) -> bool,
    watch: fn(&Informers, Tell) -> Box<dyn Watched>,
}

const fn whole<K: Object<DynamicType = ()>>() -> Whole {
    Whole {
        is: |api| {
            api.plural == K::plural(&()) && api.group == K::group(&()) && api.version == K::version(&())
        },
        watch: |informers, tell| subscribe(informers, Source::<K>::new(), tell),
    }
}

/// What is missing here is watched twice; what is here and nobody else watches is decoded as a whole for nothing.
const WHOLE: &[Whole] = &[
    whole::<Pod>(),
    whole::<Service>(),
    whole::<Endpoints>(),
    whole::<EndpointSlice>(),
    whole::<Namespace>(),
    whole::<Node>(),
    whole::<ServiceAccount>(),
    whole::<PersistentVolume>(),
    whole::<PersistentVolumeClaim>(),
    whole::<StorageClass>(),
    whole::<VolumeAttributesClass>(),
    whole::<ResourceQuota>(),
    whole::<ReplicationController>(),
    whole::<ReplicaSet>(),
    whole::<Deployment>(),
    whole::<StatefulSet>(),
    whole::<DaemonSet>(),
    whole::<ControllerRevision>(),
    whole::<Job>(),
    whole::<CronJob>(),
    whole::<HorizontalPodAutoscaler>(),
    whole::<PodDisruptionBudget>(),
    whole::<Role>(),
    whole::<CustomResourceDefinition>(),
    whole::<ValidatingAdmissionPolicy>(),
];
