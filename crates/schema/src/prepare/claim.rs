//! PersistentVolumeClaims: keeps `dataSource` and `dataSourceRef` in sync.

use super::{child, remove, set};
use crate::json::{Map, Value};
use crate::read::Read;

pub(super) fn prepare(claim: &mut Value, old: Option<&Value>) {
    let spec = child(claim, "spec");
    let in_use = old.at("spec").has("dataSource") || old.at("spec").has("dataSourceRef");
    let source = (&*spec).at("dataSource");
    // `dataSource` alone ignores data sources of other kinds, for compatibility.
    if !in_use && !(&*spec).has("dataSourceRef") && source.is_some_and(|source| !is_claim_or_snapshot(source))
    {
        remove(spec, "dataSource");
    }
    let (source, reference) = ((&*spec).at("dataSource").cloned(), (&*spec).at("dataSourceRef").cloned());
    match (source, reference) {
        (Some(source), None) => set(spec, "dataSourceRef", local(&source)),
        (None, Some(reference)) if reference.str("namespace").is_empty() => {
            set(spec, "dataSource", local(&reference));
        }
        _ => {}
    }
}

fn is_claim_or_snapshot(source: &Value) -> bool {
    match source.str("kind") {
        "PersistentVolumeClaim" => source.str("apiGroup").is_empty(),
        "VolumeSnapshot" => source.str("apiGroup") == "snapshot.storage.k8s.io",
        _ => false,
    }
}

fn local(reference: &Value) -> Value {
    let mut fields = Map::new();
    for field in ["apiGroup", "kind", "name"] {
        fields.extend(reference.at(field).map(|value| (field.to_owned(), value.clone())));
    }
    Value::Object(fields)
}
