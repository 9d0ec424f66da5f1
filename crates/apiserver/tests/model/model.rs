//! A model of what an API server should do, as simple as possible.
//!
//! An object is a few maps; the state is a map of objects; the history is a list of changes. The model uses
//! none of the server's own rules: it is a second implementation, written from Kubernetes' documentation.

use std::collections::{BTreeMap, BTreeSet};

use crate::operation::{Config, Edit, Id, Policy, Selector, Version};

/// A key that every object has and nothing removes, so that every object has at least one field manager.
pub(crate) const KEPT: &str = "kept";

/// An object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) uid: String,
    pub(crate) revision: u64,
    pub(crate) generation: u64,
    pub(crate) deleting: bool,
    pub(crate) finalizers: BTreeSet<String>,
    pub(crate) labels: BTreeMap<String, String>,
    /// The `data` of a ConfigMap, or the `spec` of a Widget.
    pub(crate) data: BTreeMap<String, String>,
    /// The owned fields, by manager and operation.
    pub(crate) owners: BTreeMap<(String, &'static str), BTreeSet<String>>,
}

/// A change of one object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) id: Id,
    pub(crate) before: Option<Object>,
    pub(crate) after: Option<Object>,
}

/// The expected response to a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The object after the write, with this status code.
    Object(u16, Object),
    /// The object was removed; this was its UID.
    Removed(String),
    /// An error: its code, reason, and the fields that it names.
    Refused(u16, &'static str, BTreeSet<String>),
}

/// The state of a server, and its history since the last compaction.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) revision: u64,
    /// The oldest revision that can still be read.
    pub(crate) floor: u64,
    pub(crate) objects: BTreeMap<Id, Object>,
    pub(crate) changes: Vec<Change>,
    /// A deliberate fault, to test that these tests detect it.
    pub(crate) fault: Option<Fault>,
}

/// A rule that the model can get wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Every update creates a revision, even one that changes nothing.
    EveryUpdateWrites,
    /// An apply never conflicts.
    NoConflicts,
    /// An object that no longer matches a selector is reported as modified instead of deleted.
    LeavingIsModified,
    /// The next page of a list shows the newest state.
    PagesAreNew,
    /// Finalizers do not delay a deletion.
    NothingIsHeld,
}

fn refused(code: u16, reason: &'static str) -> Outcome {
    Outcome::Refused(code, reason, BTreeSet::new())
}

impl Model {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// The resource version that a client sends.
    pub(crate) fn version(&self, id: &Id, version: Version) -> Option<u64> {
        let current = self.objects.get(id).map_or(1, |it| it.revision);
        match version {
            Version::None => None,
            Version::Current => Some(current),
            Version::Stale => Some(current - 1),
        }
    }

    pub(crate) fn create(&mut self, id: &Id, config: &Config, uid: &str) -> Outcome {
        if self.objects.contains_key(id) {
            return refused(409, "AlreadyExists");
        }
        let mut object = Object { uid: uid.to_owned(), ..Object::default() };
        object.generation = u64::from(id.kind.counts_generations());
        (object.labels, object.data, object.finalizers) =
            (config.labels.clone(), config.data.clone(), config.finalizers.clone());
        own_changes(&mut object, &Object::default(), id, &config.manager);
        Outcome::Object(201, self.put(id, object))
    }

    /// A PUT, or a patch that changes an existing object.
    pub(crate) fn update(&mut self, id: &Id, edit: &Edit, version: Version) -> Outcome {
        let Some(old) = self.objects.get(id).cloned() else { return refused(404, "NotFound") };
        let Some(mut new) = edit.apply(&old) else { return refused(422, "Invalid") };
        match version {
            Version::Stale => return refused(409, "Conflict"),
            Version::None if edit.replaces() && id.kind.demands_version() => return refused(422, "Invalid"),
            _ => {}
        }
        if old.deleting && !new.finalizers.is_subset(&old.finalizers) {
            return refused(422, "Invalid");
        }
        own_changes(&mut new, &old, id, edit.manager());
        Outcome::Object(200, self.change(id, old, new))
    }

