//! The queue against a model of it, by random operations; and its promises one by one.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_env::Env;
use proptest::prelude::*;
use tokio::time::Instant;

use super::state::LINGERING_MAX;
use super::{Add, Backoff, PRIORITY_LOW, Queue, ROUND_SIZE};
use crate::Request;
use crate::cause::Cause;

#[derive(Clone, Debug)]
enum Operation {
    Add { key: u8, priority: i32 },
    AddAfter { key: u8, priority: i32, delay: u64 },
    Fail { key: u8 },
    Forget { key: u8 },
    Get,
    Done { at: usize },
    Pass { delay: u64 },
}

fn operation() -> impl Strategy<Value = Operation> {
    let key = 0..6u8;
    let priority = prop_oneof![Just(0), Just(PRIORITY_LOW), Just(7)];
    prop_oneof![
        4 => (key.clone(), priority.clone()).prop_map(|(key, priority)| Operation::Add { key, priority }),
        3 => (key.clone(), priority, 0..50u64)
            .prop_map(|(key, priority, delay)| Operation::AddAfter { key, priority, delay }),
        2 => key.clone().prop_map(|key| Operation::Fail { key }),
        1 => key.prop_map(|key| Operation::Forget { key }),
        4 => Just(Operation::Get),
        4 => (0..6usize).prop_map(|at| Operation::Done { at }),
        2 => (0..30u64).prop_map(|delay| Operation::Pass { delay }),
    ]
}

/// What the queue should do, told in the plainest way.
#[derive(Default)]
struct Model {
    keys: BTreeMap<u8, ModelKey>,
    failures: BTreeMap<u8, u32>,
    arrivals: u64,
}

struct ModelKey {
    priority: i32,
    /// Milliseconds since the start; from then on it is ready.
    due: u64,
    arrival: u64,
    in_flight: bool,
    /// For a key in flight: when it was asked for again.
    again: Option<u64>,
}

impl Model {
    fn add(&mut self, key: u8, priority: i32, due: u64, now: u64) {
        self.promote(now);
        self.arrivals += 1;
        let arrival = self.arrivals;
        let Some(known) = self.keys.get_mut(&key) else {
            self.keys.insert(key, ModelKey { priority, due, arrival, in_flight: false, again: None });
            return;
        };
        if known.in_flight {
            known.priority = if known.again.is_some() { known.priority.max(priority) } else { priority };
            known.again = Some(known.again.map_or(due, |again| again.min(due)));
            return;
        }
        if priority > known.priority {
            known.priority = priority;
            // It stands behind those who had this priority before.
            known.arrival = if known.due == 0 { arrival } else { known.arrival };
        }
        if due < known.due {
            known.due = due;
            known.arrival = arrival;
        }
    }

    /// A key takes its place among the ready ones when it falls due.
    fn promote(&mut self, now: u64) {
        let mut due: Vec<(u64, u64, u8)> = self
            .keys
            .iter()
            .filter(|(_, known)| !known.in_flight && known.due <= now && known.due > 0)
            .map(|(key, known)| (known.due, known.arrival, *key))
            .collect();
        due.sort_unstable();
        for (_, _, key) in due {
            self.arrivals += 1;
            let known = self.keys.get_mut(&key).unwrap();
            known.due = 0;
            known.arrival = self.arrivals;
        }
    }

    fn get(&mut self, now: u64) -> Option<(u8, i32)> {
        self.promote(now);
        let ready = self.keys.iter().filter(|(_, known)| !known.in_flight && known.due == 0);
        let first = ready.min_by_key(|(_, known)| (-known.priority, known.arrival)).map(|(key, _)| *key)?;
        let known = self.keys.get_mut(&first).unwrap();
        known.in_flight = true;
        Some((first, known.priority))
    }

    fn done(&mut self, key: u8, now: u64) {
        let known = self.keys.remove(&key).unwrap();
        if let Some(due) = known.again {
            self.add(key, known.priority, if due <= now { 0 } else { due }, now);
        }
    }
}

fn key(key: u8) -> Request {
    Request::namespaced("a", key.to_string())
}

