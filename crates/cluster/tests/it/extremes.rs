//! Extreme numbers in every numeric field of the kinds that controllers, the scheduler and nodes read. Whatever the number,
//! nothing panics, and the cluster comes to rest or says what is pending.

#[path = "../../../apiserver/tests/it/extremes/numbers.rs"]
mod numbers;

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use evenkeel_cluster::Cluster;
use parking_lot::Mutex;
use serde_json::{Value, json};

use self::numbers::{fields, with};

/// How many pods the namespace may have. A controller that is told to create two billion is refused soon.
const PODS_MAX: u32 = 12;
/// How much virtual time passes with each number: enough for two runs of a CronJob and the deadlines of the samples.
const PASSED: Duration = Duration::from_secs(120);
/// How much virtual time the cluster may take to come to rest. A Job of two billion pods does not; it goes on.
const SETTLE_MAX: Duration = Duration::from_secs(30);
/// How long one number may take in real time. Most take milliseconds.
const STEP_MAX: Duration = Duration::from_secs(60);
/// How many writes one number may cause. A Job of two billion pods that run one after the other causes some 700 in the
/// virtual time that passes; more than a few times as many are a loop.
const WRITES_MAX: u64 = 3000;

fn template(restart: &str) -> Value {
    let resources = json!({"requests": {"cpu": "1m"}, "limits": {"cpu": "1"}});
    let probe = json!({"tcpSocket": {"port": 80}, "periodSeconds": 1});
    let container = json!({"name": "c", "image": "i", "resources": resources, "readinessProbe": probe,
        "ports": [{"containerPort": 80}]});
    json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container], "restartPolicy": restart}})
}

/// An object of each kind that something in a cluster acts on, and the resource it belongs to.
fn samples() -> Vec<(&'static str, Value)> {
    let selector = json!({"matchLabels": {"app": "x"}});
    let always = || template("Always");
    let job = json!({"template": template("Never"), "completions": 1, "parallelism": 1, "backoffLimit": 1,
        "activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 60});
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let mut pod = always();
    pod["spec"]["tolerations"] = json!([{"key": "k", "operator": "Exists", "effect": "NoExecute",
        "tolerationSeconds": 5}]);
    pod["spec"]["activeDeadlineSeconds"] = json!(60);
    let metric = json!({"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": 50}}});
    let object = |version: &str, kind: &str, spec: Value| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec});
    let mut pod = object("v1", "Pod", pod["spec"].take());
    pod["metadata"]["labels"] = json!({"app": "x"});
    vec![
        ("api/v1/namespaces/default/pods", pod),
        (
            "api/v1/namespaces/default/services",
            object(
                "v1",
                "Service",
                json!({"selector": {"app": "x"},
            "ports": [{"port": 80, "targetPort": 80}]}),
            ),
        ),
        (
            "api/v1/namespaces/default/resourcequotas",
            object("v1", "ResourceQuota", json!({"hard": {"pods": "5"}})),
        ),
        (
            "api/v1/namespaces/default/limitranges",
            object(
                "v1",
                "LimitRange",
                json!({"limits": [{"type": "Container",
            "max": {"cpu": "2"}, "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1m"}}]}),
            ),
        ),
        (
            "api/v1/namespaces/default/persistentvolumeclaims",
            object("v1", "PersistentVolumeClaim", claim.clone()),
        ),
        (
            "api/v1/namespaces/default/replicationcontrollers",
            object(
                "v1",
                "ReplicationController",
                json!({"replicas": 1, "selector": {"app": "x"}, "template": always()}),
            ),
        ),
        (
            "apis/apps/v1/namespaces/default/replicasets",
            object(
                "apps/v1",
                "ReplicaSet",
                json!({"replicas": 1, "selector": selector, "template": always()}),
            ),
        ),
        (
            "apis/apps/v1/namespaces/default/deployments",
            object(
                "apps/v1",
                "Deployment",
                json!({"replicas": 1, "selector": selector, "template": always(),
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}),
            ),
        ),
        (
            "apis/apps/v1/namespaces/default/statefulsets",
            object(
                "apps/v1",
                "StatefulSet",
                json!({"replicas": 1, "serviceName": "x", "selector": selector, "template": always(),
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}}),
            ),
        ),
        (
            "apis/apps/v1/namespaces/default/daemonsets",
            object(
                "apps/v1",
                "DaemonSet",
                json!({"selector": selector, "template": always(),
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}}),
            ),
        ),
        ("apis/batch/v1/namespaces/default/jobs", object("batch/v1", "Job", job.clone())),
        (
            "apis/batch/v1/namespaces/default/cronjobs",
            object(
                "batch/v1",
                "CronJob",
                json!({"schedule": "* * * * *", "startingDeadlineSeconds": 100, "jobTemplate": {"spec": job}}),
            ),
        ),
        (
            "apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
            object(
                "autoscaling/v2",
                "HorizontalPodAutoscaler",
                json!({"minReplicas": 1, "maxReplicas": 3, "metrics": [metric],
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}}),
            ),
        ),
        (
            "apis/policy/v1/namespaces/default/poddisruptionbudgets",
            object("policy/v1", "PodDisruptionBudget", json!({"minAvailable": 1, "selector": selector})),
        ),
        (
            "api/v1/nodes",
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "x"}, "spec": {},
            "status": {"capacity": {"cpu": "1", "pods": "10"}, "allocatable": {"cpu": "1", "pods": "10"}}}),
        ),
        (
            "api/v1/persistentvolumes",
            object(
                "v1",
                "PersistentVolume",
                json!({"capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}),
            ),
        ),
        (
            "apis/scheduling.k8s.io/v1/priorityclasses",
            json!({"apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass", "metadata": {"name": "x"}, "value": 1, "globalDefault": true}),
        ),
        (
            "apis/node.k8s.io/v1/runtimeclasses",
            json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
            "metadata": {"name": "x"}, "handler": "x", "overhead": {"podFixed": {"cpu": "1m"}}}),
        ),
        (
            "apis/coordination.k8s.io/v1/namespaces/default/leases",
            object(
                "coordination.k8s.io/v1",
                "Lease",
                json!({"holderIdentity": "x", "leaseDurationSeconds": 10}),
            ),
        ),
        (
            "apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
            json!({"apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice", "metadata": {"name": "x"}, "addressType": "IPv4",
            "ports": [{"port": 80}], "endpoints": [{"addresses": ["10.0.0.1"]}]}),
        ),
    ]
}

