//! An operator within the RBAC rules of its manifests, and how wrong rules and wrong operators are detected.

use std::sync::Arc;

use evenkeel_cluster::{Cluster, testing};
use evenkeel_runtime::{Action, Controller, Ctx, Manifests, Result, Source};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt as _;
use kube::api::Patch;
use serde_json::json;

use crate::mirror::{self, NAME, config};

/// The verbs that the operator of these tests uses, apart from watching.
const VERBS: &str = "configmaps: patch\nsecrets: create patch\n";

fn with(verbs: &str) -> impl Fn() -> Manifests {
    move || {
        let verbs = verbs.parse().expect("they can be read");
        Manifests::new(NAME, "operators").controller(&mirror::controller()).verbs(verbs)
    }
}

async fn made(cluster: Cluster) -> Vec<String> {
    cluster.apply(config("a", "one")).await.expect("it is stored");
    cluster.settled().await;
    cluster
        .list::<Secret>()
        .await
        .expect("they are read")
        .iter()
        .filter_map(|it| it.metadata.name.clone())
        .collect()
}

fn start(account: &Cluster) {
    account.run(mirror::controller);
}

#[test]
fn rules_that_fit_are_neither_too_few_nor_too_many() {
    let verbs = testing::as_service_account(with(VERBS), start, made).to_string();
    assert!(verbs.contains("secrets: create patch"), "{verbs}");
    let spare = testing::unused_rules(with(VERBS), start, made);
    assert!(!spare.iter().any(|it| it.ends_with(": patch") || it.ends_with(": create")), "{spare:?}");
}

#[test]
#[should_panic(expected = "its rules do not allow it")]
fn a_rule_that_is_missing_is_noticed() {
    let few = with("secrets: create patch\n");
    testing::as_service_account(few, start, |cluster| async move {
        cluster.apply(config("a", "one")).await.expect("it is stored");
        cluster.idle().await;
    });
}

#[test]
#[should_panic(expected = "its rules allow too much")]
fn a_rule_that_is_too_wide_is_noticed() {
    testing::as_service_account(with("configmaps: patch\nsecrets: create patch\nnodes: get\n"), start, made);
}

#[test]
#[should_panic(
    expected = "verbs.txt is not what was found (EVENKEEL_UPDATE=1 writes it)\nkept:\n\nfound:\nother"
)]
fn what_is_not_as_it_was_kept_is_shown() {
    testing::assert_file("tests/verbs.txt", &"other");
}

/// Creates a Secret with a generated name, and only then notes that it has: a crash in between leads to a second
/// Secret.
async fn forgetful(map: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
    if !map.annotations().contains_key("made") {
        let mut secret = Secret::default();
        secret.metadata.generate_name = Some("copy-".into());
        ctx.create(secret).await?;
        ctx.patch(&map, &Patch::Merge(json!({"metadata": {"annotations": {"made": "yes"}}}))).await?;
    }
    Ok(Action::await_change())
}

async fn copies(cluster: Cluster) -> usize {
    made(cluster).await.len()
}

fn start_forgetful(cluster: &Cluster) {
    cluster.run(|| Controller::new_with("forgetful", Source::new().labels("mirror"), forgetful));
}

#[test]
#[should_panic(expected = "forgetful crashed AnswerLost(1) among [1, 2]")]
fn an_operator_that_a_crash_confuses_is_caught_at_the_first_write_where_it_is() {
    testing::crash_everywhere("forgetful", start_forgetful, copies);
}

#[test]
fn a_steady_operator_is_crashed_three_times_at_each_write() {
    assert_eq!(testing::crash_everywhere(NAME, start, made), 6);
}

#[test]
#[should_panic(expected = "idle wrote nothing: there is nowhere to crash it")]
fn an_operator_that_does_not_write_proves_nothing() {
    let idle = || {
        Controller::new("idle", |_: Arc<ConfigMap>, _: Ctx| async {
            Ok::<_, evenkeel_runtime::Error>(Action::await_change())
        })
    };
    testing::crash_everywhere("idle", |cluster| cluster.run(idle), made);
}
