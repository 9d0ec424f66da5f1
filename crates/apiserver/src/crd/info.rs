//! Builds the served resources of a CRD.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_schema::json::Value;
use evenkeel_schema::structural;
use evenkeel_schema::types::Schema;
use evenkeel_store::Entry;

use super::{Definitions, storage_version};
use crate::registry::{VersionSchema, WebhookConversion, storage_prefix};
use crate::{Column, CustomInfo, Header, ResourceInfo, SubresourceInfo};

const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// The resources that a CRD serves, one for each served version.
pub(super) fn resources(
    definitions: &Definitions,
    definition: &Value,
    entry: &Entry<Header>,
) -> Vec<ResourceInfo> {
    let shared = Shared::of(definitions, definition, entry);
    let versions = definition["spec"]["versions"].as_array();
    let served = versions.into_iter().flatten().filter(|it| it["served"] == true);
    served.map(|version| resource(definitions, definition, version, entry, &shared)).collect()
}

/// What all served versions of a CRD share.
struct Shared {
    versions: Arc<BTreeMap<String, Arc<VersionSchema>>>,
    webhook: Option<Arc<WebhookConversion>>,
    storage_version: String,
    stored_revision: u64,
    /// Whether this change of the CRD left the conversion unchanged.
    converts_as_before: bool,
}

impl Shared {
    fn of(definitions: &Definitions, definition: &Value, entry: &Entry<Header>) -> Self {
        let before = definitions.registry.custom().into_iter().filter_map(|info| info.custom.clone());
        let before = before.into_iter().find(|it| it.uid == *entry.header.uid);
        let old = before.as_ref().map(|it| it.versions.clone()).unwrap_or_default();
        let listed = definition["spec"]["versions"].as_array().into_iter().flatten();
        let versions: BTreeMap<_, _> =
            listed.map(|it| (text(&it["name"]), version_schema(it, &old))).collect();
        let storage_version = storage_version(definition).unwrap_or_default().to_owned();
        let same = |a: Option<&Arc<VersionSchema>>, b: Option<&Arc<VersionSchema>>| match (a, b) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        };
        // Objects written since the last change of the storage version or its schema conform to it.
        let stored = before.as_ref().filter(|it| {
            it.storage_version == storage_version
                && same(old.get(&storage_version), versions.get(&storage_version))
        });
        let stored_revision = stored.map_or(entry.revision, |it| it.stored_revision);
        let webhook = webhook(definition);
        let converts_as_before = before.as_ref().is_some_and(|it| {
            it.stored_revision == stored_revision
                && it.webhook == webhook
                && old.len() == versions.len()
                && versions.iter().all(|(name, schema)| same(old.get(name), Some(schema)))
        });
        let versions = Arc::new(versions);
        Self { versions, webhook, storage_version, stored_revision, converts_as_before }
    }
}

/// Compiles the schema of a version, unless it is unchanged.
fn version_schema(version: &Value, old: &BTreeMap<String, Arc<VersionSchema>>) -> Arc<VersionSchema> {
    let source = &version["schema"]["openAPIV3Schema"];
    match old.get(version["name"].as_str().unwrap_or_default()).filter(|old| old.source == *source) {
        Some(unchanged) => unchanged.clone(),
        None => {
            let schema = structural::compile(source).unwrap_or_else(|_| Schema::default());
            Arc::new(VersionSchema { schema, source: source.clone() })
        }
    }
}

fn webhook(definition: &Value) -> Option<Arc<WebhookConversion>> {
    let conversion = &definition["spec"]["conversion"];
    let webhook = Some(&conversion["webhook"]).filter(|_| conversion["strategy"] == "Webhook")?;
    let client_config = webhook["clientConfig"].clone();
    let review_versions = texts(&webhook["conversionReviewVersions"]);
    Some(Arc::new(WebhookConversion { client_config, review_versions }))
}

fn resource(
    definitions: &Definitions,
    definition: &Value,
    version: &Value,
    entry: &Entry<Header>,
    shared: &Shared,
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
        custom: Some(Arc::new(custom(
            definitions,
            definition,
            version,
            entry,
            shared,
            (&group, &name, &plural),
        ))),
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
    shared: &Shared,
    (group, name, plural): (&str, &str, &str),
) -> CustomInfo {
    let schema = version["schema"]["openAPIV3Schema"].clone();
    let preserve = definition["spec"]["preserveUnknownFields"] == true || schema.is_null();
    let before = definitions.registry.find(group, name, plural).and_then(|it| it.custom.clone());
    let converted = before.as_ref().filter(|_| shared.converts_as_before).map(|it| it.converted.clone());
    // An unchanged schema keeps its compiled rules.
    let before = before.filter(|it| it.version["schema"] == version["schema"]);
    CustomInfo {
        definition: entry.header.name.to_string(),
        uid: entry.header.uid.to_string(),
        version: version.clone(),
        schema: structural::compile(&schema).unwrap_or_else(|_| Schema::default()),
        rules: before.map(|it| it.rules.clone()).unwrap_or_default(),
        stored_revision: shared.stored_revision,
        storage_version: shared.storage_version.clone(),
        versions: shared.versions.clone(),
        webhook: shared.webhook.clone(),
        preserve_unknown_fields: preserve,
        terminating: entry.header.deleting,
        converted: converted.unwrap_or_default(),
    }
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
