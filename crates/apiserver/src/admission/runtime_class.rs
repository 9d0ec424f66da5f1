//! The RuntimeClass plugin: sets the overhead and the scheduling constraints of pods that name a
//! RuntimeClass.

use evenkeel_schema::json::{Map, Value};

use super::plugin::{Admission, Handles, Plugin};
use crate::registry::{GroupResource, storage_prefix};
use crate::status::{Result, Status};
use crate::storage;

const MISMATCH: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
const WITHOUT_CLASS: &str =
    "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";

#[derive(Debug)]
pub(super) struct RuntimeClass;

impl Plugin for RuntimeClass {
    fn handles(&self) -> Handles {
        Handles::creation_of(&[GroupResource::PODS])
    }

    fn mutate(&self, admission: &Admission<'_>, pod: &mut Value) -> Result<()> {
        let class = class(admission, pod)?;
        let spec = &mut pod["spec"];
        let overhead = &class["overhead"]["podFixed"];
        if !overhead.is_null() {
            if !is_empty(&spec["overhead"]) && spec["overhead"] != *overhead {
                return Err(refuse(admission, MISMATCH));
            }
            spec["overhead"] = overhead.clone();
        }
        match class.get("scheduling") {
            Some(scheduling) if !scheduling.is_null() => schedule(admission, spec, scheduling),
            _ => Ok(()),
        }
    }

    fn validate(&self, admission: &Admission<'_>, pod: &Value) -> Result<()> {
        let class = class(admission, pod)?;
        // An overhead that the client left empty counts as given.
        let written = admission.ctx.request.with_empty(pod);
        let given = &written.as_ref().unwrap_or(pod)["spec"]["overhead"];
        match &class["overhead"]["podFixed"] {
            Value::Null if !given.is_null() => Err(refuse(admission, WITHOUT_CLASS)),
            Value::Null => Ok(()),
            overhead if overhead != given => Err(refuse(admission, MISMATCH)),
            _ => Ok(()),
        }
    }
}

fn refuse(admission: &Admission<'_>, why: &str) -> Status {
    Status::not_admitted("", "pods", admission.shown_name(), why)
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_none_or(Map::is_empty)
}

/// The RuntimeClass that a pod names; null if it names none.
fn class(admission: &Admission<'_>, pod: &Value) -> Result<Value> {
    let Some(name) = pod["spec"]["runtimeClassName"].as_str() else { return Ok(Value::Null) };
    let key = format!("{}{name}", storage_prefix("node.k8s.io", "runtimeclasses"));
    match admission.ctx.services.store.get(&key) {
        Some(entry) => storage::read(&entry),
        None => Err(refuse(admission, &format!("pod rejected: RuntimeClass {name:?} not found"))),
    }
}

fn schedule(admission: &Admission<'_>, spec: &mut Value, scheduling: &Value) -> Result<()> {
    let mut selector = spec["nodeSelector"].as_object().cloned().unwrap_or_default();
    for (key, value) in scheduling["nodeSelector"].as_object().into_iter().flatten() {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if let Some(own) = selector.get(key).filter(|own| *own != value) {
            let why = format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                text(value),
                text(own)
            );
            return Err(refuse(admission, &why));
        }
        selector.insert(key.clone(), value.clone());
    }
    if !selector.is_empty() {
        spec["nodeSelector"] = selector.into();
    }
    let mut tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
    for toleration in scheduling["tolerations"].as_array().into_iter().flatten() {
        if !tolerations.contains(toleration) {
            tolerations.push(toleration.clone());
        }
    }
    if !tolerations.is_empty() {
        spec["tolerations"] = tolerations.into();
    }
    Ok(())
}
