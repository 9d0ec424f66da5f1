//! What the flight recorder costs: instructions of a reconcile with the recorder and without it, in one run.
//!
//! `cargo bench -p evenkeel-runtime --bench flight` needs `valgrind`. It runs each row in processes of its own, in virtual
//! time, and prints the instructions of one reconcile, and which part of them the recorder takes. The recorder's rings
//! are full, so that each new reconcile drops an old one. `-- ROW on|off ROUNDS` runs one side of a row, to profile it.

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_cluster::Cluster;
use evenkeel_runtime::{Action, Controller, Ctx, Predicate, Request, Result};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::Patch;
use serde_json::json;

/// How many objects there are: a round reconciles each of them.
const OBJECTS: u64 = 300;

/// The time between two rounds.
const PERIOD: Duration = Duration::from_secs(10);

/// The smallest size of a recorder with one worker, which holds fewer reconciles than one round has.
const BYTES: usize = 64 << 10;

/// The rounds of the two runs whose difference is measured.
const ROUNDS: [u64; 2] = [3, 13];

struct Row {
    name: &'static str,
    what: &'static str,
    /// The largest part of the instructions that the recorder may take, in percent.
    goal: Option<f64>,
}

const ROWS: [Row; 2] = [
    Row { name: "nothing", what: "a reconcile that does nothing", goal: Some(3.0) },
    Row {
        name: "status",
        what: "a reconcile that patches a Deployment's status, with the server's work",
        goal: None,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|it| !it.starts_with("--")).collect();
    if let [row, side, rounds] = arguments.as_slice() {
        run(row, side == "on", rounds.parse().expect("a number of rounds"));
        return ExitCode::SUCCESS;
    }
    let wanted = |row: &&Row| arguments.is_empty() || arguments.iter().any(|it| it == row.name);
    let met: Vec<bool> = ROWS.iter().filter(wanted).map(measure).collect();
    if met.iter().all(|met| *met) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints the line of a row, and returns whether it meets its goal.
fn measure(row: &Row) -> bool {
    let each = |side: &str| -> Option<f64> {
        let [few, many] = ROUNDS.map(|rounds| instructions(row.name, side, rounds));
        Some((many? - few?) / ((ROUNDS[1] - ROUNDS[0]) * OBJECTS) as f64)
    };
    let (Some(on), Some(off)) = (each("on"), each("off")) else {
        println!("{}: skipped, because valgrind is not installed", row.what);
        return true;
    };
    let part = (on - off) / off * 100.0;
    let goal = row.goal.map_or(String::new(), |goal| {
        let missed = if part <= goal { "" } else { ", missed" };
        format!(" (goal {goal} %{missed})")
    });
    println!(
        "{}: {on:.0} instructions, {off:.0} without the recorder, which takes {part:.1} %{goal}",
        row.what
    );
    row.goal.is_none_or(|goal| part <= goal)
}

fn instructions(row: &str, side: &str, rounds: u64) -> Option<f64> {
    let exe = std::env::current_exe().ok()?;
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(exe);
    let output = valgrind.args([row, side, &rounds.to_string()]).output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok())
}

fn run(row: &str, records: bool, rounds: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime starts").block_on(reconcile(row == "status", records, rounds));
}

async fn reconcile(writes: bool, records: bool, rounds: u64) {
    let builder = Cluster::builder().seed(1).controllers(false).records(false);
    let cluster = builder.start().await.expect("the cluster starts");
    for at in 0..OBJECTS {
        let made = cluster.api::<Deployment>().create(&Default::default(), &deployment(at)).await;
        made.expect("it is created");
    }
    let done: Arc<AtomicU64> = Arc::default();
    let counted = done.clone();
    cluster.run_manager("bench", move |manager| {
        let done = counted.clone();
        let controller = Controller::new("bench", move |object: Arc<Deployment>, ctx: Ctx| {
            let done = done.clone();
            async move {
                let number = done.fetch_add(1, Ordering::Relaxed);
                if writes {
                    patch(&ctx, &object, number).await?;
                }
                Result::<_>::Ok(Action::requeue(PERIOD))
            }
        });
        // A write causes no reconcile of its own: only the timer does.
        let controller = controller.filter(Predicate::generation_changed());
        manager.flight_bytes(if records { BYTES } else { 0 }).controller(controller)
    });
    tokio::time::sleep(PERIOD * (rounds as u32 - 1) + PERIOD / 2).await;
    assert_eq!(done.load(Ordering::Relaxed), rounds * OBJECTS, "each round reconciles each object");
}

async fn patch(ctx: &Ctx, object: &Deployment, number: u64) -> Result<()> {
    let status = json!({ "status": { "observedGeneration": 1, "replicas": number % 1000 } });
    ctx.objects::<Deployment>(())
        .patch_subresource("status", &Request::of(object), &Patch::Merge(status))
        .await?;
    Ok(())
}

fn deployment(at: u64) -> Deployment {
    let labels = json!({ "app": "web", "part": "front", "team": "sites" });
    let object = json!({
        "metadata": { "name": format!("web-{at}"), "labels": labels },
        "spec": {
            "replicas": 3,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{
                    "name": "web", "image": "registry.example.com/web:1",
                    "ports": [{ "name": "http", "containerPort": 8080 }],
                    "env": [{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }],
                    "resources": { "requests": { "cpu": "100m", "memory": "64Mi" } },
                }] },
            },
        },
    });
    serde_json::from_value(object).expect("it is a Deployment")
}
