//! Indexes by single labels, for controllers whose selectors are plain maps of them or begin with one.

use std::collections::BTreeMap;

use evenkeel_runtime::{Index, Object};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The index of objects by namespace and each of their labels.
const LABELLED: &str = "labelled";

/// From a namespace and a label to the objects there that carry it; and from a namespace alone to all of them.
pub(crate) fn labelled<K: Object>() -> Index<K> {
    Index::new(LABELLED, |object: &K| keys(object.meta()))
}

/// The name of that index.
pub(crate) const INDEX: &str = LABELLED;

/// The values of an object in that index.
pub(crate) fn keys(metadata: &ObjectMeta) -> Vec<String> {
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let labels = metadata.labels.iter().flatten().map(|(key, value)| format!("{namespace}/{key}={value}"));
    labels.chain([format!("{namespace}/*")]).collect()
}

/// The value under which all objects that these labels select are found, and some others.
pub(crate) fn selector_key(namespace: &str, labels: Option<&BTreeMap<String, String>>) -> String {
    match labels.into_iter().flatten().next() {
        Some((key, value)) => format!("{namespace}/{key}={value}"),
        None => format!("{namespace}/*"),
    }
}