/// The panics of this thread, which runs the whole cluster.
fn watch_panics() -> Arc<Mutex<Vec<String>>> {
    let (seen, own) = (Arc::new(Mutex::new(Vec::new())), thread::current().id());
    let (noted, previous) = (seen.clone(), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |info| {
        if thread::current().id() == own {
            noted.lock().push(info.to_string());
        }
        previous(info);
    }));
    seen
}

/// Ends the process when a step takes too long in real time: a loop in which no virtual time passes never ends.
fn watch_progress() -> mpsc::Sender<String> {
    let (steps, step) = mpsc::channel::<String>();
    thread::spawn(move || {
        let mut last = "the start".to_owned();
        loop {
            match step.recv_timeout(STEP_MAX) {
                Ok(next) => last = next,
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    eprintln!("no end after {STEP_MAX:?}: {last}");
                    std::process::abort();
                }
            }
        }
    });
    steps
}

async fn send(cluster: &Cluster, method: &str, path: &str, body: &Value) -> Option<Value> {
    let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = http::Request::builder().method(method).uri(format!("/{path}"));
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = request.header("content-type", media).body(body).expect("the request is well formed");
    cluster.client().request(request).await.ok()
}

/// The newest resource version.
async fn revision(cluster: &Cluster) -> u64 {
    let list = send(cluster, "GET", "api/v1/namespaces/default/pods", &Value::Null).await;
    let version = list.as_ref().and_then(|list| list["metadata"]["resourceVersion"].as_str());
    version.and_then(|version| version.parse().ok()).expect("a list has a resource version")
}

/// Creates an object with an extreme number, lets the cluster act on it, and cleans up. Nothing more happens if the API
/// refuses the object.
async fn try_create(cluster: &Cluster, path: &str, extreme: &Value) {
    if send(cluster, "POST", path, extreme).await.is_some() {
        let _ = cluster.try_settled().await;
        cluster.advance(PASSED).await;
        clean_up(cluster, path).await;
    }
}

