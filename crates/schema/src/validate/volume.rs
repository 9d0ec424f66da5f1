//! The volumes of a pod.

pub(super) mod legacy;

use evenkeel_scalars::go;

use super::field_rules::{
    Seen, file_mode, label, local_non_reserved_path, local_path, no_backsteps, required,
};
use super::{container, persistentvolumeclaim};
use crate::field::{BadValue, FieldError, Path};
use crate::json::Value;
use crate::names;
use crate::quantity::Quantity;
use crate::read::Read;
use crate::{object_meta, selector};

/// The volume sources in the order of their validation, with their names in the error for two sources.
const SOURCES: [(&str, &str); 30] = [
    ("emptyDir", "emptyDir"),
    ("hostPath", "hostPath"),
    ("gitRepo", "gitRepo"),
    ("gcePersistentDisk", "gcePersistentDisk"),
    ("awsElasticBlockStore", "awsElasticBlockStore"),
    ("secret", "secret"),
    ("nfs", "nfs"),
    ("iscsi", "iscsi"),
    ("glusterfs", "glusterfs"),
    ("flocker", "flocker"),
    ("persistentVolumeClaim", "persistentVolumeClaim"),
    ("rbd", "rbd"),
    ("cinder", "cinder"),
    ("cephfs", "cephFS"),
    ("quobyte", "quobyte"),
    ("downwardAPI", "downwarAPI"),
    ("fc", "fc"),
    ("flexVolume", "flexVolume"),
    ("configMap", "configMap"),
    ("azureFile", "azureFile"),
    ("vsphereVolume", "vsphereVolume"),
    ("photonPersistentDisk", "photonPersistentDisk"),
    ("portworxVolume", "portworxVolume"),
    ("azureDisk", "azureDisk"),
    ("storageos", "storageos"),
    ("projected", "projected"),
    ("scaleIO", "scaleIO"),
    ("csi", "csi"),
    ("ephemeral", "ephemeral"),
    ("image", "image"),
];
const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// Validates the volumes. Returns the valid ones by name.
pub(super) fn volumes<'a>(
    path: &Path<'_>,
    volumes: &'a [Value],
    pod_name: &str,
    errors: &mut Vec<FieldError>,
) -> Vec<(&'a str, &'a Value)> {
    let mut good: Vec<(&str, &Value)> = Vec::new();
    let mut seen = Seen::default();
    for (index, volume) in volumes.iter().enumerate() {
        let path = path.index(index);
        let mut wrong = Vec::new();
        source(&path, volume, pod_name, &mut wrong);
        let name = volume.str("name");
        let name_path = path.child("name");
        if name.is_empty() {
            wrong.push(FieldError::required(name_path, ""));
        } else {
            label(&name_path, name, &mut wrong);
        }
        if seen.contains(name) {
            wrong.push(FieldError::duplicate(name_path, name));
        }
        if wrong.is_empty() {
            seen.insert(name);
            good.push((name, volume));
        }
        errors.extend(wrong);
        created_claim(&path, volume, volumes, pod_name, errors);
    }
    good
}

fn created_claim(
    path: &Path<'_>,
    volume: &Value,
    volumes: &[Value],
    pod: &str,
    errors: &mut Vec<FieldError>,
) {
    let Some(claim) = volume.at("persistentVolumeClaim").map(|source| source.str("claimName")) else {
        return;
    };
    let created =
        |volume: &Value| volume.has("ephemeral") && format!("{pod}-{}", volume.str("name")) == claim;
    if !pod.is_empty() && volumes.iter().any(created) {
        let path = path.child("persistentVolumeClaim");
        let detail = "must not reference a PVC that gets created for an ephemeral volume";
        errors.push(FieldError::invalid(path.child("claimName"), claim, detail));
    }
}

fn source(path: &Path<'_>, volume: &Value, pod_name: &str, errors: &mut Vec<FieldError>) {
    let mut found = false;
    for (name, message_name) in SOURCES {
        let Some(source) = volume.at(name) else { continue };
        if found {
            errors.push(FieldError::forbidden(
                path.child(message_name),
                "may not specify more than 1 volume type",
            ));
            continue;
        }
        found = true;
        one(path, name, source, volume.str("name"), pod_name, errors);
    }
    if !found {
        errors.push(FieldError::required(path, "must specify a volume type"));
    }
}

fn one(
    volume: &Path<'_>,
    name: &str,
    source: &Value,
    volume_name: &str,
    pod: &str,
    errors: &mut Vec<FieldError>,
) {
    let path = volume.child(name);
    match name {
        "emptyDir" => empty_dir(&path, source, errors),
        "hostPath" => host_path(&path, source, errors),
        "gitRepo" => {
            required(source, &path, "repository", errors);
            local_path(&path.child("directory"), source.str("directory"), errors);
        }
        "gcePersistentDisk" => disk(&volume.child("persistentDisk"), source, "pdName", errors),
        "awsElasticBlockStore" => disk(&path, source, "volumeID", errors),
        "secret" => keyed(&path, source, "secretName", errors),
        "configMap" => keyed(&path, source, "name", errors),
        "nfs" => nfs(&path, source, errors),
        "persistentVolumeClaim" => required(source, &path, "claimName", errors),
        "downwardAPI" => {
            file_mode(source, &path, "defaultMode", errors);
            for file in source.list("items") {
                downward_file(&path, file, errors);
            }
        }
        "projected" => {
            file_mode(source, &path, "defaultMode", errors);
            projected(&path, source, errors);
        }
        "csi" => csi(&path, source, errors),
        "ephemeral" => ephemeral(volume, &path, source, volume_name, pod, errors),
        "image" => image(&path, source, errors),
        other => legacy::check(&path, other, source, false, errors),
    }
}

