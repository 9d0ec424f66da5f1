//! Volume sources whose drivers were removed from Kubernetes. They are still part of the API.

use evenkeel_scalars::go_regex;

use super::super::field_rules::{label, named, required, supported};
use crate::field::{FieldError, Path};
use crate::json::Value;
use crate::names;
use crate::read::Read;

const IQN: &str = r"^iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$";
const EUI: &str = "^eui.[[:alnum:]]{16}$";
const NAA: &str = "^naa.[[:alnum:]]{32}$";
const HOSTS: &str = "must be a host:port pair or multiple pairs separated by commas";
const BLOB_URI: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
const DISK_URI: &str =
    "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";

/// Validates a volume source by its name. In PersistentVolumes (`persistent`), sources may refer to Secrets in any
/// namespace.
pub(in crate::validate) fn check(
    path: &Path<'_>,
    name: &str,
    source: &Value,
    persistent: bool,
    errors: &mut Vec<FieldError>,
) {
    match name {
        "iscsi" => iscsi(path, source, persistent, errors),
        "fc" => fibre_channel(path, source, errors),
        "flocker" => flocker(path, source, errors),
        "quobyte" => quobyte(path, source, errors),
        "azureDisk" => azure_disk(path, source, errors),
        "storageos" => storage_os(path, source, errors),
        _ => fields(path, name, source, errors),
    }
    match name {
        "flexVolume" => flex_options(&path.child("options"), source, errors),
        "cinder" | "storageos" => secret(&path.child("secretRef"), source, persistent, errors),
        "iscsi" if persistent => secret(&path.child("secretRef"), source, false, errors),
        "glusterfs" if persistent => endpoints_namespace(&path.child("endpointsNamespace"), source, errors),
        "azureFile" if persistent && source.at("secretNamespace").is_some_and(|it| it == "") => {
            errors.push(FieldError::required(path.child("secretNamespace"), ""));
        }
        _ => {}
    }
}

/// Validates sources that only have required fields.
fn fields(path: &Path<'_>, name: &str, source: &Value, errors: &mut Vec<FieldError>) {
    if matches!(name, "rbd" | "cephfs") && source.list("monitors").is_empty() {
        errors.push(FieldError::required(path.child("monitors"), ""));
    }
    let fields: &[&str] = match name {
        "glusterfs" => &["endpoints", "path"],
        "cinder" | "portworxVolume" => &["volumeID"],
        "azureFile" => &["secretName", "shareName"],
        "vsphereVolume" => &["volumePath"],
        "photonPersistentDisk" => &["pdID"],
        "flexVolume" => &["driver"],
        "scaleIO" => &["gateway", "system", "volumeName"],
        "rbd" => &["image"],
        _ => &[],
    };
    for field in fields {
        required(source, path, field, errors);
    }
}

fn iscsi(path: &Path<'_>, source: &Value, persistent: bool, errors: &mut Vec<FieldError>) {
    required(source, path, "targetPortal", errors);
    let at = path.child("iqn");
    match source.str("iqn") {
        "" => errors.push(FieldError::required(at, "")),
        name => initiator(&at, name, persistent, errors),
    }
    lun(&path.child("lun"), source.int("lun").unwrap_or_default(), errors);
    if (source.bool("chapAuthDiscovery") || source.bool("chapAuthSession")) && !source.has("secretRef") {
        errors.push(FieldError::required(path.child("secretRef"), ""));
    }
    if let Some(name) = source.at("initiatorName").and_then(Value::as_str) {
        initiator(&path.child("initiatorname"), name, persistent, errors);
    }
}

fn initiator(path: &Path<'_>, name: &str, persistent: bool, errors: &mut Vec<FieldError>) {
    let pattern = match name.get(..3) {
        Some("iqn") => IQN,
        Some("eui") => EUI,
        Some("naa") => NAA,
        _ => {
            let start = if persistent { "" } else { " starting with iqn, eui, or naa" };
            errors.push(FieldError::invalid(path, name, format!("must be valid format{start}")));
            return;
        }
    };
    if !go_regex::is_match(pattern, name) {
        errors.push(FieldError::invalid(path, name, "must be valid format"));
    }
}

fn lun(path: &Path<'_>, number: i64, errors: &mut Vec<FieldError>) {
    if !(0..=255).contains(&number) {
        errors.push(FieldError::invalid(path, number, names::inclusive_range(0, 255)));
    }
}

fn fibre_channel(path: &Path<'_>, source: &Value, errors: &mut Vec<FieldError>) {
    let (names, ids) = (source.strs("targetWWNs"), source.strs("wwids"));
    let at = path.child("targetWWNs");
    if names.is_empty() && ids.is_empty() {
        errors.push(FieldError::required(at, "must specify either targetWWNs or wwids, but not both"));
    }
    if names.is_empty() {
        return;
    }
    if !ids.is_empty() {
        let detail = "targetWWNs and wwids can not be specified simultaneously";
        errors.push(FieldError::invalid(at, Value::from(names), detail));
    }
    match source.int("lun") {
        None => {
            errors
                .push(FieldError::required(path.child("lun"), "lun is required if targetWWNs is specified"));
        }
        Some(number) => lun(&path.child("lun"), number, errors),
    }
}

