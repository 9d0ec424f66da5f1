//! What the changes of a run say about single objects: how often each was made, and what it observed.

use std::collections::BTreeMap;

use evenkeel_cluster::StoredChange;
use serde_json::Value;

use crate::state::KeyParts;

/// Kinds whose loss is a loss of data or of identity.
pub(crate) const PRECIOUS: [&str; 3] = ["/persistentvolumeclaims", "apps/statefulsets", "/secrets"];

/// How often each object of these kinds was destroyed and made again after one revision and up to another, by key.
pub(crate) fn remade(
    changes: &[StoredChange],
    kinds: &[String],
    (after, upto): (u64, u64),
) -> BTreeMap<String, usize> {
    let mut destroyed: BTreeMap<&str, usize> = BTreeMap::new();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for change in changes.iter().filter(|change| change.revision > after && change.revision <= upto) {
        let key = change.key();
        if !kinds.contains(&KeyParts::of(key).kind()) {
            continue;
        }
        if change.after.is_none() {
            *destroyed.entry(key).or_default() += 1;
        } else if change.before.is_none() && destroyed.contains_key(key) {
            *counts.entry(key.to_owned()).or_default() += 1;
        }
    }
    counts
}

/// The first object whose `status.observedGeneration` went back, in words.
pub(crate) fn observed_generation_back(changes: &[StoredChange]) -> Option<String> {
    let observed = |json: &[u8]| {
        let value: Value = serde_json::from_slice(json).ok()?;
        value["status"]["observedGeneration"].as_i64()
    };
    changes.iter().find_map(|change| {
        let (before, after) = (change.before.as_ref()?, change.after.as_ref()?);
        if before.uid != after.uid {
            return None;
        }
        let (before, after) = (observed(&before.json)?, observed(&after.json)?);
        let object = KeyParts::of(change.key()).short();
        (after < before).then(|| {
            format!(
                "{object}: observedGeneration went from {before} to {after} at revision {}",
                change.revision
            )
        })
    })
}
