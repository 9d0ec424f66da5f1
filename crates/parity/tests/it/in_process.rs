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

#[test]
fn apply2() {
    check("apply2");
}

#[test]
fn crd2() {
    check("crd2");
}

#[test]
fn lifecycle2() {
    check("lifecycle2");
}

#[test]
fn lists2() {
    check("lists2");
}

#[test]
fn policy2() {
    check("policy2");
}

#[test]
fn quota2() {
    check("quota2");
}

#[test]
fn rbac2() {
    check("rbac2");
}

#[test]
fn subresources2() {
    check("subresources2");
}

#[test]
fn validation2() {
    check("validation2");
}

#[test]
fn watch2() {
    check("watch2");
}
