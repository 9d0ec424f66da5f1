//! The queue beside kube-runtime's scheduler.
//!
//! Both sides do the same: the next key is taken, unless it is being worked on; it is noted as being worked on; its
//! work ends; it is added again. Our queue notes for itself what is being worked on. Kube-runtime's scheduler is told
//! by its runner, which is private and keeps the running reconciles in a hash map by their keys: so does this program.
//!
//! That is a key which comes back right after its work, as the event of what its work wrote does. Our queue keeps the
//! last keys at hand for it, so that the second measure is of keys that do not come back: all are added, then all are
//! taken and their work ends, until nothing is left.
//!
//! Each is measured twice: with what the controllers of each side queue, the key of an object and why it is to be
//! reconciled; and with bare keys of ours on both sides, which are cheaper to clone and to hash than kube-runtime's.

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

/// How long keys are taken and put back in one measure.
const TIME: Duration = Duration::from_millis(500);
/// The clock is looked at after so many rounds.
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

/// The keys are of a hundred namespaces.
fn namespace(at: usize) -> String {
    format!("ns-{}", at % 100)
}

/// What our controllers queue, but for the cause, which is beside it.
fn request(at: usize) -> Request {
    Request::namespaced(namespace(at), at.to_string())
}

/// What kube-runtime's controllers queue.
fn reconcile_request(at: usize) -> ReconcileRequest<ConfigMap> {
    let obj_ref = ObjectRef::new(&at.to_string()).within(&namespace(at));
    ReconcileRequest { obj_ref, reason: ReconcileReason::ObjectUpdated }
}

/// Takes the next key, says that it is done and adds it again: the keys of one second.
async fn ours(keys: usize, cause: Option<&Cause>) -> f64 {
    let queue = Queue::new("bench", &Env::system());
    let add = |key| queue.add_with(key, Add { cause: cause.cloned(), ..Add::default() });
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

/// The same with a scheduler, which a stream of requests feeds.
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
    // The first look takes all requests in, which ours did when they were added.
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

/// Adds all keys, takes each and says that it is done, until the time is over: the keys of one second.
async fn ours_once(keys: usize, cause: Option<&Cause>) -> f64 {
    let all: Vec<Request> = (0..keys).map(request).collect();
    let queue = Queue::new("bench", &Env::system());
    let (start, mut rounds) = (Instant::now(), 0);
    while start.elapsed() < TIME {
        for key in &all {
            queue.add_with(key.clone(), Add { cause: cause.cloned(), ..Add::default() });
        }
        for _ in 0..keys {
            let Some(item) = queue.get().await else { break };
            queue.done(&item.key);
        }
        rounds += 1;
    }
    (rounds * keys) as f64 / start.elapsed().as_secs_f64()
}

/// The same with a scheduler.
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
