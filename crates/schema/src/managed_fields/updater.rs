//! Changes the owners of fields as objects change, by the rules of Kubernetes' structured merge.

use std::collections::BTreeMap;

use super::compare::{Comparison, compare};
use super::conflict::Conflicts;
use super::entries::{Managed, ManagerId, Owned};
use super::exact::owns_exactly;
use super::fields::{fields_of, may_be_stale, reconcile};
use super::merge::{Merged, merge};
use super::prune;
use super::remove::{remove, removed};
use super::typed::Node;
use super::{ApplyError, Context};
use crate::fieldset::FieldSet;
use crate::json::Value;

/// The fields that a write changed and removed.
struct Changes {
    set: FieldSet,
    removed: FieldSet,
}

impl From<Comparison> for Changes {
    fn from(compared: Comparison) -> Self {
        Self { set: compared.modified.union(&compared.added), removed: compared.removed }
    }
}

/// The effect of one write on an object's managed fields.
pub(super) struct Updater<'a> {
    ctx: &'a Context<'a>,
    node: Node<'a>,
}

impl<'a> Updater<'a> {
    pub(super) fn new(ctx: &'a Context<'a>) -> Self {
        Self { ctx, node: Node::root(ctx.schema) }
    }

    /// Makes one manager the only owner of all fields that differ.
    pub(super) fn update(&self, live: &Value, new: &Value, managed: Managed, id: ManagerId) -> Managed {
        let mut managed = self.reconciled(live, managed);
        let compared = self.filtered(compare(self.node, live, new));
        let changed = strip_meta(&compared.modified.union(&compared.added));
        let conflicts = self.take(Some((live, new)), &mut managed, None, compared);
        forget(&mut managed, &conflicts);
        if !changed.is_empty() {
            match managed.owned.get_mut(&id) {
                Some(owned) => owned.add(&changed),
                None => {
                    managed.owned.insert(id.clone(), Owned::new(changed, self.ctx.api_version));
                }
            }
            managed.touch(id, self.ctx.now);
        }
        managed
    }

    /// Merges a configuration into the object. Returns whether that changed it.
    pub(super) fn apply(
        &self,
        live: &mut Value,
        config: &Value,
        managed: Managed,
        id: &ManagerId,
        force: bool,
    ) -> Result<(bool, Managed), ApplyError> {
        let mut managed = self.reconciled(live, managed);
        // Comparing in other versions needs the object as it was.
        let old = (!managed.is_all_in(self.ctx.api_version)).then(|| live.clone());
        let Merged { mut compared, mut changed } = merge(self.node, live, config)
            .map_err(|error| ApplyError::Internal(format!("failed to merge config: {error}")))?;
        if !self.keeps_fields(&managed, id, config) {
            let set = self.ctx.reset.filter(fields_of(self.node, config));
            let before = managed.owned.insert(id.clone(), Owned::new(set, self.ctx.api_version));
            if let Some(before) = before.filter(|before| self.has_dropped(before, &managed, id)) {
                match &old {
                    None => {
                        let removed_fields = prune::fields_to_remove(self.node, live, &before, &managed);
                        changed |= !removed_fields.is_empty();
                        compared.removed = compared.removed.union(&removed(self.node, live, &removed_fields));
                        if !removed_fields.is_empty() {
                            remove(self.node, live, &removed_fields);
                        }
                    }
                    Some(old) => {
                        let pruned = prune::across_versions(self.ctx, self.node, live, &managed, id, &before);
                        *live = pruned.unwrap_or_else(|| std::mem::take(live));
                        compared = compare(self.node, old, live);
                        changed = !crate::json::same(old, live);
                    }
                }
            }
        }
        let compared = self.filtered(compared);
        let versions = old.as_ref().map(|old| (old, &*live));
        let conflicts = self.take(versions, &mut managed, Some(id), compared);
        if !force && !conflicts.is_empty() {
            return Err(ApplyError::Conflicts(Conflicts::new(conflicts)));
        }
        forget(&mut managed, &conflicts);
        self.strip(&mut managed, id);
        Ok((changed, managed))
    }

    /// Whether the manager applies exactly the fields that it applied last time. Then its entry stays unchanged.
    fn keeps_fields(&self, managed: &Managed, id: &ManagerId, config: &Value) -> bool {
        let before = managed.owned.get(id).filter(|before| before.api_version == self.ctx.api_version);
        let stored = before.and_then(Owned::stored);
        stored
            .is_some_and(|stored| !self.ctx.reset.touches(config) && owns_exactly(self.node, config, stored))
    }

