//! The same seed gives the same requests with the same bodies, in one process and in two.

use std::process::Command;

use evenkeel_cluster::{Cluster, Exchange};
use k8s_openapi::api::core::v1::Secret;

use crate::mirror::{self, config};

/// The environment variable with the seed whose requests the child process prints.
const CHILD: &str = "EVENKEEL_TEST_PRINT_REQUESTS";

/// Every request of a scenario with some concurrency, one line each.
fn requests(seed: u64) -> String {
    let line = |exchange: &Exchange| {
        format!("{exchange} {}\n", String::from_utf8_lossy(&exchange.body).escape_debug())
    };
    play(seed).iter().map(line).collect()
}

/// The writes of the two operators, without values that depend on the seed: uids, times, generated names.
fn order(seed: u64) -> Vec<String> {
    let exchanges = play(seed);
    let written = exchanges.iter().filter(|exchange| exchange.method != "GET");
    let by_operators = written.filter(|exchange| exchange.path.contains("/secrets"));
    by_operators.map(|exchange| format!("{} {} {}", exchange.by, exchange.method, exchange.path)).collect()
}

fn play(seed: u64) -> Vec<Exchange> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let runtime = runtime.expect("it needs nothing that could be missing");
    runtime.block_on(async {
        let cluster = Cluster::builder().seed(seed).start().await.expect("a cluster in memory starts");
        cluster.run(mirror::controller);
        cluster.run_manager("second", |manager| manager.controller(mirror::controller()));
        let names = ["a", "b", "c", "d"];
        let applied = names.map(|name| cluster.apply(config(name, "one")));
        futures::future::try_join_all(applied).await.expect("they are applied");
        cluster.settled().await;
        cluster.delete::<Secret>("b").await.expect("it exists");
        cluster.settled().await;
        cluster.requests()
    })
}

#[test]
fn one_seed_is_one_run_in_this_process_and_in_another() {
    let here = requests(7);
    assert_eq!(here, requests(7));
    let exe = std::env::current_exe().expect("a test knows its binary");
    let mut child = Command::new(exe);
    child.args(["--exact", "determinism::print_requests", "--nocapture"]).env(CHILD, "7");
    let output = child.output().expect("the test binary runs");
    let output = String::from_utf8(output.stdout).expect("requests are text");
    assert!(output.contains(&here), "another process made other requests:\n{output}\n--- here:\n{here}");
}

#[test]
fn another_seed_is_another_order() {
    let orders: Vec<_> = (1..=8).map(order).collect();
    let sorted = |order: &Vec<String>| {
        let mut order = order.clone();
        order.sort_unstable();
        order.dedup();
        order
    };
    assert!(orders.iter().all(|other| sorted(other) == sorted(&orders[0])), "the same is done: {orders:#?}");
    assert!(orders.iter().any(|other| other != &orders[0]), "in another order: {orders:#?}");
}

/// The part of the other process. Does nothing without the environment variable.
#[test]
fn print_requests() {
    if let Some(seed) = evenkeel_env::setting(CHILD).unwrap() {
        println!("{}", requests(seed));
    }
}
