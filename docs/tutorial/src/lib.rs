//! An operator that serves a page of HTML for each `Site`.

use std::sync::Arc;

use evenkeel::Result;
use evenkeel::cli::Operator;
use evenkeel::k8s_openapi::api::apps::v1::Deployment;
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::prelude::*;
use serde_json::json;

/// What the user asks for.
#[evenkeel::api]
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Site",
    namespaced,
    status = "SiteStatus",
    printcolumn = r#"{"name":"Ready","type":"boolean","jsonPath":".status.ready"}"#
)]
pub struct SiteSpec {
    /// The HTML of the page.
    pub html: String,
    /// The number of servers.
    #[schemars(range(min = 1, max = 10))]
    pub replicas: i32,
}

/// What the operator observed.
#[evenkeel::api]
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
pub struct SiteStatus {
    /// Whether all servers serve the current page.
    pub ready: bool,
}

/// The ConfigMap with the page.
fn page(site: &Site) -> Result<ConfigMap> {
    Ok(serde_json::from_value(json!({
        "metadata": { "name": site.name_any() },
        "data": { "index.html": site.spec.html },
    }))?)
}

/// The Deployment of servers that mount the page.
fn servers(site: &Site) -> Result<Deployment> {
    let labels = json!({ "site": site.name_any() });
    Ok(serde_json::from_value(json!({
        "metadata": { "name": site.name_any() },
        "spec": {
            "replicas": site.spec.replicas,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "containers": [{
                        "name": "nginx",
                        "image": "nginx:1.29",
                        "volumeMounts": [{ "name": "page", "mountPath": "/usr/share/nginx/html" }],
                    }],
                    "volumes": [{ "name": "page", "configMap": { "name": site.name_any() } }],
                },
            },
        },
    }))?)
}

evenkeel::kinds! {
    /// The kinds of the controller of Sites.
    pub struct SiteKinds for Site {
        owns ConfigMap,
        owns Deployment,
    }
}

async fn reconcile(site: Arc<Site>, ctx: Ctx<(), SiteKinds>) -> Result<Action> {
    ctx.apply(page(&site)?).await?;
    let servers = ctx.apply(servers(&site)?).await?;
    ctx.status(&site, SiteStatus { ready: servers.is_rolled_out() }).await?;
    Ok(Action::await_change())
}

/// Reconciles a Site when it changes, or when an object that it owns changes.
pub fn controller() -> Controller<Site> {
    Controller::new("site", reconcile)
}

/// The operator with its command line.
pub fn operator() -> Operator {
    Operator::new("site", |manager| manager.controller(controller())).crd(Site::crd())
}
