//! PersistentVolumeClaims and their templates.

use super::field_rules::{named, optional_one_of, supported};
use super::resources;
use crate::field::{BadValue, FieldError, Path};
use crate::internal_structs;
use crate::json::{Text, Value};
use crate::object_meta::{self, NameRule};
use crate::quantity::Quantity;
use crate::read::Read;
use crate::resource_names::is_native;
use crate::{names, selector};

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

pub(super) fn create(claim: &Value) -> Vec<FieldError> {
    let mut errors = object_meta::create_builtin(claim, true, NameRule::Subdomain);
    spec(&Path::new("spec"), claim.at("spec").unwrap_or(&Value::Null), &mut errors);
    errors
}

pub(super) fn update(new: &Value, old: &Value, subresource: &str) -> Vec<FieldError> {
    let mut errors = object_meta::update_builtin(new, old);
    if subresource == "status" {
        status(new, &mut errors);
        return errors;
    }
    errors.extend(create(new));
    let (spec, before) = (new.at("spec"), old.at("spec"));
    let (munged, munged_before) = (with_old_values(new, old), with_first_volume(new, old));
    if munged != munged_before {
        let diff =
            internal_structs::diff("core.PersistentVolumeClaimSpec", Some(&munged_before), Some(&munged));
        let detail = format!(
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n{diff}"
        );
        errors.push(FieldError::forbidden("spec", detail));
    }
    let size = |list: Option<&Value>| {
        list.at("storage").and_then(|size| Quantity::from_json(size).ok()).unwrap_or(Quantity::zero())
    };
    let (new_size, old_size) =
        (size(spec.at("resources").at("requests")), size(before.at("resources").at("requests")));
    if new_size < old_size && new_size <= size(old.at("status").at("capacity")) {
        let detail = "field can not be less than status.capacity";
        errors.push(FieldError::forbidden("spec.resources.requests.storage", detail));
    }
    if spec.at("volumeMode") != before.at("volumeMode") {
        let shown = BadValue::Printed(spec.at("volumeMode").unwrap_or(&Value::Null).to_string());
        errors.push(FieldError::invalid("volumeMode", shown, super::field_rules::IMMUTABLE));
    }
    attributes_class(spec, before, old.at("status"), &mut errors);
    errors
}

/// Validates that an attributes class is not taken away once a volume has one.
fn attributes_class(
    new: Option<&Value>,
    old: Option<&Value>,
    status: Option<&Value>,
    errors: &mut Vec<FieldError>,
) {
    let field = "volumeAttributesClassName";
    if new.at(field) == old.at(field) || !status.has("currentVolumeAttributesClassName") {
        return;
    }
    let to = match new.at(field).and_then(Value::as_str) {
        None => "nil",
        Some("") => "empty string",
        Some(_) => return,
    };
    let detail =
        format!("update to {to} is forbidden when status.currentVolumeAttributesClassName is not nil");
    errors.push(FieldError::forbidden(Path::new("spec").child(field), detail));
}

/// The new spec with the old values of what a bound claim may change, and without a class that the update adds.
fn with_old_values(new: &Value, old: &Value) -> Value {
    let mut spec = new.at("spec").cloned().unwrap_or(Value::Null);
    let Some(fields) = spec.as_object_mut() else { return spec };
    let before = old.at("spec");
    if !before.has("storageClassName") {
        fields.remove("storageClassName");
    }
    if new.at("status").str("phase") != "Bound" {
        return spec;
    }
    match before.at("volumeAttributesClassName") {
        Some(class) => drop(fields.insert("volumeAttributesClassName".into(), class.clone())),
        None => drop(fields.remove("volumeAttributesClassName")),
    }
    let requests = fields.get_mut("resources").and_then(|resources| resources.get_mut("requests"));
    if let (Some(requests), Some(size)) =
        (requests.and_then(Value::as_object_mut), before.at("resources").at("requests").at("storage"))
    {
        requests.insert("storage".into(), size.clone());
    }
    spec
}

/// The old spec, with the volume of the new one if it had none.
fn with_first_volume(new: &Value, old: &Value) -> Value {
    let mut spec = old.at("spec").cloned().unwrap_or(Value::Null);
    let volume = new.at("spec").at("volumeName");
    if spec.str("volumeName").is_empty()
        && let (Some(fields), Some(volume)) = (spec.as_object_mut(), volume)
    {
        fields.insert("volumeName".into(), volume.clone());
    }
    spec
}

/// The states in which the size of a volume changes.
const RESIZE_STATES: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizePending",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
];

