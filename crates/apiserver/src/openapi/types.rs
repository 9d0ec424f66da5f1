//! The schemas of built-in types, closed under their references.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use evenkeel_schema::json::Value;
use evenkeel_schema::types::builtin_type;

use super::descriptions::Describer;

/// The built-in types to which the documents of custom resources refer.
const OF_CUSTOM_RESOURCES: [&str; 6] = [
    "io.k8s.api.autoscaling.v1.Scale",
    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
    "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta",
    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Patch",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Status",
];

/// Returns the named types and all types that they refer to, directly or indirectly. Unknown names are skipped.
pub(super) fn close_over(
    names: impl IntoIterator<Item = String>,
    describer: &Describer,
) -> BTreeMap<String, Value> {
    close(names, |name| {
        let mut schema = builtin_type(name)?.to_openapi();
        describer.describe(name, &mut schema);
        Some(schema)
    })
}

/// Like [`close_over`], for the documents of custom resources. They are built again whenever a definition changes, so the
/// few types that they need are kept.
pub(super) fn close_over_for_custom(names: impl IntoIterator<Item = String>) -> BTreeMap<String, Value> {
    static KEPT: OnceLock<BTreeMap<String, Value>> = OnceLock::new();
    let kept = KEPT.get_or_init(|| close_over(OF_CUSTOM_RESOURCES.map(str::to_owned), &Describer::new()));
    close(names, |name| kept.get(name).cloned())
}

fn close(
    names: impl IntoIterator<Item = String>,
    schema_of: impl Fn(&str) -> Option<Value>,
) -> BTreeMap<String, Value> {
    let mut closed = BTreeMap::new();
    let mut open: Vec<String> = names.into_iter().collect();
    while let Some(name) = open.pop() {
        if closed.contains_key(&name) {
            continue;
        }
        if let Some(schema) = schema_of(&name) {
            open.extend(references(&schema));
            closed.insert(name, schema);
        }
    }
    closed
}

/// The names of the types to which a part of a document refers.
pub(super) fn references(part: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    collect(part, &mut found);
    found
}

fn collect(part: &Value, found: &mut BTreeSet<String>) {
    match part {
        Value::Object(fields) => {
            let link = fields.get("$ref").and_then(Value::as_str);
            let name = link.and_then(|link| link.strip_prefix("#/components/schemas/"));
            found.extend(name.map(str::to_owned));
            fields.values().for_each(|value| collect(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        _ => {}
    }
}
