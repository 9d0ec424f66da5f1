//! Moves ownership as objects change: the rules of structured merge.

use std::collections::BTreeMap;

use super::compare::{Comparison, compare};
use super::conflict::Conflicts;
use super::entries::{Managed, ManagerId, Owned, same_but_record};
use super::fields::{fields_of, reconcile, with_named_parents};
use super::merge::merge;
use super::remove::remove;
use super::typed::Node;
use super::{ApplyError, Context};
use crate::fieldset::FieldSet;
use crate::json::Value;
use crate::types::Schema;

/// What a write changed and what it removed.
struct Changes {
    set: FieldSet,
    removed: FieldSet,
}

impl From<Comparison> for Changes {
    fn from(compared: Comparison) -> Self {
        Self { set: compared.modified.union(&compared.added), removed: compared.removed }
    }
}

/// One write on the record of an object.
pub(super) struct Updater<'a> {
    ctx: &'a Context<'a>,
    node: Node<'a>,
}

impl<'a> Updater<'a> {
    pub(super) fn new(ctx: &'a Context<'a>) -> Self {
        Self { ctx, node: Node::root(ctx.schema) }
    }

    /// Gives all that differs to one manager, and takes it from all others.
    pub(super) fn update<'v>(
        &self,
        live: &Value,
        new: &Value,
        managed: Managed<'v>,
        id: ManagerId,
    ) -> Managed<'v> {
        let mut managed = self.reconciled(live, managed);
        let compared = self.compare(live, new);
        let changed = compared.modified.union(&compared.added);
        let conflicts = self.take(live, new, &mut managed, None, compared);
        forget(&mut managed, &conflicts);
        let changed = strip_meta(&self.ctx.reset.filter(changed));
        if !changed.is_empty() {
            let set = managed.owned.get(&id).map_or(changed.clone(), |before| changed.union(&before.set()));
            managed.owned.insert(id.clone(), Owned::new(set, self.ctx.api_version.to_owned()));
            managed.touch(id, self.ctx.now);
        }
        managed
    }

    /// Lays a configuration over the object. The object is `None` where nothing of it changed.
    pub(super) fn apply<'v>(
        &self,
        live: &Value,
        config: &Value,
        managed: Managed<'v>,
        id: ManagerId,
        force: bool,
    ) -> Result<(Option<Value>, Managed<'v>), ApplyError> {
        let mut managed = self.reconciled(live, managed);
        let merged = merge(self.node, live, config)
            .map_err(|error| ApplyError::Internal(format!("failed to merge config: {error}")))?;
        let set = self.ctx.reset.filter(fields_of(self.node, config));
        let before = managed.owned.insert(id.clone(), Owned::new(set, self.ctx.api_version.to_owned()));
        let merged = self.prune(merged, &managed, &id, before);
        let compared = self.compare(live, &merged);
        let conflicts = self.take(live, &merged, &mut managed, Some(&id), compared);
        if !force && !conflicts.is_empty() {
            return Err(ApplyError::Conflicts(Conflicts::new(conflicts)));
        }
        forget(&mut managed, &conflicts);
        self.strip(&mut managed, &id);
        let changed = !same_but_record(live, &merged);
        Ok((changed.then_some(merged), managed))
    }

    /// What differs, but for what this endpoint may not own.
    fn compare(&self, old: &Value, new: &Value) -> Comparison {
        self.filtered(compare(self.node, old, new))
    }

    fn filtered(&self, compared: Comparison) -> Comparison {
        let reset = self.ctx.reset;
        Comparison {
            removed: reset.filter(compared.removed),
            modified: reset.filter(compared.modified),
            added: reset.filter(compared.added),
        }
    }

    /// Finds what others own of the changes, and takes from them what is gone. Those whose version is not served
    /// any more are dropped.
    fn take(
        &self,
        old: &Value,
        new: &Value,
        managed: &mut Managed<'_>,
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
            if !versions.contains_key(owned.api_version.as_ref()) {
                let compared = self.compare_in(&owned.api_version, old, new);
                versions.insert(owned.api_version.to_string(), compared.map(Changes::from));
            }
            let Some(Some(changes)) = versions.get(owned.api_version.as_ref()) else { return false };
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

    /// The record in the terms of the schemas of today. Those of built-in kinds do not change while a record lives.
    fn reconciled<'v>(&self, live: &Value, mut managed: Managed<'v>) -> Managed<'v> {
        let builtin = !self.ctx.schema.resolve().gvks.is_empty();
        managed.owned.retain(|_, owned| {
            if builtin && owned.api_version == self.ctx.api_version {
                return true;
            }
            let Some(node) = self.node_in(live, &owned.api_version) else { return false };
            if let Some(set) = reconcile(node, &owned.set()) {
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
        self.schema_in(object, version).map(Node::root)
    }

    fn schema_in(&self, object: &Value, version: &str) -> Option<&'a Schema> {
        self.ctx.versions.convert(object, version).map(|(_, schema)| schema)
    }

    /// Removes what the manager applied last time, does not apply now, and nobody else owns.
    fn prune(
        &self,
        merged: Value,
        managed: &Managed<'_>,
        id: &ManagerId,
        before: Option<Owned<'_>>,
    ) -> Value {
        let Some(before) = before.filter(|before| !before.is_empty()) else { return merged };
        let same_version = before.api_version == self.ctx.api_version;
        let now = managed.owned.get(id).map(Owned::set).unwrap_or_default();
        if same_version && before.set().is_subset(&now) {
            return merged;
        }
        if same_version {
            return self.prune_in(self.node, merged, managed, &before);
        }
        // The last apply was in another version: its fields are found in the object as that version shows it.
        let Some((shown, schema)) = self.ctx.versions.convert(&merged, &before.api_version) else {
            return merged;
        };
        let pruned = self.prune_in(Node::root(schema), shown, managed, &before);
        self.ctx.versions.convert(&pruned, self.ctx.api_version).map_or(merged, |(pruned, _)| pruned)
    }

    fn prune_in(&self, node: Node<'_>, merged: Value, managed: &Managed<'_>, before: &Owned<'_>) -> Value {
        let last = with_named_parents(node, &before.set());
        let pruned = remove(node, merged.clone(), &last);
        let pruned = self.add_back_owned(node, &merged, pruned, managed, &before.api_version);
        // What was removed and never was the manager's comes back.
        let there = with_named_parents(node, &fields_of(node, &merged));
        let left = with_named_parents(node, &fields_of(node, &pruned));
        remove(node, merged, &there.difference(&left).intersection(&last))
    }

    /// Restores what somebody owns, in each version that somebody wrote in.
    fn add_back_owned(
        &self,
        node: Node<'_>,
        merged: &Value,
        pruned: Value,
        managed: &Managed<'_>,
        version: &str,
    ) -> Value {
        let mut by_version: BTreeMap<&str, FieldSet> = BTreeMap::new();
        for owned in managed.owned.values() {
            let set = by_version.entry(owned.api_version.as_ref()).or_default();
            *set = set.union(&owned.set());
        }
        let own = by_version.remove(version).unwrap_or_default();
        let mut pruned = restore(node, merged, &pruned, &own);
        for (other, owned) in by_version {
            pruned = self.restore_in(other, merged, pruned, &owned, version);
        }
        pruned
    }

    fn restore_in(
        &self,
        other: &str,
        merged: &Value,
        pruned: Value,
        owned: &FieldSet,
        version: &str,
    ) -> Value {
        let convert = |object: &Value, to: &str| self.ctx.versions.convert(object, to);
        let there = convert(merged, other).zip(convert(&pruned, other));
        let Some(((merged, schema), (shown, _))) = there else { return pruned };
        let restored = restore(Node::root(schema), &merged, &shown, owned);
        convert(&restored, version).map_or(pruned, |(restored, _)| restored)
    }

    /// Type and identity of an object are nobody's.
    fn strip(&self, managed: &mut Managed<'_>, id: &ManagerId) {
        let Some(owned) = managed.owned.get_mut(id) else { return };
        owned.replace(strip_meta(&owned.set()));
        if owned.is_empty() {
            managed.owned.remove(id);
        }
    }
}

