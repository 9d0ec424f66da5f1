//! Watches of every kind that the server lists, custom resources included, as they come and go.
//!
//! The garbage collector, the deletion of namespaces and quotas need to see all objects of all kinds, and of each no
//! more than its metadata. They share these watches. A kind that another controller watches as a whole is seen through
//! that controller's watch; of all others the metadata alone is asked for.

mod discovery;
mod watched;

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_runtime::{Action, Change, Controller, Ctx, Env, EventMeta, Origin, Request, Result, Trigger};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use parking_lot::Mutex;
use watched::Watched;

pub(crate) use discovery::discover;

use crate::{MANAGER, clock};

/// Metadata of an object of any kind.
pub(crate) type Metadata = PartialObjectMeta<DynamicObject>;

/// A kind that the server lists.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Resource {
    pub(crate) api: ApiResource,
    pub(crate) namespaced: bool,
    /// Whether its objects can be listed and deleted all at once.
    pub(crate) collectable: bool,
    /// Whether its objects can be watched and deleted, so that they can be owners and dependents.
    pub(crate) watchable: bool,
}

impl Resource {
    /// Group and plural: what tells kinds apart whatever their version.
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

/// All watches.
pub(crate) struct Monitors {
    watched: Mutex<BTreeMap<(String, String), Monitor>>,
    listed: Mutex<Arc<[Resource]>>,
    listeners: Vec<Listener>,
    on_change: Vec<Arc<dyn Fn() + Send + Sync>>,
}

struct Monitor {
    resource: Resource,
    watched: Box<dyn Watched>,
}

impl Monitors {
    /// Watches that tell these listeners of every change, and those others of every change of the list of kinds.
    pub(crate) fn new(listeners: Vec<Listener>, on_change: Vec<Arc<dyn Fn() + Send + Sync>>) -> Arc<Self> {
        Arc::new(Self { watched: Mutex::default(), listed: Mutex::new(Arc::new([])), listeners, on_change })
    }

    /// The kind of this group and name, whatever its version.
    pub(crate) fn find(&self, api_version: &str, kind: &str) -> Option<Resource> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let listed = self.listed.lock();
        listed.iter().find(|resource| resource.api.group == group && resource.api.kind == kind).cloned()
    }

    /// How many objects of this kind the namespace holds; `None` for a kind that is not watched.
    pub(crate) fn count(&self, group: &str, plural: &str, namespace: &str) -> Option<usize> {
        let watched = self.watched.lock();
        let monitor = watched.get(&(group.to_owned(), plural.to_owned()))?;
        Some(monitor.watched.count_in(namespace))
    }

    /// Starts watches of new kinds, ends those of kinds that are gone.
    fn follow(&self, ctx: &Ctx<Arc<Self>>, listed: Arc<[Resource]>) {
        let mut watched = self.watched.lock();
        let wanted: BTreeMap<_, _> = listed
            .iter()
            .filter(|resource| resource.watchable)
            .map(|resource| (resource.key(), resource))
            .collect();
        let gone: Vec<_> = watched
            .iter()
            .filter(|(key, monitor)| {
                wanted.get(*key).is_none_or(|resource| resource.api != monitor.resource.api)
            })
            .map(|(key, _)| key.clone())
            .collect();
        let ended: Vec<_> = gone.iter().filter_map(|key| watched.remove(key)).collect();
        for (key, resource) in wanted {
            watched.entry(key).or_insert_with(|| self.watch(ctx, resource));
        }
        *self.listed.lock() = listed;
        drop(watched);
        ended.into_iter().for_each(|monitor| self.end(&monitor));
        self.on_change.iter().for_each(|tell| tell());
    }

    fn watch(&self, ctx: &Ctx<Arc<Self>>, resource: &Resource) -> Monitor {
        let (listeners, kind) = (self.listeners.clone(), resource.clone());
        let tell = Arc::new(move |event: &EventMeta<'_>| {
            listeners.iter().for_each(|listener| listener(&kind, event));
        });
        Monitor { resource: resource.clone(), watched: watched::watch(ctx.informers(), &resource.api, tell) }
    }

    /// The objects of a kind that is no longer served are gone, though no watch says so.
    fn end(&self, monitor: &Monitor) {
        for old in monitor.watched.metadata() {
            let event = EventMeta::new(Change::Deleted, Origin::Relist, Some(&old), None);
            self.listeners.iter().for_each(|listener| listener(&monitor.resource, &event));
        }
    }
}

/// The controller that keeps the watches in line with what the server lists.
pub(crate) fn controller(env: &Env, monitors: Arc<Monitors>) -> Controller<DynamicObject> {
    let key = || Request::cluster("resources");
    let start = clock::at_start(env, "monitors: starting", vec![key()]);
    Controller::without_primary("resource-monitors", reconcile)
        .stream("start", start)
        .watches(Trigger::<CustomResourceDefinition>::map(move |_| [key()]))
        .field_manager(MANAGER)
        .state(monitors)
}

async fn reconcile(_: Request, ctx: Ctx<Arc<Monitors>>) -> Result<Action> {
    let listed = discover(ctx.client()).await?;
    if *ctx.state().listed.lock() != listed {
        ctx.state().follow(&ctx, listed);
    }
    Ok(Action::await_change())
}
