//! Reads the object in question, and the objects that it owns, from the cluster.

use evenkeel::kube::Client;
use evenkeel::kube::api::ListParams;
use evenkeel::kube::api::{Api, DynamicObject};
use evenkeel::kube::core::{ApiResource, GroupVersionKind};
use evenkeel_record::Key;
use serde_json::Value;

/// The kinds in which descendants are searched: pods, and the kinds between a custom resource and its pods.
const OWNED: [(&str, &str, &str); 7] = [
    ("apps", "v1", "Deployment"),
    ("apps", "v1", "StatefulSet"),
    ("apps", "v1", "DaemonSet"),
    ("batch", "v1", "CronJob"),
    ("batch", "v1", "Job"),
    ("apps", "v1", "ReplicaSet"),
    ("", "v1", "Pod"),
];

/// What the cluster knows about an object.
pub(super) struct Found {
    /// The object's key, with the kind in its canonical spelling, and without a namespace if the kind is
    /// cluster-scoped.
    pub(super) key: Key,
    /// The plural of the object's kind.
    pub(super) resource: Option<String>,
    pub(super) object: Option<Value>,
    pub(super) descendants: Vec<Value>,
}

impl Found {
    /// The result without a cluster.
    pub(super) fn none(key: &Key) -> Self {
        Self { key: key.clone(), resource: None, object: None, descendants: Vec::new() }
    }
}

/// Finds the object and the objects that it owns, directly or indirectly.
pub(super) async fn find(client: &Client, key: &Key) -> anyhow::Result<Found> {
    let mut found = Found::none(key);
    let Some((resource, namespaced)) = resource_of(client, &key.kind).await? else { return Ok(found) };
    found.key.kind.clone_from(&resource.kind);
    if !namespaced {
        found.key.namespace = None;
    }
    found.resource = Some(resource.plural.clone());
    let object = api(client, &resource, found.key.namespace.as_deref()).get_opt(&key.name).await?;
    let Some(object) = object else { return Ok(found) };
    let mut owners: Vec<String> = object.metadata.uid.iter().cloned().collect();
    for (group, version, kind) in OWNED {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let list = api(client, &resource, found.key.namespace.as_deref()).list(&ListParams::default()).await;
        // A kind that the user may not list is skipped: the other kinds still help.
        for child in list.map(|list| list.items).unwrap_or_default() {
            let of_ours = |owner: &str| owners.iter().any(|ours| ours == owner);
            if child.metadata.owner_references.iter().flatten().any(|owner| of_ours(&owner.uid)) {
                owners.extend(child.metadata.uid.clone());
                let mut child = serde_json::to_value(child)?;
                child["kind"] = kind.into();
                found.descendants.push(child);
            }
        }
    }
    found.object = Some(serde_json::to_value(object)?);
    Ok(found)
}

fn api(client: &Client, resource: &ApiResource, namespace: Option<&str>) -> Api<DynamicObject> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        None => Api::all_with(client.clone(), resource),
    }
}

/// Returns the resource with this kind, plural, singular or short name, and whether it is namespaced.
async fn resource_of(client: &Client, kind: &str) -> anyhow::Result<Option<(ApiResource, bool)>> {
    let core = client.list_core_api_resources("v1").await.map(|list| vec![("v1".to_owned(), list)])?;
    let mut all = core;
    for group in client.list_api_groups().await?.groups {
        // The preferred version comes first, but another version may have kinds that it lacks.
        let preferred = group.preferred_version.map(|version| version.group_version);
        let versions = group.versions.into_iter().map(|version| version.group_version);
        let others: Vec<String> = versions.filter(|version| Some(version) != preferred.as_ref()).collect();
        for version in preferred.into_iter().chain(others) {
            // A group whose server is unavailable is skipped.
            if let Ok(list) = client.list_api_group_resources(&version).await {
                all.push((version, list));
            }
        }
    }
    let named = |name: &str| name.eq_ignore_ascii_case(kind);
    let found = all.iter().find_map(|(group_version, list)| {
        let resource = list.resources.iter().find(|it| {
            let short = it.short_names.iter().flatten().any(|name| named(name));
            !it.name.contains('/')
                && (named(&it.kind) || named(&it.name) || named(&it.singular_name) || short)
        })?;
        let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
        let gvk = GroupVersionKind::gvk(group, version, &resource.kind);
        Some((ApiResource::from_gvk_with_plural(&gvk, &resource.name), resource.namespaced))
    });
    Ok(found)
}
