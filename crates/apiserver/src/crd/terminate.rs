//! Deletion of a CRD, after all its custom resources.

use std::sync::Arc;

use evenkeel_schema::json::Value;
use evenkeel_store::{Entry, Expect, Op, Range, Write};

use super::{CLEANUP, Definitions, accept_conflict, condition, parse, set_condition, write};
use crate::Header;
use crate::registry::storage_prefix;
use crate::status::{Result, Status};
use crate::storage::StorableObject;

/// Prepares a CRD for deletion: adds the finalizer and the condition `Terminating`.
pub(crate) fn mark_terminating(definition: &mut Value, now: &str) {
    let mut finalizers = definition["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers.iter().any(|it| it == CLEANUP) {
        finalizers.push(CLEANUP.into());
    }
    definition["metadata"]["finalizers"] = finalizers.into();
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_condition(definition, "Terminating", true, "InstanceDeletionPending", message, now);
}

/// The progress of a CRD's deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The CRD waits for its custom resources, or for another finalizer.
    Awaited,
    /// The CRD is gone.
    Reached,
}

/// Continues the deletion of a CRD as far as possible.
pub(super) async fn go_on(definitions: &Definitions, entry: &Arc<Entry<Header>>) -> Result<End> {
    let mut definition = parse(entry)?;
    let finalizers = definition["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers.iter().any(|it| it == CLEANUP) {
        return Ok(End::Awaited);
    }
    let prefix = instances(&definition);
    delete_instances(definitions, &prefix).await?;
    let now = definitions.now();
    if definitions.store.count(&prefix) > 0 {
        let started =
            condition(&definition, "Terminating").is_some_and(|it| it["reason"] != "InstanceDeletionPending");
        if !started {
            let message = "CustomResource deletion is in progress";
            set_condition(&mut definition, "Terminating", true, "InstanceDeletionInProgress", message, &now);
            write(definitions, entry, definition).await?;
        }
        return Ok(End::Awaited);
    }
    let rest: Vec<Value> = finalizers.into_iter().filter(|it| it != CLEANUP).collect();
    if rest.is_empty() {
        return remove(definitions, entry).await;
    }
    set_condition(
        &mut definition,
        "Terminating",
        false,
        "InstanceDeletionCompleted",
        "removed all instances",
        &now,
    );
    definition["metadata"]["finalizers"] = rest.into();
    write(definitions, entry, definition).await.map(|_| End::Awaited)
}

async fn remove(definitions: &Definitions, entry: &Arc<Entry<Header>>) -> Result<End> {
    let write = Write { key: entry.key.clone(), expect: Expect::Revision(entry.revision), op: Op::Delete };
    if accept_conflict(definitions.store.write(write).await)?.is_none() {
        return Ok(End::Awaited);
    }
    definitions.registry.replace(&entry.header.name, Vec::new());
    Ok(End::Reached)
}

fn instances(definition: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    storage_prefix(&text(&definition["spec"]["group"]), &text(&definition["spec"]["names"]["plural"]))
}

/// Deletes the custom resources, or marks them as deleted if they have finalizers. If another writer of a
/// custom resource is faster, its write continues the deletion.
async fn delete_instances(definitions: &Definitions, prefix: &str) -> Result<()> {
    let range = Range { prefix: prefix.to_owned(), ..Range::default() };
    let page = definitions.store.range(&range).map_err(Status::internal)?;
    let now = definitions.now();
    let mut writes = Vec::new();
    for entry in page.entries.iter().filter(|it| !(it.header.deleting && it.header.finalizers)) {
        let op = match entry.header.finalizers {
            true => mark(entry, &now),
            false => Ok(Op::Delete),
        };
        // A custom resource that cannot be marked keeps only its own CRD from being removed.
        let Ok(op) = op.inspect_err(|status| {
            tracing::error!(
                key = &*entry.key,
                why = status.message,
                "a custom resource cannot be marked as deleted"
            );
        }) else {
            continue;
        };
        writes.push(Write { key: entry.key.clone(), expect: Expect::Revision(entry.revision), op });
    }
    for outcome in definitions.store.write_all(writes).await {
        accept_conflict(outcome)?;
    }
    Ok(())
}

fn mark(entry: &Entry<Header>, now: &str) -> Result<Op<Header>> {
    let mut object = parse(entry)?;
    let metadata = &mut object["metadata"];
    metadata["deletionTimestamp"] = now.into();
    metadata["deletionGracePeriodSeconds"] = 0.into();
    let generation = metadata["generation"].as_i64().unwrap_or_default();
    metadata["generation"] = generation.saturating_add(1).into();
    StorableObject::new(&mut object).map(StorableObject::into_op)
}
