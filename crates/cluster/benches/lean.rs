//! What a cluster in process costs: one row for each figure of the table in ARCHITECTURE.md, "What a cluster costs".
//!
//! `cargo bench -p evenkeel-cluster --bench lean` runs all rows, each in a process of its own, so that its memory is its
//! own. It prints processor time and its ratio to the goal, and instructions for the small rows if `valgrind` is
//! installed. `-- ROW` runs one row, `-- ROW TIMES` repeats it.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::{Builder, Cluster};
use evenkeel_runtime::{Action, Controller, Ctx, Result, Source};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

/// A row of the table.
struct Row {
    name: &'static str,
    what: &'static str,
    /// How often a run repeats it, after one run that is not measured.
    times: u32,
    goal_ms: f64,
    goal_mb: Option<f64>,
    /// Whether the row is short enough to count its instructions.
    counts: bool,
}

const fn small(name: &'static str, what: &'static str, goal_ms: f64) -> Row {
    Row { name, what, times: 50, goal_ms, goal_mb: None, counts: true }
}

const ROWS: [Row; 8] = [
    small("empty", "an empty cluster, started and at rest", 1.5),
    small("small", "a test with a custom resource and two Secrets", 3.0),
    small("stateful", "a StatefulSet of three, storage, scale and delete", 12.0),
    Row {
        name: "definitions",
        what: "119 definitions",
        times: 1,
        goal_ms: 1000.0,
        goal_mb: Some(120.0),
        counts: false,
    },
    Row {
        name: "pods-100",
        what: "100 pods of one ReplicaSet",
        times: 1,
        goal_ms: 60.0,
        goal_mb: None,
        counts: false,
    },
    Row {
        name: "pods-1000",
        what: "1,000 pods of one ReplicaSet",
        times: 1,
        goal_ms: 600.0,
        goal_mb: None,
        counts: false,
    },
    Row {
        name: "pods-10000",
        what: "10,000 pods of one ReplicaSet",
        times: 1,
        goal_ms: 6000.0,
        goal_mb: None,
        counts: false,
    },
    Row {
        name: "pods",
        what: "10,000 pods of ten Deployments",
        times: 1,
        goal_ms: 6000.0,
        goal_mb: Some(300.0),
        counts: false,
    },
];

/// The number of definitions in the row of that name.
const DEFINITIONS: usize = 119;

/// The length of a tick in `/proc`, which is the same on all architectures.
const MS_PER_TICK: u64 = 10;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|it| !it.starts_with("--")).collect();
    match arguments.as_slice() {
        [] => ROWS.iter().for_each(run_apart),
        [name] => run_apart(row(name)),
        [name, times, ..] => print!("{}", measure(row(name), times.parse().expect("a number of times"))),
    }
}

fn row(name: &str) -> &'static Row {
    ROWS.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no row is called {name}"))
}

/// Measures a row in a process of its own, and prints its line.
fn run_apart(row: &Row) {
    let exe = std::env::current_exe().expect("a benchmark knows its binary");
    let output =
        Command::new(exe).args([row.name, &row.times.to_string()]).output().expect("the binary runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let Some((ms, mb)) = text.trim().split_once(' ') else {
        return println!("{}: skipped: {}", row.what, String::from_utf8_lossy(&output.stderr).trim());
    };
    let (ms, mb): (f64, f64) = (ms.parse().expect("a number"), mb.parse().expect("a number"));
    print!(
        "{}: {ms:.2} ms of processor time, {:.2} times the goal of {} ms",
        row.what,
        ms / row.goal_ms,
        row.goal_ms
    );
    print!("; {mb:.0} MB at most");
    if let Some(goal) = row.goal_mb {
        print!(", {:.2} times the goal of {goal} MB", mb / goal);
    }
    match instructions(row).filter(|_| row.counts) {
        Some(count) => println!("; {:.2} million instructions", count / 1e6),
        None => println!(),
    }
}

/// The instructions of one run under callgrind: a third of the difference between one run and four, of which one is not
/// measured.
fn instructions(row: &Row) -> Option<f64> {
    if !row.counts {
        return None;
    }
    let count = |times: &str| -> Option<f64> {
        let exe = std::env::current_exe().ok()?;
        let mut valgrind = Command::new("valgrind");
        valgrind
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(exe)
            .args([row.name, times]);
        let output = valgrind.output().ok()?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        text.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok())
    };
    Some((count("3")? - count("1")?) / 3.0)
}

/// Milliseconds of processor time of one run, and the most memory that the process used in MB.
fn measure(row: &Row, times: u32) -> String {
    if times > 1 {
        run(row);
    }
    let before = processor_time(row);
    (0..times).for_each(|_| run(row));
    let each = (processor_time(row) - before) / times;
    format!("{} {}\n", each.as_secs_f64() * 1e3, peak_memory_mb())
}

fn run(row: &Row) {
    match row.name {
        "empty" => alone(|cluster| async move { cluster.settled().await }),
        "small" => alone(small_test),
        "stateful" => alone(stateful_test),
        "definitions" => alone(definitions),
        "pods" => in_real_time(10, 1000),
        name => in_real_time(1, name.trim_start_matches("pods-").parse().expect("a number of pods")),
    }
}

/// Runs a test on a cluster of its own in virtual time, as `#[evenkeel::test]` does.
fn alone<F: Future<Output = ()>>(test: impl FnOnce(Cluster) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let cluster = Cluster::start().await.expect("a cluster in memory starts");
        test(cluster).await;
    });
}

