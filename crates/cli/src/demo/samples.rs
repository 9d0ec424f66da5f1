//! Applies the samples, deletes their children, deletes the samples, and checks the result of each.

use std::collections::BTreeMap;

use anyhow::Context as _;
use database::Database;
use evenkeel::Cluster;
use evenkeel::k8s_openapi::api::core::v1::Pod;
use evenkeel::kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use evenkeel::kube::core::{ApiResource, GroupVersionKind};
use evenkeel::kube::{self, ResourceExt as _};
use evenkeel::yaml;
use serde_json::{Value, json};

use super::examples::{ALL, BUILT_IN, Example, KUBERNETES, Object, Shows, resource};
use super::story;

/// The field manager of objects that the demo applies.
const FIELD_MANAGER: &str = "evenkeel-demo";

/// The name of the sample database.
const DATABASE: &str = "orders";

/// Creates the custom resource definitions.
pub(super) async fn declare(cluster: &Cluster) -> kube::Result<()> {
    for crd in ALL.iter().filter_map(|example| example.crd) {
        cluster.apply(crd()).await?;
    }
    Ok(())
}

/// Starts the operators.
pub(super) fn run_operators(cluster: &Cluster) {
    ALL.iter().for_each(|example| (example.run)(cluster));
}

/// Applies the samples.
pub(super) async fn apply(cluster: &Cluster) -> anyhow::Result<()> {
    for example in &ALL {
        for object in documents(example)? {
            let params = PatchParams::apply(FIELD_MANAGER).force();
            let name = object.name_any();
            api(cluster, &resource_of(&object)?).patch(&name, &params, &Patch::Apply(&object)).await?;
        }
    }
    Ok(())
}

/// Deletes the samples.
pub(super) async fn delete(cluster: &Cluster) -> anyhow::Result<()> {
    for example in &ALL {
        for object in documents(example)?.into_iter().rev() {
            let api = api(cluster, &resource_of(&object)?);
            api.delete(&object.name_any(), &DeleteParams::default()).await?;
        }
    }
    Ok(())
}

/// Describes which samples have not reached their goal.
pub(super) async fn unready(cluster: &Cluster) -> kube::Result<Vec<String>> {
    let mut failures = Vec::new();
    for Example { goal, .. } in &ALL {
        let Object { kind, name, .. } = goal.object;
        let found = find(cluster, goal.object).await?;
        let missing = match found {
            None => Some("it does not exist".to_owned()),
            Some(found) => shows(&found.data, goal.shows),
        };
        failures.extend(missing.map(|missing| format!("{kind} {name}: {missing}")));
    }
    let expected: usize = ALL.iter().map(|example| example.pods).sum();
    let pods = cluster.list::<Pod>().await?;
    let ready = pods.iter().filter(|pod| story::is_ready(pod)).count();
    if ready != expected || pods.len() != expected {
        failures.push(format!("pods: {ready} of {} are ready, not {expected} of {expected}", pods.len()));
    }
    Ok(failures)
}

/// Describes how the status of an object differs from what it must show, or `None` if it does not.
fn shows(object: &Value, wanted: Shows) -> Option<String> {
    match wanted {
        Shows::Phase(wanted) => {
            let phase = object.pointer("/status/phase").and_then(Value::as_str).unwrap_or("unset");
            (phase != wanted).then(|| format!("its phase is {phase}, not {wanted}"))
        }
        Shows::Condition(wanted) => {
            let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
            let condition = conditions.into_iter().flatten().find(|condition| condition["type"] == wanted);
            let status = condition.and_then(|condition| condition["status"].as_str()).unwrap_or("unset");
            (status != "True").then(|| format!("its condition {wanted} is {status}, not True"))
        }
    }
}

/// Returns a problem if the webhook of the databases has not recorded who requested the sample.
pub(super) async fn not_defaulted(cluster: &Cluster) -> kube::Result<Vec<String>> {
    let orders = cluster.get::<Database>(DATABASE).await?;
    let noted = orders.annotations().contains_key(database::REQUESTED_BY);
    Ok(if noted { Vec::new() } else { vec![format!("Database {DATABASE}: nobody noted who asked for it")] })
}

/// Requests less storage than the sample has, and returns how the response differs from the webhook's refusal.
pub(super) async fn not_refused(cluster: &Cluster) -> kube::Result<Vec<String>> {
    let smaller = json!({ "spec": { "storage": "1Mi" } });
    let told = match cluster.patch::<Database>(DATABASE, smaller).await {
        Ok(_) => "its storage was allowed to shrink".to_owned(),
        Err(kube::Error::Api(status)) if status.message.contains("cannot shrink") => return Ok(Vec::new()),
        Err(error) => error.to_string(),
    };
    Ok(vec![format!("Database {DATABASE}: {told}")])
}

/// The uids of the children that [`drift`] deletes.
pub(super) async fn children(cluster: &Cluster) -> kube::Result<BTreeMap<String, Option<String>>> {
    let mut uids = BTreeMap::new();
    for Example { child, .. } in &ALL {
        let uid = find(cluster, *child).await?.and_then(|child| child.uid());
        uids.insert(format!("{} {}", child.kind, child.name), uid);
    }
    Ok(uids)
}

/// Deletes a child of each sample.
pub(super) async fn drift(cluster: &Cluster) -> kube::Result<()> {
    for Example { child, .. } in &ALL {
        api(cluster, &child.resource()).delete(child.name, &DeleteParams::default()).await?;
    }
    Ok(())
}

/// Describes which children have not been created again.
pub(super) async fn not_replaced(
    cluster: &Cluster,
    before: &BTreeMap<String, Option<String>>,
) -> kube::Result<Vec<String>> {
    let now = children(cluster).await?;
    let failed = now.iter().filter(|(name, uid)| uid.is_none() || before.get(*name) == Some(*uid));
    Ok(failed.map(|(name, _)| format!("{name}: it was not created again")).collect())
}

/// Describes which objects of the samples still exist.
pub(super) async fn left(cluster: &Cluster) -> kube::Result<Vec<String>> {
    let custom = ALL.iter().filter(|example| example.crd.is_some());
    let custom = custom.map(|example| example.goal.object.resource());
    let built_in = BUILT_IN.into_iter().map(|(group, kind)| resource(group, kind));
    let mut left = Vec::new();
    for resource in custom.chain(built_in) {
        let all = api(cluster, &resource).list(&ListParams::default()).await?;
        let names = all.iter().map(kube::ResourceExt::name_any).filter(|name| name != KUBERNETES);
        left.extend(names.map(|name| format!("{} {name}: it still exists", resource.kind)));
    }
    Ok(left)
}

async fn find(cluster: &Cluster, object: Object) -> kube::Result<Option<DynamicObject>> {
    api(cluster, &object.resource()).get_opt(object.name).await
}

fn documents(example: &Example) -> anyhow::Result<Vec<DynamicObject>> {
    yaml::parse(example.sample).with_context(|| format!("cannot read the sample of {}", example.name))
}

fn resource_of(object: &DynamicObject) -> anyhow::Result<ApiResource> {
    let types = object.types.as_ref().context("a sample names no kind")?;
    Ok(ApiResource::from_gvk(&GroupVersionKind::try_from(types)?))
}

fn api(cluster: &Cluster, resource: &ApiResource) -> Api<DynamicObject> {
    Api::namespaced_with(cluster.client(), cluster.namespace(), resource)
}
