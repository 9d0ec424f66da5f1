//! CustomResourceDefinitions: which resources they declare, and what the server says back in their status.
//!
//! What Kubernetes does in controllers (naming, establishing, finalizing) is done here right after a definition was
//! written, so that a custom resource is served when the answer to its definition's creation has arrived.

mod info;
mod names;
mod terminate;

use std::sync::Arc;

use evenkeel_store::{Entry, Expect, Op, Range, Write};
use serde_json::{Value, json};

use crate::header::seal;
use crate::registry::storage_prefix;
use crate::status::{Result, Status};
use crate::{ApiServer, Header};

/// Instances go before their definition: while there are any, this holds it.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Where definitions are stored.
pub(crate) fn prefix() -> String {
    storage_prefix("apiextensions.k8s.io", "customresourcedefinitions")
}

/// Says in a definition's status which versions may be stored: those of old, and the one that is written now.
pub(crate) fn prepare(definition: &mut Value, old: Option<&Value>) {
    let stored = storage_version(definition).to_owned();
    let mut versions =
        old.and_then(|it| it["status"]["storedVersions"].as_array().cloned()).unwrap_or_default();
    if !stored.is_empty() && !versions.iter().any(|it| *it == *stored) {
        versions.push(stored.into());
    }
    if !definition["status"].is_object() {
        definition["status"] = json!({"acceptedNames": {"kind": "", "plural": ""}, "conditions": null});
    }
    definition["status"]["storedVersions"] = versions.into();
}

fn storage_version(definition: &Value) -> &str {
    let versions = definition["spec"]["versions"].as_array();
    let storage = versions.into_iter().flatten().find(|it| it["storage"] == true);
    storage.and_then(|it| it["name"].as_str()).unwrap_or_default()
}

/// Serves what the store's definitions declare; once, when a server starts.
pub(crate) fn load(server: &ApiServer) {
    let Ok(page) = server.store().range(&Range { prefix: prefix(), ..Range::default() }) else { return };
    for entry in &page.entries {
        serve(server, entry);
    }
}

/// Follows up on a write of a definition: its names and conditions, what is served, and its end.
pub(crate) async fn follow(server: &ApiServer, key: &str) -> Result<()> {
    let Some(entry) = server.store().get(key) else {
        server.registry().replace(key.rsplit('/').next().unwrap_or_default(), Vec::new());
        return Ok(());
    };
    if entry.header.deleting {
        serve(server, &entry);
        return terminate::go_on(server, &entry).await;
    }
    let mut definition = parse(&entry);
    names::accept(server, &mut definition);
    // Whoever watches definitions asks for what is served when told that one is established: it is served by then.
    declare(server, &definition, &entry);
    let entry = write(server, &entry, &definition).await?;
    serve(server, &entry);
    Ok(())
}

/// Follows up on the end of an instance: it may have been the last of a definition that waits for it.
pub(crate) async fn instance_gone(server: &ApiServer, definition: &str) -> Result<()> {
    match server.store().get(&format!("{}{definition}", prefix())) {
        Some(entry) if entry.header.deleting => terminate::go_on(server, &entry).await,
        _ => Ok(()),
    }
}

pub(crate) use terminate::mark_terminating;

fn parse(entry: &Entry<Header>) -> Value {
    serde_json::from_slice(&entry.value).expect("what is stored was written by us as JSON")
}

/// Serves what a definition declares, where its names were accepted.
fn serve(server: &ApiServer, entry: &Entry<Header>) {
    declare(server, &parse(entry), entry);
}

fn declare(server: &ApiServer, definition: &Value, entry: &Entry<Header>) {
    let established = condition(definition, "Established").is_some_and(|it| it["status"] == "True");
    let served = if established { info::resources(server, definition, entry) } else { Vec::new() };
    server.registry().replace(&entry.header.name, served);
}

/// Writes a definition, where it differs from what is stored.
async fn write(
    server: &ApiServer,
    entry: &Arc<Entry<Header>>,
    definition: &Value,
) -> Result<Arc<Entry<Header>>> {
    let (bytes, header) = seal(definition);
    if bytes == entry.value {
        return Ok(entry.clone());
    }
    let op = Op::Put(bytes, header);
    let write = Write { key: entry.key.clone(), expect: Expect::Revision(entry.revision), op };
    match server.store().write(write).await {
        Ok(written) => Ok(written.entry.unwrap_or_else(|| entry.clone())),
        // Another writer follows up on its own write.
        Err(evenkeel_store::WriteError::Conflict { .. }) => Ok(entry.clone()),
        Err(error) => Err(Status::internal(error)),
    }
}

fn condition<'a>(definition: &'a Value, kind: &str) -> Option<&'a Value> {
    definition["status"]["conditions"].as_array()?.iter().find(|it| it["type"] == kind)
}

/// Sets a condition by its type; the time of transition stays where the status does.
fn set_condition(definition: &mut Value, kind: &str, status: bool, reason: &str, message: &str, now: &str) {
    let status = if status { "True" } else { "False" };
    let mut condition = json!({
        "type": kind, "status": status, "lastTransitionTime": now, "reason": reason, "message": message,
    });
    if !definition["status"]["conditions"].is_array() {
        definition["status"]["conditions"] = json!([]);
    }
    let Some(conditions) = definition["status"]["conditions"].as_array_mut() else { return };
    match conditions.iter_mut().find(|it| it["type"] == kind) {
        Some(old) => {
            if old["status"] == status {
                condition["lastTransitionTime"] = old["lastTransitionTime"].take();
            }
            *old = condition;
        }
        None => conditions.push(condition),
    }
}