    /// Whether the manager applied a field last time that it does not apply now.
    fn has_dropped(&self, before: &Owned, managed: &Managed, id: &ManagerId) -> bool {
        let Some(now) = managed.owned.get(id) else { return true };
        !before.is_empty() && (before.api_version != self.ctx.api_version || !before.is_subset(&now.set()))
    }

    fn filtered(&self, compared: Comparison) -> Comparison {
        let reset = self.ctx.reset;
        Comparison {
            removed: reset.filter(compared.removed),
            modified: reset.filter(compared.modified),
            added: reset.filter(compared.added),
        }
    }

    /// Finds the changed fields that other managers own, and removes the deleted fields from their sets. Drops managers whose
    /// version is no longer served. `objects` is needed if a manager wrote in another version.
    fn take(
        &self,
        objects: Option<(&Value, &Value)>,
        managed: &mut Managed,
        but: Option<&ManagerId>,
        compared: Comparison,
    ) -> BTreeMap<ManagerId, FieldSet> {
        let mut versions: BTreeMap<String, Option<Changes>> = BTreeMap::new();
        versions.insert(self.ctx.api_version.into(), Some(compared.into()));
        let mut conflicts = BTreeMap::new();
        managed.owned.retain(|id, owned| {
            if Some(id) == but {
                return true;
            }
            if !versions.contains_key(&owned.api_version) {
                let compared = objects.and_then(|(old, new)| self.compare_in(&owned.api_version, old, new));
                versions.insert(owned.api_version.clone(), compared.map(Changes::from));
            }
            let Some(Some(changes)) = versions.get(&owned.api_version) else { return false };
            let conflict = owned.intersection(&changes.set);
            if !conflict.is_empty() {
                conflicts.insert(id.clone(), conflict);
            }
            owned.take(&changes.removed);
            true
        });
        conflicts
    }

    fn compare_in(&self, version: &str, old: &Value, new: &Value) -> Option<Comparison> {
        let (old, schema) = self.ctx.versions.convert(old, version)?;
        let (new, _) = self.ctx.versions.convert(new, version)?;
        Some(self.filtered(compare(Node::root(schema), &old, &new)))
    }

    /// Adapts the managed fields to the current schemas. Schemas of built-in kinds never change.
    fn reconciled(&self, live: &Value, mut managed: Managed) -> Managed {
        let builtin = !self.ctx.schema.resolve().gvks.is_empty();
        managed.owned.retain(|_, owned| {
            if builtin && owned.api_version == self.ctx.api_version {
                return true;
            }
            let Some(node) = self.node_in(live, &owned.api_version) else { return false };
            if owned.stored().is_none_or(|stored| may_be_stale(node, stored))
                && let Some(set) = reconcile(node, &owned.set())
            {
                owned.replace(set);
            }
            true
        });
        managed
    }

    fn node_in(&self, object: &Value, version: &str) -> Option<Node<'a>> {
        if version == self.ctx.api_version {
            return Some(self.node);
        }
        self.ctx.versions.convert(object, version).map(|(_, schema)| Node::root(schema))
    }

    /// Removes the fields that are never managed: type and identity of the object.
    fn strip(&self, managed: &mut Managed, id: &ManagerId) {
        let Some(owned) = managed.owned.get_mut(id) else { return };
        owned.take(meta());
        if owned.is_empty() {
            managed.owned.remove(id);
        }
    }
}

/// Removes fields from the managers that lost them.
fn forget(managed: &mut Managed, conflicts: &BTreeMap<ManagerId, FieldSet>) {
    managed.owned.retain(|id, owned| {
        if let Some(lost) = conflicts.get(id) {
            owned.take(lost);
        }
        !owned.is_empty()
    });
}

fn strip_meta(set: &FieldSet) -> FieldSet {
    set.difference(meta())
}

/// The fields that are never managed.
fn meta() -> &'static FieldSet {
    static META: std::sync::OnceLock<FieldSet> = std::sync::OnceLock::new();
    META.get_or_init(|| {
        let mut paths: Vec<Vec<&str>> = vec![vec!["apiVersion"], vec!["kind"], vec!["metadata"]];
        paths.extend(super::exact::IDENTITY.iter().map(|name| vec!["metadata", name]));
        let paths: Vec<&[&str]> = paths.iter().map(Vec::as_slice).collect();
        FieldSet::of(&paths)
    })
}
