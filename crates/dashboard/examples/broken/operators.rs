//! Operators with one mistake each, and the reason that `why` must give for each: the five that every author meets, and
//! others to see that the answers are not made for these five.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel_cluster::Cluster;
use evenkeel_record::why::Reason;
use evenkeel_runtime::{Action, Controller, Ctx, Result, Source};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, EvictParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{CustomResource, CustomResourceExt as _, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How long a reconcile of the operators that never come to rest takes: virtual time must pass.
const PAUSE: Duration = Duration::from_millis(50);

/// An object that one of the operators reconciles.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "example.com", version = "v1", kind = "Site", namespaced, status = "SiteStatus")]
pub(crate) struct SiteSpec {}

/// What the operators write.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default)]
pub(crate) struct SiteStatus {
    /// How often the object was looked at.
    #[serde(default)]
    pub(crate) checked: i64,
    /// What two operators do not agree on.
    #[serde(default)]
    pub(crate) size: i64,
}

/// What `why` must say about a Site.
pub(crate) struct Expected {
    /// The name of the Site, and of its operator.
    pub(crate) name: &'static str,
    /// The kind of reason.
    pub(crate) reason: Reason,
    /// The parts of the line, in order.
    pub(crate) parts: &'static [&'static str],
}

const fn expected(name: &'static str, reason: Reason, parts: &'static [&'static str]) -> Expected {
    Expected { name, reason, parts }
}

/// What `why` must say about each Site.
pub(crate) const EXPECTED: [Expected; 18] = [
    expected(
        "looping",
        Reason::Loop,
        &[
            "looping triggers itself: ",
            " rounds in ",
            "`patch sites/looping/status`",
            "changes status.checked ",
            "every time",
        ],
    ),
    expected(
        "finalizer",
        Reason::Finalizer,
        &[
            "waits for the finalizer example.com/backup",
            "finalizer reconciled it without an error and did not remove its finalizer",
        ],
    ),
    expected(
        "permission",
        Reason::Forbidden,
        &["permission may not create configmaps in namespace default: give its role this rule"],
    ),
    expected(
        "webhook",
        Reason::Webhook,
        &[
            "webhook is refused `create configmaps",
            "admission webhook \"guard.example.com\" denied the request: maps are not allowed",
        ],
    ),
    expected("pod", Reason::Pod, &["waits for the pod pod-", "which is not ready: ", "main"]),
    expected(
        "quota",
        Reason::Condition,
        &["waits for ", "ReplicaFailure is true: FailedCreate", "exceeded quota: small"],
    ),
    expected(
        "quota-direct",
        Reason::Refused,
        &["quota-direct is refused `create pods", "exceeded quota: small"],
    ),
    expected(
        "config",
        Reason::Pod,
        &["its container main waits: CreateContainerConfigError: configmap \"absent\" not found"],
    ),
    expected("volume", Reason::Pod, &["its container main waits: ", "configmap \"absent\" not found"]),
    expected("image", Reason::Pod, &["its container main waits: ", "ImagePull"]),
    expected(
        "unschedulable",
        Reason::Pod,
        &["it is not scheduled: Unschedulable: 0/1 nodes are available", "Insufficient cpu"],
    ),
    expected("crash", Reason::Pod, &["its container main waits: CrashLoopBackOff", "exit code 1"]),
    expected(
        "webhook-down",
        Reason::Webhook,
        &["webhook-down is refused", "failed calling webhook \"down.example.com\""],
    ),
    expected("conflict", Reason::Conflict, &["the writes of conflict conflict", "configmaps/conflict"]),
    expected(
        "fight",
        Reason::Loop,
        &["undo each other's changes", "status.size", "changes it back every time"],
    ),
    expected("budget", Reason::Failing, &["budget fails: ", "disruption budget"]),
    expected("panic", Reason::Failing, &["panic fails: the reconcile panicked: no such site"]),
    expected(
        "definition",
        Reason::Watch,
        &[
            "the watch of ",
            "the API server does not serve the kind; apply its CustomResourceDefinition first",
        ],
    ),
];

/// The namespace of a Site.
pub(crate) fn namespace_of(name: &str) -> &'static str {
    if name.starts_with("quota") { "small" } else { "default" }
}

