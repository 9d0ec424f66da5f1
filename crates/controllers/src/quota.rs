//! ResourceQuotas: how much of what they limit is used.
//!
//! The server adds the usage of a new object when it admits it. This controller counts a namespace anew when the limits
//! of a quota change, when an object is deleted, and when an update gives something back. Both take the usage of an
//! object from [`evenkeel_schema::quota`].

mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use evenkeel_runtime::{
    Action, Controller, Ctx, Env, Event, EventMeta, Object, Predicate, Request, Result, ResultExt, Trigger,
};
use evenkeel_schema::quota::{Resource, releases};
use futures::Stream;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, ResourceQuota, Service};
use kube::ResourceExt;
use parking_lot::Mutex;
use serde::Serialize;
use usage::Content;

use crate::MANAGER;
use crate::monitors::Monitors;
use crate::signals::Signals;

/// The namespaces that have quotas, and the way to their keys.
pub(crate) struct Quotas {
    /// The quotas of each namespace.
    names: Mutex<BTreeMap<String, BTreeSet<Request>>>,
    signals: Signals,
    env: Env,
}

impl Quotas {
    /// Nobody yet, and the stream of quotas under which something went.
    pub(crate) fn new(env: &Env) -> (Arc<Self>, impl Stream<Item = Request> + Send + 'static) {
        let (signals, due) = Signals::channel(env, "quotas: something went");
        (Arc::new(Self { names: Mutex::default(), signals, env: env.clone() }), due)
    }

    /// Follows a change of an object of any kind.
    pub(crate) fn follow(&self, event: &EventMeta<'_>) {
        let gone = event.old.filter(|_| event.new.is_none());
        let Some(namespace) = gone.and_then(|old| old.namespace.as_deref()) else { return };
        for key in self.names.lock().get(namespace).into_iter().flatten() {
            self.signals.give(key.clone());
        }
    }

    /// Counts all quotas anew, because other kinds can be counted than before.
    pub(crate) fn kinds_changed(&self) {
        for key in self.names.lock().values().flatten() {
            self.signals.give(key.clone());
        }
    }

    /// The quotas to count anew because an update of an object gives something back.
    fn released<K: Object + Serialize>(&self, resource: Resource<'_>, event: &Event<K>) -> Vec<Request> {
        let (Some(old), Some(new)) = (event.old(), event.new_object()) else { return Vec::new() };
        let namespace = new.meta().namespace.as_deref().unwrap_or_default();
        let Some(keys) = self.names.lock().get(namespace).cloned() else { return Vec::new() };
        let trees = (serde_json::to_value(&**old), serde_json::to_value(&**new));
        match trees {
            (Ok(old), Ok(new)) if !releases(resource, &old, &new, self.env.now()) => Vec::new(),
            _ => keys.into_iter().collect(),
        }
    }

    /// Takes note of a quota that comes or goes; no key comes of it.
    fn note(&self, event: &Event<ResourceQuota>) -> Option<Request> {
        let key = Request::of(&**event.object());
        let namespace = key.namespace().unwrap_or_default().to_owned();
        let mut names = self.names.lock();
        if event.new_object().is_some() {
            names.entry(namespace).or_default().insert(key);
        } else if let Some(keys) = names.get_mut(&namespace) {
            keys.remove(&key);
        }
        None
    }
}

/// What a reconcile works with.
struct State {
    monitors: Arc<Monitors>,
}

/// The controller.
pub(crate) fn controller(
    quotas: Arc<Quotas>,
    monitors: Arc<Monitors>,
    due: impl Stream<Item = Request> + Send + 'static,
) -> Controller<ResourceQuota> {
    let (pods, services, claims) = (quotas.clone(), quotas.clone(), quotas.clone());
    Controller::new("resourcequota-controller", reconcile)
        .watches(Trigger::<ResourceQuota>::events(move |event| quotas.note(event)))
        .watches(Trigger::<Pod>::events(move |event| pods.released(Resource::PODS, event)))
        .watches(Trigger::<Service>::events(move |event| services.released(Resource::SERVICES, event)))
        .watches(Trigger::<PersistentVolumeClaim>::events(move |event| {
            claims.released(Resource::CLAIMS, event)
        }))
        .stream("something went", due)
        .filter(Predicate::changed(|_, new| !is_counted(new)))
        .field_manager(MANAGER)
        .state(State { monitors })
}

/// Whether a quota's status is about its limits as they are. What the server adds to it then is newer than what we know
/// of the objects: to count again at once would take it back, and let one more in than is allowed.
fn is_counted(quota: &ResourceQuota) -> bool {
    let wanted = quota.spec.as_ref().and_then(|spec| spec.hard.as_ref());
    let counted = quota.status.as_ref().and_then(|status| status.hard.as_ref());
    wanted == counted
}

async fn reconcile(quota: Arc<ResourceQuota>, ctx: Ctx<State>) -> Result<Action> {
    let namespace = quota.namespace().unwrap_or_default();
    let content = Content {
        pods: ctx.list_in::<Pod>(&namespace)?,
        services: ctx.list_in::<Service>(&namespace)?,
        claims: ctx.list_in::<PersistentVolumeClaim>(&namespace)?,
    };
    let monitors = &ctx.state().monitors;
    let count = |resource: Resource<'_>| monitors.count(resource.group, resource.plural, &namespace);
    let status = usage::status(&quota, &content, &count, ctx.now())?;
    ctx.status(&quota, status).await.ignore_not_found()?;
    Ok(Action::await_change())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A second secret slipped in under a quota of one: the first one's charge was counted away before we had seen it.
    #[test]
    fn a_charge_is_no_reason_to_count_again() {
        let quota = |wanted: &str, counted: &str, used: &str| -> ResourceQuota {
            let quota = json!({"spec": {"hard": {"secrets": wanted}},
                "status": {"hard": {"secrets": counted}, "used": {"secrets": used}}});
            serde_json::from_value(quota).unwrap()
        };
        assert!(is_counted(&quota("1", "1", "0")) && is_counted(&quota("1", "1", "1")));
        assert!(!is_counted(&quota("2", "1", "1")));
    }
}