fn flocker(path: &Path<'_>, source: &Value, errors: &mut Vec<FieldError>) {
    let (name, id) = (source.str("datasetName"), source.str("datasetUUID"));
    if name.is_empty() && id.is_empty() {
        errors.push(FieldError::required(path, "one of datasetName and datasetUUID is required"));
    }
    if !name.is_empty() && !id.is_empty() {
        let detail = "datasetName and datasetUUID can not be specified simultaneously";
        errors.push(FieldError::invalid(path, "resource", detail));
    }
    if name.contains('/') {
        errors.push(FieldError::invalid(path.child("datasetName"), name, "must not contain '/'"));
    }
}

fn quobyte(path: &Path<'_>, source: &Value, errors: &mut Vec<FieldError>) {
    let registry = source.str("registry");
    if registry.is_empty() {
        errors.push(FieldError::required(path.child("registry"), HOSTS));
    } else if source.str("tenant").len() >= 65 {
        let detail = "must be a UUID and may not exceed a length of 64 characters";
        errors.push(FieldError::required(path.child("tenant"), detail));
    } else {
        for _ in registry.split(',').filter(|pair| pair.matches(':').count() != 1) {
            errors.push(FieldError::invalid(path.child("registry"), registry, HOSTS));
        }
    }
    required(source, path, "volume", errors);
}

fn azure_disk(path: &Path<'_>, source: &Value, errors: &mut Vec<FieldError>) {
    for field in ["diskName", "diskURI"] {
        required(source, path, field, errors);
    }
    let text = |field: &str| source.at(field).and_then(Value::as_str);
    if let Some(mode) = text("cachingMode") {
        supported(&path.child("cachingMode"), mode, &["None", "ReadOnly", "ReadWrite"], errors);
    }
    let Some(kind) = text("kind") else { return };
    supported(&path.child("kind"), kind, &["Dedicated", "Managed", "Shared"], errors);
    let (prefix, form) =
        if kind == "Managed" { ("/subscriptions/", DISK_URI) } else { ("https://", BLOB_URI) };
    let uri = source.str("diskURI");
    if !uri.starts_with(prefix) {
        errors.push(FieldError::not_supported(path.child("diskURI"), uri, &[form]));
    }
}

fn storage_os(path: &Path<'_>, source: &Value, errors: &mut Vec<FieldError>) {
    match source.str("volumeName") {
        "" => errors.push(FieldError::required(path.child("volumeName"), "")),
        name => label(&path.child("volumeName"), name, errors),
    }
    let namespace = source.str("volumeNamespace");
    if !namespace.is_empty() {
        label(&path.child("volumeNamespace"), namespace, errors);
    }
}

fn flex_options(path: &Path<'_>, source: &Value, errors: &mut Vec<FieldError>) {
    for (key, _) in source.pairs("options") {
        let domain = key.split_once('/').map_or(key, |(domain, _)| domain);
        let domain = format!(".{}", domain.to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            let detail = "kubernetes.io and k8s.io namespaces are reserved";
            errors.push(FieldError::invalid(path.key(key), key, detail));
        }
    }
}

fn secret(path: &Path<'_>, source: &Value, namespaced: bool, errors: &mut Vec<FieldError>) {
    let Some(reference) = source.at("secretRef") else { return };
    required(reference, path, "name", errors);
    if namespaced {
        required(reference, path, "namespace", errors);
    }
}

fn endpoints_namespace(path: &Path<'_>, source: &Value, errors: &mut Vec<FieldError>) {
    match source.at("endpointsNamespace").and_then(Value::as_str) {
        None => {}
        Some("") => {
            let detail = "if the endpointnamespace is set, it must be a valid namespace name";
            errors.push(FieldError::invalid(path, "", detail));
        }
        Some(namespace) => named(path, namespace, names::dns1123_label(namespace), errors),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn told(name: &str, source: Value, persistent: bool) -> Vec<String> {
        let mut errors = Vec::new();
        check(&Path::new(name), name, &source, persistent, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn sources_have_what_their_drivers_needed() {
        assert_eq!(
            told("fc", json!({}), true),
            ["fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both"]
        );
        assert_eq!(told("fc", json!({"targetWWNs": ["a"], "lun": 1}), true), [""; 0]);
        assert_eq!(
            told("iscsi", json!({"targetPortal": "p", "iqn": "x", "lun": 300}), false),
            [
                "iscsi.iqn: Invalid value: \"x\": must be valid format starting with iqn, eui, or naa",
                "iscsi.lun: Invalid value: 300: must be between 0 and 255, inclusive"
            ]
        );
        assert_eq!(
            told("iscsi", json!({"targetPortal": "p", "iqn": "iqn.2026-01.com.example:a"}), true),
            [""; 0]
        );
        assert_eq!(
            told("cinder", json!({"volumeID": "v", "secretRef": {}}), true),
            ["cinder.secretRef.name: Required value", "cinder.secretRef.namespace: Required value"]
        );
    }
}