/// Validates the status: amounts and the states of resizes.
fn status(claim: &Value, errors: &mut Vec<FieldError>) {
    let path = Path::new("status");
    let status = claim.at("status").unwrap_or(&Value::Null);
    if claim.at("spec").list("accessModes").is_empty() {
        errors.push(FieldError::required("Spec.accessModes", ""));
    }
    let amounts = |field: &str| -> Vec<(&Text, Quantity)> {
        let entries = status.map(field).into_iter().flatten();
        entries.filter_map(|(name, value)| Some((name, Quantity::from_json(value).ok()?))).collect()
    };
    for (name, amount) in amounts("capacity") {
        basic_amount(&path.child("capacity").key(name), &amount, errors);
    }
    let at = path.child("allocatedResourceStatuses");
    for (name, state) in status.pairs("allocatedResourceStatuses") {
        storage_name(&at, name, errors);
        if !RESIZE_STATES.contains(&state) {
            let mut states = RESIZE_STATES;
            states.sort_unstable();
            errors.push(FieldError::not_supported(at, name, &states));
        }
    }
    let at = path.child("allocatedResources");
    for (name, amount) in amounts("allocatedResources") {
        let key = at.key(name);
        if storage_name(&at, name, errors) && basic_amount(&key, &amount, errors) {
            resources::resource_value(&key, "storage", &amount, errors);
        }
    }
}

/// Validates an amount by its integer value. Returns whether it is valid.
fn basic_amount(path: &Path<'_>, amount: &Quantity, errors: &mut Vec<FieldError>) -> bool {
    let value = amount.value();
    if value < 0 {
        errors.push(FieldError::invalid(path, value, "must be a valid resource quantity"));
    }
    value >= 0
}

/// Validates the name of a resource of a claim: `storage`, or one with a domain. Returns whether it is valid.
fn storage_name(path: &Path<'_>, name: &str, errors: &mut Vec<FieldError>) -> bool {
    let wrong = names::qualified_name(name);
    let valid = wrong.is_empty();
    named(path, name, wrong, errors);
    if valid && is_native(name) && name != "storage" {
        errors.push(FieldError::not_supported(path, name, &["storage"]));
        return false;
    }
    valid
}

/// Validates the spec of a claim or of a claim template.
pub(super) fn spec(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    let modes = spec.strs("accessModes");
    let at = path.child("accessModes");
    if modes.is_empty() {
        errors.push(FieldError::required(at, "at least 1 access mode is required"));
    }
    if let Some(value) = spec.at("selector") {
        errors.extend(selector::validate(&path.child("selector"), value));
    }
    for mode in &modes {
        supported(&at, mode, &ACCESS_MODES, errors);
    }
    let other = modes.iter().any(|mode| *mode != "ReadWriteOncePod" && ACCESS_MODES.contains(mode));
    if modes.contains(&"ReadWriteOncePod") && other {
        errors.push(FieldError::forbidden(at, "may not use ReadWriteOncePod with other access modes"));
    }
    storage(&path.child("resources"), spec, errors);
    class_name(path, spec, "storageClassName", errors);
    optional_one_of(spec, path, "volumeMode", &["Block", "Filesystem"], errors);
    for field in ["dataSource", "dataSourceRef"] {
        if let Some(source) = spec.at(field) {
            data_source(&path.child(field), source, errors);
        }
    }
    same_source(path, spec.at("dataSource"), spec.at("dataSourceRef"), errors);
    class_name(path, spec, "volumeAttributesClassName", errors);
}

fn class_name(path: &Path<'_>, spec: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let class = spec.str(field);
    if !class.is_empty() {
        named(&path.child(field), class, names::dns1123_subdomain(class), errors);
    }
}

/// Validates that both fields for the source of a claim name the same one.
fn same_source(path: &Path<'_>, source: Option<&Value>, other: Option<&Value>, errors: &mut Vec<FieldError>) {
    if source.is_none() || other.is_none() {
        return;
    }
    let detail = if !other.str("namespace").is_empty() {
        "may not be specified when dataSourceRef.namespace is specified"
    } else if source.at("apiGroup") != other.at("apiGroup")
        || ["kind", "name"].iter().any(|field| source.str(field) != other.str(field))
    {
        "must match dataSourceRef"
    } else {
        return;
    };
    // Kubernetes' message prints a struct without public fields here.
    errors.push(FieldError::invalid(path, BadValue::Printed("{}".to_owned()), detail));
}

fn storage(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    let at = path.key("storage");
    let request = spec.at("resources").at("requests").at("storage");
    let Some(quantity) = request.and_then(|request| Quantity::from_json(request).ok()) else {
        errors.push(FieldError::required(at, ""));
        return;
    };
    if quantity <= Quantity::zero() {
        errors.push(FieldError::invalid(at, quantity.to_string(), "must be greater than zero"));
    } else {
        resources::resource_value(&at, "storage", &quantity, errors);
    }
}

fn data_source(path: &Path<'_>, source: &Value, errors: &mut Vec<FieldError>) {
    for field in ["name", "kind"] {
        if source.str(field).is_empty() {
            errors.push(FieldError::required(path.child(field), ""));
        }
    }
    let group = source.str("apiGroup");
    if group.is_empty() && source.str("kind") != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(FieldError::invalid(path, source.str("kind"), detail));
    }
    if !group.is_empty() {
        named(&path.child("apiGroup"), group, names::dns1123_subdomain(group), errors);
    }
    let namespace = source.str("namespace");
    if !namespace.is_empty() {
        named(&path.child("namespace"), namespace, names::dns1123_label(namespace), errors);
    }
}