async fn run(operations: Vec<Operation>) {
    let env = Env::seeded(1);
    let queue = Queue::with_backoff("test", &env, Backoff::default().jitter(0.0));
    let mut model = Model::default();
    let mut held: Vec<u8> = Vec::new();
    let start = Instant::now();
    for operation in operations {
        let now = start.elapsed().as_millis() as u64;
        match operation {
            Operation::Add { key: k, priority } => {
                queue.add_with(key(k), Add { priority, ..Add::default() });
                model.add(k, priority, 0, now);
            }
            Operation::AddAfter { key: k, priority, delay } => {
                let after = Some(Duration::from_millis(delay));
                queue.add_with(key(k), Add { priority, after, ..Add::default() });
                model.add(k, priority, if delay == 0 { 0 } else { now + delay }, now);
            }
            Operation::Fail { key: k } => {
                queue.add_rate_limited(key(k));
                let failures = model.failures.entry(k).or_default();
                *failures += 1;
                let delay = 5 * (1 << (*failures - 1));
                model.add(k, 0, now + delay, now);
            }
            Operation::Forget { key: k } => {
                queue.forget(&key(k));
                model.failures.remove(&k);
            }
            Operation::Get => {
                let item = queue.try_get();
                let wanted = model.get(now);
                let got = item.map(|item| (item.key.name.parse::<u8>().unwrap(), item.priority));
                assert_eq!(got, wanted);
                held.extend(got.map(|(key, _)| key));
            }
            Operation::Done { at } => {
                if at < held.len() {
                    let k = held.remove(at);
                    queue.done(&key(k));
                    model.done(k, now);
                }
            }
            Operation::Pass { delay } => tokio::time::advance(Duration::from_millis(delay)).await,
        }
        let now = start.elapsed().as_millis() as u64;
        model.promote(now);
        let ready = model.keys.values().filter(|known| !known.in_flight && known.due == 0).count();
        assert_eq!(queue.len(), ready);
        assert_eq!(queue.len_in_flight(), held.len());
        assert_eq!(env.ledger().len(), ready + held.len(), "ready and in flight keys are pending work");
        for k in 0..6 {
            let failures = model.failures.get(&k).copied().unwrap_or(0);
            assert_eq!(queue.num_requeues(&key(k)), failures);
        }
    }
}

proptest! {
    #[test]
    fn it_does_what_its_model_does(operations in prop::collection::vec(operation(), 1..120)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(run(operations));
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_with_very_many_keys_lets_others_pass() {
    let queue = Queue::new("test", &Env::seeded(1));
    for at in 0..100_000 {
        queue.add(Request::namespaced("big", at.to_string()));
    }
    queue.add(Request::namespaced("small", "one"));
    let mut before = 0;
    while let Some(item) = queue.try_get() {
        if item.key.namespace() == Some("small") {
            break;
        }
        before += 1;
        queue.done(&item.key);
    }
    assert_eq!(before, ROUND_SIZE);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_worker_wakes_for_a_key_that_becomes_the_earliest() {
    let env = Env::seeded(1);
    let queue: Queue = Queue::new("test", &env);
    queue.add_after(key(1), Duration::from_secs(60));
    let start = Instant::now();
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.unwrap().key }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    queue.add_after(key(2), Duration::from_secs(1));
    assert_eq!(worker.await.unwrap(), key(2));
    assert_eq!(start.elapsed(), Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_drain_hands_out_what_is_ready_and_drops_what_is_delayed() {
    let env = Env::seeded(1);
    let queue: Queue = Queue::new("test", &env);
    queue.add(key(1));
    queue.add_after(key(2), Duration::from_secs(60));
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            let mut seen = Vec::new();
            while let Some(item) = queue.get().await {
                tokio::time::sleep(Duration::from_secs(1)).await;
                seen.push(item.key.clone());
                queue.add(item.key.clone());
                queue.done(&item.key);
            }
            seen
        }
    });
    queue.shut_down_with_drain().await;
    assert_eq!(worker.await.unwrap(), [key(1)]);
    assert_eq!(env.ledger().pending(), vec![]);
}

#[tokio::test(start_paused = true)]
async fn all_workers_end_at_a_shutdown() {
    let queue: Queue = Queue::new("test", &Env::seeded(1));
    let workers: Vec<_> = (0..8)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.get().await.is_none() })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    queue.shut_down();
    for worker in workers {
        assert!(worker.await.unwrap());
    }
}

#[test]
fn causes_survive_deduplication() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let queue: Queue = Queue::new("test", &Env::seeded(1));
        for cause in [Cause::External("webhook".into()), Cause::Timer, Cause::Timer] {
            queue.add_with(key(1), Add { cause: Some(cause), ..Add::default() });
        }
        let item = queue.get().await.unwrap();
        assert_eq!(item.causes.to_string(), "webhook, timer");
        queue.add_with(key(1), Add { cause: Some(Cause::Requeue), ..Add::default() });
        queue.done(&key(1));
        assert_eq!(queue.get().await.unwrap().causes.to_string(), "requeue");
    });
}