/// Changes an ordinary object to one with an extreme number, lets the cluster act on it, and cleans up. If the API
/// refuses the change, the ordinary object stays for the next number.
async fn try_update(cluster: &Cluster, path: &str, ordinary: &Value, extreme: &Value, part: &str) {
    if send(cluster, "POST", path, ordinary).await.is_some() {
        let _ = cluster.try_settled().await;
    }
    let mut change = extreme.clone();
    change["metadata"] = json!({});
    let part = if part == "status" { "/status" } else { "" };
    if send(cluster, "PATCH", &format!("{path}/x{part}"), &change).await.is_some() {
        let _ = cluster.try_settled().await;
        cluster.advance(PASSED).await;
        clean_up(cluster, path).await;
    }
}

/// Deletes the object with everything that was created for it.
async fn clean_up(cluster: &Cluster, path: &str) {
    let own = format!("{path}/x");
    let options = json!({"propagationPolicy": "Background", "gracePeriodSeconds": 0});
    send(cluster, "DELETE", &own, &options).await;
    send(cluster, "PATCH", &own, &json!({"metadata": {"finalizers": null}})).await;
    for rest in ["api/v1/namespaces/default/pods", "apis/batch/v1/namespaces/default/jobs"] {
        send(cluster, "DELETE", rest, &options).await;
    }
    let _ = cluster.try_settled().await;
}

/// A cluster with a node, all controllers, and a bound on pods and jobs.
async fn start() -> Cluster {
    let builder = Cluster::builder().seed(1).nodes(1).records(false);
    let cluster = builder.settle_limit(SETTLE_MAX).start().await.expect("it starts");
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "bound"},
        "spec": {"hard": {"pods": PODS_MAX.to_string(), "count/jobs.batch": "4"}}});
    send(&cluster, "POST", "api/v1/namespaces/default/resourcequotas", &quota).await.expect("it is valid");
    cluster.settled().await;
    cluster
}

/// One number: its path, its value, and the sample that it is put into.
struct Trial<'a> {
    path: &'static str,
    ordinary: &'a Value,
    field: &'a [String],
    value: &'a Value,
}

impl Trial<'_> {
    async fn run(&self, cluster: &Cluster, by_update: bool) {
        let extreme = with(self.ordinary, self.field, self.value);
        match by_update {
            true => try_update(cluster, self.path, self.ordinary, &extreme, &self.field[0]).await,
            false => try_create(cluster, self.path, &extreme).await,
        }
    }
}

#[test]
fn no_number_in_an_object_stops_a_cluster() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let runtime = runtime.expect("it needs nothing that could be missing");
    let (panics, steps) = (watch_panics(), watch_progress());
    let mut tried = 0;
    for (path, ordinary) in samples() {
        let found = fields(&ordinary);
        // The fields of `jobTemplate` are those of a Job, which is a sample of its own.
        let is_own = |field: &[String]| field[0] != "metadata" && !field.iter().any(|it| it == "jobTemplate");
        let found = found.iter().filter(|(field, _)| is_own(field));
        let trials = found.map(|(field, value)| Trial { path, ordinary: &ordinary, field, value });
        let trials: Vec<_> = trials.collect();
        assert!(!trials.is_empty(), "{path} has numbers");
        runtime.block_on(async {
            let cluster = start().await;
            for (by_update, trial) in [false, true].iter().flat_map(|how| trials.iter().map(|it| (*how, it)))
            {
                let (field, value) = (trial.field.join("/"), trial.value);
                let what = format!("{path} /{field} = {value}, by update: {by_update}");
                steps.send(what.clone()).expect("the thread lives");
                let before = revision(&cluster).await;
                trial.run(&cluster, by_update).await;
                let writes = revision(&cluster).await - before;
                assert!(writes < WRITES_MAX, "{what}: {writes} writes");
                let panics = std::mem::take(&mut *panics.lock());
                assert!(panics.is_empty(), "{what}: {panics:#?}");
                tried += 1;
            }
            // The cluster still works.
            clean_up(&cluster, path).await;
            send(&cluster, "POST", path, &ordinary).await.unwrap_or_else(|| panic!("{path} is refused"));
            let _ = cluster.try_settled().await;
        });
    }
    println!("{tried} trials");
    assert!(tried > 1000, "more fields hold numbers than {tried}");
}
