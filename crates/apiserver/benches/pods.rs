//! What the life of a pod costs the API server: it is created for a ReplicaSet, bound to a node, accepted and started.
//!
//! `cargo bench -p evenkeel-apiserver --bench pods` counts the instructions of these four writes under callgrind, if
//! `valgrind` is installed: for pods that are written one after the other, whose trees are still cached, and for many pods
//! at once, whose trees are not. `-- ONCE COUNT` plays the life of so many pods, in rounds of `ONCE`.

use std::process::Command;

use bytes::Bytes;
use evenkeel_apiserver::{ApiServer, Body, Header, Options, User};
use evenkeel_env::Env;
use evenkeel_store::Store;
use http::{Request, Response};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tower::ServiceExt as _;

const PODS: &str = "/api/v1/namespaces/a/pods";

/// The lives that are counted: how many pods at once, and how many in the shorter and the longer run, whose difference
/// counts.
const LIVES: [(&str, u32, [u32; 2]); 2] =
    [("one pod after the other", 1, [20, 120]), ("600 pods at once", 600, [600, 1200])];

fn main() {
    let arguments: Vec<u32> = std::env::args().skip(1).filter_map(|it| it.parse().ok()).collect();
    if let [once, count] = arguments[..] {
        return live(once, count);
    }
    for (what, once, [less, more]) in LIVES {
        match (instructions(once, less), instructions(once, more)) {
            (Some(a), Some(b)) => {
                println!("{what}: {:.0} thousand instructions a pod", (b - a) / f64::from(more - less) / 1e3)
            }
            _ => println!("{what}: not counted, because valgrind is missing"),
        }
    }
}

fn instructions(once: u32, count: u32) -> Option<f64> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(std::env::current_exe().ok()?);
    let output = valgrind.args([once.to_string(), count.to_string()]).output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok())
}

fn live(once: u32, count: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let _entered = runtime.enter();
    let env = Env::seeded(1);
    let store: Store<Header> = Store::memory(env.clone(), evenkeel_store::Options::default());
    let server = ApiServer::new(store, env, Options::default());
    let namespace = json!({"metadata": {"name": "a"}});
    let account = json!({"metadata": {"name": "default"}});
    assert_eq!(send(&server, "POST", "/api/v1/namespaces", "json", &namespace).status(), 201);
    assert_eq!(send(&server, "POST", "/api/v1/namespaces/a/serviceaccounts", "json", &account).status(), 201);
    for first in (0..count).step_by(once as usize) {
        let names: Vec<String> =
            (first..count.min(first + once)).map(|at| format!("web-6d4cf56db6-{at:05}")).collect();
        let all = |method: &str, path: &dyn Fn(&str) -> String, patch: &str, body: &dyn Fn(&str) -> Value| {
            for name in &names {
                let response = send(&server, method, &path(name), patch, &body(name));
                assert!(response.status().is_success(), "{method} {}: {}", path(name), response.status());
            }
        };
        all("POST", &|_| PODS.to_owned(), "json", &pod);
        all(
            "POST",
            &|name| format!("{PODS}/{name}/binding"),
            "json",
            &|name| json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": "node-1"}}),
        );
        let status = |name: &str| format!("{PODS}/{name}/status");
        all("PATCH", &status, "merge-patch+json", &|_| accepted());
        all("PATCH", &status, "merge-patch+json", &|_| started());
    }
}

fn send(server: &ApiServer, method: &str, path: &str, media: &str, body: &Value) -> Response<Body> {
    let request = Request::builder().method(method).uri(path).extension(User::admin());
    let request =
        request.header("user-agent", "bench/1").header("content-type", format!("application/{media}"));
    let request = request.body(http_body_util::Full::new(Bytes::from(body.to_string()))).expect("a request");
    Handle::current().block_on(server.clone().oneshot(request)).expect("an API server never fails")
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "generateName": "web-6d4cf56db6-",
            "labels": {"app": "web", "pod-template-hash": "6d4cf56db6"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-6d4cf56db6",
                "uid": "6c1b1a8e-6f6a-4f0a-9a0e-2b7f0a3c9d11", "controller": true, "blockOwnerDeletion": true}]},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]}})
}

fn conditions(sandbox: bool, ready: bool) -> Value {
    let one = |kind: &str, holds: bool, tell: bool| {
        let mut condition = json!({"type": kind, "status": if holds { "True" } else { "False" },
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1});
        if tell {
            condition["reason"] = "ContainersNotReady".into();
            condition["message"] = "containers with unready status: [main]".into();
        }
        condition
    };
    json!([
        one("PodScheduled", true, false),
        one("PodReadyToStartContainers", sandbox, false),
        one("Initialized", true, false),
        one("Ready", ready, !ready),
        one("ContainersReady", ready, !ready)
    ])
}

fn accepted() -> Value {
    let waiting = json!({"name": "main", "image": "nginx", "imageID": "", "ready": false, "restartCount": 0,
        "started": false, "state": {"waiting": {"reason": "ContainerCreating"}}});
    json!({"status": {"conditions": conditions(false, false), "containerStatuses": [waiting], "hostIP": "10.0.0.1",
        "hostIPs": [{"ip": "10.0.0.1"}], "observedGeneration": 1, "startTime": "2026-01-01T00:00:00Z"}})
}

fn started() -> Value {
    let running = json!({"name": "main", "image": "nginx", "imageID": "docker.io/library/nginx@sha256:0123456789abcdef",
        "containerID": "containerd://0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "ready": true,
        "restartCount": 0, "started": true, "state": {"running": {"startedAt": "2026-01-01T00:00:01Z"}}});
    json!({"status": {"conditions": conditions(true, true), "containerStatuses": [running], "phase": "Running",
        "podIP": "10.1.0.7", "podIPs": [{"ip": "10.1.0.7"}]}})
}
