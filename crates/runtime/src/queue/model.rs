//! Compares the queue with a simple model, by random operations.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_env::Env;
use proptest::prelude::*;
use tokio::time::Instant;

use super::{Add, Backoff, PRIORITY_LOW, Queue};
use crate::Request;

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

/// A simple and slow implementation of the queue.
#[derive(Default)]
struct Model {
    keys: BTreeMap<u8, ModelKey>,
    failures: BTreeMap<u8, u32>,
    arrivals: u64,
}

struct ModelKey {
    priority: i32,
    /// When the key is ready, in milliseconds since the start.
    due: u64,
    arrival: u64,
    in_flight: bool,
    /// For a key in flight that was added again: when it will be ready.
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
            // The key goes behind the keys that have this priority already.
            known.arrival = if known.due == 0 { arrival } else { known.arrival };
        }
        if due < known.due {
            known.due = due;
            known.arrival = arrival;
        }
    }

    /// Orders a delayed key among the ready ones when its time has come.
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
