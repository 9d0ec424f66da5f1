//! How many runs exploration plays in a second on one core, and how long a year of an operator is that looks once an hour.
//!
//! `cargo bench -p evenkeel-explore --bench runs` measures the release profile; with `--profile dev` it measures what
//! `cargo test` uses. Arguments name what is measured, and `EVENKEEL_EXPLORE` says how many plans are played. The goals in release are 1,000 runs for an operator with a Deployment, 150 for one with a
//! StatefulSet, and five seconds for the year.

#![expect(clippy::unwrap_used, reason = "a failed unwrap ends the benchmark, as it should")]

#[path = "../tests/bugs/ensemble.rs"]
#[allow(dead_code, reason = "the operators of the tests use more of it")]
mod ensemble;

use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use ensemble::{Ensemble, change, create, delete, prepare, stateful_set};
use evenkeel_cluster::{Cluster, testing};
use evenkeel_explore::{Budget, explore};
use evenkeel_runtime::{Action, Controller, Ctx, Result};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use kube::ResourceExt as _;
use serde_json::json;

const HOUR: Duration = Duration::from_secs(3600);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

async fn deploys(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    let labels = json!({"app": ensemble.name_any()});
    let containers = json!([{"name": "main", "image": format!("zoo:{}", ensemble.spec.config)}]);
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
    let spec = json!({"replicas": ensemble.spec.replicas, "selector": {"matchLabels": labels}, "template": template});
    let deployment: Deployment =
        serde_json::from_value(json!({"metadata": {"name": ensemble.name_any()}, "spec": spec}))?;
    let ready = ctx.apply(deployment).await?.status.and_then(|status| status.ready_replicas);
    ctx.status(&ensemble, json!({"phase": "Running", "replicas": ready.unwrap_or_default()})).await?;
    Ok(Action::await_change())
}

async fn serves(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    let ready = ctx.apply(stateful_set(&ensemble)).await?.status.and_then(|status| status.ready_replicas);
    ctx.status(&ensemble, json!({"phase": "Running", "replicas": ready.unwrap_or_default()})).await?;
    Ok(Action::await_change())
}

async fn looks(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    ctx.status(&ensemble, json!({"phase": "Running"})).await?;
    Ok(Action::requeue(HOUR))
}

async fn life(cluster: Cluster, controller: fn() -> Controller<Ensemble>) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run(controller);
    create(&cluster, 2).await?;
    change(&cluster, json!({"config": "two"})).await?;
    delete(&cluster).await
}

/// Explores, and prints how many runs a core plays in a second.
fn measure(name: &str, controller: fn() -> Controller<Ensemble>) {
    let is_asked = std::env::var_os("EVENKEEL_EXPLORE").is_some();
    let budget = if is_asked { Budget::from_environment() } else { Budget::Full };
    let report = explore(name, move |cluster| life(cluster, controller)).budget(budget).run();
    assert!(report.is_clean(), "{report}");
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let seconds = report.took.as_secs_f64() * cores as f64;
    println!("{name}: {} runs, {:.0} a second and core", report.runs(), report.runs() as f64 / seconds);
}

fn year() {
    let before = now();
    let options = testing::options();
    testing::run(options, |cluster| async move {
        prepare(&cluster).await?;
        cluster.run(|| Controller::new("hourly", looks));
        create(&cluster, 1).await?;
        cluster.advance(YEAR).await;
        Ok::<_, kube::Error>(())
    })
    .unwrap();
    println!("a year of an operator that looks once an hour: {:.1?}", before.elapsed());
}

/// Measures what the arguments name, or everything.
fn main() {
    let named: Vec<String> = std::env::args().skip(1).filter(|it| !it.starts_with("--")).collect();
    let is_named = |name: &str| named.is_empty() || named.iter().any(|it| it == name);
    if is_named("deployment") {
        measure("deployment", || Controller::new("deploys", deploys).owns::<Deployment>());
    }
    if is_named("stateful-set") {
        measure("stateful-set", || Controller::new("serves", serves).owns::<StatefulSet>());
    }
    if is_named("year") {
        year();
    }
}

#[expect(clippy::disallowed_methods, reason = "it is real time that is measured")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}
