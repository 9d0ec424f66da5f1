//! Validates resizes of a pod, which may only change the cpu and memory of its containers.

use crate::field::{FieldError, Path};
use crate::json::{Map, Text, Value};
use crate::prepare;
use crate::read::Read;

const RESIZABLE: [&str; 2] = ["cpu", "memory"];

/// Validates a resize. `errors` are those of the metadata and the spec.
pub(super) fn update(new: &Value, old: &Value, mut errors: Vec<FieldError>) -> Vec<FieldError> {
    if old.at("metadata").at("annotations").has(super::update::MIRROR) {
        return vec![FieldError::forbidden("[]", "static pods cannot be resized")];
    }
    let path = Path::new("spec");
    let (spec, before) = (new.at("spec").unwrap_or(&Value::Null), old.at("spec").unwrap_or(&Value::Null));
    if before.at("os").str("name") == "windows" {
        return vec![FieldError::forbidden("[]", "windows pods cannot be resized")];
    }
    let class = match old.at("status").str("qosClass") {
        "" => prepare::qos_class(old),
        class => class,
    };
    if class != prepare::qos_class(new) {
        let detail = "Pod QOS Class may not change as a result of resizing";
        errors.push(FieldError::invalid(path, new.at("status").str("qosClass"), detail));
    }
    let running = old.at("status").list("containerStatuses").iter().find(|it| it.at("state").has("running"));
    if running.is_some_and(|status| !status.has("resources")) {
        errors.push(FieldError::forbidden(path, "Pod running on node without support for resize"));
    }
    let mut rest = spec.clone();
    if has_resources(spec) || has_resources(before) {
        pod_level(&path, &mut rest, before, &mut errors);
    }
    if !same_containers(&path, spec, before, &mut errors) {
        return errors;
    }
    for list in ["initContainers", "containers"] {
        let at = path.child(list);
        for (index, (now, before)) in spec.list(list).iter().zip(before.list(list)).enumerate() {
            let at = at.index(index);
            nothing_removed(
                &at.child("resources"),
                now.at("resources"),
                before.at("resources"),
                "",
                &mut errors,
            );
        }
    }
    only_cpu_and_memory(&path, &mut rest, before, &mut errors);
    if errors.is_empty() && rest != *before {
        errors.push(FieldError::forbidden(path, "only cpu and memory resources are mutable"));
    }
    errors
}

fn has_resources(spec: &Value) -> bool {
    let resources = spec.at("resources").unwrap_or(&Value::Null);
    ["requests", "limits"].iter().any(|list| resources.map(list).is_some_and(|list| !list.is_empty()))
}

fn same_containers(path: &Path<'_>, new: &Value, old: &Value, errors: &mut Vec<FieldError>) -> bool {
    let count = errors.len();
    for list in ["containers", "initContainers"] {
        let at = path.child(list);
        if new.list(list).len() != old.list(list).len() {
            errors.push(FieldError::forbidden(at, format!("{list} may not be added or removed on resize")));
            continue;
        }
        for (index, (now, before)) in new.list(list).iter().zip(old.list(list)).enumerate() {
            if now.str("name") != before.str("name") {
                let detail = format!("{list} may not be renamed or reordered on resize");
                errors.push(FieldError::forbidden(at.index(index).child("name"), detail));
            }
        }
    }
    errors.len() == count
}

/// Validates that no request and no limit was removed.
fn nothing_removed(
    path: &Path<'_>,
    new: Option<&Value>,
    old: Option<&Value>,
    level: &str,
    errors: &mut Vec<FieldError>,
) {
    for list in ["requests", "limits"] {
        let gone = |(name, _): (&Text, &Value)| !new.at(list).has(name);
        if old.unwrap_or(&Value::Null).map(list).into_iter().flatten().any(gone) {
            errors.push(FieldError::forbidden(
                path.child(list),
                format!("{level}resource {list} cannot be removed"),
            ));
        }
    }
}

fn pod_level(path: &Path<'_>, rest: &mut Value, old: &Value, errors: &mut Vec<FieldError>) {
    let at = path.child("resources");
    let before = old.at("resources");
    if before.is_some() && !(&*rest).has("resources") {
        errors.push(FieldError::forbidden(at, "pod-level resources cannot be removed"));
        return;
    }
    nothing_removed(&at, (&*rest).at("resources"), before, "pod-level ", errors);
    restore(rest, before);
    if (&*rest).at("resources") != before {
        errors.push(FieldError::forbidden(path, "only cpu and memory resources are mutable at pod-level"));
    }
}

/// Resets cpu and memory in the `resources` of a pod spec or container to their old amounts.
fn restore(owner: &mut Value, old: Option<&Value>) {
    let Some(fields) = owner.as_object_mut() else { return };
    let mut resources = fields.remove("resources").unwrap_or_else(|| Value::Object(Map::new()));
    let Some(lists) = resources.as_object_mut() else { return };
    for list in ["limits", "requests"] {
        let mut amounts = lists.remove(list).and_then(|it| it.as_object().cloned()).unwrap_or_default();
        for name in RESIZABLE {
            amounts.remove(name);
            let before = old.at(list).at(name).cloned();
            before.into_iter().for_each(|before| drop(amounts.insert(name.into(), before)));
        }
        if !amounts.is_empty() {
            lists.insert(list.into(), Value::Object(amounts));
        }
    }
    if !lists.is_empty() || old.is_some() {
        fields.insert("resources".into(), resources);
    }
}

fn only_cpu_and_memory(path: &Path<'_>, rest: &mut Value, old: &Value, errors: &mut Vec<FieldError>) {
    for list in ["containers", "initContainers"] {
        let at = path.child(list);
        let containers = rest.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (index, (container, before)) in containers.zip(old.list(list)).enumerate() {
            let changed = container != before;
            restore(container, before.at("resources"));
            // A resize drops the claims of a container, so a container with claims cannot be resized.
            if let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) {
                resources.remove("claims");
            }
            let at = at.index(index);
            if container != before {
                let error = match list {
                    "containers" => FieldError::forbidden(path, "only cpu and memory resources are mutable"),
                    _ => {
                        let detail =
                            "only cpu and memory resources for init or sidecar containers are mutable";
                        FieldError::forbidden(at, detail)
                    }
                };
                errors.push(error);
            }
            let sidecar = (&*container).str("restartPolicy") == "Always";
            if list == "initContainers" && changed && !sidecar {
                let policies = (&*container).list("resizePolicy");
                for _ in policies.iter().filter(|it| it.str("restartPolicy") == "RestartContainer") {
                    let detail = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
                    errors.push(FieldError::forbidden(at, detail));
                }
            }
        }
    }
}
