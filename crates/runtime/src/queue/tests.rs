//! Tests of the queue's promises.

use std::time::Duration;

use evenkeel_env::Env;
use tokio::time::Instant;

use super::state::LINGERING_MAX;
use super::{Add, Backoff, PRIORITY_LOW, Queue, ROUND_SIZE};
use crate::Request;
use crate::cause::Cause;

fn key(key: u8) -> Request {
    Request::namespaced("a", key.to_string())
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

/// Adds and retries are counted as in client-go's metrics, because dashboards compare adds with work.
#[tokio::test(start_paused = true)]
async fn adds_are_counted_when_a_key_becomes_ready_and_retries_when_it_is_for_later() {
    let queue: Queue = Queue::new("test", &Env::seeded(1));
    let counts = || (queue.adds(), queue.retries());
    (0..3).for_each(|_| queue.add(key(1)));
    assert_eq!(counts(), (1, 0), "the same key");
    let item = queue.try_get().unwrap();
    (0..3).for_each(|_| queue.add(key(1)));
    queue.done(&item.key);
    assert_eq!(counts(), (2, 0), "once more after its work");
    let item = queue.try_get().unwrap();
    queue.put_back(item);
    assert_eq!(counts(), (2, 0), "it was not worked on");
    queue.add_after(key(2), Duration::from_secs(1));
    queue.add_rate_limited(key(3));
    assert_eq!(counts(), (2, 2), "not ready yet");
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!((queue.len(), counts()), (3, (4, 2)));
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

/// A key that is put back keeps its causes and its priority, and those of adds meanwhile.
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

/// After a million adds of few keys, each with another cause, and a burst of many keys, memory is bounded by the keys
/// that are queued or have failed, and each key has a bounded size.
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
    let burst = async |keys: usize| {
        for at in 0..keys {
            queue.add_rate_limited(Request::namespaced("burst", at.to_string()));
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        while let Some(item) = queue.try_get() {
            queue.forget(&item.key);
            queue.done(&item.key);
        }
        queue.read(|state| (state.known_len(), state.room()))
    };
    let (known, room) = burst(10_000).await;
    assert_eq!(known, 0, "a key that is done and forgotten takes no memory");
    assert!(room < 2000, "nor does what it was kept in, once a burst is over: {room}");
    let (_, room) = burst(10_000).await;
    assert!(room >= 10_000, "what comes again finds the room of the last time: {room}");
    let (_, room) = burst(1).await;
    assert!(room < 2000, "until a smaller burst shows that it was the last of its size: {room}");
}

/// Only ready keys count for the turns of a namespace, not those that are done.
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

/// A bounded number of keys that are done is kept, in case they are added again soon; none once the queue is empty.
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

/// Keys with equal hashes are told apart.
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

/// A key that is kept after its work and added again is queued like any other key.
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

/// A key that always fails comes back more and more rarely, and does not delay other keys of its namespace.
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

/// Tests both ways to add, after both ways to shut down.
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

/// How many keys are handed out until none of `left` is left, while a key of another namespace is added again whenever
/// it is in flight, as by a reconcile that always changes its own object.
fn served_beside_a_hot_key(queue: &Queue, mut left: usize) -> usize {
    queue.add(Request::namespaced("hot", "one"));
    for served in 1..1_000_000 {
        let item = queue.try_get().unwrap();
        match item.key.namespace() {
            Some("hot") => queue.add(item.key.clone()),
            _ => left -= 1,
        }
        queue.done(&item.key);
        if left == 0 {
            return served;
        }
    }
    panic!("{left} keys were never handed out");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_always_added_again_does_not_starve_a_namespace_with_many() {
    let queue: Queue = Queue::new("test", &Env::seeded(1));
    for at in 0..1000 {
        queue.add(Request::namespaced("big", at.to_string()));
    }
    let served = served_beside_a_hot_key(&queue, 1000);
    assert!(served <= 2 * 1000 + 2 * ROUND_SIZE, "each namespace has its turns: {served}");
}

/// With another priority for each key, memory is bounded by the priorities of present keys.
#[tokio::test(start_paused = true)]
async fn priorities_that_no_key_has_any_more_are_forgotten() {
    let queue: Queue = Queue::new("test", &Env::seeded(1));
    queue.add(key(0));
    for priority in 1..1000 {
        queue.add_with(key(1), Add { priority, ..Add::default() });
        queue.add_with(key(1), Add { priority: 2 * priority, ..Add::default() });
        let item = queue.try_get().unwrap();
        assert_eq!((&*item.key.name, item.priority), ("1", 2 * priority));
        queue.done(&item.key);
        assert!(queue.read(|state| state.priorities_len()) <= 32);
    }
    assert_eq!(queue.try_get().unwrap().key, key(0));
}

/// A raised priority does not change since when a key is ready.
#[tokio::test(start_paused = true)]
async fn a_key_whose_priority_is_raised_is_ready_since_it_first_was() {
    let queue: Queue = Queue::new("test", &Env::seeded(1));
    let start = Instant::now();
    queue.add_with(key(1), Add { priority: PRIORITY_LOW, ..Add::default() });
    tokio::time::advance(Duration::from_secs(1)).await;
    queue.add(key(1));
    assert_eq!(queue.try_get().unwrap().ready_at, start);
}

/// A watch event in a namespace with a long first list is not delayed by its keys of low priority.
#[tokio::test(start_paused = true)]
async fn keys_of_lower_priority_do_not_delay_a_live_change_of_their_namespace() {
    let queue: Queue = Queue::new("test", &Env::seeded(1));
    for at in 0..100 * ROUND_SIZE {
        let key = Request::namespaced("big", at.to_string());
        queue.add_with(key, Add { priority: PRIORITY_LOW, ..Add::default() });
    }
    for key in ["big/live", "b/1", "b/2"] {
        let (namespace, name) = key.split_once('/').unwrap();
        queue.add(Request::namespaced(namespace, name));
    }
    queue.add(Request::namespaced("big", "6000"));
    queue.add(Request::namespaced("b", "3"));
    let order: Vec<String> =
        std::iter::from_fn(|| queue.try_get()).map(|item| item.key.to_string()).take(5).collect();
    assert_eq!(order, ["big/live", "b/1", "b/2", "big/6000", "b/3"], "first in, first out");
}

/// With two hundred times as many keys, half of them ready and half delayed, every operation takes about as long.
#[tokio::test(start_paused = true)]
#[allow(clippy::disallowed_methods, reason = "how long operations take is what is measured")]
async fn operations_take_no_longer_where_there_are_very_many_keys() {
    let hour = Duration::from_secs(3600);
    let fastest = |count: usize| {
        let queue: Queue = Queue::new("test", &Env::seeded(1));
        let later = |at: usize| Request::namespaced("later", at.to_string());
        for at in 0..count {
            queue.add(Request::namespaced("ready", at.to_string()));
            queue.add_after(later(at), 2 * hour);
        }
        let round = |number: u32| {
            let start = std::time::Instant::now();
            for at in 0..50 {
                let item = queue.try_get().unwrap();
                queue.add_rate_limited(item.key.clone());
                queue.add(item.key.clone());
                queue.forget(&item.key);
                queue.done(&item.key);
                queue.add_with(item.key, Add { priority: number as i32, ..Add::default() });
                queue.add_after(later(at), 2 * hour - Duration::from_secs(u64::from(number)));
                assert_eq!((queue.len(), queue.num_requeues(&later(at))), (count, 0));
            }
            start.elapsed()
        };
        (1..=20).map(round).min().unwrap()
    };
    let (few, many) = (fastest(100), fastest(20_000));
    assert!(many < 20 * few, "{few:?} among 100, {many:?} among 20,000");
}