/// Applies the objects, and runs the operators.
pub(crate) async fn start(cluster: &Cluster) {
    cluster.apply::<CustomResourceDefinition>(Site::crd()).await.expect("the definition is valid");
    for object in surroundings() {
        let yaml = object.to_string();
        cluster.apply_yaml(&yaml).await.unwrap_or_else(|error| panic!("{yaml}: {error}"));
    }
    run(cluster);
    for Expected { name, .. } in EXPECTED {
        let mut site = json!({
            "apiVersion": "example.com/v1", "kind": "Site", "spec": {},
            "metadata": { "name": name, "namespace": namespace_of(name), "labels": { "mistake": name } },
        });
        if name == "finalizer" {
            site["metadata"]["finalizers"] = json!(["example.com/backup"]);
        }
        cluster.apply_yaml(&site.to_string()).await.expect("the Site is valid");
    }
    let sites: Api<Site> = Api::namespaced(cluster.client(), "default");
    sites.delete("finalizer", &Default::default()).await.expect("it can be deleted");
}

/// What the Sites meet: a quota, webhooks, a budget, a user who may do little.
fn surroundings() -> Vec<Value> {
    let hook = |name: &str, url: &str, map: &str| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": { "name": name },
            "webhooks": [{
                "name": format!("{name}.example.com"), "clientConfig": { "url": url }, "sideEffects": "None",
                "admissionReviewVersions": ["v1"], "timeoutSeconds": 1,
                "matchConditions": [{ "name": "mine", "expression": format!("object.metadata.name == '{map}'") }],
                "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"] }],
            }],
        })
    };
    let rbac = "rbac.authorization.k8s.io";
    vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "small" } }),
        json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "small", "namespace": "small" },
            "spec": { "hard": { "pods": "0" } },
        }),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": { "name": "looks" },
            "rules": [{ "apiGroups": ["example.com"], "resources": ["sites"], "verbs": ["get", "list", "watch"] }],
        }),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": { "name": "looks" },
            "roleRef": { "apiGroup": rbac, "kind": "ClusterRole", "name": "looks" },
            "subjects": [{ "kind": "User", "name": "operator" }],
        }),
        hook("guard", GUARD, "webhook"),
        hook("down", "https://127.0.0.1:1/", "webhook-down"),
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "guarded", "namespace": "default", "labels": { "app": "guarded" } },
            "spec": { "containers": [{ "name": "main", "image": "web:1" }] },
        }),
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "guarded", "namespace": "default" },
            "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "guarded" } } },
        }),
    ]
}

/// The URL of the webhook that refuses.
pub(crate) const GUARD: &str = "https://guard.example.com/";

