//! ReplicationControllers, whose selector and labels come from the template.

use super::{Object, child, is_empty, set};
use crate::json::Value;
use crate::read::Read;

pub(super) fn replication_controller(object: &mut Object) {
    let spec = child(object, "spec");
    set(spec, "replicas", 1);
    let labels = spec.get("template").at("metadata").at("labels").cloned();
    let Some(labels) = labels.filter(Value::is_object) else { return };
    if is_empty(spec, "selector") {
        spec.insert("selector".to_owned(), labels.clone());
    }
    let metadata = child(object, "metadata");
    if is_empty(metadata, "labels") {
        metadata.insert("labels".to_owned(), labels);
    }
}
