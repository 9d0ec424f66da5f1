//! APIServices, which register an API group version with the aggregator.

use super::field_rules::{named, subdomain, supported};
use crate::field::{FieldError, Path};
use crate::json::Value;
use crate::names;
use crate::object_meta::{self, NameRule};
use crate::read::Read;

const GROUP_PRIORITY_MAX: i64 = 20_000;
const VERSION_PRIORITY_MAX: i64 = 1_000;

/// Validates a new object.
pub(super) fn create(object: &Value) -> Vec<FieldError> {
    let mut errors = object_meta::create(object, false, NameRule::PathSegment);
    let spec = object.at("spec").unwrap_or(&Value::Null);
    let path = Path::new("spec");
    let (group, version) = (spec.str("group"), spec.str("version"));
    for field in ["name", "generateName"] {
        let at = format!("metadata.{field}");
        name(&at, object.at("metadata").str(field), &format!("{version}.{group}"), &mut errors);
    }
    if group.is_empty() && version != "v1" {
        let detail = "only v1 may have an empty group and it better be legacy kube";
        errors.push(FieldError::required(path.child("group"), detail));
    }
    if !group.is_empty() {
        subdomain(&path.child("group"), group, &mut errors);
    }
    named(&path.child("version"), version, names::dns1035_label(version), &mut errors);
    for (field, max) in
        [("groupPriorityMinimum", GROUP_PRIORITY_MAX), ("versionPriority", VERSION_PRIORITY_MAX)]
    {
        let priority = spec.int(field).unwrap_or_default();
        if !(1..=max).contains(&priority) {
            let detail = format!("must be positive and less than {max}");
            errors.push(FieldError::invalid(path.child(field), priority, detail));
        }
    }
    match spec.at("service") {
        None => local(&path, spec, &mut errors),
        Some(service) => remote(&path, spec, service, &mut errors),
    }
    errors
}

/// Validates an update, or an update of the status.
pub(super) fn update(new: &Value, old: &Value, subresource: &str) -> Vec<FieldError> {
    let mut errors = object_meta::update(new, old);
    if subresource != "status" {
        errors.extend(create(new));
        return errors;
    }
    let path = Path::new("status");
    let list = path.child("conditions");
    for (index, condition) in new.at("status").list("conditions").iter().enumerate() {
        let at = list.index(index);
        supported(&at.child("status"), condition.str("status"), &["True", "False", "Unknown"], &mut errors);
    }
    errors
}

fn name(at: &str, name: &str, required: &str, errors: &mut Vec<FieldError>) {
    if name != required && !name.is_empty() && names::path_segment(name).is_empty() {
        let detail =
            format!("must be `spec.version+\".\"+spec.group`: {}", evenkeel_scalars::go::quote(required));
        errors.push(FieldError::invalid(at, name, detail));
    }
}

/// Validates a group version that this server serves itself.
fn local(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    let bundle = spec.str("caBundle");
    if !bundle.is_empty() {
        let padding = bundle.bytes().rev().take_while(|byte| *byte == b'=').count();
        let shown = format!("{} bytes", (bundle.len() / 4 * 3).saturating_sub(padding));
        let detail = "local APIServices may not have a caBundle";
        errors.push(FieldError::invalid(path.child("caBundle"), shown, detail));
    }
    if spec.bool("insecureSkipTLSVerify") {
        let detail = "local APIServices may not have insecureSkipTLSVerify";
        errors.push(FieldError::invalid(path.child("insecureSkipTLSVerify"), true, detail));
    }
}

fn remote(path: &Path<'_>, spec: &Value, service: &Value, errors: &mut Vec<FieldError>) {
    let at = path.child("service");
    for field in ["namespace", "name"] {
        if service.str(field).is_empty() {
            errors.push(FieldError::required(at.child(field), ""));
        }
    }
    let port = service.int("port").unwrap_or_default();
    let wrong: Vec<String> = names::port_number(port).into_iter().collect();
    if !wrong.is_empty() {
        let detail = format!("port is not valid: {}", wrong.join(", "));
        errors.push(FieldError::invalid(at.child("port"), port, detail));
    }
    if spec.bool("insecureSkipTLSVerify") && !spec.str("caBundle").is_empty() {
        let detail = "may not be true if caBundle is present";
        errors.push(FieldError::invalid(path.child("insecureSkipTLSVerify"), true, detail));
    }
}