    /// A server-side apply.
    pub(crate) fn apply(&mut self, id: &Id, config: &Config, force: bool, uid: &str) -> Outcome {
        let own = (config.manager.clone(), "Apply");
        let fields = config.fields(id);
        let Some(old) = self.objects.get(id).cloned() else {
            let mut object = Object { uid: uid.to_owned(), ..Object::default() };
            object.generation = u64::from(id.kind.counts_generations());
            (object.labels, object.data) = (config.labels.clone(), config.data.clone());
            object.owners.insert(own, fields.into_keys().collect());
            return Outcome::Object(201, self.put(id, object));
        };
        let mut new = old.clone();
        let others = |(owner, _): &(&(String, &'static str), &BTreeSet<String>)| **owner != own;
        let shared: BTreeSet<String> =
            old.owners.iter().filter(others).flat_map(|(_, owned)| owned.clone()).collect();
        let given_up = old.owners.get(&own).cloned().unwrap_or_default();
        for field in given_up.iter().filter(|it| !fields.contains_key(*it) && !shared.contains(*it)) {
            new.remove(field);
        }
        new.labels.extend(config.labels.clone());
        new.data.extend(config.data.clone());
        // A changed field conflicts if another manager owns it. This includes a map that is created again.
        let changed = changed(&old.fields(id), &new.fields(id));
        let contested: BTreeSet<String> = changed.intersection(&shared).cloned().collect();
        if !contested.is_empty() && !force && !self.has(Fault::NoConflicts) {
            return Outcome::Refused(409, "Conflict", contested);
        }
        for owned in new.owners.values_mut() {
            owned.retain(|field| !contested.contains(field));
        }
        new.owners.insert(own, fields.into_keys().collect());
        new.owners.retain(|_, owned| !owned.is_empty());
        Outcome::Object(200, self.change(id, old, new))
    }

    pub(crate) fn delete(
        &mut self,
        id: &Id,
        uid: Option<&str>,
        revision: Option<u64>,
        policy: Option<Policy>,
    ) -> Outcome {
        let Some(old) = self.objects.get(id).cloned() else { return refused(404, "NotFound") };
        if uid.is_some_and(|it| it != old.uid) || revision.is_some_and(|it| it != old.revision) {
            return refused(409, "Conflict");
        }
        let mut finalizers = old.finalizers.clone();
        if let Some(policy) = policy {
            finalizers.retain(|it| it != "orphan" && it != "foregroundDeletion");
            match policy {
                Policy::Background => false,
                Policy::Foreground => finalizers.insert("foregroundDeletion".to_owned()),
                Policy::Orphan => finalizers.insert("orphan".to_owned()),
            };
        }
        if finalizers.is_empty() || self.has(Fault::NothingIsHeld) {
            self.remove(id);
            return Outcome::Removed(old.uid);
        }
        Outcome::Object(200, self.mark(id, &old, finalizers))
    }

    /// Deletes the selected objects and returns their previous state. Objects without finalizers are deleted
    /// first.
    pub(crate) fn delete_collection(&mut self, selector: &Selector) -> Vec<(Id, Object)> {
        let selected: Vec<_> = selector.of(&self.objects);
        let (free, held): (Vec<_>, Vec<_>) =
            selected.iter().cloned().partition(|(_, it)| it.finalizers.is_empty());
        free.iter().for_each(|(id, _)| self.remove(id));
        for (id, object) in held {
            self.mark(&id, &object, object.finalizers.clone());
        }
        selected
    }

    fn mark(&mut self, id: &Id, old: &Object, finalizers: BTreeSet<String>) -> Object {
        let first = u64::from(old.generation > 0 && !old.deleting);
        let marked = Object { deleting: true, generation: old.generation + first, finalizers, ..old.clone() };
        if marked == *old { marked } else { self.put(id, marked) }
    }

    /// Stores a changed object. Nothing is stored if it is unchanged, and it is removed if it was being
    /// deleted and its last finalizer is gone.
    fn change(&mut self, id: &Id, old: Object, mut new: Object) -> Object {
        if new == old && !self.has(Fault::EveryUpdateWrites) {
            return old;
        }
        if new.data != old.data && old.generation > 0 {
            new.generation += 1;
        }
        if old.deleting && new.finalizers.is_empty() {
            self.remove(id);
            // The response shows the object that would have been stored, at the previous revision.
            return new;
        }
        self.put(id, new)
    }

    fn put(&mut self, id: &Id, mut object: Object) -> Object {
        self.revision += 1;
        object.revision = self.revision;
        let before = self.objects.insert(id.clone(), object.clone());
        let after = Some(object.clone());
        self.changes.push(Change { revision: self.revision, id: id.clone(), before, after });
        object
    }

    fn remove(&mut self, id: &Id) {
        self.revision += 1;
        let before = self.objects.remove(id);
        self.changes.push(Change { revision: self.revision, id: id.clone(), before, after: None });
    }

    /// Forgets the history up to a revision.
    pub(crate) fn compact(&mut self, revision: u64) {
        self.floor = self.floor.max(revision);
        let floor = self.floor;
        self.changes.retain(|change| change.revision > floor);
    }

    /// All objects at a revision; `None` if the history does not reach back that far.
    pub(crate) fn at(&self, revision: u64) -> Option<BTreeMap<Id, Object>> {
        if revision < self.floor {
            return None;
        }
        let mut objects = self.objects.clone();
        if self.has(Fault::PagesAreNew) {
            return Some(objects);
        }
        for change in self.changes.iter().rev().take_while(|it| it.revision > revision) {
            match &change.before {
                Some(before) => objects.insert(change.id.clone(), before.clone()),
                None => objects.remove(&change.id),
            };
        }
        Some(objects)
    }

    /// The event that a watch with a selector gets for a change: its type and object.
    pub(crate) fn event(&self, selector: &Selector, change: &Change) -> Option<(&'static str, Object)> {
        let selects = |it: &&Object| selector.selects(&change.id, it);
        let (before, after) = (change.before.as_ref().filter(selects), change.after.as_ref().filter(selects));
        let at = |object: &Object| Object { revision: change.revision, ..object.clone() };
        match (before, after) {
            (None, None) => None,
            (None, Some(after)) => Some(("ADDED", after.clone())),
            (Some(_), Some(after)) => Some(("MODIFIED", after.clone())),
            (Some(before), None) if self.has(Fault::LeavingIsModified) && change.after.is_some() => {
                Some(("MODIFIED", at(before)))
            }
            (Some(before), None) => Some(("DELETED", at(before))),
        }
    }
}

/// The fields that are new or have another value.
fn changed(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> BTreeSet<String> {
    let differs = |(field, value): &(&String, &String)| before.get(*field) != Some(*value);
    after.iter().filter(differs).map(|(field, _)| field.clone()).collect()
}

/// Makes `manager` the owner of the fields that it changed, and removes the ownership of fields that it
/// removed.
fn own_changes(new: &mut Object, old: &Object, id: &Id, manager: &str) {
    let (before, after) = (old.fields(id), new.fields(id));
    let changed = changed(&before, &after);
    for owned in new.owners.values_mut() {
        let is_removed = |field: &String| before.contains_key(field) && !after.contains_key(field);
        owned.retain(|field| !is_removed(field) && !changed.contains(field));
    }
    if !changed.is_empty() {
        new.owners.entry((manager.to_owned(), "Update")).or_default().extend(changed);
    }
    new.owners.retain(|_, owned| !owned.is_empty());
}

impl Object {
    /// The fields that can be owned, with their values. Maps and lists can be owned as well as their entries.
    fn fields(&self, id: &Id) -> BTreeMap<String, String> {
        let mut fields = fields(id, &self.labels, &self.data);
        fields.extend(self.finalizers.iter().map(|it| (format!("metadata.finalizers[{it}]"), String::new())));
        let containers = [
            (self.labels.is_empty(), "metadata.labels"),
            (self.finalizers.is_empty(), "metadata.finalizers"),
            (self.data.is_empty(), id.kind.root()),
        ];
        let there = containers.into_iter().filter(|(is_empty, _)| !is_empty);
        fields.extend(there.map(|(_, field)| (field.to_owned(), String::new())));
        fields
    }

    fn remove(&mut self, field: &str) {
        let key = field.rsplit('.').next().unwrap_or_default();
        if field.starts_with("metadata.labels.") {
            self.labels.remove(key)
        } else {
            self.data.remove(key)
        };
    }
}

/// The fields of labels and data, with their values.
pub(crate) fn fields(
    id: &Id,
    labels: &BTreeMap<String, String>,
    data: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let labels = labels.iter().map(|(key, value)| (format!("metadata.labels.{key}"), value.clone()));
    let root = id.kind.root();
    labels.chain(data.iter().map(|(key, value)| (format!("{root}.{key}"), value.clone()))).collect()
}
