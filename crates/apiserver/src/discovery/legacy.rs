//! The legacy form of discovery: one document for each group and version.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use evenkeel_schema::json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::groups::{Group, Version};
use crate::registry::{ResourceInfo, SubresourceInfo};
use crate::request::Request;

/// The document at `/api`: the versions of the core group.
pub(super) fn versions(request: &Request<'_>) -> Value {
    let address = request.header("host");
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": address }],
    })
}

/// The document at `/apis`: every group but the core group.
pub(super) fn groups(groups: &[Group]) -> Value {
    let named = groups.iter().filter(|group| !group.name.is_empty());
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": named.map(entry).collect::<Vec<_>>() })
}

/// The document at `/apis/{group}`.
pub(super) fn group(group: &Group) -> Value {
    let mut value = entry(group);
    value["kind"] = "APIGroup".into();
    value["apiVersion"] = "v1".into();
    value
}

fn entry(group: &Group) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| json!({ "groupVersion": group.group_version(&version.name), "version": version.name }))
        .collect();
    json!({ "name": group.name, "versions": versions, "preferredVersion": versions.first() })
}

/// The document at `/api/v1` or `/apis/{group}/{version}`.
pub(super) fn resources(group: &Group, version: &Version) -> Value {
    let mut resources = Vec::new();
    for info in &version.resources {
        resources.push(resource(info));
        resources.extend(info.subresources.iter().map(|part| subresource(info, part)));
    }
    let mut list = json!({
        "kind": "APIResourceList",
        "groupVersion": group.group_version(&version.name),
        "resources": resources,
    });
    // Kubernetes' list of the core group has no apiVersion.
    if !group.name.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    list
}

fn resource(info: &ResourceInfo) -> Value {
    let mut entry = Map::new();
    entry.insert("name".into(), info.plural.clone().into());
    entry.insert("singularName".into(), info.singular.clone().into());
    entry.insert("namespaced".into(), info.namespaced.into());
    entry.insert("kind".into(), info.kind.clone().into());
    entry.insert("verbs".into(), info.verbs.clone().into());
    if !info.short_names.is_empty() {
        entry.insert("shortNames".into(), info.short_names.clone().into());
    }
    if !info.categories.is_empty() {
        entry.insert("categories".into(), info.categories.clone().into());
    }
    if info.verbs.iter().any(|verb| verb == "watch") {
        entry.insert("storageVersionHash".into(), storage_version_hash(info).into());
    }
    Value::Object(entry)
}

fn subresource(info: &ResourceInfo, part: &SubresourceInfo) -> Value {
    let mut entry = json!({
        "name": format!("{}/{}", info.plural, part.name),
        "singularName": "",
        "namespaced": info.namespaced,
        "kind": info.kind_of(part),
        "verbs": part.verbs,
    });
    // Group and version of the kind are given only if they differ from those of the list.
    if !part.version.is_empty() && (part.group != info.group || part.version != info.version) {
        entry["group"] = part.group.clone().into();
        entry["version"] = part.version.clone().into();
    }
    entry
}

/// The `storageVersionHash`: the first eight bytes of a hash of the stored group, version and kind.
fn storage_version_hash(info: &ResourceInfo) -> String {
    let (group, version) = stored_as(info);
    let digest = Sha256::digest(format!("{group}/{version}/{}", info.kind));
    STANDARD.encode(&digest[..8])
}

/// The group and version in which Kubernetes v1.36 stores a kind.
fn stored_as(info: &ResourceInfo) -> (&str, &str) {
    if let Some(custom) = &info.custom {
        return (&info.group, &custom.storage_version);
    }
    info.strategy.storage_version.unwrap_or((&info.group, &info.version))
}
