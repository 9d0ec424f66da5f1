//! Validates updates of a pod. Few fields of its spec can change.

use crate::json::json;
use evenkeel_scalars::go;

use super::super::scheduling;
use crate::field::{FieldError, Path};
use crate::internal_structs;
use crate::json::{Map, Value};
use crate::names;
use crate::read::Read;

const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
/// The annotation of a static pod, which a node runs from a file.
pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Validates the annotations that an update can neither add nor change.
pub(super) fn annotations(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let path = Path::new("metadata");
    let path = path.child("annotations");
    let (new, old) = (annotations_of(new), annotations_of(old));
    let mut forbid = |key: &str, verb: &str| {
        let what = match key {
            MIRROR => "mirror pod annotation",
            key if key.starts_with(APP_ARMOR) => "AppArmor annotations",
            _ => return,
        };
        errors.push(FieldError::forbidden(path.key(key), format!("may not {verb} {what}")));
    };
    old.iter()
        .filter(|(key, value)| new.get(key) != Some(value))
        .for_each(|(key, _)| forbid(key, "remove or update"));
    new.keys().filter(|key| !old.contains_key(key)).for_each(|key| forbid(key, "add"));
}

fn annotations_of(pod: &Value) -> Map {
    let annotations = pod.at("metadata").at("annotations").and_then(Value::as_object);
    annotations.cloned().unwrap_or_default()
}

/// Validates the changes of the spec.
pub(super) fn spec(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let path = Path::new("spec");
    for list in ["containers", "initContainers"] {
        if new.list(list).len() != old.list(list).len() {
            let detail = "pod updates may not add or remove containers";
            errors.push(FieldError::forbidden(path.child(list), detail));
            return;
        }
        images(&path.child(list), new.list(list), errors);
    }
    if !deadline(&path.child("activeDeadlineSeconds"), new, old, errors) {
        return;
    }
    only_added_tolerations(&path.child("tolerations"), new, old, errors);
    only_deleted_gates(&path.child("schedulingGates"), new, old, errors);
    if new == old {
        return;
    }
    let mut munged = with_old_values(new, old);
    if !old.list("schedulingGates").is_empty() {
        gated(&path, &mut munged, old, errors);
    }
    if munged != *old {
        let diff = internal_structs::diff("core.PodSpec", Some(old), Some(&munged));
        let detail = format!("pod updates may not change fields other than {UPDATABLE}\n{diff}");
        errors.push(FieldError::forbidden(path, detail));
    }
}

fn images(path: &Path<'_>, containers: &[Value], errors: &mut Vec<FieldError>) {
    for (index, container) in containers.iter().enumerate() {
        let at = path.index(index);
        let image = container.str("image");
        if image.is_empty() {
            errors.push(FieldError::required(at.child("image"), ""));
        }
        if image.trim() != image {
            let detail = "must not have leading or trailing whitespace";
            errors.push(FieldError::invalid(at.child("image"), image, detail));
        }
    }
}

/// Validates a change of the active deadline. Returns whether validation continues.
fn deadline(path: &Path<'_>, new: &Value, old: &Value, errors: &mut Vec<FieldError>) -> bool {
    let field = "activeDeadlineSeconds";
    match (new.int(field), old.int(field)) {
        (Some(value), _) if !(0..=i64::from(i32::MAX)).contains(&value) => {
            let detail = names::inclusive_range(0, i64::from(i32::MAX));
            errors.push(FieldError::invalid(path, value, detail));
            return false;
        }
        (Some(value), Some(before)) if before < value => {
            errors.push(FieldError::invalid(path, value, "must be less than or equal to previous value"));
            return false;
        }
        (None, Some(_)) => {
            let detail = "must not update from a positive integer to nil value";
            errors.push(FieldError::invalid(path, Value::Null, detail));
        }
        _ => {}
    }
    true
}

fn only_added_tolerations(path: &Path<'_>, new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let without_seconds = |toleration: &Value| {
        let mut toleration = toleration.clone();
        toleration.as_object_mut().map(|fields| fields.remove("tolerationSeconds"));
        toleration
    };
    let kept: Vec<Value> = new.list("tolerations").iter().map(without_seconds).collect();
    if old.list("tolerations").iter().any(|toleration| !kept.contains(&without_seconds(toleration))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(FieldError::forbidden(path, detail));
        return;
    }
    scheduling::tolerations(path, new.list("tolerations"), errors);
}

fn only_deleted_gates(path: &Path<'_>, new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let before: Vec<&str> = old.list("schedulingGates").iter().map(|gate| gate.str("name")).collect();
    for (index, gate) in new.list("schedulingGates").iter().enumerate() {
        let name = gate.str("name");
        if !before.contains(&name) {
            let at = path.index(index);
            let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.push(FieldError::forbidden(at.child("name"), detail));
        }
    }
}

