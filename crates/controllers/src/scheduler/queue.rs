//! The scheduling queue: the pods to try next, by priority, and the pods that fit on no node until something changes.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use evenkeel_runtime::Request;

use crate::kinds::Pod;
use crate::pod;

/// The value of `spec.schedulerName` that asks for this scheduler.
pub(crate) const NAME: &str = "default-scheduler";

/// The position of a pod in the queue: by descending priority, then by arrival.
type QueuePosition = (Reverse<i32>, u64);

/// What a pod waits for besides room on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// The pod may fit when another pod is placed, because of affinity or spread.
    pub(crate) pods: bool,
    /// The pod waits for its claims.
    pub(crate) claims: bool,
}

/// A pod that fits on no node.
#[derive(Clone, Copy, Debug)]
struct Unschedulable {
    priority: i32,
    needs: Needs,
}

/// The pods that wait for a node.
#[derive(Debug, Default)]
pub(crate) struct SchedulingQueue {
    /// The pods to try next.
    active: BTreeMap<QueuePosition, Request>,
    /// The positions of the active pods.
    positions: BTreeMap<Request, QueuePosition>,
    /// The pods that fit on no node.
    unschedulable: BTreeMap<Request, Unschedulable>,
    /// How many pods have been added so far.
    arrivals: u64,
}

/// Whether the pod waits for this scheduler to find it a node.
pub(crate) fn is_waiting(pod: &Pod) -> bool {
    let scheduler = pod.str("spec/schedulerName").unwrap_or(NAME);
    let gated = !pod.list("spec/schedulingGates").is_empty();
    pod::node_name(pod).is_none() && pod::is_active(pod) && scheduler == NAME && !gated
}

impl SchedulingQueue {
    /// Adds a pod. One that is active already keeps its position.
    pub(crate) fn add(&mut self, key: Request, priority: i32) {
        self.unschedulable.remove(&key);
        if self.positions.contains_key(&key) {
            return;
        }
        self.arrivals += 1;
        let position = (Reverse(priority), self.arrivals);
        self.active.insert(position, key.clone());
        self.positions.insert(key, position);
    }

    /// Removes a pod that no longer waits.
    pub(crate) fn remove(&mut self, key: &Request) {
        self.unschedulable.remove(key);
        if let Some(position) = self.positions.remove(key) {
            self.active.remove(&position);
        }
    }

    /// Removes the next active pod and returns it with its priority.
    pub(crate) fn next(&mut self) -> Option<(Request, i32)> {
        let ((Reverse(priority), _), key) = self.active.pop_first()?;
        self.positions.remove(&key);
        Some((key, priority))
    }

    /// Adds a pod that fits on no node. [`retry`](Self::retry) makes the pod active again. So does
    /// [`retry_related`](Self::retry_related) if the pod needs other pods, and [`retry_claims`](Self::retry_claims) if
    /// it needs its claims.
    pub(crate) fn add_unschedulable(&mut self, key: Request, priority: i32, needs: Needs) {
        self.unschedulable.insert(key, Unschedulable { priority, needs });
    }

    /// Makes all unschedulable pods active again. Pods of one priority are added in the order of their keys.
    pub(crate) fn retry(&mut self) {
        for (key, it) in std::mem::take(&mut self.unschedulable) {
            self.add(key, it.priority);
        }
    }

    /// Makes the unschedulable pods active again that may fit because another pod was placed or changed.
    pub(crate) fn retry_related(&mut self) {
        self.retry_that(|needs| needs.pods);
    }

    /// Makes the pods active again that wait for their claims.
    pub(crate) fn retry_claims(&mut self) {
        self.retry_that(|needs| needs.claims);
    }

    fn retry_that(&mut self, may: impl Fn(Needs) -> bool) {
        let related = self.unschedulable.iter().filter(|(_, it)| may(it.needs));
        let related: Vec<_> = related.map(|(key, it)| (key.clone(), it.priority)).collect();
        for (key, priority) in related {
            self.add(key, priority);
        }
    }

    /// Makes one pod active again, if it is unschedulable.
    pub(crate) fn retry_one(&mut self, key: &Request) {
        if let Some(it) = self.unschedulable.get(key).copied() {
            self.add(key.clone(), it.priority);
        }
    }

    /// Whether a pod is active.
    pub(crate) fn has_next(&self) -> bool {
        !self.active.is_empty()
    }
}

/// Returns the priority of a pod, zero if it has none.
pub(crate) fn priority(pod: &Pod) -> i32 {
    pod.i32("spec/priority").unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_higher_priority_goes_first_then_who_came_first() {
        let mut queue = SchedulingQueue::default();
        for (name, priority) in [("a", 0), ("b", 5), ("c", 0), ("a", 0)] {
            queue.add(Request::cluster(name), priority);
        }
        assert_eq!(order(&mut queue), ["b", "a", "c"]);
    }

    #[test]
    fn what_was_set_aside_comes_back_by_priority() {
        let mut queue = SchedulingQueue::default();
        for (name, priority) in [("a", 0), ("b", 0), ("c", 7)] {
            let needs = Needs { pods: name == "c", claims: name == "a" };
            queue.add_unschedulable(Request::cluster(name), priority, needs);
        }
        queue.remove(&Request::cluster("b"));
        assert!(!queue.has_next());
        queue.retry_related();
        assert_eq!(order(&mut queue), ["c"]);
        queue.retry_claims();
        assert_eq!(order(&mut queue), ["a"]);
        for name in ["a", "c"] {
            queue.add_unschedulable(
                Request::cluster(name),
                if name == "c" { 7 } else { 0 },
                Needs::default(),
            );
        }
        queue.retry_one(&Request::cluster("a"));
        assert_eq!(order(&mut queue), ["a"]);
        queue.add_unschedulable(Request::cluster("a"), 0, Needs::default());
        queue.retry();
        assert_eq!(order(&mut queue), ["c", "a"]);
    }

    fn order(queue: &mut SchedulingQueue) -> Vec<String> {
        std::iter::from_fn(|| queue.next()).map(|(key, _)| key.name.to_string()).collect()
    }
}
