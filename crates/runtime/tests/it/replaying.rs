//! The same seed gives the same run.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_runtime::{Action, Controller, Ctx, Error};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt;

use crate::{Notes, map, quiet};

/// Runs random load on a few workers. Returns all reconciles in order, with their ids, causes and times.
async fn run(seed: u64) -> Vec<String> {
    let cluster = quiet(seed).await;
    let notes = Notes::default();
    let start = tokio::time::Instant::now();
    cluster.run({
        let notes = notes.clone();
        move || {
            Controller::new("random", move |map: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
                let at = start.elapsed().as_millis();
                ctx.state().push(format!("{at} {} {} {}", ctx.request(), ctx.reconcile_id(), ctx.causes()));
                tokio::time::sleep(Duration::from_millis(ctx.env().random_below(20))).await;
                let mut secret = Secret::default();
                secret.metadata.name = Some(map.name_any());
                ctx.apply(secret).await?;
                match ctx.env().random_below(3) {
                    0 => Err(Error::message("by chance")),
                    _ => Ok(Action::await_change()),
                }
            })
            .owns::<Secret>()
            .max_concurrent(8)
            .state(notes.clone())
        }
    });
    for at in 0..60 {
        let name = format!("m{}", cluster.env().random_below(20));
        cluster.apply(map(&name, at)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(cluster.env().random_below(10))).await;
    }
    cluster.settled().await;
    notes.take()
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "a seed decides nothing elsewhere")]
async fn a_seed_replays_in_one_process_and_another_seed_differs() {
    let first = run(42).await;
    assert!(first.len() > 60);
    assert_eq!(first, run(42).await);
    assert_ne!(first, run(43).await);
}

const CHILD: &str = "EVENKEEL_RUNTIME_REPLAY_CHILD";

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "a seed decides nothing elsewhere")]
async fn a_seed_replays_in_two_processes() {
    let here = run(42).await.join("\n");
    if std::env::var_os(CHILD).is_some() {
        println!("BEGIN\n{here}\nEND");
        return;
    }
    let name = "replaying::a_seed_replays_in_two_processes";
    let child = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout).into_owned();
    let there = output.split("BEGIN\n").nth(1).and_then(|rest| rest.split("\nEND").next());
    assert_eq!(there, Some(here.as_str()));
}
