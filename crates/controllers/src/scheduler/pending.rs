//! The pods that wait for a node: those to try next, by priority, and those that fit nowhere until something changes.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use evenkeel_runtime::Request;
use k8s_openapi::api::core::v1::Pod;

use crate::pod;

/// The name under which pods ask for this scheduler.
const NAME: &str = "default-scheduler";

/// The place of a pod in line: the higher priority first, then who came first.
type Place = (Reverse<i32>, u64);

/// Who waits.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    line: BTreeMap<Place, Request>,
    places: BTreeMap<Request, Place>,
    /// With their priorities.
    unschedulable: BTreeMap<Request, i32>,
    arrivals: u64,
}

/// Whether this pod waits for a node, and for this scheduler to find it.
pub(crate) fn is_waiting(pod: &Pod) -> bool {
    let spec = pod.spec.as_ref();
    let scheduler = spec.and_then(|spec| spec.scheduler_name.as_deref()).unwrap_or(NAME);
    let gated = spec.and_then(|spec| spec.scheduling_gates.as_ref()).is_some_and(|gates| !gates.is_empty());
    pod::node_name(pod).is_none() && pod::is_active(pod) && scheduler == NAME && !gated
}

impl Pending {
    /// Puts a pod in line, or leaves it where it stands.
    pub(crate) fn add(&mut self, key: Request, priority: i32) {
        self.unschedulable.remove(&key);
        if self.places.contains_key(&key) {
            return;
        }
        self.arrivals += 1;
        let place = (Reverse(priority), self.arrivals);
        self.line.insert(place, key.clone());
        self.places.insert(key, place);
    }

    /// Takes a pod out that no longer waits.
    pub(crate) fn remove(&mut self, key: &Request) {
        self.unschedulable.remove(key);
        if let Some(place) = self.places.remove(key) {
            self.line.remove(&place);
        }
    }

    /// The next pod in line, with its priority; it leaves the line.
    pub(crate) fn next(&mut self) -> Option<(Request, i32)> {
        let ((Reverse(priority), _), key) = self.line.pop_first()?;
        self.places.remove(&key);
        Some((key, priority))
    }

    /// Sets a pod aside that fits nowhere.
    pub(crate) fn set_aside(&mut self, key: Request, priority: i32) {
        self.unschedulable.insert(key, priority);
    }

    /// Puts those that were set aside back in line, because something changed: by priority, and by name within one.
    pub(crate) fn retry(&mut self) {
        for (key, priority) in std::mem::take(&mut self.unschedulable) {
            self.add(key, priority);
        }
    }

    /// Whether anyone is in line.
    pub(crate) fn has_next(&self) -> bool {
        !self.line.is_empty()
    }
}

/// The priority of a pod.
pub(crate) fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_higher_priority_goes_first_then_who_came_first() {
        let mut pending = Pending::default();
        for (name, priority) in [("a", 0), ("b", 5), ("c", 0), ("a", 0)] {
            pending.add(Request::cluster(name), priority);
        }
        assert_eq!(order(&mut pending), ["b", "a", "c"]);
    }

    #[test]
    fn what_was_set_aside_comes_back_by_priority() {
        let mut pending = Pending::default();
        for (name, priority) in [("a", 0), ("b", 0), ("c", 7)] {
            pending.set_aside(Request::cluster(name), priority);
        }
        pending.remove(&Request::cluster("b"));
        assert!(!pending.has_next());
        pending.retry();
        assert_eq!(order(&mut pending), ["c", "a"]);
    }

    fn order(pending: &mut Pending) -> Vec<String> {
        std::iter::from_fn(|| pending.next()).map(|(key, _)| key.name.to_string()).collect()
    }
}
