//! The aggregated form of discovery: `APIGroupDiscoveryList`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

use bytes::Bytes;
use evenkeel_schema::json::{Map, Value, json};

use super::groups::{Group, Version, groups};
use super::hash;
use crate::bounded_cache::BoundedCache;
use crate::registry::{Registry, ResourceInfo, SubresourceInfo};

/// An encoded list and its ETag.
#[derive(Clone)]
pub(super) struct Document {
    pub(super) body: Bytes,
    pub(super) etag: String,
}

/// The lists without custom resources, one for the core group and one for all others. All servers of a
/// process share them.
static BUILT_IN: [OnceLock<Document>; 2] = [const { OnceLock::new() }; 2];

/// Returns the list of the core group, or of all other groups.
pub(super) fn document(groups: &[Group], core: bool) -> Document {
    let listed: Vec<&Group> = groups.iter().filter(|group| group.name.is_empty() == core).collect();
    let print = || hashed(list(&listed).into());
    match listed.iter().any(|group| group.serves_custom()) {
        true => print(),
        false => BUILT_IN[usize::from(core)].get_or_init(print).clone(),
    }
}

/// Returns a list with its hash. Recent lists are cached, because the many servers in a process of tests
/// declare the same resources.
fn hashed(body: Bytes) -> Document {
    /// Enough for the sets of custom resources that one test process alternates between; a list takes about a
    /// hundred kilobytes.
    const GENERATION: usize = 4;
    static KEPT: LazyLock<BoundedCache<Bytes, String, GENERATION>> = LazyLock::new(BoundedCache::default);
    let etag = KEPT.get(&body).unwrap_or_else(|| {
        let etag = format!("\"{}\"", hash(&body));
        KEPT.insert(body.clone(), etag.clone(), 1);
        etag
    });
    Document { body, etag }
}

fn list(groups: &[&Group]) -> Vec<u8> {
    let mut items = groups.iter().map(|group| printed(group));
    let mut out = String::from(r#"{"apiVersion":"apidiscovery.k8s.io/v2","items":["#);
    if let Some(first) = items.next() {
        out.push_str(&first);
    }
    for item in items {
        out.push(',');
        out.push_str(&item);
    }
    out.push_str(r#"],"kind":"APIGroupDiscoveryList","metadata":{}}"#);
    out.into_bytes()
}

/// Encodes a group. Built-in groups are encoded once per process, because a CRD changes only its own group.
fn printed(group: &Group) -> Cow<'static, str> {
    static BUILT_IN: OnceLock<BTreeMap<String, String>> = OnceLock::new();
    let print = |it: &Group| self::group(it).to_string();
    if group.serves_custom() {
        return print(group).into();
    }
    let all = || groups(&Registry::new()).into_iter().map(|it| (it.name.clone(), print(&it))).collect();
    match BUILT_IN.get_or_init(all).get(&group.name) {
        Some(text) => text.as_str().into(),
        None => print(group).into(),
    }
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

/// The response kind of a resource or subresource. Built-in resources leave group and version empty if they
/// equal the resource's own.
fn kind(info: &ResourceInfo, group: &str, version: &str, kind: &str) -> Value {
    let (group, version) = match version {
        "" if info.is_custom() => (info.group.as_str(), info.version.as_str()),
        _ => (group, version),
    };
    json!({ "group": group, "version": version, "kind": kind })
}
