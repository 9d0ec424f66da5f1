//! An index of objects by single labels. It narrows the candidates for a label selector.

use std::collections::BTreeMap;

use evenkeel_runtime::Index;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::object::Object;

/// The name of the index.
const LABELLED: &str = "labelled";

/// The index from a namespace and a label to the objects with that label, and from a namespace to all its objects.
pub(crate) fn by_label() -> Index<Object> {
    Index::new(LABELLED, |object: &Object| keys(&object.metadata))
}

/// The name of the index, for lookups.
pub(crate) const INDEX: &str = LABELLED;

/// Returns the index values of an object.
pub(crate) fn keys(metadata: &ObjectMeta) -> Vec<String> {
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let labels = metadata.labels.iter().flatten().map(|(key, value)| format!("{namespace}/{key}={value}"));
    labels.chain([format!("{namespace}/*")]).collect()
}

/// Returns the index value that finds all objects with these labels, and possibly others.
pub(crate) fn selector_key(namespace: &str, labels: Option<&BTreeMap<String, String>>) -> String {
    match labels.into_iter().flatten().next() {
        Some((key, value)) => format!("{namespace}/{key}={value}"),
        None => format!("{namespace}/*"),
    }
}
