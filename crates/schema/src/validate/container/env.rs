//! The environment variables of a container.

use crate::field::{FieldError, Path};
use crate::json::Value;
use crate::names;
use crate::read::Read;
use crate::validate::field_rules::{label, named, no_backsteps, supported};

const ENV_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// The fields that a downward API volume may show.
pub(in crate::validate) const VOLUME_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
/// Fields of a pod that have names in field paths, but cannot be used in the downward API.
const OTHER_FIELDS: [&str; 3] = ["spec.restartPolicy", "spec.schedulerName", "status.phase"];
const RESOURCE_FIELDS: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

pub(super) fn env(path: &Path<'_>, vars: &[Value], errors: &mut Vec<FieldError>) {
    for (index, var) in vars.iter().enumerate() {
        let path = path.index(index);
        match var.str("name") {
            "" => errors.push(FieldError::required(path.child("name"), "")),
            name => named(&path.child("name"), name, names::env_var_name(name), errors),
        }
        if let Some(source) = var.at("valueFrom") {
            env_source(&path.child("valueFrom"), var, source, errors);
        }
    }
}

fn env_source(path: &Path<'_>, var: &Value, source: &Value, errors: &mut Vec<FieldError>) {
    let mut sources = 0;
    for name in ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"] {
        let Some(reference) = source.at(name) else { continue };
        sources += 1;
        let path = path.child(name);
        match name {
            "fieldRef" => field_ref(&path, reference, &ENV_FIELDS, errors),
            "resourceFieldRef" => resource_field_ref(&path, reference, false, errors),
            "fileKeyRef" => file_key_ref(&path, reference, errors),
            _ => key_ref(&path, reference, errors),
        }
    }
    let detail = match sources {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        _ if !var.str("value").is_empty() => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    errors.push(FieldError::invalid(path, "", detail));
}

fn key_ref(path: &Path<'_>, reference: &Value, errors: &mut Vec<FieldError>) {
    let name = reference.str("name");
    named(&path.child("name"), name, names::dns1123_subdomain(name), errors);
    match reference.str("key") {
        "" => errors.push(FieldError::required(path.child("key"), "")),
        key => named(&path.child("key"), key, names::config_map_key(key), errors),
    }
}

fn file_key_ref(path: &Path<'_>, reference: &Value, errors: &mut Vec<FieldError>) {
    match reference.str("key") {
        "" => errors.push(FieldError::required(path.child("key"), "")),
        key => named(&path.child("key"), key, names::env_var_name(key), errors),
    }
    match reference.str("volumeName") {
        "" => errors.push(FieldError::required(path.child("volumeName"), "")),
        name => label(&path.child("volumeName"), name, errors),
    }
    match reference.str("path") {
        "" => errors.push(FieldError::required(path.child("path"), "")),
        text => no_backsteps(&path.child("path"), text, errors),
    }
}

/// Validates a `fieldRef`.
pub(in crate::validate) fn field_ref(
    path: &Path<'_>,
    reference: &Value,
    fields: &[&str],
    errors: &mut Vec<FieldError>,
) {
    for field in ["apiVersion", "fieldPath"] {
        if reference.str(field).is_empty() {
            errors.push(FieldError::required(path.child(field), ""));
            return;
        }
    }
    let text = reference.str("fieldPath");
    let at = path.child("fieldPath");
    let unconverted =
        |why: String| FieldError::invalid(at, text, format!("error converting fieldPath: {why}"));
    let version = reference.str("apiVersion");
    if version != "v1" {
        errors.push(unconverted(format!("unsupported pod version: {version}")));
        return;
    }
    let subscript = text.strip_suffix("']").and_then(|text| text.split_once("['"));
    if let Some((base, key)) = subscript {
        match base {
            "metadata.annotations" => {
                named(path, &key.to_lowercase(), names::qualified_name(&key.to_lowercase()), errors)
            }
            "metadata.labels" => named(path, key, names::qualified_name(key), errors),
            _ => errors.push(unconverted(format!("field label does not support subscript: {text}"))),
        }
        return;
    }
    // Old clients use the former name of the field.
    let field = if text == "spec.host" { "spec.nodeName" } else { text };
    if ENV_FIELDS.contains(&field) || VOLUME_FIELDS.contains(&field) || OTHER_FIELDS.contains(&field) {
        supported(&at, field, fields, errors);
    } else {
        errors.push(unconverted(format!("field label not supported: {text}")));
    }
}

/// Validates a `resourceFieldRef` of an environment variable or a volume.
pub(in crate::validate) fn resource_field_ref(
    path: &Path<'_>,
    reference: &Value,
    volume: bool,
    errors: &mut Vec<FieldError>,
) {
    let resource = reference.str("resource");
    let huge = resource.starts_with("requests.hugepages-") || resource.starts_with("limits.hugepages-");
    if volume && reference.str("containerName").is_empty() {
        errors.push(FieldError::required(path.child("containerName"), ""));
    } else if resource.is_empty() {
        errors.push(FieldError::required(path.child("resource"), ""));
    } else if !huge {
        supported(&path.child("resource"), resource, &RESOURCE_FIELDS, errors);
    }
    divisor(path, resource, reference.str("divisor"), huge, errors);
}

fn divisor(path: &Path<'_>, resource: &str, divisor: &str, huge: bool, errors: &mut Vec<FieldError>) {
    const SIZES: &str = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei";
    if matches!(divisor, "" | "0") {
        return;
    }
    let is_size = SIZES.split(", ").any(|size| size == divisor);
    let detail = match resource {
        "limits.cpu" | "requests.cpu" if !matches!(divisor, "1m" | "1") => {
            "only divisor's values 1m and 1 are supported with the cpu resource".to_owned()
        }
        "limits.memory" | "requests.memory" if !is_size => {
            format!("only divisor's values {SIZES} are supported with the memory resource")
        }
        "limits.ephemeral-storage" | "requests.ephemeral-storage" if !is_size => {
            format!("only divisor's values {SIZES} are supported with the local ephemeral storage resource")
        }
        _ if huge && !is_size => {
            format!("only divisor's values {SIZES} are supported with the hugepages resource")
        }
        _ => return,
    };
    errors.push(FieldError::invalid(path.child("divisor"), resource, detail));
}

pub(super) fn env_from(path: &Path<'_>, sources: &[Value], errors: &mut Vec<FieldError>) {
    for (index, source) in sources.iter().enumerate() {
        let at = path.index(index);
        let prefix = source.str("prefix");
        if !prefix.is_empty() {
            named(&at.child("prefix"), prefix, names::env_var_name(prefix), errors);
        }
        let mut count = 0;
        for name in ["configMapRef", "secretRef"] {
            let Some(reference) = source.at(name) else { continue };
            count += 1;
            let at = at.child(name);
            match reference.str("name") {
                "" => errors.push(FieldError::required(at.child("name"), "")),
                name => {
                    let wrong = names::dns1123_subdomain(&names::mask_trailing_dash(name));
                    named(&at.child("name"), name, wrong, errors);
                }
            }
        }
        let detail = match count {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        errors.push(FieldError::invalid(path, "", detail));
    }
}
