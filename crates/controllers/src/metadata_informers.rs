//! Informers for the metadata of every kind that the API server lists, custom resources included.
//!
//! The garbage collector, the namespace controller and the quota controller need the metadata of all objects of all kinds,
//! and share these informers. Kinds come and go with CustomResourceDefinitions. If another controller watches a kind with
//! its type, the informer of that controller is used; for all other kinds, only metadata is requested.

mod discovery;
mod informer;

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_runtime::resource_use::{ResourceUse, UseListener};
use evenkeel_runtime::{
    Action, Change, Controller, Ctx, EventMeta, Origin, Request, Result, Source, Trigger,
};
use futures::Stream;
use informer::{ErasedInformer, Syncing};
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use parking_lot::Mutex;
use tokio::task::JoinSet;

pub(crate) use discovery::discover;

use crate::MANAGER;

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
    pub(crate) fn tests_config_maps() -> Arc<Self> {
        let api = ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
        Arc::new(Self { api, namespaced: true, collectable: true, watchable: true })
    }
}

type Listener = Arc<dyn Fn(&Arc<Resource>, &EventMeta<'_>) + Send + Sync>;

/// The informers of all resources.
pub(crate) struct MetadataInformers {
    /// By group and plural.
    informers: Mutex<BTreeMap<(String, String), MetadataInformer>>,
    /// The result of the last discovery.
    listed: Mutex<Arc<[Resource]>>,
    listeners: Vec<Listener>,
    on_change: Vec<Arc<dyn Fn() + Send + Sync>>,
    /// Which resources of the server are in use, if that is known, and the listener for the first uses.
    uses: Option<(ResourceUse, Arc<UseListener>)>,
    /// Tasks that wait for the first lists of new informers.
    waits: Mutex<JoinSet<()>>,
}

struct MetadataInformer {
    /// Shared with the listeners, which store it with each object.
    resource: Arc<Resource>,
    informer: Box<dyn ErasedInformer>,
}

impl MetadataInformers {
    /// Creates informers that call `listeners` for every event, and `on_change` when the list of known or watched
    /// resources changes. If `uses` is given, only resources in use are watched.
    pub(crate) fn new(
        listeners: Vec<Listener>,
        on_change: Vec<Arc<dyn Fn() + Send + Sync>>,
        uses: Option<(ResourceUse, Arc<UseListener>)>,
    ) -> Arc<Self> {
        let (informers, listed) = (Mutex::default(), Mutex::new(Arc::from([])));
        Arc::new(Self { informers, listed, listeners, on_change, uses, waits: Mutex::default() })
    }

    /// Finds the resource of a group and kind, in whatever version.
    pub(crate) fn find(&self, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let listed = self.listed.lock();
        let mut listed = listed.iter();
        let found = listed.find(|resource| resource.api.group == group && resource.api.kind == kind);
        found.map(|found| Arc::new(found.clone()))
    }

    /// Returns how many objects of a resource the namespace has; `None` if the resource is not watched.
    pub(crate) fn count(&self, group: &str, plural: &str, namespace: &str) -> Option<usize> {
        let informers = self.informers.lock();
        let informer = informers.get(&(group.to_owned(), plural.to_owned()))?;
        informer.informer.has_synced().then(|| informer.informer.count_in(namespace))
    }

    /// Whether every change of a resource is seen from now on. Objects of a resource that is not followed may have
    /// changed unseen.
    pub(crate) fn is_followed(&self, resource: &Resource) -> bool {
        let informers = self.informers.lock();
        informers.get(&resource.key()).is_some_and(|informer| informer.informer.has_synced())
    }

    /// Whether a resource must be watched. A resource that has not been used since the start is watched only if there
    /// are quotas, which count the initial objects too.
    fn is_wanted(&self, resource: &Resource) -> bool {
        resource.watchable
            && self.uses.as_ref().is_none_or(|(uses, _)| {
                uses.is_used("", "resourcequotas") || uses.is_used(&resource.api.group, &resource.api.plural)
            })
    }

    /// Starts informers for new resources and stops those of resources that are no longer served.
    fn follow(self: &Arc<Self>, ctx: &Ctx<Arc<Self>>, listed: Arc<[Resource]>) {
        let before = self.listed.lock().clone();
        let syncing = self.start(ctx, listed.clone());
        if before != listed {
            self.changed();
        }
        // If no new resource is followed, quotas must not be counted again; see `resource_quota::is_counted`.
        if syncing.is_empty() {
            return;
        }
        // Until the new informers are in sync, objects of their resources may change unseen.
        let work = ctx.env().ledger().station("metadata informers: first lists").enter();
        let this = Arc::downgrade(self);
        let mut waits = self.waits.lock();
        while waits.try_join_next().is_some() {}
        waits.spawn(async move {
            futures::future::join_all(syncing).await;
            if let Some(this) = this.upgrade() {
                this.changed();
            }
            drop(work);
        });
    }

    /// Reports that the list of known or watched resources has changed.
    fn changed(&self) {
        self.on_change.iter().for_each(|tell| tell());
    }

    /// Starts and stops informers, and returns futures that wait until the new ones are in sync.
    fn start(&self, ctx: &Ctx<Arc<Self>>, listed: Arc<[Resource]>) -> Vec<Syncing> {
        let mut informers = self.informers.lock();
        let wanted: BTreeMap<_, _> = listed
            .iter()
            .filter(|resource| self.is_wanted(resource))
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
        let mut syncing = Vec::new();
        for (key, resource) in wanted {
            informers.entry(key).or_insert_with(|| {
                let started = self.watch(ctx, resource);
                syncing.extend((!started.informer.has_synced()).then(|| started.informer.synced()));
                started
            });
        }
        *self.listed.lock() = listed;
        drop(informers);
        ended.into_iter().for_each(|informer| self.end(&informer));
        syncing
    }

    fn watch(&self, ctx: &Ctx<Arc<Self>>, resource: &Resource) -> MetadataInformer {
        let resource = Arc::new(resource.clone());
        let (listeners, kind) = (self.listeners.clone(), resource.clone());
        let tell = Arc::new(move |event: &EventMeta<'_>| {
            listeners.iter().for_each(|listener| listener(&kind, event));
        });
        let informer = informer::watch(ctx.informers(), &resource.api, tell);
        MetadataInformer { resource, informer }
    }

    /// Tells the listeners that the objects of a resource that is no longer served are deleted; no watch does.
    fn end(&self, informer: &MetadataInformer) {
        for old in informer.informer.metadata() {
            let event = EventMeta::new(Change::Deleted, Origin::Relist, Some(&old), None);
            self.listeners.iter().for_each(|listener| listener(&informer.resource, &event));
        }
    }
}

