//! The end of a definition: its instances go first.

use std::sync::Arc;

use evenkeel_store::{Entry, Expect, Op, Range, Write, WriteError};
use serde_json::Value;

use super::{CLEANUP, condition, parse, set_condition, write};
use crate::header::seal;
use crate::registry::storage_prefix;
use crate::status::{Result, Status};
use crate::{ApiServer, Header};

/// Marks a definition whose deletion was asked for.
pub(crate) fn mark_terminating(definition: &mut Value, now: &str) {
    let mut finalizers = definition["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers.iter().any(|it| it == CLEANUP) {
        finalizers.push(CLEANUP.into());
    }
    definition["metadata"]["finalizers"] = finalizers.into();
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_condition(definition, "Terminating", true, "InstanceDeletionPending", message, now);
}

/// Takes a definition that is being deleted as far as it can go.
pub(super) async fn go_on(server: &ApiServer, entry: &Arc<Entry<Header>>) -> Result<()> {
    let mut definition = parse(entry);
    let finalizers = definition["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers.iter().any(|it| it == CLEANUP) {
        return Ok(());
    }
    let prefix = instances(&definition);
    delete_instances(server, &prefix).await?;
    let now = server.now();
    if server.store().count(&prefix) > 0 {
        let started =
            condition(&definition, "Terminating").is_some_and(|it| it["reason"] != "InstanceDeletionPending");
        if !started {
            let message = "CustomResource deletion is in progress";
            set_condition(&mut definition, "Terminating", true, "InstanceDeletionInProgress", message, &now);
            write(server, entry, &definition).await?;
        }
        return Ok(());
    }
    let rest: Vec<Value> = finalizers.into_iter().filter(|it| it != CLEANUP).collect();
    if rest.is_empty() {
        return remove(server, entry).await;
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
    write(server, entry, &definition).await.map(|_| ())
}

async fn remove(server: &ApiServer, entry: &Arc<Entry<Header>>) -> Result<()> {
    let write = Write { key: entry.key.clone(), expect: Expect::Revision(entry.revision), op: Op::Delete };
    match server.store().write(write).await {
        Ok(_) | Err(WriteError::Conflict { .. }) => {}
        Err(error) => return Err(Status::internal(error)),
    }
    server.registry().replace(&entry.header.name, Vec::new());
    Ok(())
}

fn instances(definition: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    storage_prefix(&text(&definition["spec"]["group"]), &text(&definition["spec"]["names"]["plural"]))
}

/// Deletes what can go, and marks what finalizers hold.
async fn delete_instances(server: &ApiServer, prefix: &str) -> Result<()> {
    let range = Range { prefix: prefix.to_owned(), ..Range::default() };
    let page = server.store().range(&range).map_err(Status::internal)?;
    let now = server.now();
    let writes =
        page.entries.iter().filter(|it| !(it.header.deleting && it.header.finalizers)).map(|entry| {
            let op = if entry.header.finalizers { mark(entry, &now) } else { Op::Delete };
            Write { key: entry.key.clone(), expect: Expect::Revision(entry.revision), op }
        });
    server.store().write_all(writes.collect()).await;
    Ok(())
}

fn mark(entry: &Entry<Header>, now: &str) -> Op<Header> {
    let mut object = parse(entry);
    let metadata = &mut object["metadata"];
    metadata["deletionTimestamp"] = now.into();
    metadata["deletionGracePeriodSeconds"] = 0.into();
    let generation = metadata["generation"].as_i64().unwrap_or_default();
    metadata["generation"] = (generation + 1).into();
    let (bytes, header) = seal(&object);
    Op::Put(bytes, header)
}
