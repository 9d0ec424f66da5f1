//! Objects on the wire: encoding of the model's objects, and parsing of the server's.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::model::Object;
use crate::operation::{Config, Edit, Id, Kind, Patch, Selector, Step};

/// The CRD of Widgets, whose spec is a map of strings.
pub(crate) fn definition() -> Value {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "additionalProperties": {"type": "string"}}}});
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    json!({"metadata": {"name": "widgets.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "versions": [version],
        "names": {"plural": "widgets", "kind": "Widget"}}})
}

fn resource(kind: Kind) -> (&'static str, &'static str, &'static str, &'static str) {
    match kind {
        Kind::ConfigMap => ("/api/v1", "configmaps", "v1", "ConfigMap"),
        Kind::Widget => ("/apis/example.com/v1", "widgets", "example.com/v1", "Widget"),
    }
}

/// The path of the collection that contains an object.
pub(crate) fn folder(id: &Id) -> String {
    let (root, plural, ..) = resource(id.kind);
    format!("{root}/namespaces/{}/{plural}", id.namespace)
}

/// The path of an object.
pub(crate) fn path(id: &Id) -> String {
    format!("{}/{}", folder(id), id.name)
}

/// The path of the collection that a selector reads.
pub(crate) fn collection(selector: &Selector) -> String {
    let (root, plural, ..) = resource(selector.kind);
    let namespace = selector.namespace.map(|it| format!("/namespaces/{it}")).unwrap_or_default();
    format!("{root}{namespace}/{plural}")
}

/// A selector as query parameters.
pub(crate) fn query(selector: &Selector) -> String {
    let labels: Vec<String> = selector.labels.iter().map(|it| it.text()).collect();
    let name = selector.name.as_ref().map(|it| format!("metadata.name={it}")).unwrap_or_default();
    format!("labelSelector={}&fieldSelector={}", encode(&labels.join(",")), encode(&name))
}

/// Percent-encodes a text for a query.
pub(crate) fn encode(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
        encoded
    })
}

fn head(id: &Id, revision: Option<u64>) -> Value {
    let (_, _, version, kind) = resource(id.kind);
    let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": id.name}});
    if let Some(revision) = revision {
        object["metadata"]["resourceVersion"] = revision.to_string().into();
    }
    object
}

/// An object as a client sends it, without empty fields.
pub(crate) fn object(id: &Id, config: &Config, revision: Option<u64>) -> Value {
    let mut object = head(id, revision);
    if !config.labels.is_empty() {
        object["metadata"]["labels"] = json!(config.labels);
    }
    if !config.finalizers.is_empty() {
        object["metadata"]["finalizers"] = json!(config.finalizers);
    }
    object[id.kind.root()] = json!(config.data);
    object
}

/// The method, media type and body of a change.
pub(crate) fn edit(id: &Id, edit: &Edit, revision: Option<u64>) -> (&'static str, &'static str, Value) {
    match edit {
        Edit::Replace(config) => ("PUT", "application/json", object(id, config, revision)),
        Edit::Merge(it) => ("PATCH", "application/merge-patch+json", patch(id, it, revision)),
        Edit::Strategic(it) => ("PATCH", "application/strategic-merge-patch+json", patch(id, it, revision)),
        Edit::Json(_, steps) => {
            let steps: Vec<Value> = steps.iter().map(|it| step(id, it)).collect();
            ("PATCH", "application/json-patch+json", steps.into())
        }
    }
}

fn patch(id: &Id, patch: &Patch, revision: Option<u64>) -> Value {
    let mut body = json!({"metadata": {}});
    if let Some(revision) = revision {
        body["metadata"]["resourceVersion"] = revision.to_string().into();
    }
    if !patch.labels.is_empty() {
        body["metadata"]["labels"] = json!(patch.labels);
    }
    if let Some(finalizers) = &patch.finalizers {
        body["metadata"]["finalizers"] = json!(finalizers);
    }
    if !patch.data.is_empty() {
        body[id.kind.root()] = json!(patch.data);
    }
    body
}

fn step(id: &Id, step: &Step) -> Value {
    let path = |key: &str| format!("/{}/{key}", id.kind.root());
    match step {
        Step::Add(key, value) => json!({"op": "add", "path": path(key), "value": value}),
        Step::Replace(key, value) => json!({"op": "replace", "path": path(key), "value": value}),
        Step::Remove(key) => json!({"op": "remove", "path": path(key)}),
        Step::Test(key, value) => json!({"op": "test", "path": path(key), "value": value}),
    }
}

/// The UID of the object in a response; empty if there is none.
pub(crate) fn uid(body: &Value) -> &str {
    body["metadata"]["uid"].as_str().unwrap_or_default()
}

