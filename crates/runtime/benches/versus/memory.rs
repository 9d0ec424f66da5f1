//! The memory that the caches of several controllers on one kind add to a process.

use std::process::Command;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;

use crate::sides::{Seen, Side, run_stripped};
use crate::{Line, cluster, number, runtime};

/// The argument that makes this program measure and print one case.
pub(crate) const CHILD: &str = "memory-of";

pub(crate) fn compare() {
    let pods = pods();
    for (controllers, goal) in [(1, 1.0), (3, 2.0)] {
        let measure = format!("{pods} pods of 4 KiB, {controllers} controllers, MiB");
        Line { measure, goal, more: false }.print(Side::BOTH.map(|side| ask_child(side, controllers)));
    }
}

fn pods() -> usize {
    number("PODS", 50_000)
}

fn ask_child(side: Side, controllers: usize) -> f64 {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(program).args([CHILD, side.name(), &controllers.to_string()]).output();
    let output = output.expect("the child runs");
    String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or(f64::NAN)
}

/// Measures and prints one case.
pub(crate) fn child(side: Side, controllers: usize) {
    println!("{}", runtime().block_on(measure(side, controllers)));
}

async fn measure(side: Side, controllers: usize) -> f64 {
    let pods = pods();
    let cluster = cluster().await;
    let api = &cluster.api::<Pod>();
    let creates = (0..pods).map(|at| async move {
        api.create(&Default::default(), &pod(at)).await.expect("it is created");
    });
    futures::stream::iter(creates).buffer_unordered(16).for_each(|()| async {}).await;
    let before = resident_mib();
    let seen = Seen::default();
    seen.expect(pods * controllers);
    let _running = run_stripped::<Pod>(side, cluster.client(), cluster.env(), controllers, &seen);
    seen.all().await;
    resident_mib() - before
}

/// A pod of about 4 KiB.
fn pod(at: usize) -> Pod {
    let variable = |at: usize| {
        serde_json::json!({
            "name": format!("VARIABLE_{at}"), "value": format!("a value of some length {at:060}"),
        })
    };
    let env: Vec<_> = (0..30).map(variable).collect();
    serde_json::from_value(serde_json::json!({
        "metadata": { "name": format!("pod-{at}"), "labels": { "app": "web", "tier": "front" } },
        "spec": { "containers": [{ "name": "web", "image": "registry.example.com/web:1", "env": env }] },
    }))
    .expect("it is a pod")
}

fn resident_mib() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(f64::NAN);
    pages * 4096.0 / f64::from(1 << 20)
}
