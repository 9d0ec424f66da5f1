//! Namespaces carry their own name as a label.

use super::{Object, child, text};
use crate::json::Value;

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

pub(super) fn namespace(object: &mut Object) {
    let metadata = child(object, "metadata");
    let name = text(metadata, "name").to_owned();
    if !name.is_empty() {
        child(metadata, "labels").insert(NAME_LABEL.to_owned(), Value::from(name));
    }
    child(object, "status");
}
