//! No false alarm and few misses: random correct operators pass, and the same with one seeded mistake are found.
//!
//! `EVENKEEL_EXPLORE_OPERATORS=100` (`just operators`) tries more operators than the few of a usual test run.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test, as it should")]

#[path = "../bugs/ensemble.rs"]
#[allow(dead_code, reason = "the operators of the bugs use more of it")]
mod ensemble;

mod children;
mod operator;
mod recipe;

use evenkeel_explore::{Budget, explore};

use operator::life;
use recipe::{Mistake, Recipe};

/// How many correct operators are tried unless the environment says otherwise: some seconds of a development build.
const OPERATORS: u64 = 4;

fn operators() -> Option<u64> {
    let asked = std::env::var("EVENKEEL_EXPLORE_OPERATORS").ok();
    asked.map(|asked| asked.parse().expect("a number of operators"))
}

/// The seeds of `EVENKEEL_EXPLORE_FIRST` and those after it.
fn seeds(most: u64) -> std::ops::Range<u64> {
    let first = std::env::var("EVENKEEL_EXPLORE_FIRST").ok();
    let first = first.map_or(0, |first| first.parse().expect("the number of an operator"));
    first..first + most
}

#[test]
fn random_correct_operators_pass() {
    for seed in seeds(operators().unwrap_or(OPERATORS)) {
        let recipe = Recipe::random(seed);
        let shown = format!("{recipe:?}");
        let report = explore("random", move |cluster| life(cluster, recipe.clone())).run();
        assert!(report.is_clean(), "a false alarm about operator {seed}, {shown}: {report}");
        println!("operator {seed}: {} runs in {:.1} s: {shown}", report.runs(), report.took.as_secs_f64());
    }
}

#[test]
fn seeded_mistakes_are_found() {
    let (mut missed, mut tried) = (Vec::new(), 0);
    // Each mistake is seeded into an operator of its own at least.
    let rounds = operators().unwrap_or_default().div_ceil(Mistake::ALL.len() as u64).max(1);
    for (at, mistake) in Mistake::ALL.into_iter().enumerate() {
        for seed in seeds(rounds).map(|seed| seed * Mistake::ALL.len() as u64 + at as u64) {
            let recipe = Recipe::random(seed).with(mistake);
            let shown = format!("{recipe:?}");
            let explored = explore("random", move |cluster| life(cluster, recipe.clone()));
            let report = explored.budget(Budget::Full).run();
            tried += 1;
            match report.findings.first() {
                Some(finding) => println!(
                    "{mistake:?} {seed}: {} after {} runs in {:.1} s, {}",
                    finding.name(),
                    report.runs(),
                    report.took.as_secs_f64(),
                    finding.token()
                ),
                None => missed.push((seed, shown)),
            }
        }
    }
    println!("found {} of {tried} seeded mistakes", tried - missed.len());
    // Some mistakes are beyond two faults in some operators: at least nine of ten are found.
    assert!(missed.len() * 10 <= tried, "these mistakes were not found: {missed:#?}");
}
