//! PersistentVolumeClaims and their templates.

use super::field_rules::{named, optional_one_of, supported};
use super::resources;
use crate::field::{FieldError, Path};
use crate::json::Value;
use crate::object_meta::{self, NameRule};
use crate::quantity::Quantity;
use crate::read::Read;
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
        return errors;
    }
    errors.extend(create(new));
    let bound = new.at("status").str("phase") == "Bound";
    if frozen(new, old, bound) != frozen(old, old, bound) {
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n";
        errors.push(FieldError::forbidden("spec", detail));
    }
    let size = |claim: &Value, list: Option<&Value>| {
        let _ = claim;
        list.at("storage").and_then(|size| Quantity::from_json(size).ok()).unwrap_or(Quantity::zero())
    };
    let new_size = size(new, new.at("spec").at("resources").at("requests"));
    let old_size = size(old, old.at("spec").at("resources").at("requests"));
    let capacity = size(old, old.at("status").at("capacity"));
    if new_size < old_size && new_size <= capacity {
        let detail = "field can not be less than status.capacity";
        errors.push(FieldError::forbidden("spec.resources.requests.storage", detail));
    }
    errors
}

/// The spec without the fields that an update may change.
fn frozen(claim: &Value, old: &Value, bound: bool) -> Value {
    let mut spec = claim.at("spec").cloned().unwrap_or(Value::Null);
    let Some(fields) = spec.as_object_mut() else { return spec };
    if old.at("spec").str("volumeName").is_empty() {
        fields.remove("volumeName");
    }
    if !old.at("spec").has("storageClassName") {
        fields.remove("storageClassName");
    }
    if bound {
        fields.remove("volumeAttributesClassName");
        if let Some(requests) =
            fields.get_mut("resources").and_then(|resources| resources.get_mut("requests"))
        {
            requests.as_object_mut().map(|requests| requests.remove("storage"));
        }
    }
    spec
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
    for field in ["storageClassName", "volumeAttributesClassName"] {
        let class = spec.str(field);
        if !class.is_empty() {
            named(&path.child(field), class, names::dns1123_subdomain(class), errors);
        }
    }
    optional_one_of(spec, path, "volumeMode", &["Block", "Filesystem"], errors);
    for field in ["dataSource", "dataSourceRef"] {
        if let Some(source) = spec.at(field) {
            data_source(&path.child(field), source, errors);
        }
    }
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
    if group.is_empty() && !matches!(source.str("kind"), "" | "PersistentVolumeClaim") {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(FieldError::invalid(path, source.str("kind"), detail));
    }
    if !group.is_empty() {
        named(&path.child("apiGroup"), group, names::dns1123_subdomain(group), errors);
    }
}
