//! Random operations through the whole API server, compared with a simple model.
//!
//! `EVENKEEL_MODEL_OPERATIONS` sets the number of operations, `EVENKEEL_SEED` the seed; `just model` runs a
//! million. A failure reports the seed and a short sequence of operations that still shows the difference.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails where it stands")]

mod model;
mod operation;
mod random;
mod shape;
mod shrink;
mod world;

use model::Fault;
use operation::Operation;
use random::Random;
use shrink::{Found, Setting};

/// The number of operations that CI runs, which takes a few seconds.
const OPERATIONS: usize = 18_000;
/// The share of operations (one in this many) that run with a store on disk, where each write waits for a
/// sync.
const ON_DISK: usize = 9;
/// The seed of CI.
const SEED: u64 = 14;
/// The number of operations after which every deliberate fault must have been detected.
const FAULT_OPERATIONS: usize = 4_000;

fn setting(name: &str, default: u64) -> u64 {
    evenkeel_env::setting(name).unwrap_or_else(|error| panic!("{error}")).unwrap_or(default)
}

/// Generates the operations of a seed lazily, because a million of them would not fit into memory.
fn operations(seed: u64, count: usize) -> impl Iterator<Item = Operation> {
    let mut random = Random(seed);
    (0..count).map(move |_| Operation::random(&mut random))
}

fn count() -> usize {
    setting("EVENKEEL_MODEL_OPERATIONS", OPERATIONS as u64) as usize
}

fn check(setting: &Setting, seed: u64, count: usize) {
    if let Some(Found { index, why }) = setting.run(operations(seed, count)) {
        let (few, why) = setting.shrink(operations(seed, index + 1).collect(), why);
        panic!(
            "EVENKEEL_SEED={seed}: operation {index} differs. These {} do, too:\n{few:#?}\n{why}",
            few.len()
        );
    }
}

#[test]
fn a_server_does_what_the_model_says() {
    check(&Setting::default(), setting("EVENKEEL_SEED", SEED), count());
}

#[test]
fn a_server_with_a_data_directory_does_what_the_model_says_after_every_restart() {
    let seed = setting("EVENKEEL_SEED", SEED).wrapping_add(1);
    check(&Setting { lasts: true, ..Setting::default() }, seed, count() / ON_DISK);
}

#[test]
fn a_rule_that_is_wrong_is_seen_and_told_in_few_operations() {
    for fault in [
        Fault::EveryUpdateWrites,
        Fault::NoConflicts,
        Fault::LeavingIsModified,
        Fault::PagesAreNew,
        Fault::NothingIsHeld,
    ] {
        let setting = Setting { fault: Some(fault), ..Setting::default() };
        let found = setting.run(operations(SEED, FAULT_OPERATIONS));
        let Found { index, why } = found.unwrap_or_else(|| panic!("{fault:?} is not seen"));
        let (few, _) = setting.shrink(operations(SEED, index + 1).collect(), why);
        assert!(few.len() <= 8, "{fault:?} needs {} operations: {few:#?}", few.len());
    }
}

#[test]
fn an_answer_that_is_wrong_is_seen() {
    let faults: [fn(&mut serde_json::Value); 3] = [
        |body| body["metadata"]["labels"] = serde_json::Value::Null,
        |body| drop(body["items"].as_array_mut().and_then(Vec::pop)),
        |body| {
            let metadata = body["metadata"].as_object_mut();
            metadata.and_then(|it| it.remove("managedFields"));
        },
    ];
    for tamper in faults {
        let setting = Setting { tamper: Some(tamper), ..Setting::default() };
        assert!(setting.run(operations(SEED, FAULT_OPERATIONS)).is_some());
    }
}
