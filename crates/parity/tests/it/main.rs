//! Replays every case against a cluster in process, and the core suites over HTTPS. Everything but the known gaps must
//! be equal.

mod in_process;
mod over_https;

use std::path::Path;

use evenkeel_parity::{Case, Gaps, Suite, Wording};
use serde_json::Value;

/// How many lines a failed test prints.
const SHOWN_LINES: usize = 40;

fn suite(name: &str) -> Suite {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases").join(format!("{name}.yaml"));
    Suite::read(&file).expect("the suite comes with the crate")
}

fn gaps(name: &str) -> Gaps {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("gaps").join(format!("{name}.yaml"));
    Gaps::read(&file).expect("the gaps come with the crate")
}

/// Returns what is wrong with the answers to a case: differences that no gap names, and gaps that have closed.
fn complaints(suite: &Suite, gaps: &Gaps, case: &Case, got: anyhow::Result<Value>) -> Vec<String> {
    let want = &suite.golden[&case.name];
    let (got, failure) = match got {
        Ok(got) => (got, None),
        Err(error) => (Value::Null, Some(format!("{}: {error:#}", case.name))),
    };
    let verdict = gaps.judge(&case.name, want, &got, Wording::Strict);
    let differences = verdict.differences.iter().map(|difference| format!("{}: {difference}", case.name));
    let closed = verdict.closed.iter().map(|gap| format!("closed, take it out of the gaps: {gap}"));
    failure.into_iter().filter(|_| !verdict.differences.is_empty()).chain(differences).chain(closed).collect()
}

fn expect_none(name: &str, complaints: &[String]) {
    let shown = complaints.iter().take(SHOWN_LINES).map(|line| format!("  {line}\n")).collect::<String>();
    assert!(complaints.is_empty(), "{name}: {} complaints\n{shown}", complaints.len());
}