/// Sets a field to its old value, or removes it.
fn restore(spec: &mut Value, old: &Value, field: &str) {
    let Some(fields) = spec.as_object_mut() else { return };
    match old.at(field) {
        Some(value) => drop(fields.insert(field.into(), value.clone())),
        None => drop(fields.remove(field)),
    }
}

/// Returns the new spec with the old values of all fields that may change.
fn with_old_values(new: &Value, old: &Value) -> Value {
    let mut spec = new.clone();
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (container, before) in containers.zip(old.list(list)) {
            restore(container, before, "image");
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        restore(&mut spec, old, field);
    }
    let grace = "terminationGracePeriodSeconds";
    if old.int(grace).is_some_and(|seconds| seconds < 0) && new.int(grace) == Some(1) {
        restore(&mut spec, old, grace);
    }
    spec
}

/// Validates the changes that are allowed before a pod is scheduled, and reverts them in `munged`.
fn gated(path: &Path<'_>, munged: &mut Value, old: &Value, errors: &mut Vec<FieldError>) {
    let selector = |spec: &Value| spec.map("nodeSelector").cloned().unwrap_or_default();
    let (selected, before) = (selector(munged), selector(old));
    if before.iter().any(|(key, value)| selected.get(key) != Some(value)) {
        let shown = (&*munged).at("nodeSelector").cloned().unwrap_or(Value::Null);
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.push(FieldError::invalid(path.child("nodeSelector"), shown, detail));
    }
    restore(munged, old, "nodeSelector");
    let affinity = |spec: &'_ Value| spec.at("affinity").at("nodeAffinity").cloned();
    let (new_affinity, old_affinity) = (affinity(munged), affinity(old));
    if new_affinity == old_affinity {
        return;
    }
    let at = path.child("affinity");
    node_affinity(&at.child("nodeAffinity"), new_affinity.as_ref(), old_affinity.as_ref(), errors);
    restore_affinity(munged, old, old_affinity);
}

fn restore_affinity(munged: &mut Value, old: &Value, old_affinity: Option<Value>) {
    let others = ["podAffinity", "podAntiAffinity"];
    let now = (&*munged).at("affinity");
    let only_node = !old.has("affinity") && others.iter().all(|field| !now.has(field));
    let Some(spec) = munged.as_object_mut() else { return };
    match (spec.get_mut("affinity"), old_affinity) {
        (Some(_), _) if only_node => drop(spec.remove("affinity")),
        (Some(Value::Object(affinity)), Some(old)) => drop(affinity.insert("nodeAffinity".into(), old)),
        (Some(Value::Object(affinity)), None) => drop(affinity.remove("nodeAffinity")),
        (_, Some(old)) => drop(spec.insert("affinity".into(), json!({"nodeAffinity": old}))),
        _ => {}
    }
}

/// Validates a change of the node affinity, which may only become stricter.
fn node_affinity(path: &Path<'_>, new: Option<&Value>, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let (terms, before) =
        (new.at(REQUIRED).list("nodeSelectorTerms"), old.at(REQUIRED).list("nodeSelectorTerms"));
    let path = path.child(REQUIRED);
    let path = path.child("nodeSelectorTerms");
    if !before.is_empty() && before.len() != terms.len() {
        let shown =
            internal_structs::bad_value("[core.NodeSelectorTerm", new.at(REQUIRED).at("nodeSelectorTerms"));
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        errors.push(FieldError::invalid(path, shown, detail));
        return;
    }
    for (index, (term, before)) in terms.iter().zip(before).enumerate() {
        if !only_additions(term, before) {
            let shown = internal_structs::bad_value("core.NodeSelectorTerm", Some(term));
            let detail = "only additions are allowed (no mutations or deletions)";
            errors.push(FieldError::invalid(path.index(index), shown, detail));
        }
    }
}

fn only_additions(new: &Value, old: &Value) -> bool {
    let lists = ["matchExpressions", "matchFields"];
    let empty = |term: &Value| lists.iter().all(|list| term.list(list).is_empty());
    if empty(old) && !empty(new) {
        return false;
    }
    lists.iter().all(|list| new.list(list).starts_with(old.list(list)))
}

/// Validates the ephemeral containers. Existing ones can neither change nor be removed.
pub(super) fn ephemeral_containers(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let path = Path::new("spec");
    let path = path.child("ephemeralContainers");
    let kept = new.at("spec").list("ephemeralContainers");
    for container in old.at("spec").list("ephemeralContainers") {
        let name = go::quote(container.str("name"));
        match kept.iter().find(|kept| kept.str("name") == container.str("name")) {
            None => {
                let detail = format!("existing ephemeral containers {name} may not be removed\n");
                errors.push(FieldError::forbidden(path, detail));
            }
            Some(kept) if kept != container => {
                let diff = internal_structs::diff("core.EphemeralContainer", Some(container), Some(kept));
                let detail = format!("existing ephemeral containers {name} may not be changed\n{diff}");
                errors.push(FieldError::forbidden(path, detail));
            }
            Some(_) => {}
        }
    }
}
