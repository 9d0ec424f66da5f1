//! What the changes of a run say about single objects: how often each was recreated, and which generations were
//! observed.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_cluster::StoredChange;
use serde_json::Value;

use crate::state::{KeyParts, is_custom};

/// Kinds whose loss is a loss of data or of identity.
pub(crate) const PRECIOUS: [&str; 3] = ["/persistentvolumeclaims", "apps/statefulsets", "/secrets"];

/// Returns how often each object of these kinds was deleted and recreated after revision `after` and up to `until`, by
/// key. Objects whose uid is in `removed` are left out.
pub(crate) fn remade(
    changes: &[StoredChange],
    kinds: &[String],
    removed: &BTreeSet<String>,
    (after, upto): (u64, u64),
) -> BTreeMap<String, usize> {
    let mut destroyed: BTreeSet<&str> = BTreeSet::new();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for change in changes.iter().filter(|change| change.revision > after && change.revision <= upto) {
        let key = change.key();
        if !kinds.contains(&KeyParts::of(key).kind()) {
            continue;
        }
        match (&change.before, &change.after) {
            (Some(before), None) if !removed.contains(&before.uid) => {
                destroyed.insert(key);
            }
            (None, Some(_)) if destroyed.remove(key) => *counts.entry(key.to_owned()).or_default() += 1,
            _ => {}
        }
    }
    counts
}

/// Returns these uids, and those of all objects that go with them: objects with one of them as an owner, what is in a
/// namespace that is one of them, and objects without an owner that are deleted while one of them waits for its
/// finalizers, because it is finalizers that clean up what has no owner.
pub(crate) fn with_dependents(changes: &[StoredChange], removed: &BTreeSet<String>) -> BTreeSet<String> {
    let mut all = removed.clone();
    if all.is_empty() {
        return all;
    }
    let steps = steps(changes);
    // An object can be found to go with another one long after it was made, and its own dependents with it.
    loop {
        let before = all.len();
        let mut waiting: BTreeSet<&str> = BTreeSet::new();
        for step in &steps {
            let is_cleaned_up = step.ends && !step.is_owned && !waiting.is_empty();
            if is_cleaned_up || step.over.iter().any(|uid| all.contains(uid)) {
                all.insert(step.uid.to_owned());
            }
            if step.is_removed {
                waiting.remove(step.uid);
            } else if step.ends && all.contains(step.uid) {
                waiting.insert(step.uid);
            }
        }
        if all.len() == before {
            return all;
        }
    }
}

/// What a change says about what its object goes with.
struct Step<'c> {
    uid: &'c str,
    /// The uids of the owners of the object, and that of its namespace if it was made after the changes began.
    over: Vec<String>,
    is_owned: bool,
    /// Whether the object is removed, or waits for its finalizers from now on.
    ends: bool,
    is_removed: bool,
}

fn steps(changes: &[StoredChange]) -> Vec<Step<'_>> {
    let mut namespaces: BTreeMap<&str, &str> = BTreeMap::new();
    let mut steps = Vec::with_capacity(changes.len());
    for change in changes {
        let Some(object) = change.after.as_ref().or(change.before.as_ref()) else { continue };
        let value: Value = serde_json::from_slice(&object.json).unwrap_or_default();
        let owners = value["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        let mut over: Vec<String> =
            owners.filter_map(|owner| Some(owner["uid"].as_str()?.to_owned())).collect();
        let (parts, is_owned) = (KeyParts::of(change.key()), !over.is_empty());
        if parts.kind() == "/namespaces" {
            namespaces.insert(parts.name, &object.uid);
        }
        over.extend(namespaces.get(parts.namespace).map(|uid| (*uid).to_owned()));
        let is_removed = change.after.is_none();
        let ends = is_removed || !value["metadata"]["deletionTimestamp"].is_null();
        steps.push(Step { uid: &object.uid, over, is_owned, ends, is_removed });
    }
    steps
}

/// A change that lowered `status.observedGeneration`.
pub(crate) struct WentBack {
    pub(crate) kind: String,
    pub(crate) object: String,
    pub(crate) uid: String,
    pub(crate) revision: u64,
    /// The values before and after.
    pub(crate) from: i64,
    pub(crate) to: i64,
}

/// Returns every change of a custom resource that lowered `status.observedGeneration`.
pub(crate) fn observed_generation_back(changes: &[StoredChange]) -> impl Iterator<Item = WentBack> {
    let observed = |json: &[u8]| {
        let value: Value = serde_json::from_slice(json).ok()?;
        value["status"]["observedGeneration"].as_i64()
    };
    let custom = changes.iter().filter(|change| is_custom(KeyParts::of(change.key()).group));
    custom.filter_map(move |change| {
        let (before, after) = (change.before.as_ref()?, change.after.as_ref()?);
        if before.uid != after.uid {
            return None;
        }
        let (from, to) = (observed(&before.json)?, observed(&after.json)?);
        let parts = KeyParts::of(change.key());
        let (kind, object, revision) = (parts.kind(), parts.short(), change.revision);
        (to < from).then(|| WentBack { kind, object, uid: after.uid.clone(), revision, from, to })
    })
}

/// The generation that an object had at a revision. `None` if it did not exist then.
pub(crate) fn generation_at(changes: &[StoredChange], uid: &str, revision: u64) -> Option<i64> {
    let then = changes.iter().take_while(|change| change.revision <= revision);
    let object = then.filter_map(|change| change.after.as_ref()).filter(|after| after.uid == uid).last()?;
    let value: Value = serde_json::from_slice(&object.json).ok()?;
    value["metadata"]["generation"].as_i64()
}
