//! ResourceQuotas: what is used of what is allowed.
//!
//! The server itself counts what is added, when it admits it; this controller counts everything anew when the quota
//! changes and when something goes.

mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use evenkeel_runtime::{
    Action, Context, Controller, Env, Event, EventMeta, Index, Predicate, Request, Result, ResultExt, Source,
    Trigger,
};
use futures::Stream;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, ResourceQuota, Service};
use kube::ResourceExt;
use parking_lot::Mutex;
use usage::Content;

use crate::monitors::Monitors;
use crate::signals::Signals;
use crate::{MANAGER, pod};

/// The namespaces that have quotas, and the way to their keys.
pub(crate) struct Quotas {
    /// The quotas of each namespace.
    names: Mutex<BTreeMap<String, BTreeSet<Request>>>,
    signals: Signals,
}

impl Quotas {
    /// Nobody yet, and the stream of quotas under which something went.
    pub(crate) fn new(env: &Env) -> (Arc<Self>, impl Stream<Item = Request> + Send + 'static) {
        let (signals, due) = Signals::channel(env, "quotas: something went");
        (Arc::new(Self { names: Mutex::default(), signals }), due)
    }

    /// Follows a change of an object of any kind.
    pub(crate) fn follow(&self, event: &EventMeta<'_>) {
        let gone = event.old.filter(|_| event.new.is_none());
        let Some(namespace) = gone.and_then(|old| old.namespace.as_deref()) else { return };
        for key in self.names.lock().get(namespace).into_iter().flatten() {
            self.signals.give(key.clone());
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
    let by_namespace =
        Index::new("namespace", |quota: &ResourceQuota| quota.namespace().into_iter().collect());
    Controller::new("resourcequota-controller", reconcile)
        .watches(Trigger::<ResourceQuota>::events(move |event| quotas.note(event)))
        .watches_indexed(by_namespace, |pod: &Pod| {
            pod.namespace().filter(|_| pod::is_finished(pod)).into_iter().collect()
        })
        .reads_source(Source::<Service>::new())
        .reads::<PersistentVolumeClaim>()
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

async fn reconcile(quota: Arc<ResourceQuota>, ctx: Context<State>) -> Result<Action> {
    let namespace = quota.namespace().unwrap_or_default();
    let content = Content {
        pods: ctx.list_in::<Pod>(&namespace)?,
        services: ctx.list_in::<Service>(&namespace)?,
        claims: ctx.list_in::<PersistentVolumeClaim>(&namespace)?,
    };
    let count = |group: &str, plural: &str| ctx.state().monitors.count(group, plural, &namespace);
    let status = usage::status(&quota, &content, &count);
    ctx.status(&*quota, status).await.ignore_not_found()?;
    Ok(Action::done())
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