/// The merged object without what neither the pruned one has nor anybody owns.
fn restore(node: Node<'_>, merged: &Value, pruned: &Value, owned: &FieldSet) -> Value {
    let there = with_named_parents(node, &fields_of(node, merged));
    let left = with_named_parents(node, &fields_of(node, pruned));
    let gone = there.difference(&left.union(&with_named_parents(node, owned)));
    remove(node, merged.clone(), &gone)
}

/// Takes fields away from those who lost them.
fn forget(managed: &mut Managed<'_>, conflicts: &BTreeMap<ManagerId, FieldSet>) {
    managed.owned.retain(|id, owned| {
        if let Some(lost) = conflicts.get(id) {
            owned.take(lost);
        }
        !owned.is_empty()
    });
}

fn strip_meta(set: &FieldSet) -> FieldSet {
    static META: std::sync::OnceLock<FieldSet> = std::sync::OnceLock::new();
    let meta = META.get_or_init(|| {
        FieldSet::of(&[
            &["apiVersion"],
            &["kind"],
            &["metadata"],
            &["metadata", "name"],
            &["metadata", "namespace"],
            &["metadata", "creationTimestamp"],
            &["metadata", "selfLink"],
            &["metadata", "uid"],
            &["metadata", "clusterName"],
            &["metadata", "generation"],
            &["metadata", "managedFields"],
            &["metadata", "resourceVersion"],
        ])
    });
    set.difference(meta)
}
