//! Which resources of an API server are in use, so that controllers and watches can sleep until they are needed.
//!
//! An API server in the same process knows that a resource has no objects, or only those of a new cluster; a client
//! could find that out only by a watch. [`ResourceUse`] carries this knowledge, and the first change of each resource,
//! to a [`Manager`](crate::Manager). With any other server it is unknown, and every watch is opened at the start.
//!
//! - A watch of a resource without objects sleeps. Its cache is empty, and that is in sync. The watch connects from the
//!   revision before the first change, so that it misses nothing, and sees the same events as a watch that was open all
//!   the time.
//! - A controller sleeps until its primary kind is used. If its primary kind has initial objects, or if it has no
//!   primary kind, the controller sleeps until any of its watched kinds is used.
//!
//! *Invariant:* a sleeping part holds work in the ledger from the change that wakes it, before the reporter of the
//! change releases its own work.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use evenkeel_env::{Station, Work};
use kube::core::ApiResource;
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The resources in use on one API server. Clones share one state.
///
/// The part that runs the API server fills it: [`ResourceUse::initial`] for resources whose initial objects need no
/// attention, [`ResourceUse::used`] for all other resources with objects, and from then on for every change.
///
/// ```
/// use evenkeel_runtime::resource_use::ResourceUse;
///
/// let uses = ResourceUse::default();
/// uses.initial("", "namespaces");
/// assert!(!uses.is_used("", "namespaces"));
/// uses.used("", "namespaces", 7);
/// assert!(uses.is_used("", "namespaces") && !uses.is_used("", "pods"));
/// ```
#[derive(Clone, Default)]
pub struct ResourceUse {
    inner: Arc<Mutex<Inner>>,
}

/// Called with the group and plural of each resource when it is used for the first time.
pub type UseListener = dyn Fn(&str, &str) + Send + Sync;

#[derive(Default)]
struct Inner {
    /// By group, then by plural. A missing resource has no objects and was never used.
    resources: BTreeMap<String, BTreeMap<String, Usage>>,
    /// The parts that sleep until the first use of any resource.
    any: Vec<Sleeper>,
    is_used: bool,
    listeners: Vec<Weak<UseListener>>,
}

#[derive(Default)]
struct Usage {
    stage: Stage,
    /// The group and plural of resources that count as used when this one is used.
    entails: Vec<(String, String)>,
    sleepers: Vec<Sleeper>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    /// The resource has no objects, and never had any.
    #[default]
    Empty,
    /// The resource has only its initial objects, unchanged.
    Initial,
    Used,
}

/// A sleeping part, in the lists of all resources that may wake it. The first of them takes it out.
type Sleeper = Arc<Mutex<Option<Bell>>>;

struct Bell {
    station: Station,
    ring: oneshot::Sender<Woken>,
}

/// What a change passes to the parts that it wakes.
pub(crate) struct Woken {
    /// The pending work of waking up.
    pub(crate) work: Work,
    /// The revision before the change.
    pub(crate) before: u64,
}

/// Resolves when the sleeper is woken, and never if nothing can wake it any more.
pub(crate) type Waking = oneshot::Receiver<Woken>;

/// Which use of resources wakes a controller.
#[derive(Clone, Debug, Default)]
pub(crate) enum WakeOn {
    /// The controller never sleeps.
    #[default]
    Start,
    /// The first use of any resource.
    AnyUse,
    /// The first use of the primary resource, or of one of the others if the primary one has initial objects.
    Resources { primary: Option<ApiResource>, others: Vec<ApiResource> },
}

impl ResourceUse {
    /// Records that a resource has initial objects that need no attention.
    pub fn initial(&self, group: &str, plural: &str) {
        let mut inner = self.inner.lock();
        let state = inner.state(group, plural);
        if state.stage == Stage::Empty {
            state.stage = Stage::Initial;
        }
    }

    /// Records a change of an object at this revision. The first change of a resource wakes the parts that sleep until
    /// then.
    pub fn used(&self, group: &str, plural: &str, revision: u64) {
        let (entailed, listeners) = {
            let mut inner = self.inner.lock();
            let state = inner.state(group, plural);
            if state.stage == Stage::Used {
                return;
            }
            state.stage = Stage::Used;
            let (woken, entailed) = (std::mem::take(&mut state.sleepers), std::mem::take(&mut state.entails));
            inner.is_used = true;
            let any = std::mem::take(&mut inner.any);
            woken.iter().chain(&any).for_each(|sleeper| wake(sleeper, revision.saturating_sub(1)));
            inner.listeners.retain(|listener| listener.strong_count() > 0);
            (entailed, inner.listeners.clone())
        };
        listeners.iter().filter_map(Weak::upgrade).for_each(|listener| listener(group, plural));
        entailed.iter().for_each(|(group, plural)| self.used(group, plural, revision));
    }

    /// Makes the first use of `resource` count as the first use of `other` too, for dependents of initial objects.
    pub fn entails(&self, resource: (&str, &str), other: (&str, &str)) {
        let mut inner = self.inner.lock();
        let entailed = (other.0.to_owned(), other.1.to_owned());
        let state = inner.state(resource.0, resource.1);
        if !state.entails.contains(&entailed) {
            state.entails.push(entailed);
        }
    }

    /// Whether a resource has been used.
    pub fn is_used(&self, group: &str, plural: &str) -> bool {
        self.inner.lock().stage(group, plural) == Stage::Used
    }

    /// Whether a resource has no objects because it has never been used.
    pub fn is_empty(&self, group: &str, plural: &str) -> bool {
        self.inner.lock().stage(group, plural) == Stage::Empty
    }

