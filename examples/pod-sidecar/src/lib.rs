//! The loop by hand: each Pod that is labelled for it has exactly one companion, a Pod of its own.
//!
//! [`by_hand`] is what the runtime's `Controller` does, written out: a shared informer, a wait for its first list, a
//! rate-limited queue, workers. Read it to know what happens under the other examples; write it when you need a loop
//! that `Controller` does not offer.

pub mod by_hand;
pub mod companion;

use evenkeel::Manager;
use evenkeel::cli::Operator;

/// The name of the operator.
pub const NAME: &str = "pod-sidecar";

/// A pod to try it with.
pub const SAMPLE: &str = include_str!("../samples/web.yaml");

/// The operator with its command line.
pub fn operator() -> Operator {
    Operator::new(NAME, add_to)
        .version(env!("CARGO_PKG_VERSION"))
        .about("Gives each labelled Pod a companion.")
        .samples(SAMPLE)
        .verbs(include_str!("../verbs.txt"))
}

/// Has a manager run the loop: it brings signals, leader election and the informers, and nothing of the loop.
pub fn add_to(manager: Manager) -> Manager {
    let (client, informers) = (manager.client().clone(), manager.informers().clone());
    manager.runnable(NAME, move |stop| by_hand::run(client, informers, stop.cancelled_owned()))
}