/// Denies every request.
pub(crate) async fn refuse(request: Request<Full<Bytes>>) -> Result<Response<Full<Bytes>>, tower::BoxError> {
    let review: Value = serde_json::from_slice(&request.into_body().collect().await?.to_bytes())?;
    let status = json!({ "message": "maps are not allowed" });
    let response = json!({ "uid": review["request"]["uid"], "allowed": false, "status": status });
    let answer =
        json!({ "apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response });
    Ok(Response::new(Full::new(answer.to_string().into())))
}

fn run(cluster: &Cluster) {
    let only = |name: &'static str| Source::<Site>::new().labels(format!("mistake={name}"));
    cluster.run(move || Controller::new_with("looping", only("looping"), looping));
    cluster.run(move || Controller::new_with("finalizer", only("finalizer"), nothing));
    let operator = evenkeel_cluster::User::new("operator", ["system:authenticated"]);
    cluster.acting_as(operator).run(move || Controller::new_with("permission", only("permission"), make_map));
    for name in ["webhook", "webhook-down"] {
        cluster.run(move || Controller::new_with(name, only(name), make_map));
    }
    for name in ["pod", "quota", "config", "volume", "image", "unschedulable", "crash"] {
        cluster.run(move || Controller::new_with(name, only(name), deploy));
    }
    cluster.run(move || Controller::new_with("quota-direct", only("quota-direct"), make_pod));
    cluster.run(move || Controller::new_with("conflict", only("conflict"), write_an_old_copy));
    for (name, size) in [("fight", 1), ("fight-too", 2)] {
        cluster.run(move || {
            let reconcile = move |site: Arc<Site>, ctx: Ctx| demand(site, ctx, size);
            Controller::new_with(name, only("fight"), reconcile)
        });
    }
    cluster.run(move || Controller::new_with("budget", only("budget"), evict));
    cluster.run(move || Controller::new_with("panic", only("panic"), panics));
    let absent = ApiResource::from_gvk(&GroupVersionKind::gvk("absent.example.com", "v1", "Absent"));
    cluster.run(move || {
        let source = Source::<DynamicObject>::of(absent.clone());
        let trigger = evenkeel_runtime::Trigger::owner::<Site>();
        Controller::new_with("definition", only("definition"), nothing).watches_with(source, trigger)
    });
}

async fn nothing(_: Arc<Site>, _: Ctx) -> Result<Action> {
    Ok(Action::await_change())
}

/// Writes the number of reconciles to the object that causes the next one.
async fn looping(site: Arc<Site>, ctx: Ctx) -> Result<Action> {
    let checked = site.status.clone().unwrap_or_default().checked + 1;
    tokio::time::sleep(PAUSE).await;
    patch_status(&ctx, json!({ "checked": checked })).await
}

/// Sets a field that another operator sets to something else.
async fn demand(site: Arc<Site>, ctx: Ctx, size: i64) -> Result<Action> {
    tokio::time::sleep(PAUSE).await;
    if site.status.clone().unwrap_or_default().size == size {
        return Ok(Action::await_change());
    }
    patch_status(&ctx, json!({ "size": size })).await
}

async fn patch_status(ctx: &Ctx, status: Value) -> Result<Action> {
    let patch = Patch::Merge(json!({ "status": status }));
    ctx.objects::<Site>(()).patch_subresource("status", ctx.request(), &patch).await?;
    Ok(Action::await_change())
}

async fn make_map(site: Arc<Site>, ctx: Ctx) -> Result<Action> {
    let mut map = ConfigMap::default();
    map.metadata.name = site.metadata.name.clone();
    ctx.create(map).await?;
    Ok(Action::await_change())
}

async fn make_pod(site: Arc<Site>, ctx: Ctx) -> Result<Action> {
    let pod = json!({ "metadata": { "name": site.name_any() }, "spec": { "containers": [{ "name": "main", "image": "web:1" }] } });
    let pod: Pod = serde_json::from_value(pod)?;
    ctx.create(pod).await?;
    Ok(Action::await_change())
}

/// Applies a Deployment whose pods have the mistake that the Site is named after.
async fn deploy(site: Arc<Site>, ctx: Ctx) -> Result<Action> {
    let name = site.name_any();
    let mut container = json!({ "name": "main", "image": "web:1" });
    let mut annotations = json!({});
    let mut volumes = json!([]);
    match name.as_str() {
        "pod" => annotations = json!({ "node.evenkeel.dev/behaviour": "never-ready" }),
        "image" => annotations = json!({ "node.evenkeel.dev/behaviour": "image-pull-error" }),
        "crash" => annotations = json!({ "node.evenkeel.dev/behaviour": "crash-loop" }),
        "config" => container["envFrom"] = json!([{ "configMapRef": { "name": "absent" } }]),
        "volume" => {
            volumes = json!([{ "name": "files", "configMap": { "name": "absent" } }]);
            container["volumeMounts"] = json!([{ "name": "files", "mountPath": "/files" }]);
        }
        "unschedulable" => container["resources"] = json!({ "requests": { "cpu": "1000" } }),
        _ => {}
    }
    let labels = json!({ "site": name });
    let deployment = json!({
        "metadata": { "name": name },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels, "annotations": annotations },
                "spec": { "containers": [container], "volumes": volumes },
            },
        },
    });
    let deployment: k8s_openapi::api::apps::v1::Deployment = serde_json::from_value(deployment)?;
    ctx.apply(deployment).await?;
    Ok(Action::await_change())
}

/// Replaces a ConfigMap by a copy of its first revision.
async fn write_an_old_copy(site: Arc<Site>, ctx: Ctx) -> Result<Action> {
    let api: Api<ConfigMap> = Api::namespaced(ctx.client().clone(), "default");
    let map = |value: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": site.name_any() }, "data": { "a": value } });
    let apply = |value: &str| Patch::Apply(map(value));
    let old = api.patch(&site.name_any(), &PatchParams::apply("conflict"), &apply("1")).await?;
    api.patch(&site.name_any(), &PatchParams::apply("conflict"), &apply("2")).await?;
    api.replace(&site.name_any(), &PostParams::default(), &old).await?;
    Ok(Action::await_change())
}

async fn evict(_: Arc<Site>, ctx: Ctx) -> Result<Action> {
    let api: Api<Pod> = Api::namespaced(ctx.client().clone(), "default");
    api.evict("guarded", &EvictParams::default()).await?;
    Ok(Action::await_change())
}

async fn panics(_: Arc<Site>, _: Ctx) -> Result<Action> {
    panic!("no such site");
}
