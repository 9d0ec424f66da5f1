//! The actions of the director on the cluster, performed outside its lock.

use std::time::Duration;

use evenkeel_cluster::Matcher;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{PlanDirector, mishap_words};
use crate::plan::Mishap;

/// The path of a lease that no operator reads. Writing to it shifts the revisions of everything after.
const SHIFTED: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
/// How many writes shift the revisions.
const SHIFTS: usize = 3;
/// The value that the foreign client writes into a field.
const CHANGED: &str = "changed-by-somebody";

/// One action of the director.
pub(super) enum Act {
    Note(String),
    Resume(String),
    Restart(String),
    Suspend(String),
    Hold(Matcher),
    Release,
    Cut(String),
    World(Mishap, String),
    /// Lets virtual time pass if nothing else is to be done at this rest.
    Wait(Duration),
    /// Lets virtual time pass immediately.
    Advance(Duration),
    /// Writes objects that nobody reads, so that the following revisions are larger.
    Shift,
    /// Moves the clock of an operator by this many seconds.
    Clock(String, i64),
}

impl PlanDirector {
    /// Performs an action while a request is in progress.
    pub(super) fn perform_now(&self, act: Act) {
        match act {
            Act::Note(what) => self.cluster.note_disturbance(what),
            Act::Hold(matcher) => {
                self.cluster.hold_watches(matcher);
            }
            Act::Release => self.cluster.release_watches(),
            Act::World(mishap, path) => {
                let (cluster, removed) = (self.cluster.clone(), self.removed_by(mishap, &path));
                self.state.lock().played.removed.extend(removed);
                // The struck request waits while these requests are served.
                let requests = World::new(&cluster, mishap, &path);
                tokio::spawn(async move { requests.send(&cluster).await });
            }
            _ => {}
        }
    }

    /// Performs an action while the cluster is at rest.
    pub(super) async fn perform(&self, act: Act) {
        let cluster = &self.cluster;
        match act {
            Act::Note(what) => cluster.note_disturbance(what),
            // The scenario may have stopped the operator in the meantime.
            Act::Resume(operator) | Act::Restart(operator) | Act::Suspend(operator)
                if !cluster.is_running(&operator) => {}
            Act::Resume(operator) => cluster.resume(&operator),
            Act::Restart(operator) => cluster.restart(&operator),
            Act::Suspend(operator) => cluster.suspend(&operator),
            Act::Hold(matcher) => {
                cluster.hold_watches(matcher);
            }
            Act::Release => cluster.release_watches(),
            Act::Cut(operator) => {
                // Compacted revisions cannot be read later, so their changes are gathered first.
                {
                    let mut state = self.state.lock();
                    state.relisting = true;
                    self.gather(&mut state, cluster.revision());
                }
                cluster.cut_watch(Matcher::any().by(operator));
                cluster.compact();
            }
            Act::World(mishap, path) => {
                let removed = self.removed_by(mishap, &path);
                self.state.lock().played.removed.extend(removed);
                World::new(cluster, mishap, &path).send(cluster).await;
            }
            Act::Wait(time) => tokio::time::sleep(time).await,
            Act::Advance(time) => tokio::time::advance(time).await,
            Act::Shift => self.shift().await,
            Act::Clock(operator, seconds) => {
                cluster.shift_clock_of(&operator, SignedDuration::from_secs(seconds));
            }
        }
    }

    /// Returns the uids of the objects that a mishap removes.
    fn removed_by(&self, mishap: Mishap, path: &str) -> Vec<String> {
        let paths: Vec<String> = match mishap {
            Mishap::Delete | Mishap::Evict => vec![path.to_owned()],
            Mishap::LoseNode => pods_on(&self.cluster, path),
            Mishap::Change | Mishap::CrashPod | Mishap::UnreadyPod => return Vec::new(),
        };
        let objects = self.cluster.stored_objects();
        let is_removed = |key: &str| paths.iter().any(|path| is_at(key, path));
        objects.into_iter().filter(|object| is_removed(&object.key)).map(|object| object.uid).collect()
    }

    async fn shift(&self) {
        let lease = json!({"metadata": {"name": "shift"}, "spec": {}});
        for _ in 0..SHIFTS {
            send(&self.cluster, "POST", SHIFTED, Some(&lease)).await;
            send(&self.cluster, "DELETE", &format!("{SHIFTED}/shift"), None).await;
        }
    }
}

