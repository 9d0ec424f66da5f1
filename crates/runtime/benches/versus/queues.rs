//! Compares the queue with kube-runtime's scheduler.
//!
//! Both sides do the same: take the next key that is not in flight, note that it is in flight, end its work, add it
//! again. Our queue itself notes which keys are in flight. kube-runtime's scheduler is told by its runner, which is
//! private and keeps the running reconciles in a hash map by key; this program does the same.
//!
//! The first measure is about keys that are added again right after their work, as by the events of a reconcile's own
//! writes. Our queue is optimized for that. The second measure is about keys that are not added again: all are added,
//! then all are taken and done, until the queue is empty.
//!
//! Each is measured twice: with what the controllers of each side queue, an object's key and the cause; and with our
//! plain keys on both sides, which are cheaper to clone and to hash than kube-runtime's.

use std::hash::Hash;
use std::time::{Duration, Instant};

use evenkeel_runtime::queue::Add;
use evenkeel_runtime::{Cause, Env, Queue, Request};
use futures::StreamExt;
use futures::channel::mpsc;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_runtime::controller::{ReconcileReason, ReconcileRequest};
use kube_runtime::reflector::ObjectRef;
use kube_runtime::scheduler::{ScheduleRequest, scheduler};

use crate::{Line, median, repeats, runtime};

/// The duration of one measure.
const TIME: Duration = Duration::from_millis(500);
/// How many rounds pass between two looks at the clock.
const ROUNDS: usize = 64;

pub(crate) fn compare() {
    let cause = Cause::External("bench".into());
    for keys in [10, 10_000, 1_000_000] {
        let mut back = [const { [Vec::new(), Vec::new()] }; 2];
        let mut once = [const { [Vec::new(), Vec::new()] }; 2];
        for _ in 0..repeats() {
            back[0][0].push(runtime().block_on(ours(keys, Some(&cause))));
            back[0][1].push(runtime().block_on(theirs(keys, reconcile_request)));
            back[1][0].push(runtime().block_on(ours(keys, None)));
            back[1][1].push(runtime().block_on(theirs(keys, request)));
            once[0][0].push(runtime().block_on(ours_once(keys, Some(&cause))));
            once[0][1].push(runtime().block_on(theirs_once(keys, reconcile_request)));
            once[1][0].push(runtime().block_on(ours_once(keys, None)));
            once[1][1].push(runtime().block_on(theirs_once(keys, request)));
        }
        for (what, by_keys) in [("put back", back), ("once", once)] {
            for (which, rates) in ["own", "equal"].iter().zip(by_keys) {
                let measure = format!("queue of {keys} {which} keys, {what}, 1/s");
                Line { measure, goal: 2.0, more: true }.print(rates.map(median));
            }
        }
    }
}

/// The namespace of a key: one of a hundred.
fn namespace(at: usize) -> String {
    format!("ns-{}", at % 100)
}

/// The key that our controllers queue; the cause is passed beside it.
fn request(at: usize) -> Request {
    Request::namespaced(namespace(at), at.to_string())
}

/// The request that kube-runtime's controllers queue.
fn reconcile_request(at: usize) -> ReconcileRequest<ConfigMap> {
    let obj_ref = ObjectRef::new(&at.to_string()).within(&namespace(at));
    ReconcileRequest { obj_ref, reason: ReconcileReason::ObjectUpdated }
}

fn options(cause: Option<&Cause>) -> Add {
    cause.cloned().map_or_else(Add::default, |cause| Add::default().cause(cause))
}

/// Takes keys, ends their work and adds them again. Returns the number of keys a second.
async fn ours(keys: usize, cause: Option<&Cause>) -> f64 {
    let queue = Queue::new("bench", &Env::system());
    let add = |key| queue.add_with(key, options(cause));
    (0..keys).map(request).for_each(add);
    let (start, mut rounds) = (Instant::now(), 0);
    while start.elapsed() < TIME {
        for _ in 0..ROUNDS {
            let Some(item) = queue.get().await else { break };
            queue.done(&item.key);
            add(item.key);
        }
        rounds += ROUNDS;
    }
    rounds as f64 / start.elapsed().as_secs_f64()
}

/// Takes keys from a scheduler, ends their work and adds them again by a stream of requests. Returns the number of keys
/// a second.
#[allow(clippy::disallowed_types, reason = "what kube-runtime keeps the running reconciles in")]
async fn theirs<T: Clone + Eq + Hash>(keys: usize, key: fn(usize) -> T) -> f64 {
    let (sender, requests) = mpsc::unbounded();
    let add = |message: T| {
        let run_at = tokio::time::Instant::now();
        let sent = sender.unbounded_send(ScheduleRequest { message, run_at });
        assert!(sent.is_ok(), "the scheduler lives");
    };
    let mut scheduler = std::pin::pin!(scheduler(requests));
    (0..keys).map(key).for_each(add);
    let mut running = std::collections::HashMap::new();
    // The first poll takes in all requests; our queue did that when they were added.
    if let Some(key) = scheduler.next().await {
        add(key);
    }
    let (start, mut rounds) = (Instant::now(), 0);
    while start.elapsed() < TIME {
        for _ in 0..ROUNDS {
            let mut free = scheduler.as_mut().hold_unless(|key| !running.contains_key(key));
            let Some(key) = free.next().await else { break };
            running.insert(key.clone(), ());
            running.remove(&key);
            add(key);
        }
        rounds += ROUNDS;
    }
    rounds as f64 / start.elapsed().as_secs_f64()
}

/// Adds all keys, then takes each and ends its work, until the time is over. Returns the number of keys a second.
async fn ours_once(keys: usize, cause: Option<&Cause>) -> f64 {
    let all: Vec<Request> = (0..keys).map(request).collect();
    let queue = Queue::new("bench", &Env::system());
    let (start, mut rounds) = (Instant::now(), 0);
    while start.elapsed() < TIME {
        for key in &all {
            queue.add_with(key.clone(), options(cause));
        }
        for _ in 0..keys {
            let Some(item) = queue.get().await else { break };
            queue.done(&item.key);
        }
        rounds += 1;
    }
    (rounds * keys) as f64 / start.elapsed().as_secs_f64()
}

/// Adds all keys to a scheduler, then takes each and ends its work, until the time is over. Returns the number of keys a
/// second.
#[allow(clippy::disallowed_types, reason = "what kube-runtime keeps the running reconciles in")]
async fn theirs_once<T: Clone + Eq + Hash>(keys: usize, key: fn(usize) -> T) -> f64 {
    let all: Vec<T> = (0..keys).map(key).collect();
    let (sender, requests) = mpsc::unbounded();
    let mut scheduler = std::pin::pin!(scheduler(requests));
    let mut running = std::collections::HashMap::new();
    let (start, mut rounds) = (Instant::now(), 0);
    while start.elapsed() < TIME {
        for message in all.iter().cloned() {
            let run_at = tokio::time::Instant::now();
            let sent = sender.unbounded_send(ScheduleRequest { message, run_at });
            assert!(sent.is_ok(), "the scheduler lives");
        }
        for _ in 0..keys {
            let mut free = scheduler.as_mut().hold_unless(|key| !running.contains_key(key));
            let Some(key) = free.next().await else { break };
            running.insert(key.clone(), ());
            running.remove(&key);
        }
        rounds += 1;
    }
    (rounds * keys) as f64 / start.elapsed().as_secs_f64()
}
