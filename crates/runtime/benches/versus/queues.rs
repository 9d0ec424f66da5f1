//! The queue beside kube-runtime's scheduler.
//!
//! Both sides do the same: the next key is taken, unless it is being worked on; it is noted as being worked on; its
//! work ends; it is added again. Our queue notes for itself what is being worked on. Kube-runtime's scheduler is told
//! by its runner, which is private and keeps the running reconciles in a hash map by their keys: so does this program.
//! Each side queues what its controllers queue: the key of an object, and why it is to be reconciled.

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
    for keys in [10, 10_000, 1_000_000] {
        let mut rates = [Vec::new(), Vec::new()];
        for _ in 0..repeats() {
            rates[0].push(runtime().block_on(ours(keys)));
            rates[1].push(runtime().block_on(theirs(keys)));
        }
        let measure = format!("queue of {keys} keys, take and put back, 1/s");
        Line { measure, goal: 2.0, more: true }.print(rates.map(median));
    }
}

/// The keys are of a hundred namespaces.
fn namespace(at: usize) -> String {
    format!("ns-{}", at % 100)
}

/// Takes the next key, says that it is done and adds it again.
async fn ours(keys: usize) -> f64 {
    let queue = Queue::new("bench", &Env::system());
    let cause = Cause::External("bench".into());
    let add = |key| queue.add_with(key, Add { cause: Some(cause.clone()), ..Add::default() });
    (0..keys).for_each(|at| add(Request::namespaced(namespace(at), at.to_string())));
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
async fn theirs(keys: usize) -> f64 {
    let (sender, requests) = mpsc::unbounded();
    let add = |message: ReconcileRequest<ConfigMap>| {
        let run_at = tokio::time::Instant::now();
        sender.unbounded_send(ScheduleRequest { message, run_at }).expect("the scheduler lives");
    };
    let mut scheduler = std::pin::pin!(scheduler(requests));
    let request = |at: usize| ReconcileRequest {
        obj_ref: ObjectRef::new(&at.to_string()).within(&namespace(at)),
        reason: ReconcileReason::ObjectUpdated,
    };
    (0..keys).for_each(|at| add(request(at)));
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
