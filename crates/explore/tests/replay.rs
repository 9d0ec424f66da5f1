//! A run is a function of the scenario, the seed and the plan, and a token plays it again.

use std::process::Command;
use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_explore::{Budget, Oracle, explore};
use evenkeel_runtime::{Action, Controller, Ctx, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

/// The environment variable that makes a child process print what it found.
const CHILD: &str = "EVENKEEL_TEST_PRINT_FINDING";

fn secret(name: String) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some(name);
    secret
}

/// Makes two Secrets, and none if the first exists.
async fn half_done(map: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
    let name = map.metadata.name.clone().unwrap_or_default();
    if name == "kube-root-ca.crt" || ctx.get::<Secret>(&name)?.is_some() {
        return Ok(Action::await_change());
    }
    ctx.create(secret(name.clone())).await?;
    ctx.create(secret(format!("{name}-2"))).await?;
    Ok(Action::await_change())
}

async fn a_life(cluster: Cluster) -> kube::Result<()> {
    cluster.run(|| Controller::new("half", half_done).owns::<Secret>());
    let mut map = ConfigMap::default();
    map.metadata.name = Some("a".into());
    cluster.apply(map).await?;
    cluster.settled().await;
    Ok(())
}

/// What is found, with the whole timeline of the run.
fn finding() -> String {
    let report = explore("a_life", a_life).budget(Budget::Full).run();
    let finding = report.findings.first().expect("the second Secret may be missing");
    assert_eq!(finding.oracle, Oracle::SameEnd);
    format!("{}\n{}\n{}\n", finding.token(), finding.what, finding.timeline.join("\n"))
}

#[test]
fn print_the_finding() {
    if std::env::var_os(CHILD).is_some() {
        println!("BEGIN\n{}END", finding());
    }
}

/// What a child process prints between its marks, with this plan or without one.
fn in_a_child(plan: Option<&str>) -> String {
    let mut child = Command::new(std::env::current_exe().expect("a test knows its binary"));
    child.args(["--exact", "print_the_finding", "--nocapture"]).env(CHILD, "1").env_remove("EVENKEEL_PLAN");
    plan.map(|plan| child.env("EVENKEEL_PLAN", plan));
    let output = child.output().expect("the test binary runs");
    let output = String::from_utf8(output.stdout).expect("a finding is text");
    let (_, output) = output.split_once("BEGIN\n").expect("the child prints its finding");
    output.split_once("END").expect("the child ends its finding").0.to_owned()
}

#[test]
fn a_token_plays_the_same_run_byte_for_byte() {
    let here = finding();
    assert_eq!(here, finding());
    assert_eq!(here, in_a_child(None));
    let token = here.lines().next().expect("the first line is the token");
    assert_eq!(here, in_a_child(Some(token)));
}

#[test]
fn an_accepted_finding_is_reported_with_its_reason() {
    let accepted =
        explore("a_life", a_life).budget(Budget::Full).accept("same-end", "it is only a test").run();
    assert!(accepted.is_clean(), "{accepted}");
    assert!(
        accepted.to_string().contains("suppressed: same-end:secrets/a-2: it is only a test"),
        "{accepted}"
    );
}

#[test]
fn an_explanation_says_what_happened_and_how_to_play_it_again() {
    let report = explore("a_life", a_life).budget(Budget::Full).run().to_string();
    let told = [
        "secrets/a-2 is missing",
        "half crashed before the answer to its request 1 (create secrets/a), and started again at once.",
        "EVENKEEL_PLAN=3.0.crash:half:1:unanswered:now cargo test a_life",
    ];
    for text in told {
        assert!(report.contains(text), "{text}: {report}");
    }
}
