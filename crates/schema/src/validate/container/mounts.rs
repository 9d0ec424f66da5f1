//! The volume mounts and block devices of a container.

use super::Pod;
use crate::field::{FieldError, Path};
use crate::json::Value;
use crate::read::Read;
use crate::validate::field_rules::{Seen, local_path, supported};

pub(super) fn mounts(path: &Path<'_>, container: &Value, pod: &Pod<'_>, errors: &mut Vec<FieldError>) {
    let devices = container.list("volumeDevices");
    let mut seen = Seen::default();
    for (index, mount) in container.list("volumeMounts").iter().enumerate() {
        let at = path.index(index);
        let (name, mount_path) = (mount.str("name"), mount.str("mountPath"));
        if name.is_empty() {
            errors.push(FieldError::required(at.child("name"), ""));
        }
        if !pod.volumes.iter().any(|(volume, _)| *volume == name) {
            errors.push(FieldError::not_found(at.child("name"), name));
        }
        if mount_path.is_empty() {
            errors.push(FieldError::required(at.child("mountPath"), ""));
        }
        if !seen.insert(mount_path) {
            errors.push(FieldError::invalid(at.child("mountPath"), mount_path, "must be unique"));
        }
        if devices.iter().any(|device| device.str("name") == name) {
            errors.push(FieldError::invalid(
                at.child("name"),
                name,
                "must not already exist in volumeDevices",
            ));
        }
        if devices.iter().any(|device| device.str("devicePath") == mount_path) {
            let detail = "must not already exist as a path in volumeDevices";
            errors.push(FieldError::invalid(at.child("mountPath"), mount_path, detail));
        }
        sub_paths(path, &at, mount, errors);
        propagation(path, container, mount, errors);
    }
}

/// Validates the sub-paths of a mount. Kubernetes' errors have the path of the list, not of the item.
fn sub_paths(list: &Path<'_>, at: &Path<'_>, mount: &Value, errors: &mut Vec<FieldError>) {
    let (sub_path, expression) = (mount.str("subPath"), mount.str("subPathExpr"));
    if !sub_path.is_empty() {
        local_path(&list.child("subPath"), sub_path, errors);
    }
    if !expression.is_empty() {
        if !sub_path.is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            errors.push(FieldError::invalid(at.child("subPathExpr"), expression, detail));
        }
        local_path(&list.child("subPathExpr"), expression, errors);
    }
}

fn propagation(list: &Path<'_>, container: &Value, mount: &Value, errors: &mut Vec<FieldError>) {
    let path = list.child("mountPropagation");
    let mode = mount.at("mountPropagation").and_then(Value::as_str);
    if let Some(mode) = mode {
        supported(&path, mode, &["Bidirectional", "HostToContainer", "None"], errors);
        if mode == "Bidirectional" && !container.at("securityContext").bool("privileged") {
            let detail = "Bidirectional mount propagation is available only to privileged containers";
            errors.push(FieldError::forbidden(path, detail));
        }
    }
    let path = list.child("recursiveReadOnly");
    match mount.at("recursiveReadOnly").and_then(Value::as_str) {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !mount.bool("readOnly") {
                errors.push(FieldError::forbidden(path, "may only be specified when readOnly is true"));
            }
            if mode.is_some_and(|mode| mode != "None") {
                let detail = "may only be specified when mountPropagation is None or not specified";
                errors.push(FieldError::forbidden(path, detail));
            }
        }
        Some(other) => {
            errors.push(FieldError::not_supported(path, other, &["Disabled", "Enabled", "IfPossible"]))
        }
    }
}

pub(super) fn devices(path: &Path<'_>, container: &Value, pod: &Pod<'_>, errors: &mut Vec<FieldError>) {
    let (mut names_seen, mut paths_seen) = (Seen::default(), Seen::default());
    let mounts = container.list("volumeMounts");
    for (index, device) in container.list("volumeDevices").iter().enumerate() {
        let at = path.index(index);
        let (name, device_path) = (device.str("name"), device.str("devicePath"));
        let (name_at, path_at) = (at.child("name"), at.child("devicePath"));
        let volume = pod.volumes.iter().find(|(volume, _)| *volume == name);
        if name.is_empty() {
            errors.push(FieldError::required(name_at, ""));
        } else if !names_seen.insert(name) {
            errors.push(FieldError::invalid(name_at, name, "must be unique"));
        }
        match volume {
            Some((_, volume)) if !volume.has("persistentVolumeClaim") && !volume.has("ephemeral") => {
                let detail =
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.push(FieldError::invalid(name_at, name, detail));
            }
            Some(_) => {}
            None => errors.push(FieldError::not_found(name_at, name)),
        }
        if device_path.is_empty() {
            errors.push(FieldError::required(path_at, ""));
        }
        if paths_seen.contains(device_path) {
            errors.push(FieldError::invalid(path_at, device_path, "must be unique"));
        }
        if device_path.split('/').any(|part| part == "..") {
            errors.push(FieldError::invalid(path_at, device_path, "can not contain backsteps ('..')"));
        } else {
            paths_seen.insert(device_path);
        }
        if mounts.iter().any(|mount| mount.str("name") == name) {
            errors.push(FieldError::invalid(name_at, name, "must not already exist in volumeMounts"));
        }
        if mounts.iter().any(|mount| mount.str("mountPath") == device_path) {
            let detail = "must not already exist as a path in volumeMounts";
            errors.push(FieldError::invalid(path_at, device_path, detail));
        }
    }
}