fn empty_dir(path: &Path<'_>, source: &Value, errors: &mut Vec<FieldError>) {
    let limit = source.at("sizeLimit").and_then(|limit| Quantity::from_json(limit).ok());
    if limit.is_some_and(|limit| limit.is_negative()) {
        let detail = "SizeLimit field must be a valid resource quantity";
        errors.push(FieldError::forbidden(path.child("sizeLimit"), detail));
    }
}

pub(super) fn host_path(path: &Path<'_>, source: &Value, errors: &mut Vec<FieldError>) {
    let text = source.str("path");
    if text.is_empty() {
        errors.push(FieldError::required(path.child("path"), ""));
        return;
    }
    no_backsteps(&path.child("path"), text, errors);
    if let Some(kind) =
        source.at("type").filter(|kind| !HOST_PATH_TYPES.contains(&kind.as_str().unwrap_or_default()))
    {
        let printed = BadValue::Printed(kind.to_string());
        errors.push(FieldError::not_supported(path.child("type"), printed, &HOST_PATH_TYPES));
    }
}

pub(super) fn nfs(path: &Path<'_>, source: &Value, errors: &mut Vec<FieldError>) {
    required(source, path, "server", errors);
    required(source, path, "path", errors);
    if !source.str("path").starts_with('/') {
        errors.push(FieldError::invalid(path.child("path"), source.str("path"), "must be an absolute path"));
    }
}

pub(super) fn disk(path: &Path<'_>, source: &Value, id: &str, errors: &mut Vec<FieldError>) {
    required(source, path, id, errors);
    if let Some(partition) = source.int("partition").filter(|partition| !(0..=255).contains(partition)) {
        let detail = "must be between 0 and 255, inclusive";
        errors.push(FieldError::invalid(path.child("partition"), partition, detail));
    }
}

fn keyed(path: &Path<'_>, source: &Value, name: &str, errors: &mut Vec<FieldError>) {
    required(source, path, name, errors);
    file_mode(source, path, "defaultMode", errors);
    items(path, source, errors);
}

fn items(path: &Path<'_>, source: &Value, errors: &mut Vec<FieldError>) {
    let list = path.child("items");
    for (index, item) in source.list("items").iter().enumerate() {
        let path = list.index(index);
        required(item, &path, "key", errors);
        required(item, &path, "path", errors);
        local_non_reserved_path(&path.child("path"), item.str("path"), errors);
        file_mode(item, &path, "mode", errors);
    }
}

fn downward_file(path: &Path<'_>, file: &Value, errors: &mut Vec<FieldError>) {
    required(file, path, "path", errors);
    local_non_reserved_path(&path.child("path"), file.str("path"), errors);
    match (file.at("fieldRef"), file.at("resourceFieldRef")) {
        (Some(field), resource) => {
            container::field_ref(&path.child("fieldRef"), field, &container::VOLUME_FIELDS, errors);
            if resource.is_some() {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.push(FieldError::invalid(path, "resource", detail));
            }
        }
        (None, Some(resource)) => {
            container::resource_field_ref(&path.child("resourceFieldRef"), resource, true, errors);
        }
        (None, None) => {
            errors.push(FieldError::required(path, "one of fieldRef and resourceFieldRef is required"));
        }
    }
    file_mode(file, path, "mode", errors);
}

const PROJECTIONS: [&str; 6] =
    ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];

fn projected(volume: &Path<'_>, source: &Value, errors: &mut Vec<FieldError>) {
    let sources = volume.child("sources");
    let mut paths: Vec<String> = Vec::new();
    for (index, source) in source.list("sources").iter().enumerate() {
        let path = sources.index(index);
        let mut found = false;
        for name in PROJECTIONS {
            let Some(projection) = source.at(name) else { continue };
            let at = path.child(name);
            if found {
                // Kubernetes checks the path of a token even then.
                if name == "serviceAccountToken" {
                    token_path(volume, projection, errors);
                }
                errors
                    .push(FieldError::forbidden(path, "may not specify more than 1 volume type per source"));
                continue;
            }
            found = true;
            projection_of(volume, &at, name, projection, &mut paths, errors);
        }
    }
}

