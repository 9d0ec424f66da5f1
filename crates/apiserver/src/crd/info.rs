//! Builds the served resources of a CRD.

use std::sync::Arc;

use evenkeel_schema::structural;
use evenkeel_schema::types::Schema;
use evenkeel_store::Entry;
use serde_json::Value;

use super::{Definitions, storage_version};
use crate::registry::storage_prefix;
use crate::{Column, CustomInfo, Header, ResourceInfo, SubresourceInfo};

const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// The resources that a CRD serves, one for each served version.
pub(super) fn resources(
    definitions: &Definitions,
    definition: &Value,
    entry: &Entry<Header>,
) -> Vec<ResourceInfo> {
    let versions = definition["spec"]["versions"].as_array();
    let served = versions.into_iter().flatten().filter(|it| it["served"] == true);
    served.map(|version| resource(definitions, definition, version, entry)).collect()
}

fn resource(
    definitions: &Definitions,
    definition: &Value,
    version: &Value,
    entry: &Entry<Header>,
) -> ResourceInfo {
    let spec = &definition["spec"];
    let names = &definition["status"]["acceptedNames"];
    let group = text(&spec["group"]);
    let plural = text(&names["plural"]);
    let name = text(&version["name"]);
    ResourceInfo {
        prefix: storage_prefix(&group, &plural),
        singular: text(&names["singular"]),
        kind: text(&names["kind"]),
        list_kind: text(&names["listKind"]),
        namespaced: spec["scope"] == "Namespaced",
        verbs: VERBS.map(str::to_owned).to_vec(),
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        subresources: subresources(version, &text(&names["kind"])),
        columns: columns(version),
        custom: Some(Arc::new(custom(definitions, definition, version, entry, (&group, &name, &plural)))),
        group,
        version: name,
        plural,
        strategy: Default::default(),
    }
}

fn custom(
    definitions: &Definitions,
    definition: &Value,
    version: &Value,
    entry: &Entry<Header>,
    (group, name, plural): (&str, &str, &str),
) -> CustomInfo {
    let schema = version["schema"]["openAPIV3Schema"].clone();
    let preserve = definition["spec"]["preserveUnknownFields"] == true || schema.is_null();
    // An unchanged schema keeps its revision: objects that were written since then conform to it.
    let before = definitions.registry.find(group, name, plural).and_then(|it| it.custom.clone());
    let before = before.filter(|it| it.version["schema"] == version["schema"]);
    CustomInfo {
        definition: entry.header.name.to_string(),
        uid: entry.header.uid.to_string(),
        version: version.clone(),
        schema: structural::compile(&schema).unwrap_or_else(|_| Schema::default()),
        rules: before.as_ref().map(|it| it.rules.clone()).unwrap_or_default(),
        schema_revision: before.map_or(entry.revision, |it| it.schema_revision),
        storage_version: storage_version(definition).to_owned(),
        storage_schema: storage_schema(definition, version),
        preserve_unknown_fields: preserve,
        terminating: entry.header.deleting,
        converted: Default::default(),
    }
}

/// The schema of the storage version; `None` if this is the storage version.
fn storage_schema(definition: &Value, version: &Value) -> Option<Schema> {
    let versions = definition["spec"]["versions"].as_array();
    let stored = versions.into_iter().flatten().find(|it| it["storage"] == true)?;
    if stored["name"] == version["name"] {
        return None;
    }
    structural::compile(&stored["schema"]["openAPIV3Schema"]).ok()
}

fn subresources(version: &Value, kind: &str) -> Vec<SubresourceInfo> {
    let verbs = || ["get", "patch", "update"].map(str::to_owned).to_vec();
    let mut subresources = Vec::new();
    if version["subresources"]["status"].is_object() {
        let (name, kind) = ("status".into(), kind.to_owned());
        subresources.push(SubresourceInfo { name, kind, verbs: verbs(), ..Default::default() });
    }
    if version["subresources"]["scale"].is_object() {
        subresources.push(SubresourceInfo {
            name: "scale".into(),
            kind: "Scale".into(),
            group: "autoscaling".into(),
            version: "v1".into(),
            verbs: verbs(),
        });
    }
    subresources
}

fn columns(version: &Value) -> Vec<Column> {
    let columns = version["additionalPrinterColumns"].as_array();
    let column = |it: &Value| Column {
        name: text(&it["name"]),
        kind: text(&it["type"]),
        format: text(&it["format"]),
        description: text(&it["description"]),
        priority: it["priority"].as_i64().unwrap_or_default(),
        json_path: text(&it["jsonPath"]),
    };
    columns.into_iter().flatten().map(column).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(text).collect()
}