/// Parses an object that the server sent.
pub(crate) fn read(kind: Kind, body: &Value) -> Result<(Id, Object), String> {
    let metadata = &body["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
    let (_, _, version, name) = resource(kind);
    if body["apiVersion"] != version || body["kind"] != name {
        return Err(format!("not a {name}: {body:#}"));
    }
    let known = ["apiVersion", "kind", "metadata", kind.root()];
    if let Some((field, _)) =
        body.as_object().and_then(|it| it.iter().find(|it| !known.contains(&it.0.as_str())))
    {
        return Err(format!("a field that nobody wrote: {field} in {body:#}"));
    }
    let namespace = ["one", "two"].into_iter().find(|it| metadata["namespace"] == *it);
    let namespace = namespace.ok_or_else(|| format!("an object in no namespace: {body:#}"))?;
    let finalizers = metadata["finalizers"].as_array().into_iter().flatten();
    let object = Object {
        uid: text("uid"),
        revision: text("resourceVersion").parse().map_err(|_| format!("no revision: {body:#}"))?,
        generation: metadata["generation"].as_u64().unwrap_or_default(),
        deleting: metadata["deletionTimestamp"].is_string(),
        finalizers: finalizers.filter_map(|it| it.as_str().map(str::to_owned)).collect(),
        labels: texts(&metadata["labels"]),
        data: texts(&body[kind.root()]),
        owners: owners(&metadata["managedFields"])?,
    };
    Ok((Id { kind, namespace, name: text("name") }, object))
}

fn texts(map: &Value) -> BTreeMap<String, String> {
    let pairs = map.as_object().into_iter().flatten();
    pairs.map(|(key, value)| (key.clone(), value.as_str().unwrap_or("not a text").to_owned())).collect()
}

type Owners = BTreeMap<(String, &'static str), BTreeSet<String>>;

/// Parses managedFields into owned fields.
fn owners(entries: &Value) -> Result<Owners, String> {
    let mut owners = Owners::new();
    for entry in entries.as_array().into_iter().flatten() {
        let manager = entry["manager"].as_str().unwrap_or_default().to_owned();
        let operation = match entry["operation"].as_str() {
            Some("Update") => "Update",
            Some("Apply") => "Apply",
            other => return Err(format!("an owner by {other:?}")),
        };
        let mut fields = BTreeSet::new();
        leaves("", &entry["fieldsV1"], &mut fields);
        if owners.insert((manager.clone(), operation), fields).is_some() {
            return Err(format!("two entries of {manager} by {operation}"));
        }
    }
    Ok(owners)
}

fn leaves(path: &str, node: &Value, into: &mut BTreeSet<String>) {
    let empty = Map::new();
    let map = node.as_object().unwrap_or(&empty);
    if map.is_empty() || map.contains_key(".") {
        into.insert(path.to_owned());
    }
    for (key, node) in map.iter().filter(|it| it.0 != ".") {
        let path = match key.split_once(':') {
            Some(("f", field)) if path.is_empty() => field.to_owned(),
            Some(("f", field)) => format!("{path}.{field}"),
            Some(("v", value)) => format!("{path}[{}]", value.trim_matches('"')),
            _ => format!("{path}?{key}"),
        };
        leaves(&path, node, into);
    }
}

/// Parses the objects of a list.
pub(crate) fn items(kind: Kind, body: &Value) -> Result<Vec<(Id, Object)>, String> {
    let (_, _, version, name) = resource(kind);
    let items = body["items"].as_array().ok_or_else(|| format!("no list: {body:#}"))?;
    // The items of built-in lists have no apiVersion and kind.
    let whole = |item: &Value| {
        let mut item = item.clone();
        for (field, value) in [("apiVersion", version), ("kind", name)] {
            if item[field].is_null() {
                item[field] = value.into();
            }
        }
        item
    };
    items.iter().map(|item| read(kind, &whole(item))).collect()
}

/// Parses the events of a watch, without bookmarks.
pub(crate) fn events(kind: Kind, events: &[Value]) -> Result<Vec<(String, Id, Object)>, String> {
    let events = events.iter().filter(|it| it["type"] != "BOOKMARK");
    let event = |it: &Value| {
        let (id, object) = read(kind, &it["object"]).map_err(|why| format!("{why} in {it:#}"))?;
        Ok((it["type"].as_str().unwrap_or_default().to_owned(), id, object))
    };
    events.map(event).collect()
}

/// The fields that an error names.
pub(crate) fn blamed(body: &Value) -> BTreeSet<String> {
    let causes = body["details"]["causes"].as_array().into_iter().flatten();
    causes.filter_map(|it| it["field"].as_str()).map(|it| it.trim_start_matches('.').to_owned()).collect()
}