/// The requests that a mishap consists of.
struct World {
    what: String,
    requests: Vec<(&'static str, String, Option<Value>)>,
}

impl World {
    fn new(cluster: &evenkeel_cluster::Cluster, mishap: Mishap, path: &str) -> Self {
        let object = stored_at(cluster, path);
        let requests = match mishap {
            Mishap::Delete => vec![("DELETE", path.to_owned(), None)],
            Mishap::Change => {
                let patch = object.as_ref().and_then(change_of);
                patch.map(|patch| ("PATCH", path.to_owned(), Some(patch))).into_iter().collect()
            }
            Mishap::Evict => {
                let name = path.rsplit('/').next().unwrap_or_default();
                let eviction =
                    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
                vec![("POST", format!("{path}/eviction"), Some(eviction))]
            }
            Mishap::CrashPod | Mishap::UnreadyPod => {
                let patch = object.as_ref().and_then(|pod| unready(pod, mishap == Mishap::CrashPod));
                patch.map(|patch| ("PATCH", format!("{path}/status"), Some(patch))).into_iter().collect()
            }
            Mishap::LoseNode => {
                let now = json!({"gracePeriodSeconds": 0});
                let pods = pods_on(cluster, path).into_iter();
                pods.map(|pod| ("DELETE", pod, Some(now.clone()))).collect()
            }
        };
        Self { what: mishap_words(mishap, path), requests }
    }

    async fn send(self, cluster: &evenkeel_cluster::Cluster) {
        cluster.note_disturbance(self.what);
        for (method, path, body) in self.requests {
            send(cluster, method, &path, body.as_ref()).await;
        }
    }
}

/// Sends a request as a foreign client. If the object is already gone, nothing happens.
async fn send(cluster: &evenkeel_cluster::Cluster, method: &str, path: &str, body: Option<&Value>) {
    let content = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
    let request =
        http::Request::builder().method(method).uri(path).header("content-type", content).body(body);
    if let Ok(request) = request {
        // A request that is refused has no effect.
        let _ = cluster.client_as(SOMEBODY, ["system:masters"]).request_text(request).await;
    }
}

/// The name of the client that is neither the scenario nor an operator.
pub(crate) const SOMEBODY: &str = "somebody";

/// Returns whether the object with this key is the one at this path of the API.
pub(crate) fn is_at(key: &str, path: &str) -> bool {
    let Some(target) = evenkeel_cluster::ResourcePath::parse(path) else { return false };
    let parts = crate::state::KeyParts::of(key);
    parts.group == target.group
        && parts.plural == target.resource
        && parts.namespace == target.namespace
        && parts.name == target.name
}

fn stored_at(cluster: &evenkeel_cluster::Cluster, path: &str) -> Option<Value> {
    let found = cluster.stored_objects().into_iter().find(|object| is_at(&object.key, path))?;
    serde_json::from_slice(&found.json).ok()
}

/// Returns the paths of the pods on a node that have a controller. A pod without one is never replaced, and later steps
/// of the scenario may refer to it, so it is left alone.
fn pods_on(cluster: &evenkeel_cluster::Cluster, node: &str) -> Vec<String> {
    let node = node.rsplit('/').next().unwrap_or_default();
    let objects = cluster.stored_objects();
    let pods = objects.iter().filter(|object| crate::state::KeyParts::of(&object.key).plural == "pods");
    let paths = pods.filter_map(|object| {
        let pod: Value = serde_json::from_slice(&object.json).ok()?;
        let parts = crate::state::KeyParts::of(&object.key);
        let path = format!("/api/v1/namespaces/{}/pods/{}", parts.namespace, parts.name);
        (pod["spec"]["nodeName"] == node && crate::state::has_controller(&pod)).then_some(path)
    });
    paths.collect()
}

/// Returns a merge patch that changes one applied field of the object, as a foreign client would: an entry of its data,
/// or a label.
pub(crate) fn change_of(object: &Value) -> Option<Value> {
    let applied = object["metadata"]["managedFields"].as_array()?.iter();
    let applied = applied.filter(|entry| entry["operation"] == "Apply" && entry["subresource"].is_null());
    for fields in applied.map(|entry| &entry["fieldsV1"]) {
        let name = |fields: &Value| {
            let fields = fields.as_object()?;
            fields.keys().find_map(|key| key.strip_prefix("f:").map(str::to_owned))
        };
        if let Some(key) = name(&fields["f:data"]) {
            // Secrets hold base64.
            let value = if object["kind"] == "Secret" { "Y2hhbmdlZA==" } else { CHANGED };
            return Some(json!({"data": {key: value}}));
        }
        if let Some(label) = name(&fields["f:metadata"]["f:labels"]) {
            return Some(json!({"metadata": {"labels": {label: CHANGED}}}));
        }
    }
    None
}

/// Returns a merge patch for the status of a pod that makes its containers not ready, or `None` if the pod is not
/// running.
fn unready(pod: &Value, crashed: bool) -> Option<Value> {
    let status = &pod["status"];
    if status["phase"] != "Running" {
        return None;
    }
    let mut containers = status["containerStatuses"].clone();
    for container in containers.as_array_mut().into_iter().flatten() {
        container["ready"] = false.into();
        if crashed {
            container["started"] = false.into();
            container["state"] = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        }
    }
    let mut conditions = status["conditions"].clone();
    for condition in conditions.as_array_mut().into_iter().flatten() {
        if condition["type"] == "Ready" || condition["type"] == "ContainersReady" {
            condition["status"] = "False".into();
        }
    }
    Some(json!({"status": {"containerStatuses": containers, "conditions": conditions}}))
}