fn widgets() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"))
}

fn definition(name: &str, plural: &str) -> CustomResourceDefinition {
    object(json!({
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": name, "plural": plural, "singular": name.to_lowercase()},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"user": {"type": "string"}}},
                    "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}}}}}}],
        },
    }))
}

async fn reconcile(widget: Arc<DynamicObject>, ctx: Ctx) -> Result<Action> {
    for part in ["user", "password"] {
        let name = format!("{}-{part}", widget.metadata.name.as_deref().unwrap_or_default());
        ctx.apply(object::<Secret>(json!({"metadata": {"name": name}, "stringData": {part: "x"}}))).await?;
    }
    ctx.objects::<DynamicObject>(widgets()).status(&widget, json!({"ready": true})).await?;
    Ok(Action::await_change())
}

async fn small_test(cluster: Cluster) {
    cluster.apply(definition("Widget", "widgets")).await.expect("the definition is applied");
    let operator = || Controller::new_with("widgets", Source::of(widgets()), reconcile).owns::<Secret>();
    cluster.run(operator);
    let widgets = kube::Api::<DynamicObject>::namespaced_with(cluster.client(), "default", &widgets());
    let mut widget = DynamicObject::new("one", &self::widgets());
    widget.data = json!({"spec": {"user": "me"}});
    widgets.create(&Default::default(), &widget).await.expect("the widget is created");
    cluster.settled().await;
    assert_eq!(cluster.list::<Secret>().await.expect("secrets are listed").len(), 2);
}

async fn stateful_test(cluster: Cluster) {
    cluster
        .apply(object::<StatefulSet>(json!({
            "metadata": {"name": "db"},
            "spec": {
                "replicas": 3, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
                "template": template("db"),
                "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
                    "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}],
            },
        })))
        .await
        .expect("the set is applied");
    cluster.settled().await;
    assert_eq!(cluster.list::<Pod>().await.expect("pods are listed").len(), 3);
    cluster.patch::<StatefulSet>("db", json!({"spec": {"replicas": 1}})).await.expect("the set is scaled");
    cluster.settled().await;
    assert_eq!(cluster.list::<Pod>().await.expect("pods are listed").len(), 1);
    cluster.delete::<StatefulSet>("db").await.expect("the set is deleted");
    cluster.settled().await;
    assert_eq!(cluster.list::<Pod>().await.expect("pods are listed").len(), 0);
}

fn template(app: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}})
}

/// Loads the definitions in the folder `EVENKEEL_CRDS`, repeated in other groups until there are enough.
async fn definitions(cluster: Cluster) {
    let folder =
        std::env::var("EVENKEEL_CRDS").expect("EVENKEEL_CRDS names a folder with definitions as JSON");
    let files = std::fs::read_dir(folder).expect("the folder is readable");
    let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|it| it == "json"));
    paths.sort();
    for at in 0..DEFINITIONS {
        let text = std::fs::read_to_string(&paths[at % paths.len()]).expect("the file is readable");
        let mut tree: Value = serde_json::from_str(&text).expect("the file is JSON");
        if at >= paths.len() {
            let group = format!("again.{}", tree["spec"]["group"].as_str().unwrap_or_default());
            tree["metadata"]["name"] =
                format!("{}.{group}", tree["spec"]["names"]["plural"].as_str().unwrap_or_default()).into();
            tree["spec"]["group"] = group.into();
        }
        let request = http::Request::post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
            .body(serde_json::to_vec(&tree).expect("a tree is JSON"))
            .expect("a request");
        cluster.client().request_text(request).await.expect("the definition is created");
    }
    cluster.settled().await;
}

/// Brings pods to Ready on a hundred nodes, as `evenkeel up` does: in real time, with nothing recorded.
fn in_real_time(deployments: u32, pods: u32) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let builder: Builder = Cluster::builder().nodes(100).records(false);
        let cluster = builder.start().await.expect("a cluster in memory starts");
        for at in 0..deployments {
            let name = format!("web-{at}");
            cluster.apply(object::<Deployment>(json!({
                "metadata": {"name": name},
                "spec": {"replicas": pods, "selector": {"matchLabels": {"app": name}}, "template": template(&name)},
            }))).await.expect("the deployment is applied");
        }
        while !all_ready(&cluster, pods).await {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
}

async fn all_ready(cluster: &Cluster, pods: u32) -> bool {
    let all = cluster.list::<Deployment>().await.expect("deployments are listed");
    all.iter().all(|one| one.status.as_ref().and_then(|it| it.ready_replicas) == i32::try_from(pods).ok())
}

fn object<K: serde::de::DeserializeOwned>(tree: Value) -> K {
    serde_json::from_value(tree).expect("the tree has the fields of its kind")
}

/// The processor time of this process so far: in nanoseconds for rows that run in one thread, else in ticks.
fn processor_time(row: &Row) -> Duration {
    let main = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    if row.counts
        && let Some(nanos) = main.split(' ').next().and_then(|it| it.parse().ok())
    {
        return Duration::from_nanos(nanos);
    }
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The fields after the name in parentheses: user and system time are the twelfth and thirteenth of them.
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ').skip(11).take(2);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * MS_PER_TICK)
}

fn peak_memory_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: f64 = peak.and_then(|it| it.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default();
    kib / 1024.0
}
