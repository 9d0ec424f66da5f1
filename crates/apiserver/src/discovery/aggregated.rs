//! Everything at once: `APIGroupDiscoveryList`.

use serde_json::{Map, Value, json};

use super::groups::{Group, Version};
use crate::registry::{ResourceInfo, SubresourceInfo};

/// The list: of the core group, or of all others.
pub(super) fn list(groups: &[Group], core: bool) -> Vec<u8> {
    let items = groups.iter().filter(|group| group.name.is_empty() == core).map(group);
    let list = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items.collect::<Vec<_>>(),
    });
    list.to_string().into_bytes()
}

fn group(group: &Group) -> Value {
    let metadata = if group.name.is_empty() { json!({}) } else { json!({ "name": group.name }) };
    json!({ "metadata": metadata, "versions": group.versions.iter().map(version).collect::<Vec<_>>() })
}

fn version(version: &Version) -> Value {
    let resources: Vec<_> = version.resources.iter().map(|info| resource(info)).collect();
    json!({ "version": version.name, "resources": resources, "freshness": "Current" })
}

fn resource(info: &ResourceInfo) -> Value {
    let mut entry = Map::new();
    entry.insert("resource".into(), info.plural.clone().into());
    entry.insert("responseKind".into(), kind(info, "", "", &info.kind));
    entry.insert("scope".into(), if info.namespaced { "Namespaced" } else { "Cluster" }.into());
    entry.insert("singularResource".into(), info.singular.clone().into());
    entry.insert("verbs".into(), info.verbs.clone().into());
    if !info.short_names.is_empty() {
        entry.insert("shortNames".into(), info.short_names.clone().into());
    }
    if !info.categories.is_empty() {
        entry.insert("categories".into(), info.categories.clone().into());
    }
    if !info.subresources.is_empty() {
        let parts: Vec<_> = info.subresources.iter().map(|part| subresource(info, part)).collect();
        entry.insert("subresources".into(), parts.into());
    }
    Value::Object(entry)
}

fn subresource(info: &ResourceInfo, part: &SubresourceInfo) -> Value {
    json!({
        "subresource": part.name,
        "responseKind": kind(info, &part.group, &part.version, info.kind_of(part)),
        "verbs": part.verbs,
    })
}

/// The kind of an answer. Built-in kinds leave group and version empty where they are the resource's own.
fn kind(info: &ResourceInfo, group: &str, version: &str, kind: &str) -> Value {
    let (group, version) = match version {
        "" if info.is_custom() => (info.group.as_str(), info.version.as_str()),
        _ => (group, version),
    };
    json!({ "group": group, "version": version, "kind": kind })
}
