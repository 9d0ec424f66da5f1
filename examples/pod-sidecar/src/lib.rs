//! The reconcile loop by hand: each Pod with a certain label gets exactly one companion, which is a Pod, too.
//!
//! [`by_hand`] shows what the runtime's `Controller` does: a shared informer, a wait for its first list, a rate-limited
//! queue, workers. Read it to see how the other examples work, or use it as a start for a loop that `Controller` does
//! not offer.

pub mod by_hand;
pub mod companion;

use evenkeel::Manager;
use evenkeel::cli::Operator;

/// The name of the operator.
pub const NAME: &str = "pod-sidecar";

/// A sample Pod.
pub const SAMPLE: &str = include_str!("../samples/web.yaml");

/// The operator with its command line.
pub fn operator() -> Operator {
    Operator::new(NAME, add_to)
        .version(env!("CARGO_PKG_VERSION"))
        .about("Gives each labelled Pod a companion.")
        .samples(SAMPLE)
        .verbs(include_str!("../verbs.txt"))
}

/// Adds the loop to a manager, which provides signals, leader election and informers, but no part of the loop itself.
pub fn add_to(manager: Manager) -> Manager {
    let (client, informers) = (manager.client().clone(), manager.informers().clone());
    manager.runnable(NAME, move |stop| by_hand::run(client, informers, stop.cancelled_owned()))
}