/// A key that is given back keeps its causes and its priority, and what was added meanwhile counts too.
#[tokio::test(start_paused = true)]
async fn a_key_that_is_given_back_loses_nothing() {
    let env = Env::seeded(1);
    let queue: Queue = Queue::new("test", &env);
    queue.add_with(key(1), Add { priority: 5, cause: Some(Cause::Timer), ..Add::default() });
    let item = queue.get().await.unwrap();
    let ready_at = item.ready_at;
    tokio::time::advance(Duration::from_secs(1)).await;
    let later = Some(Duration::from_secs(60));
    queue.add_with(key(1), Add { cause: Some(Cause::Retry), after: later, ..Add::default() });
    queue.put_back(item);
    assert_eq!((queue.len(), queue.len_in_flight(), env.ledger().len()), (1, 0, 1));
    let again = queue.get().await.unwrap();
    assert_eq!((again.causes.to_string().as_str(), again.priority), ("timer, retry", 5));
    assert_eq!(again.ready_at, ready_at);
    queue.done(&key(1));
    assert_eq!((queue.len(), queue.len_delayed()), (0, 0), "the earlier time stood for both");

    queue.add(key(2));
    let item = queue.get().await.unwrap();
    queue.shut_down();
    queue.put_back(item);
    assert_eq!(env.ledger().pending(), vec![], "after the end it is dropped");
}

/// A million adds of few keys, each with another cause, and a burst of many keys: memory is bounded by the keys that
/// are queued or have failed, and each has a bounded size.
#[tokio::test(start_paused = true)]
async fn memory_is_bounded_by_the_keys_that_are_known() {
    let queue: Queue = Queue::new("test", &Env::seeded(1));
    for at in 0..100_000u32 {
        let cause = Some(Cause::External(at.to_string().into()));
        queue.add_with(key((at % 3) as u8), Add { cause, ..Add::default() });
    }
    assert_eq!(queue.read(|state| state.known_len()), 3);
    let item = queue.get().await.unwrap();
    assert_eq!(item.causes.kept().len(), crate::cause::CAUSES_KEPT);
    assert!(item.causes.more() > 33_000);
    queue.done(&item.key);
    for at in 0..10_000 {
        queue.add_rate_limited(Request::namespaced("burst", at.to_string()));
    }
    tokio::time::advance(Duration::from_secs(1)).await;
    while let Some(item) = queue.try_get() {
        queue.forget(&item.key);
        queue.done(&item.key);
    }
    assert_eq!(queue.read(|state| state.known_len()), 0, "a key that is done and forgotten takes no memory");
    let room = queue.read(|state| state.room());
    assert!(room < 2000, "nor does what it was kept in, once a burst is over: {room}");
}

/// Only keys that are ready count for the turns of a namespace, not those that it had.
#[tokio::test(start_paused = true)]
async fn a_namespace_does_not_lose_its_turn_by_what_is_done() {
    let queue: Queue = Queue::new("test", &Env::seeded(1));
    let named = |namespace: &str, at: usize| Request::namespaced(namespace, at.to_string());
    queue.add(named("a", 0));
    let held = queue.try_get().unwrap();
    for at in 1..=10 * ROUND_SIZE {
        queue.add(named("a", at));
        let item = queue.try_get().unwrap();
        queue.done(&item.key);
    }
    for key in [named("a", 1), named("b", 1), named("a", 2)] {
        queue.add(key);
    }
    let order: Vec<String> =
        std::iter::from_fn(|| queue.try_get()).map(|item| item.key.to_string()).collect();
    assert_eq!(order, ["a/1", "b/1", "a/2"]);
    queue.done(&held.key);
}

/// Keys that are done linger, in case they come back soon: a bounded number of them, and none once the queue is empty.
#[tokio::test(start_paused = true)]
async fn keys_that_are_done_are_forgotten_while_others_wait() {
    let queue: Queue = Queue::new("test", &Env::seeded(1));
    let known = || queue.read(|state| state.known_len());
    let groups = || queue.read(|state| state.groups_len());
    queue.add_with(key(0), Add { priority: PRIORITY_LOW, ..Add::default() });
    for at in 0..1000 {
        queue.add(Request::namespaced(at.to_string(), "b"));
        let item = queue.try_get().unwrap();
        queue.done(&item.key);
        assert!(known() <= 1 + LINGERING_MAX, "after {at}: {}", known());
        assert!(groups() <= 1 + LINGERING_MAX, "after {at}: {}", groups());
    }
    let last = queue.try_get().unwrap();
    queue.done(&last.key);
    assert_eq!((known(), groups()), (0, 0));
}

