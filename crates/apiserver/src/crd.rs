//! CustomResourceDefinitions: the resources that they define, and their status.
//!
//! Kubernetes names, establishes and finalizes CRDs in controllers. This server does it right after a CRD was
//! written, so that a custom resource is served as soon as the request that created its CRD is answered. Like
//! a controller, [`Definitions::follow`] works from the stored state, so that a server can
//! [`Definitions::resume`] after a crash.

mod info;
mod names;
mod terminate;

use std::collections::VecDeque;
use std::sync::Arc;

use evenkeel_env::Env;
use evenkeel_schema::json::{Value, json};
use evenkeel_schema::time::{self, Precision};
use evenkeel_store::{Entry, Expect, Op, Range, Store, Write, WriteError, Written};

use crate::registry::storage_prefix;
use crate::status::{Result, Status};
use crate::storage::StorableObject;
use crate::{Header, Registry, own_status, storage};
use terminate::End;

/// The finalizer that keeps a CRD until all its custom resources are deleted.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The key prefix of CRDs.
pub(crate) fn prefix() -> String {
    storage_prefix("apiextensions.k8s.io", "customresourcedefinitions")
}

/// Sets the `storedVersions` in a CRD's status: the previous ones and the present storage version.
pub(crate) fn prepare(definition: &mut Value, old: Option<&Value>) {
    let stored = storage_version(definition).map(str::to_owned);
    let mut versions =
        old.and_then(|it| it["status"]["storedVersions"].as_array().cloned()).unwrap_or_default();
    if let Some(stored) = stored
        && !versions.iter().any(|it| *it == *stored)
    {
        versions.push(stored.into());
    }
    if !definition["status"].is_object() {
        definition["status"] = json!({"acceptedNames": {"kind": "", "plural": ""}, "conditions": null});
    }
    definition["status"]["storedVersions"] = versions.into();
}

/// The name of the storage version, which may be empty in an invalid definition.
fn storage_version(definition: &Value) -> Option<&str> {
    let versions = definition["spec"]["versions"].as_array();
    let storage = versions.into_iter().flatten().find(|it| it["storage"] == true);
    storage.map(|it| it["name"].as_str().unwrap_or_default())
}

/// Processes the CRDs of a store.
pub(crate) struct Definitions {
    store: Store<Header>,
    env: Env,
    /// The registry in which the resources of CRDs are served.
    registry: Arc<Registry>,
    /// Held while the consequences of a CRD write are processed, so that CRDs are processed one at a time.
    turn: tokio::sync::Mutex<()>,
}

impl Definitions {
    /// Creates the processor of a store's CRDs. Their resources are registered by [`Definitions::load`].
    pub(crate) fn new(store: Store<Header>, env: Env, registry: Arc<Registry>) -> Self {
        Self { store, env, registry, turn: tokio::sync::Mutex::default() }
    }

    /// The current time, in the form of object metadata.
    fn now(&self) -> String {
        time::print(self.env.now(), Precision::Seconds)
    }

    /// Serves the resources of all stored CRDs; called once, when a server starts.
    pub(crate) fn load(&self) {
        for entry in all(self) {
            serve(self, &entry);
        }
    }

    /// Brings every CRD up to date. The previous server may have ended between a write and its consequences.
    pub(crate) async fn resume(&self) -> Result<()> {
        for entry in all(self).iter().filter(|entry| storage::check_readable(entry).is_ok()) {
            self.follow(&entry.key).await?;
        }
        Ok(())
    }

    /// Processes the consequences of a write of a CRD or of one of its custom resources: the CRD's names and
    /// conditions, the served resources, and the end of the CRD.
    ///
    /// It works from the stored state and changes nothing if nothing is due. CRDs are processed one at a time, so
    /// that no two get the same name, and of two writes of one CRD the later one is served.
    pub(crate) async fn follow(&self, key: &str) -> Result<()> {
        let _turn = self.turn.lock().await;
        let mut due = VecDeque::from([key.to_owned()]);
        while let Some(key) = due.pop_front() {
            if advance(self, &key).await? == Names::Changed {
                due.extend(waiting_for_names(self, &key));
            }
        }
        Ok(())
    }

    /// Processes the consequences of a write of a custom resource. Usually there are none, but its CRD may be in
    /// deletion.
    ///
    /// The stored CRD decides, not the one that the request found, because the CRD may have been deleted in the
    /// meantime.
    pub(crate) async fn follow_instance(&self, definition: &str, written: &Written<Header>) -> Result<()> {
        let key = format!("{}{definition}", prefix());
        match (self.store.look(&key, |entry| entry.header.deleting), &written.entry) {
            (Some(true), _) => self.follow(&key).await,
            // The CRD was removed while the custom resource was written. Nothing could delete the custom resource
            // later.
            (None, Some(entry)) => {
                let expect = Expect::Revision(entry.revision);
                let write = Write { key: entry.key.clone(), expect, op: Op::Delete };
                accept_conflict(self.store.write(write).await).map(|_| ())
            }
            _ => Ok(()),
        }
    }
}

