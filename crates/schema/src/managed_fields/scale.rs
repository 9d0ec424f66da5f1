//! Managed fields of the scale subresource: `.spec.replicas` of the Scale is a field of its parent object.

use std::collections::BTreeMap;

use super::entries::{Managed, Owned};
use crate::fieldset::{FieldSet, Path, PathElement};
use crate::json::Value;

const SCALE_VERSION: &str = "autoscaling/v1";

/// How the fields of a Scale map to those of its parent.
#[derive(Debug, Clone)]
pub struct Scale {
    /// The version of the parent in the request.
    pub api_version: String,
    /// The path of the replicas in each served version of the parent; `None` if a version has no scale subresource.
    pub replicas: BTreeMap<String, Option<Path>>,
}

impl Scale {
    /// A parent that is served in one version, with its replicas at the given path of field names.
    pub fn new(api_version: &str, replicas: &[&str]) -> Self {
        let path = Path(replicas.iter().map(|name| PathElement::field(name)).collect());
        Self { api_version: api_version.into(), replicas: [(api_version.into(), Some(path))].into() }
    }

    /// The `managedFields` of the Scale, derived from those of its parent.
    pub fn entries_of_scale(&self, parent: &Value) -> Value {
        let mut scale = Managed::default();
        let parent = Managed::of(parent).unwrap_or_default();
        for (id, owned) in &parent.owned {
            let path = self.replicas.get(&owned.api_version).and_then(Option::as_ref);
            if path.is_some_and(|path| owned.set().has(&path.0)) {
                scale.set_time(id.clone(), parent.time(id).cloned());
                scale.owned.insert(id.clone(), Owned::new(in_scale(), SCALE_VERSION));
            }
        }
        scale.into_json()
    }

    /// The `managedFields` of the parent, after the Scale was written.
    pub fn entries_of_parent(&self, parent: &Value, scale: &Value) -> Value {
        let before = Managed::of(parent).unwrap_or_default();
        let mut scale = Managed::of(scale).unwrap_or_default();
        let mut after = Managed::default();
        for (id, owned) in &before.owned {
            // Entries of versions that are no longer served are dropped.
            let Some(path) = self.replicas.get(&owned.api_version) else { continue };
            let mut owned = owned.clone();
            if let Some(path) = path.as_ref().filter(|path| owned.set().has(&path.0)) {
                // A manager that is no longer in the Scale's managed fields has lost the replicas.
                if scale.owned.remove(id).is_none() {
                    owned.take(&FieldSet::from_iter([path.clone()]));
                }
            }
            if !owned.is_empty() {
                after.set_time(id.clone(), before.time(id).cloned());
                after.owned.insert(id.clone(), owned);
            }
        }
        self.add_new(&before, scale, &mut after);
        after.into_json()
    }

    /// Makes managers that got the replicas through the Scale owners in the parent. Kubernetes records no time for them.
    fn add_new(&self, before: &Managed, scale: Managed, after: &mut Managed) {
        let Some(Some(path)) = self.replicas.get(&self.api_version) else { return };
        for (id, owned) in scale.owned {
            if !in_scale().is_subset(&owned.set()) {
                continue;
            }
            let set = FieldSet::from_iter([path.clone()]);
            after.set_time(id.clone(), before.time(&id).cloned());
            after.owned.insert(id, Owned::new(set, &self.api_version));
        }
    }
}

fn in_scale() -> FieldSet {
    FieldSet::of(&[&["spec", "replicas"]])
}
