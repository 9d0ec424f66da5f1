//! Public bugs of real operators, and further ones of the same patterns, each as a small operator in a buggy and a fixed form. Exploration gets one scenario and
//! no hint: it finds each buggy form with a plan of at most two strikes, and each fixed form passes.
//!
//! The numbers are those of the reports of the Sieve project (OSDI '22). The operators are models. Those of rabbitmq 648,
//! 758 and 782, zookeeper 314, nifikop 49 and instaclustr 398 follow the public reports. The reports of casskop 370,
//! instaclustr 400, K8SPXC-896 and zookeeper 410 were not at hand: their models show a bug of the kind that the Sieve project
//! describes, and may differ from the real one in what the operator does. `EVENKEEL_EXPLORE=full` lets the fixed forms pass the full
//! exploration.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test, as it should")]

mod casskop_370;
mod ensemble;
mod further;
mod instaclustr_398;
mod instaclustr_400;
mod nifikop_49;
mod percona_xtradb_896;
mod rabbitmq_648;
mod rabbitmq_758;
mod rabbitmq_782;
mod zookeeper_314;
mod zookeeper_410;

use evenkeel_cluster::Cluster;
use evenkeel_explore::{Budget, Finding, Oracle, explore};

/// Explores the buggy form, and returns what was found.
fn found<F>(name: &str, scenario: impl Fn(Cluster) -> F + Send + Sync + 'static) -> Finding
where
    F: Future<Output = kube::Result<()>> + 'static,
{
    let report = explore(name, scenario).budget(Budget::Full).run();
    println!("{report}");
    let finding = report.findings.into_iter().next();
    let finding = finding.unwrap_or_else(|| panic!("{name}: the bug was not found"));
    assert!((1..=2).contains(&finding.plan.strikes.len()), "{name}: {:?}", finding.plan);
    finding
}

/// Explores the buggy form, and asserts which oracle finds the bug.
#[track_caller]
fn finds<F>(name: &str, oracles: &[Oracle], scenario: impl Fn(Cluster) -> F + Send + Sync + 'static)
where
    F: Future<Output = kube::Result<()>> + 'static,
{
    let finding = found(name, scenario);
    assert!(oracles.contains(&finding.oracle), "{name}: {} ({})", finding.what, finding.token());
}

/// How many plans [`passes_shortly`] plays unless `EVENKEEL_EXPLORE` says otherwise: some of every class.
const SHORT: Budget = Budget::Plans(20);

/// Explores the fixed form, in which nothing may be found: with a few plans, unless `EVENKEEL_EXPLORE` says otherwise.
fn passes_shortly<F>(name: &str, scenario: impl Fn(Cluster) -> F + Send + Sync + 'static)
where
    F: Future<Output = kube::Result<()>> + 'static,
{
    let is_asked = std::env::var_os("EVENKEEL_EXPLORE").is_some();
    let budget = if is_asked { Budget::from_environment() } else { SHORT };
    let report = explore(name, scenario).budget(budget).run();
    println!("{report}");
    assert!(report.is_clean(), "{name}: a false alarm: {report}");
}

/// Explores the fixed form, in which nothing may be found.
fn passes<F>(name: &str, scenario: impl Fn(Cluster) -> F + Send + Sync + 'static)
where
    F: Future<Output = kube::Result<()>> + 'static,
{
    let report = explore(name, scenario).run();
    println!("{report}");
    assert!(report.is_clean(), "{name}: a false alarm: {report}");
}
