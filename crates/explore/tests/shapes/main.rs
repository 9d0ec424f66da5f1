//! Operators of many shapes, right ones and wrong ones: exploration gets a scenario and no hint, finds what is wrong, and
//! has nothing to say about what is right. Each pair stands for a class of false alarms, or of bugs that were missed.
//!
//! `EVENKEEL_EXPLORE=full` lets the right ones pass the full exploration.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test, as it should")]

mod adopted;
mod clocked;
#[path = "../bugs/ensemble.rs"]
#[allow(dead_code, reason = "the operators of the bugs use more of it")]
mod ensemble;
mod guarded;
mod hooks;
mod namespaces;
mod outside;
mod plain;
mod records;
mod shared;
mod statuses;

use std::collections::BTreeMap;

use evenkeel_cluster::Cluster;
use evenkeel_explore::{Budget, Oracle, explore};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

/// How many plans a right operator is tried with, unless `EVENKEEL_EXPLORE` says otherwise.
const SHORT: Budget = Budget::Plans(20);

/// Explores an operator that is wrong.
#[track_caller]
fn finds<F>(name: &str, oracles: &[Oracle], scenario: impl Fn(Cluster) -> F + Send + Sync + 'static)
where
    F: Future<Output = kube::Result<()>> + 'static,
{
    let report = explore(name, scenario).budget(Budget::Full).run();
    println!("{report}");
    let finding = report.findings.first().unwrap_or_else(|| panic!("{name}: the bug was not found"));
    assert!((1..=2).contains(&finding.plan.strikes.len()), "{name}: {:?}", finding.plan);
    assert!(oracles.contains(&finding.oracle), "{name}: {} ({})", finding.what, finding.token());
}

/// Explores an operator that is right.
#[track_caller]
fn passes<F>(name: &str, scenario: impl Fn(Cluster) -> F + Send + Sync + 'static)
where
    F: Future<Output = kube::Result<()>> + 'static,
{
    let is_asked = std::env::var_os("EVENKEEL_EXPLORE").is_some();
    let budget = if is_asked { Budget::from_environment() } else { SHORT };
    let report = explore(name, scenario).budget(budget).run();
    println!("{report}");
    assert!(report.is_clean(), "{name}: a false alarm: {report}");
}

fn map(name: &str, value: &str) -> ConfigMap {
    let data = BTreeMap::from([("value".to_owned(), value.to_owned())]);
    let mut map = ConfigMap { data: Some(data), ..ConfigMap::default() };
    map.metadata.name = Some(name.to_owned());
    map
}

fn secret(name: &str, value: &str) -> Secret {
    let data = BTreeMap::from([("value".to_owned(), ByteString(value.as_bytes().to_vec()))]);
    let mut secret = Secret { data: Some(data), ..Secret::default() };
    secret.metadata.name = Some(name.to_owned());
    secret
}