    /// Calls the listener for each resource that is used for the first time from now on, until the listener is dropped.
    pub fn listen(&self, listener: &Arc<UseListener>) {
        self.inner.lock().listeners.push(Arc::downgrade(listener));
    }

    /// Lets a watch sleep until its resource is used. Returns `None` if the resource already has objects to list.
    pub(crate) fn sleep_of_watch(&self, resource: &ApiResource, station: &Station) -> Option<Waking> {
        let mut inner = self.inner.lock();
        let state = inner.state(&resource.group, &resource.plural);
        let (sleeper, waking) = sleeper(station);
        (state.stage == Stage::Empty).then(|| {
            state.sleepers.push(sleeper);
            waking
        })
    }

    /// Lets a controller sleep. Returns `None` if the controller must start now.
    pub(crate) fn sleep_of_controller(&self, wake_on: &WakeOn, station: &Station) -> Option<Waking> {
        let mut inner = self.inner.lock();
        let (sleeper, waking) = sleeper(station);
        match wake_on {
            WakeOn::Start => return None,
            WakeOn::AnyUse if inner.is_used => return None,
            WakeOn::AnyUse => inner.any.push(sleeper),
            WakeOn::Resources { primary, others } => {
                let stage = |inner: &Inner, it: &ApiResource| inner.stage(&it.group, &it.plural);
                let is_empty = primary.as_ref().is_some_and(|it| stage(&inner, it) == Stage::Empty);
                let others = if is_empty { &[] } else { others.as_slice() };
                let all = || primary.iter().chain(others);
                if all().any(|it| stage(&inner, it) == Stage::Used) {
                    return None;
                }
                all().for_each(|it| inner.state(&it.group, &it.plural).sleepers.push(sleeper.clone()));
            }
        }
        Some(waking)
    }
}

impl Inner {
    fn state(&mut self, group: &str, plural: &str) -> &mut Usage {
        if !self.resources.contains_key(group) {
            self.resources.insert(group.to_owned(), BTreeMap::new());
        }
        let group = self.resources.get_mut(group).expect("it was inserted if it was missing");
        if !group.contains_key(plural) {
            group.insert(plural.to_owned(), Usage::default());
        }
        group.get_mut(plural).expect("it was inserted if it was missing")
    }

    fn stage(&self, group: &str, plural: &str) -> Stage {
        let state = self.resources.get(group).and_then(|group| group.get(plural));
        state.map_or(Stage::Empty, |state| state.stage)
    }
}

fn sleeper(station: &Station) -> (Sleeper, Waking) {
    let (ring, waking) = oneshot::channel();
    (Arc::new(Mutex::new(Some(Bell { station: station.clone(), ring }))), waking)
}

fn wake(sleeper: &Sleeper, before: u64) {
    if let Some(bell) = sleeper.lock().take() {
        // Sending fails if the sleeper has ended in the meantime; the work ends with it.
        let _ = bell.ring.send(Woken { work: bell.station.enter(), before });
    }
}

impl fmt::Debug for ResourceUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceUse").field("is_used", &self.inner.lock().is_used).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_env::Env;
    use kube::core::GroupVersionKind;

    use super::*;

    fn resource(kind: &str) -> ApiResource {
        ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", kind))
    }

    fn on(primary: Option<&str>, others: &[&str]) -> WakeOn {
        let others = others.iter().map(|kind| resource(kind)).collect();
        WakeOn::Resources { primary: primary.map(resource), others }
    }

    #[test]
    fn the_first_change_wakes_and_is_work_until_the_sleeper_has_begun() {
        let (uses, env) = (ResourceUse::default(), Env::seeded(1));
        let station = env.ledger().station("test");
        let mut waking = uses.sleep_of_watch(&resource("Pod"), &station).unwrap();
        uses.used("", "nodes", 4);
        assert!(waking.try_recv().is_err() && env.ledger().is_empty());
        uses.used("", "pods", 5);
        uses.used("", "pods", 6);
        assert_eq!(env.ledger().len(), 1);
        assert_eq!(waking.try_recv().unwrap().before, 4);
        assert!(env.ledger().is_empty() && uses.sleep_of_watch(&resource("Pod"), &station).is_none());
    }

    #[test]
    fn without_objects_of_its_primary_kind_a_controller_has_nothing_to_do() {
        let (uses, env) = (ResourceUse::default(), Env::seeded(1));
        let station = env.ledger().station("test");
        uses.initial("", "nodes");
        let mut sets = uses.sleep_of_controller(&on(Some("Set"), &["Pod"]), &station).unwrap();
        let mut nodes = uses.sleep_of_controller(&on(Some("Node"), &["Pod"]), &station).unwrap();
        let mut any = uses.sleep_of_controller(&WakeOn::AnyUse, &station).unwrap();
        uses.used("", "pods", 5);
        assert!(sets.try_recv().is_err() && nodes.try_recv().is_ok() && any.try_recv().is_ok());
        assert!(uses.sleep_of_controller(&on(None, &["Set", "Pod"]), &station).is_none());
        assert!(uses.sleep_of_controller(&WakeOn::AnyUse, &station).is_none());
        uses.used("", "sets", 6);
        assert!(sets.try_recv().is_ok());
    }

    #[test]
    fn a_listener_hears_of_each_resource_once_until_it_is_dropped() {
        let uses = ResourceUse::default();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let into = heard.clone();
        let listener: Arc<UseListener> = Arc::new(move |_, plural| into.lock().push(plural.to_owned()));
        uses.listen(&listener);
        ["pods", "pods", "nodes"].iter().for_each(|plural| uses.used("", plural, 2));
        drop(listener);
        uses.used("", "secrets", 3);
        assert_eq!(*heard.lock(), ["pods", "nodes"]);
    }
}
