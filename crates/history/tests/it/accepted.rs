//! Histories of a correct server are accepted.

use evenkeel_history::{Answer, check};
use proptest::prelude::*;

use crate::simulate::{self, Load};

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_correct_server_is_believed(seed: u64, steps in 0_usize..1500) {
        let history = simulate::history(seed, steps);
        let summary = check(history.clone());
        prop_assert!(summary.is_ok(), "{:#?}", summary.unwrap_err());
    }
}

/// The simulation produces every kind of answer.
#[test]
fn a_simulated_history_has_some_of_everything() {
    let history = simulate::history(1, 5000);
    let answers = |wanted: fn(&Answer) -> bool| {
        history.operations.iter().filter(|operation| wanted(&operation.answer)).count()
    };
    assert!(answers(|answer| matches!(answer, Answer::Object(_))) > 100);
    assert!(answers(|answer| matches!(answer, Answer::Deleted { .. })) > 50);
    assert!(answers(|answer| *answer == Answer::Exists) > 50);
    assert!(answers(|answer| *answer == Answer::Conflict) > 50);
    assert!(answers(|answer| *answer == Answer::NotFound) > 50);
    assert!(answers(|answer| *answer == Answer::Lost) > 50);
    let summary = check(history.clone()).unwrap();
    assert!(summary.lost > summary.happened && summary.happened > 10, "{summary}");
    assert!(history.listings.len() > 50 && summary.events > 500, "{summary}");
}

/// A run with a thousand kills once hung after its last kill. The check of such a history ends, and quickly.
#[test]
fn the_check_of_a_long_history_ends() {
    let history = simulate::history_under(Load::OF_KILL, 2, 40_000);
    assert!(history.operations.len() > 8_000, "{} requests", history.operations.len());
    let summary = check(history).unwrap();
    assert!(summary.lost > 1_000, "{summary}");
}