fn projection_of(
    volume: &Path<'_>,
    path: &Path<'_>,
    kind: &str,
    source: &Value,
    paths: &mut Vec<String>,
    errors: &mut Vec<FieldError>,
) {
    match kind {
        "secret" | "configMap" => {
            required(source, path, "name", errors);
            items(path, source, errors);
        }
        "downwardAPI" => {
            for file in source.list("items") {
                downward_file(path, file, errors);
            }
        }
        "serviceAccountToken" => token(volume, path, source, errors),
        _ => {}
    }
    for item in source.list("items").iter().filter(|item| !item.str("path").is_empty()) {
        let text = item.str("path");
        match paths.iter().any(|known| known == text) {
            true => {
                let shown = if kind == "downwardAPI" { text } else { source.str("name") };
                errors.push(FieldError::invalid(volume, shown, "conflicting duplicate paths"));
            }
            false => paths.push(text.to_owned()),
        }
    }
}

fn token(volume: &Path<'_>, path: &Path<'_>, source: &Value, errors: &mut Vec<FieldError>) {
    let seconds = source.int("expirationSeconds").unwrap_or_default();
    if seconds < 600 {
        let detail = "may not specify a duration less than 10 minutes";
        errors.push(FieldError::invalid(path.child("expirationSeconds"), seconds, detail));
    }
    if seconds > 1 << 32 {
        let detail = "may not specify a duration larger than 2^32 seconds";
        errors.push(FieldError::invalid(path.child("expirationSeconds"), seconds, detail));
    }
    token_path(volume, source, errors);
}

fn token_path(volume: &Path<'_>, source: &Value, errors: &mut Vec<FieldError>) {
    match source.str("path") {
        "" => errors.push(FieldError::required(volume.child("path"), "")),
        text => local_non_reserved_path(&volume.child("path"), text, errors),
    }
}

fn csi(path: &Path<'_>, source: &Value, errors: &mut Vec<FieldError>) {
    driver_name(&path.child("driver"), source.str("driver"), errors);
    if let Some(secret) = source.at("nodePublishSecretRef") {
        let name = secret.str("name");
        match name {
            "" => errors.push(FieldError::required(path.child("nodePublishSecretRef.name"), "")),
            name => {
                super::field_rules::named(&path.child("name"), name, names::dns1123_subdomain(name), errors)
            }
        }
    }
}

/// Validates the name of a CSI driver, which is a short domain name.
pub(super) fn driver_name(path: &Path<'_>, name: &str, errors: &mut Vec<FieldError>) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    if name.len() > 63 {
        errors.push(FieldError::too_long(path, 63));
    }
    super::field_rules::named(path, name, names::dns1123_subdomain(&name.to_lowercase()), errors);
}

/// The metadata fields that a template must not set: the names of the fields, and the names of Kubernetes' struct that
/// errors show.
const TEMPLATE_META_FORBIDDEN: [(&str, &str); 13] = [
    ("name", "name"),
    ("generateName", "generateName"),
    ("namespace", "namespace"),
    ("selfLink", "selfLink"),
    ("uid", "uID"),
    ("resourceVersion", "resourceVersion"),
    ("generation", "generation"),
    ("creationTimestamp", "creationTimestamp"),
    ("deletionTimestamp", "deletionTimestamp"),
    ("deletionGracePeriodSeconds", "deletionGracePeriodSeconds"),
    ("ownerReferences", "ownerReferences"),
    ("finalizers", "finalizers"),
    ("managedFields", "managedFields"),
];

/// Validates the metadata of a template, which may only have labels and annotations.
pub(super) fn template_meta(path: &Path<'_>, meta: &Value, errors: &mut Vec<FieldError>) {
    object_meta::annotations(&path.child("annotations"), meta, errors);
    selector::validate_labels(&path.child("labels"), meta.at("labels").unwrap_or(&Value::Null), errors);
    for (field, shown) in TEMPLATE_META_FORBIDDEN {
        if meta.has(field) {
            errors.push(FieldError::forbidden(path.child(shown), "cannot be set"));
        }
    }
}

fn ephemeral(
    volume: &Path<'_>,
    path: &Path<'_>,
    source: &Value,
    name: &str,
    pod: &str,
    errors: &mut Vec<FieldError>,
) {
    match source.at("volumeClaimTemplate") {
        None => errors.push(FieldError::required(path.child("volumeClaimTemplate"), "")),
        Some(template) => {
            let path = path.child("volumeClaimTemplate");
            let meta = template.at("metadata").unwrap_or(&Value::Null);
            template_meta(&path.child("metadata"), meta, errors);
            let spec = template.at("spec").unwrap_or(&Value::Null);
            persistentvolumeclaim::spec(&path.child("spec"), spec, errors);
        }
    }
    if !pod.is_empty() && !name.is_empty() {
        let claim = format!("{pod}-{name}");
        for message in names::dns1123_subdomain(&claim) {
            let detail = format!("PVC name {}: {message}", go::quote(&claim));
            errors.push(FieldError::invalid(volume.child("name"), name, detail));
        }
    }
}

fn image(path: &Path<'_>, source: &Value, errors: &mut Vec<FieldError>) {
    required(source, path, "reference", errors);
    let policy = source.str("pullPolicy");
    super::field_rules::one_of(
        &path.child("pullPolicy"),
        policy,
        &["Always", "IfNotPresent", "Never"],
        errors,
    );
}
