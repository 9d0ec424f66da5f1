//! The objects of a cluster at one revision, for the invariants of users.

use std::collections::BTreeMap;

use evenkeel_cluster::{StoredChange, StoredObject};
use kube::Resource;
use serde::de::DeserializeOwned;

use crate::state::KeyParts;

/// The objects of a cluster at one revision, as an invariant sees them.
///
/// ```
/// use evenkeel_explore::View;
/// use k8s_openapi::api::core::v1::Secret;
///
/// /// No Secret is without data.
/// fn full(world: &View) -> bool {
///     world.list::<Secret>().iter().all(|secret| secret.data.is_some())
/// }
/// ```
#[derive(Clone, Debug, Default)]
pub struct View {
    objects: BTreeMap<String, StoredObject>,
    revision: u64,
}

impl View {
    /// The revision that this view shows.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Lists all objects of a kind, in all namespaces. Objects that cannot be decoded are left out.
    pub fn list<K: Resource<DynamicType = ()> + DeserializeOwned>(&self) -> Vec<K> {
        let (group, plural) = (K::group(&()), K::plural(&()));
        let of_kind = self.objects.iter().filter(|(key, _)| {
            let parts = KeyParts::of(key);
            parts.group == group && parts.plural == plural
        });
        of_kind.filter_map(|(_, object)| serde_json::from_slice(&object.json).ok()).collect()
    }

    /// Returns the object of a kind with this name, in any namespace.
    pub fn get<K: Resource<DynamicType = ()> + DeserializeOwned>(&self, name: &str) -> Option<K> {
        self.list::<K>().into_iter().find(|object| object.meta().name.as_deref() == Some(name))
    }

    fn apply(&mut self, change: &StoredChange) {
        self.revision = change.revision;
        match &change.after {
            Some(after) => drop(self.objects.insert(change.key().to_owned(), after.clone())),
            None => drop(self.objects.remove(change.key())),
        }
    }
}

/// A named condition that every run must fulfil.
pub(crate) struct Invariant {
    pub(crate) name: String,
    pub(crate) when: When,
    pub(crate) holds: Box<dyn Fn(&View) -> bool + Send + Sync>,
}

/// When an invariant must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// At every revision.
    Always,
    /// At one revision at least.
    Eventually,
}

/// Returns the name and description of the first invariant that these changes violate.
pub(crate) fn violated(changes: &[StoredChange], invariants: &[Invariant]) -> Option<(String, String)> {
    if invariants.is_empty() {
        return None;
    }
    let mut view = View::default();
    let mut came_true = vec![false; invariants.len()];
    for change in changes {
        view.apply(change);
        for (at, invariant) in invariants.iter().enumerate() {
            let holds = (invariant.holds)(&view);
            came_true[at] |= holds;
            if invariant.when == When::Always && !holds {
                let object = KeyParts::of(change.key()).short();
                let what = format!(
                    "{} does not hold at revision {}, which changed {object}",
                    invariant.name, view.revision
                );
                return Some((invariant.name.clone(), what));
            }
        }
    }
    let never = invariants.iter().zip(came_true).find(|(it, came)| it.when == When::Eventually && !came)?;
    Some((never.0.name.clone(), format!("{} never came true", never.0.name)))
}
