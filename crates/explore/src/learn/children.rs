//! The objects of the undisturbed run that plans can delete, change or crash: children of operators, and pods.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{is_counted, kind_of};
use crate::director::change_of;
use crate::run::Run;
use crate::state::{KeyParts, has_controller};

/// A child of an operator: an object that the operator writes, watches and looks after.
#[derive(Clone, Debug)]
pub(crate) struct Child {
    pub(crate) operator: String,
    pub(crate) path: String,
    /// The rests at which the child exists.
    pub(crate) rests: Vec<usize>,
    /// Whether the operator applies a field of the child that another client can change.
    pub(crate) is_applied: bool,
    /// The revisions at which the child was created and removed, for each time that it existed.
    pub(crate) lives: Vec<(u64, u64)>,
}

/// A running pod at a rest.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) path: String,
    pub(crate) rest: usize,
    /// The node that the pod runs on.
    pub(crate) node: String,
}

/// Returns the objects that an operator wrote and watches, and that it looks after.
pub(super) fn children(
    run: &Run,
    operators: &[String],
    watched: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<Child> {
    let mut written: BTreeMap<(String, String, String), (String, String, bool)> = BTreeMap::new();
    for exchange in run.exchanges.iter().filter(|it| is_counted(it, operators)) {
        let (Some(target), Some(wrote)) = (exchange.target(), exchange.outcome.wrote()) else { continue };
        let kind = kind_of(&target);
        let Some(name) = name_of(run, &target.name, wrote) else { continue };
        if !target.subresource.is_empty() || !watched[&*exchange.by].contains(&kind) {
            continue;
        }
        let path = exchange.path.split('?').next().unwrap_or_default();
        let path = if target.name.is_empty() { format!("{path}/{name}") } else { path.to_owned() };
        let object = (kind, target.namespace.to_string(), name);
        let entry = written.entry(object).or_insert_with(|| (exchange.by.to_string(), path, false));
        entry.2 |= exchange.verb == "apply";
    }
    let children = written.into_iter().map(|(object, (operator, path, applies))| {
        let found = found(run, &object);
        let is_applied = applies && found.iter().any(|(_, value)| change_of(value).is_some());
        let rests = found.into_iter().map(|(rest, _)| rest).collect();
        Child { operator, path, rests, is_applied, lives: lives(run, &object) }
    });
    children.filter(|child| !child.rests.is_empty()).collect()
}

/// Returns the name in a path, or that of the object that the request created at this revision.
fn name_of(run: &Run, name: &str, wrote: u64) -> Option<String> {
    if !name.is_empty() {
        return Some(name.to_owned());
    }
    let changes = run.played.changes.as_deref().unwrap_or_default();
    let at = changes.binary_search_by_key(&wrote, |change| change.revision).ok()?;
    Some(KeyParts::of(changes[at].key()).name.to_owned())
}

/// Returns whether an operator looks after an object: an object with an owner whose kind triggers reconciles, or one
/// without an owner that triggers reconciles itself and that an operator has created. Operators that do not use this
/// runtime do not report what triggers them, and count as triggered by what they own.
fn is_looked_after(run: &Run, object: &Value, made_by_operator: bool) -> bool {
    let metadata = &object["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = format!("{} ", text(&object["kind"]));
    if !metadata["deletionTimestamp"].is_null() {
        return false;
    }
    if has_controller(object) {
        return run.causes.is_empty() || run.causes.iter().any(|causes| causes.contains(&kind));
    }
    let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
    let key = if namespace.is_empty() { name } else { format!("{namespace}/{name}") };
    let this = format!("{kind}{key} ");
    made_by_operator && run.causes.iter().any(|causes| causes.contains(&this))
}

/// Returns the rests at which an object exists, has not finished, and is looked after by an operator. An object that the
/// scenario has made is not: an operator that has adopted it cannot make it again.
fn found(run: &Run, object: &(String, String, String)) -> Vec<(usize, Value)> {
    let (kind, namespace, name) = object;
    let lives = lives(run, object);
    let is_made_by = |by: &dyn Fn(&str) -> bool| {
        let mut theirs = run.exchanges.iter().filter(|it| by(&it.by));
        theirs.any(|it| it.outcome.wrote().is_some_and(|wrote| lives.iter().any(|(made, _)| *made == wrote)))
    };
    if is_made_by(&|by| run.is_scenario(by)) {
        return Vec::new();
    }
    let made_by_operator = is_made_by(&|by| run.is_operator(by));
    let checkpoints = run.played.checkpoints.iter();
    let found = checkpoints.filter_map(|checkpoint| {
        let object = checkpoint.objects.iter().find(|object| {
            let parts = KeyParts::of(&object.key);
            parts.name == name && parts.namespace == namespace && parts.kind() == *kind
        })?;
        let value: Value = serde_json::from_slice(&object.json).ok()?;
        let is_child = !is_finished(kind, &value) && is_looked_after(run, &value, made_by_operator);
        is_child.then_some((checkpoint.rest, value))
    });
    found.collect()
}

/// Returns the revisions between which an object exists, for each time that it existed.
fn lives(run: &Run, (kind, namespace, name): &(String, String, String)) -> Vec<(u64, u64)> {
    let mut lives = Vec::new();
    for change in run.played.changes.iter().flatten() {
        let parts = KeyParts::of(change.key());
        if parts.name != name || parts.namespace != namespace || parts.kind() != *kind {
            continue;
        }
        if change.before.is_none() {
            lives.push((change.revision, u64::MAX));
        } else if change.after.is_none()
            && let Some(last) = lives.last_mut()
        {
            last.1 = change.revision;
        }
    }
    lives
}

fn is_owned(object: &Value) -> bool {
    has_controller(object) && object["metadata"]["deletionTimestamp"].is_null()
}

/// Returns whether an object has finished its work, so that nobody would recreate it.
fn is_finished(kind: &str, object: &Value) -> bool {
    let phase = object["status"]["phase"].as_str().unwrap_or_default();
    kind == "batch/jobs" || (kind == "/pods" && matches!(phase, "Succeeded" | "Failed"))
}

/// Returns the pods that run at each rest and that a controller would replace.
pub(super) fn pods(run: &Run) -> Vec<Pod> {
    let mut pods = Vec::new();
    for checkpoint in &run.played.checkpoints {
        for object in checkpoint.objects.iter().filter(|it| KeyParts::of(&it.key).plural == "pods") {
            let Ok(value) = serde_json::from_slice::<Value>(&object.json) else { continue };
            let owners = value["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            let of_a_job = owners.into_iter().any(|owner| owner["kind"] == "Job");
            if value["status"]["phase"] != "Running" || !is_owned(&value) || of_a_job {
                continue;
            }
            let parts = KeyParts::of(&object.key);
            let path = format!("/api/v1/namespaces/{}/pods/{}", parts.namespace, parts.name);
            let node = value["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
            pods.push(Pod { path, rest: checkpoint.rest, node });
        }
    }
    pods
}
