//! A `Site` is a page of HTML; the operator serves it.

use std::sync::Arc;

use evenkeel::cli::Operator;
use evenkeel::k8s_openapi::api::apps::v1::Deployment;
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// What the user asks for.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Site",
    namespaced,
    status = "SiteStatus",
    printcolumn = r#"{"name":"Ready","type":"boolean","jsonPath":".status.ready"}"#,
    crates(
        kube_core = "evenkeel::kube::core",
        k8s_openapi = "evenkeel::k8s_openapi",
        schemars = "evenkeel::schemars"
    )
)]
pub struct SiteSpec {
    /// The page.
    pub html: String,
    /// How many servers serve it.
    #[schemars(range(min = 1, max = 10))]
    pub replicas: i32,
}

/// What the operator saw.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
pub struct SiteStatus {
    /// Whether every server runs what was asked for.
    pub ready: bool,
}

/// The page as a ConfigMap.
fn page(site: &Site) -> Result<ConfigMap> {
    Ok(serde_json::from_value(json!({
        "metadata": { "name": site.name_any() },
        "data": { "index.html": site.spec.html },
    }))?)
}

/// The servers, which mount the page.
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

async fn reconcile(site: Arc<Site>, ctx: Context) -> Result<Action> {
    ctx.apply(page(&site)?).await?;
    let servers = ctx.apply(servers(&site)?).await?;
    ctx.status(&*site, SiteStatus { ready: servers.is_rolled_out() }).await?;
    Ok(Action::done())
}

/// Wakes for every change of a Site, and of what one owns.
pub fn controller() -> Controller<Site> {
    Controller::new("site", reconcile).owns::<ConfigMap>().owns::<Deployment>()
}

/// The operator with its command line.
pub fn operator() -> Operator {
    Operator::new("site", |manager| manager.controller(controller())).crd(Site::crd())
}