/// The key that stands for all resources in the server's discovery.
fn all() -> Request {
    Request::cluster("resources")
}

/// The key that stands for the resources that were used for the first time.
pub(crate) fn used() -> Request {
    Request::cluster("used resources")
}

/// The controller that starts and stops informers after changes in the server's discovery and in the use of resources.
pub(crate) fn controller(
    informers: Arc<MetadataInformers>,
    newly_used: impl Stream<Item = Request> + Send + 'static,
) -> Controller<DynamicObject> {
    // The definitions are watched as metadata only: any change matters, and their schemas are long.
    let definitions = Source::<Metadata>::of(ApiResource {
        group: "apiextensions.k8s.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "apiextensions.k8s.io/v1".to_owned(),
        kind: "CustomResourceDefinition".to_owned(),
        plural: "customresourcedefinitions".to_owned(),
    });
    Controller::without_primary("metadata-informers", reconcile)
        .at_start("start", vec![all()])
        .stream("first use", newly_used)
        .watches_with(definitions, Trigger::map(|_| [all()]))
        .wakes_on_any_use()
        .field_manager(MANAGER)
        .state(informers)
}

async fn reconcile(key: Request, ctx: Ctx<Arc<MetadataInformers>>) -> Result<Action> {
    let before = ctx.state().listed.lock().clone();
    if key == used() {
        ctx.state().follow(&ctx, before);
        return Ok(Action::await_change());
    }
    let listed = discover(ctx.client()).await?;
    if before != listed {
        ctx.state().follow(&ctx, listed);
    }
    Ok(Action::await_change())
}
