//! Informers for the metadata of every kind that the API server lists, custom resources included.
//!
//! The garbage collector, the namespace controller and the quota controller need the metadata of all objects of all kinds,
//! and share these informers. Kinds come and go with CustomResourceDefinitions. If another controller watches a kind with
//! its type, the informer of that controller is used; for all other kinds, only metadata is requested.

mod discovery;
mod informer;

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_runtime::{
    Action, Change, Controller, Ctx, Env, EventMeta, Origin, Request, Result, Source, Trigger,
};
use informer::ErasedInformer;
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use parking_lot::Mutex;

pub(crate) use discovery::discover;

use crate::{MANAGER, clock};

/// The metadata of an object of any kind.
pub(crate) type Metadata = PartialObjectMeta<DynamicObject>;

/// A resource in the server's discovery.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Resource {
    pub(crate) api: ApiResource,
    pub(crate) namespaced: bool,
    /// Whether the resource supports list and deletecollection.
    pub(crate) collectable: bool,
    /// Whether the resource supports list, watch and delete, so that its objects can be garbage-collected.
    pub(crate) watchable: bool,
}

impl Resource {
    /// Returns group and plural, which identify the resource in every version.
    pub(crate) fn key(&self) -> (String, String) {
        (self.api.group.clone(), self.api.plural.clone())
    }

    #[cfg(test)]
    pub(crate) fn tests_config_maps() -> Self {
        let api = ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
        Self { api, namespaced: true, collectable: true, watchable: true }
    }
}

type Listener = Arc<dyn Fn(&Resource, &EventMeta<'_>) + Send + Sync>;

/// The informers of all resources.
pub(crate) struct MetadataInformers {
    /// By group and plural.
    informers: Mutex<BTreeMap<(String, String), MetadataInformer>>,
    /// The result of the last discovery.
    listed: Mutex<Arc<[Resource]>>,
    listeners: Vec<Listener>,
    on_change: Vec<Arc<dyn Fn() + Send + Sync>>,
}

struct MetadataInformer {
    resource: Resource,
    informer: Box<dyn ErasedInformer>,
}

impl MetadataInformers {
    /// Creates informers that call `listeners` for every event, and `on_change` when the list of resources changes.
    pub(crate) fn new(listeners: Vec<Listener>, on_change: Vec<Arc<dyn Fn() + Send + Sync>>) -> Arc<Self> {
        Arc::new(Self { informers: Mutex::default(), listed: Mutex::new(Arc::new([])), listeners, on_change })
    }

    /// Finds the resource of a group and kind, in whatever version.
    pub(crate) fn find(&self, api_version: &str, kind: &str) -> Option<Resource> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let listed = self.listed.lock();
        listed.iter().find(|resource| resource.api.group == group && resource.api.kind == kind).cloned()
    }

    /// Returns how many objects of a resource the namespace has; `None` if the resource is not watched.
    pub(crate) fn count(&self, group: &str, plural: &str, namespace: &str) -> Option<usize> {
        let informers = self.informers.lock();
        let informer = informers.get(&(group.to_owned(), plural.to_owned()))?;
        Some(informer.informer.count_in(namespace))
    }

    /// Starts informers for new resources and stops those of resources that are no longer served.
    fn follow(&self, ctx: &Ctx<Arc<Self>>, listed: Arc<[Resource]>) {
        let mut informers = self.informers.lock();
        let wanted: BTreeMap<_, _> = listed
            .iter()
            .filter(|resource| resource.watchable)
            .map(|resource| (resource.key(), resource))
            .collect();
        let gone: Vec<_> = informers
            .iter()
            .filter(|(key, informer)| {
                wanted.get(*key).is_none_or(|resource| resource.api != informer.resource.api)
            })
            .map(|(key, _)| key.clone())
            .collect();
        let ended: Vec<_> = gone.iter().filter_map(|key| informers.remove(key)).collect();
        for (key, resource) in wanted {
            informers.entry(key).or_insert_with(|| self.watch(ctx, resource));
        }
        *self.listed.lock() = listed;
        drop(informers);
        ended.into_iter().for_each(|informer| self.end(&informer));
        self.on_change.iter().for_each(|tell| tell());
    }

    fn watch(&self, ctx: &Ctx<Arc<Self>>, resource: &Resource) -> MetadataInformer {
        let (listeners, kind) = (self.listeners.clone(), resource.clone());
        let tell = Arc::new(move |event: &EventMeta<'_>| {
            listeners.iter().for_each(|listener| listener(&kind, event));
        });
        MetadataInformer {
            resource: resource.clone(),
            informer: informer::watch(ctx.informers(), &resource.api, tell),
        }
    }

    /// Tells the listeners that the objects of a resource that is no longer served are deleted; no watch does.
    fn end(&self, informer: &MetadataInformer) {
        for old in informer.informer.metadata() {
            let event = EventMeta::new(Change::Deleted, Origin::Relist, Some(&old), None);
            self.listeners.iter().for_each(|listener| listener(&informer.resource, &event));
        }
    }
}

/// The controller that keeps the informers in line with the server's discovery.
pub(crate) fn controller(env: &Env, informers: Arc<MetadataInformers>) -> Controller<DynamicObject> {
    let key = || Request::cluster("resources");
    let start = clock::at_start(env, "metadata informers: starting", vec![key()]);
    // Only that a definition changed matters. Its metadata is watched in any case; its schemas are long.
    let definitions = Source::<Metadata>::of(ApiResource {
        group: "apiextensions.k8s.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "apiextensions.k8s.io/v1".to_owned(),
        kind: "CustomResourceDefinition".to_owned(),
        plural: "customresourcedefinitions".to_owned(),
    });
    Controller::without_primary("metadata-informers", reconcile)
        .stream("start", start)
        .watches_with(definitions, Trigger::map(move |_| [key()]))
        .field_manager(MANAGER)
        .state(informers)
}

async fn reconcile(_: Request, ctx: Ctx<Arc<MetadataInformers>>) -> Result<Action> {
    let listed = discover(ctx.client()).await?;
    if *ctx.state().listed.lock() != listed {
        ctx.state().follow(&ctx, listed);
    }
    Ok(Action::await_change())
}