/// Whether a CRD's accepted names have changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    Kept,
    /// The CRD may have released names, which others may get now.
    Changed,
}

/// Brings one CRD up to date.
async fn advance(definitions: &Definitions, key: &str) -> Result<Names> {
    let Some(entry) = definitions.store.get(key) else {
        definitions.registry.replace(name_of(key), Vec::new());
        return Ok(Names::Changed);
    };
    if entry.header.deleting {
        serve(definitions, &entry);
        return match terminate::go_on(definitions, &entry).await? {
            End::Reached => Ok(Names::Changed),
            End::Awaited => Ok(Names::Kept),
        };
    }
    let mut definition = parse(&entry)?;
    let status = definition["status"].clone();
    let before = status["acceptedNames"].clone();
    names::accept(definitions, &mut definition);
    if definition["status"] != status {
        own_status::record(&mut definition, &status, definitions.env.now());
    }
    let Some(storable) = storable(&entry, &mut definition) else {
        serve(definitions, &entry);
        return Ok(Names::Kept);
    };
    // A client that watches CRDs may request the resource once the CRD is established, so it must be served
    // before.
    declare(definitions, &definition, &entry);
    let entry = write_storable(definitions, &entry, storable).await?;
    serve(definitions, &entry);
    let same = before == definition["status"]["acceptedNames"];
    Ok(if same { Names::Kept } else { Names::Changed })
}

/// The other CRDs in the same group whose names were not accepted.
fn waiting_for_names(definitions: &Definitions, key: &str) -> Vec<String> {
    let group = name_of(key).split_once('.').map_or("", |(_, group)| group);
    let waits = |entry: &Entry<Header>| {
        let in_group = entry.header.name.ends_with(group) && !entry.header.deleting && *entry.key != *key;
        in_group && parse(entry).is_ok_and(|it| condition(&it, "NamesAccepted").is_some_and(is_false))
    };
    all(definitions).iter().filter(|entry| waits(entry)).map(|entry| entry.key.to_string()).collect()
}

fn is_false(condition: &Value) -> bool {
    condition["status"] == "False"
}

pub(crate) use terminate::mark_terminating;

/// All stored CRDs.
fn all(definitions: &Definitions) -> Vec<Arc<Entry<Header>>> {
    let range = Range { prefix: prefix(), ..Range::default() };
    // A range read of the newest revision never fails.
    definitions.store.range(&range).map(|page| page.entries).unwrap_or_default()
}

/// The name of the CRD with this key.
fn name_of(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or_default()
}

fn parse(entry: &Entry<Header>) -> Result<Value> {
    storage::read(entry)
}

/// Serves the resources of a CRD if it is established.
fn serve(definitions: &Definitions, entry: &Entry<Header>) {
    match parse(entry) {
        Ok(definition) => declare(definitions, &definition, entry),
        Err(status) => tracing::error!("{}; its resources are not served", status.message),
    }
}

fn declare(definitions: &Definitions, definition: &Value, entry: &Entry<Header>) {
    let established = condition(definition, "Established").is_some_and(|it| it["status"] == "True");
    let served = if established { info::resources(definitions, definition, entry) } else { Vec::new() };
    definitions.registry.replace(&entry.header.name, served);
}

/// Encodes a CRD with a changed status. If the status makes the CRD too large to be stored, it is logged and
/// dropped: the client already has its response, as in Kubernetes, whose controllers fail later.
fn storable(entry: &Entry<Header>, definition: &mut Value) -> Option<StorableObject> {
    let refused = |status: Status| {
        tracing::error!(
            key = &*entry.key,
            why = status.message,
            "the status of a CustomResourceDefinition cannot be stored"
        );
    };
    StorableObject::new(definition).map_err(refused).ok()
}

/// Writes a CRD if it differs from the stored one and can be stored.
async fn write(
    definitions: &Definitions,
    entry: &Arc<Entry<Header>>,
    mut definition: Value,
) -> Result<Arc<Entry<Header>>> {
    match storable(entry, &mut definition) {
        Some(storable) => write_storable(definitions, entry, storable).await,
        None => Ok(entry.clone()),
    }
}

/// Writes an encoded CRD if it differs from the stored one.
async fn write_storable(
    definitions: &Definitions,
    entry: &Arc<Entry<Header>>,
    storable: StorableObject,
) -> Result<Arc<Entry<Header>>> {
    if *storable.bytes() == entry.value {
        return Ok(entry.clone());
    }
    let op = storable.into_op();
    let write = Write { key: entry.key.clone(), expect: Expect::Revision(entry.revision), op };
    let written = accept_conflict(definitions.store.write(write).await)?;
    Ok(written.and_then(|it| it.entry).unwrap_or_else(|| entry.clone()))
}

/// The result of a write; `None` if another writer was faster, which will process its own consequences.
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

/// Sets a condition by its type. The transition time changes only with the status.
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