/// Keys whose hashes are the same are still several.
#[tokio::test(start_paused = true)]
async fn keys_are_told_apart_by_themselves() {
    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Same(u32);

    impl std::hash::Hash for Same {
        fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
    }

    impl std::fmt::Display for Same {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            self.0.fmt(f)
        }
    }

    impl super::QueueKey for Same {}

    let queue: Queue<Same> = Queue::new("test", &Env::seeded(1));
    (0..100).for_each(|at| queue.add(Same(at)));
    assert_eq!(queue.len(), 100);
    for at in 0..200 {
        let item = queue.get().await.unwrap();
        assert_eq!(item.key, Same(at % 100));
        queue.done(&Same((at + 50) % 100));
        queue.done(&item.key);
        queue.add(item.key);
    }
}

/// What lingers after its work, and was added again since, is no less queued than other keys are.
#[tokio::test(start_paused = true)]
async fn keys_that_come_back_right_after_their_work_are_not_lost() {
    for drains in [false, true] {
        let queue: Queue = Queue::new("test", &Env::seeded(1));
        for at in 0..3 * LINGERING_MAX {
            queue.add(Request::namespaced("a", at.to_string()));
        }
        for _ in 0..3 {
            let items: Vec<_> = std::iter::from_fn(|| queue.try_get()).collect();
            assert_eq!(items.len(), 3 * LINGERING_MAX);
            items.iter().for_each(|item| queue.done(&item.key));
            items.into_iter().for_each(|item| queue.add(item.key));
        }
        let item = queue.try_get().unwrap();
        queue.done(&item.key);
        match drains {
            true => {
                let mut drained = std::pin::pin!(queue.shut_down_with_drain());
                assert!(futures::poll!(&mut drained).is_pending());
                let left = std::iter::from_fn(|| queue.try_get()).inspect(|item| queue.done(&item.key));
                assert_eq!(left.count(), 3 * LINGERING_MAX - 1);
                drained.await;
            }
            false => queue.shut_down(),
        }
        assert_eq!((queue.len(), queue.read(|state| state.known_len())), (0, 0));
    }
}

/// A key that fails for ever comes back ever more rarely; others of its namespace are not held up by it.
#[tokio::test(start_paused = true)]
async fn a_key_that_fails_for_ever_does_not_starve_others() {
    let queue: Queue = Queue::new("test", &Env::seeded(1));
    queue.add(key(0));
    let (mut failures, mut others) = (0, 0);
    for round in 0..1000u64 {
        queue.add(Request::namespaced("a", format!("other-{round}")));
        while let Some(item) = queue.try_get() {
            match &*item.key.name {
                "0" => {
                    failures += 1;
                    queue.add_rate_limited(item.key.clone());
                }
                _ => others += 1,
            }
            queue.done(&item.key);
        }
        assert_eq!(others, round + 1, "handed out at once");
        tokio::time::advance(Duration::from_millis(10)).await;
    }
    assert!((8..=12).contains(&failures), "5 ms doubled over 10 s: {failures}");
}

/// Both ways of adding, after both ways of ending.
#[tokio::test(start_paused = true)]
async fn nothing_is_added_after_a_shutdown() {
    for drains in [false, true] {
        let env = Env::seeded(1);
        let queue: Queue = Queue::new("test", &env);
        match drains {
            true => queue.shut_down_with_drain().await,
            false => queue.shut_down(),
        }
        queue.add(key(1));
        queue.add_after(key(2), Duration::from_secs(1));
        queue.add_rate_limited(key(3));
        queue.add_all([(key(4), 0, Cause::Timer)].into_iter());
        assert_eq!((queue.len(), queue.len_delayed(), queue.adds()), (0, 0, 0));
        assert_eq!(env.ledger().pending(), vec![]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_success_makes_the_next_failure_a_first_one() {
    let queue: Queue = Queue::with_backoff("test", &Env::seeded(1), Backoff::default().jitter(0.0));
    for _ in 0..2 {
        let start = Instant::now();
        for failures in [0, 1, 2, 3] {
            if failures == 0 {
                queue.add(key(1));
            }
            let item = queue.get().await.unwrap();
            assert_eq!(item.requeues, failures);
            match failures {
                3 => queue.succeeded(&item.key),
                _ => {
                    queue.add_rate_limited(item.key.clone());
                    queue.done(&item.key);
                }
            }
        }
        assert_eq!(start.elapsed(), Duration::from_millis(5 + 10 + 20));
        assert_eq!(queue.num_requeues(&key(1)), 0);
    }
}
