//! Jobs: the generated selector, whose labels are unique to the Job.

use super::{child, object_of, put};
use crate::json::Value;
use crate::read::Read;

const NAMES: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
const UIDS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];

/// Labels the template and makes a selector for these labels, unless the Job has `manualSelector`.
pub(super) fn generate_selector(job: &mut Value) {
    let this = &*job;
    if this.at("spec").bool("manualSelector") {
        return;
    }
    let name = this.at("metadata").str("name").to_owned();
    let uid = this.at("metadata").str("uid").to_owned();
    let spec = child(job, "spec");
    let labels = object_of(child(child(child(spec, "template"), "metadata"), "labels"));
    for (key, value) in NAMES.iter().map(|key| (key, &name)).chain(UIDS.iter().map(|key| (key, &uid))) {
        labels.entry(*key).or_insert_with(|| Value::from(value.as_str()));
    }
    let selected = object_of(child(child(spec, "selector"), "matchLabels"));
    if !selected.contains_key(UIDS[1]) {
        put(selected, UIDS[1], uid.into());
    }
}
