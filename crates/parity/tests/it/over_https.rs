//! The core suites over HTTPS and in real time.

use anyhow::Context as _;
use evenkeel_cluster::Cluster;
use evenkeel_cluster::serve::ServeOptions;
use evenkeel_parity::{Case, Server, replay};
use futures::StreamExt as _;
use kube::config::Kubeconfig;
use serde_json::Value;

use crate::{complaints, expect_none, gaps, suite};

/// How many cases with watches run at once: most of their time they wait for events. Cases without watches run one after
/// the other, so that all steps of a case fall into one second as they did in the recording, where times count seconds.
const WATCHES_AT_ONCE: usize = 16;

#[test]
fn rest() {
    check("rest", 1);
}

#[test]
fn watch() {
    check("watch", WATCHES_AT_ONCE);
}

fn check(name: &str, at_once: usize) {
    let (suite, gaps) = (suite(name), gaps(name));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let all = runtime.block_on(async {
        let cases = futures::stream::iter(&suite.cases);
        let answers = cases.map(|case| async move { (case, answers(case).await) }).buffered(at_once);
        answers.map(|(case, got)| complaints(&suite, &gaps, case, got)).concat().await
    });
    expect_none(name, &all);
}

async fn answers(case: &Case) -> anyhow::Result<Value> {
    let cluster = Cluster::builder().nodes(0).scheduler(false).records(false).start().await?;
    let listening = cluster.serve(ServeOptions::default()).await?;
    let kubeconfig = Kubeconfig::from_yaml(listening.kubeconfig())?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(listening.run(async { drop(stopped.await) }));
    let server = Server::from_config(kubeconfig).await?;
    let got = replay(&server, case, "p4k7qz2").await;
    drop(stop);
    serving.await.context("the server panicked")?;
    got
}
