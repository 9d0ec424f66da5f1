//! Every suite against a cluster in this process. Time is virtual, so that waiting costs nothing.

use evenkeel_parity::in_process::answers;

use crate::{complaints, expect_none, gaps, suite};

fn check(name: &str) {
    let (suite, gaps) = (suite(name), gaps(name));
    let all: Vec<String> =
        suite.cases.iter().flat_map(|case| complaints(&suite, &gaps, case, answers(case))).collect();
    expect_none(name, &all);
}

#[test]
fn rest() {
    check("rest");
}

#[test]
fn watch() {
    check("watch");
}

#[test]
fn patch() {
    check("patch");
}

#[test]
fn apply() {
    check("apply");
}

#[test]
fn defaults() {
    check("defaults");
}

#[test]
fn crd() {
    check("crd");
}

#[test]
fn lifecycle() {
    check("lifecycle");
}

#[test]
fn validation() {
    check("validation");
}

#[test]
fn auth() {
    check("auth");
}

#[test]
fn controllers() {
    check("controllers");
}
