//! ResourceQuotas: the usage in their status.
//!
//! Admission adds the usage of a new object. This controller counts a namespace anew when the limits of a quota change,
//! when an object is deleted, and when an update releases resources. Both take the usage of an object from
//! [`evenkeel_schema::quota`].

mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use evenkeel_runtime::{
    Action, Controller, Ctx, Env, Event, EventMeta, Predicate, Request, Result, ResultExt, Trigger,
};
use evenkeel_schema::quota::{GroupResource, releases};
use futures::Stream;
use kube::core::ObjectMeta;
use parking_lot::Mutex;
use usage::NamespaceObjects;

use crate::MANAGER;
use crate::key_channel::{self, KeySender};
use crate::kinds::{PERSISTENT_VOLUME_CLAIM, POD, RESOURCE_QUOTA, ResourceQuota, SERVICE};
use crate::metadata_informers::MetadataInformers;
use crate::object::{Kind, Object, OfKind, differs, write_status};

/// The quotas of all namespaces, and the channel that triggers their reconciles.
pub(crate) struct QuotaIndex {
    /// The quotas of each namespace.
    names: Mutex<BTreeMap<String, BTreeSet<Request>>>,
    /// The quotas that were counted and have not seen a new object since. The first object that appears after a count
    /// makes its quotas be counted again, because admission charges an object before the informers show it: a count in
    /// between overwrites that charge.
    recounted: Mutex<BTreeSet<Request>>,
    keys: KeySender,
    env: Env,
}

impl QuotaIndex {
    /// An empty index, and the stream of the quotas to count anew.
    pub(crate) fn new(env: &Env) -> (Arc<Self>, impl Stream<Item = Request> + Send + 'static) {
        let (keys, due) = key_channel::channel(env, "quotas: usage released");
        (Arc::new(Self { names: Mutex::default(), recounted: Mutex::default(), keys, env: env.clone() }), due)
    }

    /// Follows a change of an object of any kind.
    pub(crate) fn follow(&self, event: &EventMeta<'_>) {
        self.changed(event.old, event.new);
    }

    fn changed(&self, old: Option<&ObjectMeta>, new: Option<&ObjectMeta>) {
        let (changed, appeared) = match (old, new) {
            (Some(old), None) => (old, false),
            (None, Some(new)) => (new, true),
            _ => return,
        };
        let Some(namespace) = changed.namespace.as_deref() else { return };
        for key in self.names.lock().get(namespace).into_iter().flatten() {
            if !appeared || self.recounted.lock().remove(key) {
                self.keys.send(key.clone());
            }
        }
    }

    /// Counts all quotas anew, because other kinds can be counted than before.
    pub(crate) fn kinds_changed(&self) {
        for key in self.names.lock().values().flatten() {
            self.keys.send(key.clone());
        }
    }

    /// Returns the quotas to count anew because an update of an object releases resources.
    fn released(&self, resource: GroupResource<'_>, event: &Event<Object>) -> Vec<Request> {
        let (Some(old), Some(new)) = (event.old(), event.new_object()) else { return Vec::new() };
        let Some(keys) = self.names.lock().get(new.in_namespace()).cloned() else { return Vec::new() };
        match releases(resource, &usage::value(old), &usage::value(new), self.env.now()) {
            true => keys.into_iter().collect(),
            false => Vec::new(),
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
            self.recounted.lock().remove(&key);
        }
        None
    }
}

/// The controller of ResourceQuotas.
pub(crate) fn controller(
    quotas: Arc<QuotaIndex>,
    informers: Arc<MetadataInformers>,
    due: impl Stream<Item = Request> + Send + 'static,
) -> Controller<Object> {
    let noted = quotas.clone();
    let released = |resource: GroupResource<'static>| {
        let quotas = quotas.clone();
        Trigger::events(move |event: &Event<Object>| quotas.released(resource, event))
    };
    Controller::new_with("resourcequota-controller", RESOURCE_QUOTA.source(), reconcile)
        .watches_with(RESOURCE_QUOTA.source(), Trigger::events(move |event| noted.note(event)))
        .watches_with(POD.source(), released(GroupResource::PODS))
        .watches_with(SERVICE.source(), released(GroupResource::SERVICES))
        .watches_with(PERSISTENT_VOLUME_CLAIM.source(), released(GroupResource::CLAIMS))
        .stream("usage released", due)
        .filter(Predicate::changed(|_, new| !is_counted(new)))
        .field_manager(MANAGER)
        .state(Counting { informers, quotas })
}

/// The input for counting a quota.
struct Counting {
    informers: Arc<MetadataInformers>,
    quotas: Arc<QuotaIndex>,
}

/// Whether the status of a quota has its present limits.
///
/// Usage that admission adds to such a status is newer than the informers. Counting again at once would lose that usage,
/// and admission would allow one object too many.
fn is_counted(quota: &ResourceQuota) -> bool {
    quota.at("spec/hard") == quota.at("status/hard")
}

async fn reconcile(quota: Arc<ResourceQuota>, ctx: Ctx<Counting>) -> Result<Action> {
    let namespace = quota.in_namespace();
    let list =
        |kind: &'static Kind| Ok::<_, evenkeel_runtime::Error>(ctx.kind(kind).cache()?.list_in(namespace));
    let content = NamespaceObjects {
        pods: list(&POD)?,
        services: list(&SERVICE)?,
        claims: list(&PERSISTENT_VOLUME_CLAIM)?,
    };
    let count =
        |resource: GroupResource<'_>| ctx.state().informers.count(resource.group, resource.plural, namespace);
    let status = usage::status(&quota, &content, &count, ctx.now());
    if differs(quota.at("status"), &status) {
        // Recorded before the write, because an object may appear while the request is in progress.
        ctx.state().quotas.recounted.lock().insert(Request::of(&*quota));
        write_status(&ctx, &RESOURCE_QUOTA, &quota, &status).await.ignore_not_found()?;
    }
    Ok(Action::await_change())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A count had overwritten the charge of a ConfigMap that the informers showed a moment later, and nothing counted
    /// again.
    #[test]
    fn the_first_object_after_a_count_is_a_reason_to_count_again() {
        let (quotas, due) = QuotaIndex::new(&Env::default());
        let mut due = Box::pin(due);
        let mut sent = || futures::FutureExt::now_or_never(futures::StreamExt::next(&mut due)).flatten();
        let key = Request::new(Some("a"), "quota");
        quotas.names.lock().entry("a".to_owned()).or_default().insert(key.clone());
        let appears = |namespace: &str| {
            let new = ObjectMeta { namespace: Some(namespace.to_owned()), ..Default::default() };
            quotas.changed(None, Some(&new));
        };
        appears("a");
        assert_eq!(sent(), None, "nothing was counted");
        quotas.recounted.lock().insert(key.clone());
        appears("b");
        assert_eq!(sent(), None, "another namespace");
        appears("a");
        assert_eq!(sent(), Some(key));
        appears("a");
        assert_eq!(sent(), None, "it was counted again already");
    }

    /// Admission allowed a second Secret under a quota of one: the controller had overwritten the usage of the first before
    /// its informer showed it.
    #[test]
    fn a_charge_is_no_reason_to_count_again() {
        let quota = |wanted: &str, counted: &str, used: &str| -> ResourceQuota {
            let quota = json!({"spec": {"hard": {"secrets": wanted}},
                "status": {"hard": {"secrets": counted}, "used": {"secrets": used}}});
            crate::object::object(quota)
        };
        assert!(is_counted(&quota("1", "1", "0")) && is_counted(&quota("1", "1", "1")));
        assert!(!is_counted(&quota("2", "1", "1")));
    }
}
