//! ResourceQuotas: the usage in their status.
//!
//! Admission adds the usage of a new object. This controller counts a namespace anew when the limits of a quota change,
//! when an object is deleted, and when an update releases resources. Both take the usage of an object from
//! [`evenkeel_schema::quota`].

mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use evenkeel_runtime::{
    Action, Controller, Ctx, Env, Event, EventMeta, Object, Predicate, Request, Result, ResultExt, Trigger,
};
use evenkeel_schema::quota::{GroupResource, releases};
use futures::Stream;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, ResourceQuota, Service};
use kube::ResourceExt;
use parking_lot::Mutex;
use serde::Serialize;
use usage::NamespaceObjects;

use crate::MANAGER;
use crate::key_channel::{self, KeySender};
use crate::metadata_informers::MetadataInformers;

/// The quotas of all namespaces, and the channel that triggers their reconciles.
pub(crate) struct QuotaIndex {
    /// The quotas of each namespace.
    names: Mutex<BTreeMap<String, BTreeSet<Request>>>,
    keys: KeySender,
    env: Env,
}

impl QuotaIndex {
    /// An empty index, and the stream of the quotas to count anew.
    pub(crate) fn new(env: &Env) -> (Arc<Self>, impl Stream<Item = Request> + Send + 'static) {
        let (keys, due) = key_channel::channel(env, "quotas: usage released");
        (Arc::new(Self { names: Mutex::default(), keys, env: env.clone() }), due)
    }

    /// Follows a change of an object of any kind.
    pub(crate) fn follow(&self, event: &EventMeta<'_>) {
        let gone = event.old.filter(|_| event.new.is_none());
        let Some(namespace) = gone.and_then(|old| old.namespace.as_deref()) else { return };
        for key in self.names.lock().get(namespace).into_iter().flatten() {
            self.keys.send(key.clone());
        }
    }

    /// Counts all quotas anew, because other kinds can be counted than before.
    pub(crate) fn kinds_changed(&self) {
        for key in self.names.lock().values().flatten() {
            self.keys.send(key.clone());
        }
    }

    /// Returns the quotas to count anew because an update of an object releases resources.
    fn released<K: Object + Serialize>(&self, resource: GroupResource<'_>, event: &Event<K>) -> Vec<Request> {
        let (Some(old), Some(new)) = (event.old(), event.new_object()) else { return Vec::new() };
        let namespace = new.meta().namespace.as_deref().unwrap_or_default();
        let Some(keys) = self.names.lock().get(namespace).cloned() else { return Vec::new() };
        let trees = (serde_json::to_value(&**old), serde_json::to_value(&**new));
        match trees {
            (Ok(old), Ok(new)) if !releases(resource, &old, &new, self.env.now()) => Vec::new(),
            _ => keys.into_iter().collect(),
        }
    }

    /// Follows the creation and deletion of quotas. Triggers no reconcile.
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

/// The controller of ResourceQuotas.
pub(crate) fn controller(
    quotas: Arc<QuotaIndex>,
    informers: Arc<MetadataInformers>,
    due: impl Stream<Item = Request> + Send + 'static,
) -> Controller<ResourceQuota> {
    let (pods, services, claims) = (quotas.clone(), quotas.clone(), quotas.clone());
    Controller::new("resourcequota-controller", reconcile)
        .watches(Trigger::<ResourceQuota>::events(move |event| quotas.note(event)))
        .watches(Trigger::<Pod>::events(move |event| pods.released(GroupResource::PODS, event)))
        .watches(Trigger::<Service>::events(move |event| services.released(GroupResource::SERVICES, event)))
        .watches(Trigger::<PersistentVolumeClaim>::events(move |event| {
            claims.released(GroupResource::CLAIMS, event)
        }))
        .stream("usage released", due)
        .filter(Predicate::changed(|_, new| !is_counted(new)))
        .field_manager(MANAGER)
        .state(informers)
}

/// Whether the status of a quota has its present limits.
///
/// Usage that admission adds to such a status is newer than the informers. Counting again at once would lose that usage,
/// and admission would allow one object too many.
fn is_counted(quota: &ResourceQuota) -> bool {
    let wanted = quota.spec.as_ref().and_then(|spec| spec.hard.as_ref());
    let counted = quota.status.as_ref().and_then(|status| status.hard.as_ref());
    wanted == counted
}

async fn reconcile(quota: Arc<ResourceQuota>, ctx: Ctx<MetadataInformers>) -> Result<Action> {
    let namespace = quota.namespace().unwrap_or_default();
    let content = NamespaceObjects {
        pods: ctx.list_in::<Pod>(&namespace)?,
        services: ctx.list_in::<Service>(&namespace)?,
        claims: ctx.list_in::<PersistentVolumeClaim>(&namespace)?,
    };
    let count = |resource: GroupResource<'_>| ctx.state().count(resource.group, resource.plural, &namespace);
    let status = usage::status(&quota, &content, &count, ctx.now())?;
    ctx.status(&quota, status).await.ignore_not_found()?;
    Ok(Action::await_change())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Admission allowed a second Secret under a quota of one: the controller had overwritten the usage of the first before
    /// its informer showed it.
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
