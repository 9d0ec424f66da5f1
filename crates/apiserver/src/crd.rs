//! CustomResourceDefinitions: which resources they declare, and what the server says back in their status.
//!
//! What Kubernetes does in controllers (naming, establishing, finalizing) is done here right after a definition was
//! written, so that a custom resource is served when the answer to its definition's creation has arrived. Like a
//! controller it works from what is stored ([`follow`]), so that a server that starts can take it up again ([`resume`]).

mod info;
mod names;
mod terminate;

use std::collections::VecDeque;
use std::sync::Arc;

use evenkeel_store::{Entry, Expect, Op, Range, Write, WriteError, Written};
use serde_json::{Value, json};

use crate::header::encode_object;
use crate::registry::storage_prefix;
use crate::status::{Result, Status};
use crate::{ApiServer, Header, storage};
use terminate::End;

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
    for entry in all(server) {
        serve(server, &entry);
    }
}

/// Takes every definition as far as it can go: a server before this one may have ended between a write of a
/// definition, or of its last instance, and what follows it.
pub(crate) async fn resume(server: &ApiServer) -> Result<()> {
    for entry in all(server).iter().filter(|entry| storage::check_readable(entry).is_ok()) {
        follow(server, &entry.key).await?;
    }
    Ok(())
}

/// Follows up on a write of a definition or of one of its instances: the definition's names and conditions, what is
/// served, and its end.
///
/// It looks at what is stored now, whatever was written, and changes nothing where nothing is due. Definitions take
/// turns: two of them cannot both be given one name, and of two writes of one definition the later one is served.
pub(crate) async fn follow(server: &ApiServer, key: &str) -> Result<()> {
    let _turn = server.inner().definitions.lock().await;
    let mut due = VecDeque::from([key.to_owned()]);
    while let Some(key) = due.pop_front() {
        if advance(server, &key).await? == Names::Changed {
            due.extend(refused(server, &key));
        }
    }
    Ok(())
}

/// What became of the names that a definition holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    Kept,
    /// Some were given up, perhaps, and others may have them now.
    Changed,
}

/// Takes one definition as far as it can go.
async fn advance(server: &ApiServer, key: &str) -> Result<Names> {
    let Some(entry) = server.store().get(key) else {
        server.registry().replace(name_of(key), Vec::new());
        return Ok(Names::Changed);
    };
    if entry.header.deleting {
        serve(server, &entry);
        return match terminate::go_on(server, &entry).await? {
            End::Reached => Ok(Names::Changed),
            End::Awaited => Ok(Names::Kept),
        };
    }
    let mut definition = parse(&entry)?;
    let before = definition["status"]["acceptedNames"].clone();
    names::accept(server, &mut definition);
    // Whoever watches definitions asks for what is served when told that one is established: it is served by then.
    declare(server, &definition, &entry);
    let entry = write(server, &entry, &definition).await?;
    serve(server, &entry);
    let same = before == definition["status"]["acceptedNames"];
    Ok(if same { Names::Kept } else { Names::Changed })
}

/// The definitions in the group of another one that wait for a name.
fn refused(server: &ApiServer, key: &str) -> Vec<String> {
    let group = name_of(key).split_once('.').map_or("", |(_, group)| group);
    let waits = |entry: &Entry<Header>| {
        let in_group = entry.header.name.ends_with(group) && !entry.header.deleting && *entry.key != *key;
        in_group && parse(entry).is_ok_and(|it| condition(&it, "NamesAccepted").is_some_and(is_false))
    };
    all(server).iter().filter(|entry| waits(entry)).map(|entry| entry.key.to_string()).collect()
}

fn is_false(condition: &Value) -> bool {
    condition["status"] == "False"
}

/// Follows up on a write of an instance. Most often there is nothing to do; but its definition may be on its way out.
///
/// What is stored now counts, not what the request found when it came: a definition may have been deleted since.
pub(crate) async fn follow_instance(
    server: &ApiServer,
    definition: &str,
    written: &Written<Header>,
) -> Result<()> {
    let key = format!("{}{definition}", prefix());
    match (server.store().look(&key, |entry| entry.header.deleting), &written.entry) {
        (Some(true), _) => follow(server, &key).await,
        // The definition went while the instance was written: nobody could ever delete it.
        (None, Some(entry)) => {
            let expect = Expect::Revision(entry.revision);
            let write = Write { key: entry.key.clone(), expect, op: Op::Delete };
            accept_conflict(server.store().write(write).await).map(|_| ())
        }
        _ => Ok(()),
    }
}

pub(crate) use terminate::mark_terminating;

/// All definitions.
fn all(server: &ApiServer) -> Vec<Arc<Entry<Header>>> {
    let range = Range { prefix: prefix(), ..Range::default() };
    // A range of the newest revision is never refused.
    server.store().range(&range).map(|page| page.entries).unwrap_or_default()
}

/// The name of the definition at a key.
fn name_of(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or_default()
}

fn parse(entry: &Entry<Header>) -> Result<Value> {
    storage::read(entry)
}

/// Serves what a definition declares, where its names were accepted.
fn serve(server: &ApiServer, entry: &Entry<Header>) {
    match parse(entry) {
        Ok(definition) => declare(server, &definition, entry),
        Err(status) => tracing::error!("{}; its resources are not served", status.message),
    }
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
    let (bytes, header) = encode_object(definition);
    if bytes == entry.value {
        return Ok(entry.clone());
    }
    let op = Op::Put(bytes, header);
    let write = Write { key: entry.key.clone(), expect: Expect::Revision(entry.revision), op };
    let written = accept_conflict(server.store().write(write).await)?;
    Ok(written.and_then(|it| it.entry).unwrap_or_else(|| entry.clone()))
}

/// What a write did; none where another writer was faster, who follows up on what it wrote.
fn accept_conflict(
    outcome: std::result::Result<Written<Header>, WriteError<Header>>,
) -> Result<Option<Written<Header>>> {
    match outcome {
        Ok(written) => Ok(Some(written)),
        Err(WriteError::Conflict { .. }) => Ok(None),
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
