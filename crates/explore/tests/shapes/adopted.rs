//! Objects that somebody else has made, and that an operator adopts or changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_runtime::{Action, Controller, Ctx, Request, Result, Trigger};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Patch;
use kube::{Resource as _, ResourceExt as _};
use serde_json::json;

use crate::ensemble::{Ensemble, change, create, delete, prepare};
use crate::map;

const OF: &str = "example.com/of";

/// Becomes the owner of each ConfigMap with its label, and counts them.
async fn adopts(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    let mine =
        ctx.list::<ConfigMap>()?.into_iter().filter(|map| map.labels().get(OF) == Some(&ensemble.name_any()));
    let mut count = 0;
    for orphan in mine {
        count += 1;
        if orphan.owner_references().is_empty() {
            let owner = ensemble.controller_owner_ref(&());
            let version = orphan.metadata.resource_version.clone();
            let patch = json!({"metadata": {"ownerReferences": [owner], "resourceVersion": version}});
            ctx.patch(&orphan, &Patch::Merge(patch)).await?;
        }
    }
    ctx.status(&ensemble, json!({"replicas": count, "phase": ensemble.spec.config})).await?;
    Ok(Action::await_change())
}

async fn adoption(cluster: Cluster) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run(|| {
        let by_label = Trigger::map(|map: &ConfigMap| {
            let namespace = map.namespace().unwrap_or_default();
            map.labels().get(OF).map(|name| Request::namespaced(namespace, name.as_str()))
        });
        Controller::new("adopts", adopts).owns::<ConfigMap>().watches(by_label)
    });
    create(&cluster, 1).await?;
    for name in ["orphan-a", "orphan-b"] {
        let mut orphan = map(name, "");
        orphan.metadata.labels = Some(BTreeMap::from([(OF.to_owned(), "zoo".to_owned())]));
        cluster.apply(orphan).await?;
        cluster.settled().await;
    }
    change(&cluster, json!({"config": "two"})).await?;
    delete(&cluster).await
}

#[test]
fn an_operator_that_adopts_passes() {
    crate::passes("adopts", adoption);
}

/// Restarts a Deployment of somebody else when the configuration that it names has changed.
async fn reloads(deployment: Arc<Deployment>, ctx: Ctx) -> Result<Action> {
    let Some(of) = deployment.annotations().get(OF) else { return Ok(Action::await_change()) };
    let Some(config) = ctx.get::<ConfigMap>(of)? else { return Ok(Action::await_change()) };
    let wanted = config.data.as_ref().and_then(|data| data.get("value")).cloned().unwrap_or_default();
    let template = deployment.spec.as_ref().map(|spec| &spec.template);
    let noted = template.and_then(|it| it.metadata.as_ref()?.annotations.as_ref()?.get("config").cloned());
    if noted.as_ref() != Some(&wanted) {
        let patch = json!({"spec": {"template": {"metadata": {"annotations": {"config": wanted}}}}});
        ctx.patch(&*deployment, &Patch::Merge(patch)).await?;
    }
    Ok(Action::await_change())
}

async fn reloading(cluster: Cluster) -> kube::Result<()> {
    cluster.run(|| {
        let by_name = Trigger::map(|map: &ConfigMap| {
            let namespace = map.namespace().unwrap_or_default();
            (map.name_any() == "config").then(|| Request::namespaced(namespace, "web"))
        });
        Controller::new("reloads", reloads).watches(by_name)
    });
    cluster.apply(map("config", "one")).await?;
    let labels = json!({"app": "web"});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}});
    let spec = json!({"replicas": 2, "selector": {"matchLabels": labels}, "template": template});
    let metadata = json!({"name": "web", "annotations": {OF: "config"}});
    let web: Deployment = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
    cluster.apply(web).await?;
    cluster.settled().await;
    cluster.apply(map("config", "two")).await?;
    cluster.settled().await;
    cluster.delete::<Deployment>("web").await?;
    cluster.settled().await;
    Ok(())
}

#[test]
fn an_operator_that_restarts_what_others_made_passes() {
    crate::passes("reloads", reloading);
}
