//! PersistentVolumes.

use super::field_rules::{label, named, no_backsteps, required, subdomain, supported};
use super::{scheduling, volume};
use crate::field::{FieldError, Path};
use crate::internal_structs;
use crate::json::Value;
use crate::names;
use crate::object_meta::{self, NameRule};
use crate::quantity::Quantity;
use crate::read::Read;

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
/// The volume sources in the order of their validation.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

/// The Secret references of a CSI volume, in the order in which they are validated.
const CSI_SECRETS: [&str; 4] = [
    "controllerPublishSecretRef",
    "controllerExpandSecretRef",
    "nodePublishSecretRef",
    "nodeExpandSecretRef",
];

pub(super) fn create(object: &Value) -> Vec<FieldError> {
    let mut errors = object_meta::create_builtin(object, false, NameRule::Subdomain);
    spec(&Path::new("spec"), object.at("spec").unwrap_or(&Value::Null), &mut errors);
    errors
}

pub(super) fn update(new: &Value, old: &Value, subresource: &str) -> Vec<FieldError> {
    if subresource == "status" {
        return object_meta::update_builtin(new, old);
    }
    // Kubernetes runs the rules of creation twice on update.
    let mut errors = create(new);
    errors.extend(create(new));
    let source = |object: &Value| -> Value {
        let spec = object.at("spec");
        let named = |name: &&str| Some(((*name).to_owned(), spec.at(name)?.clone()));
        SOURCES.iter().filter_map(named).collect()
    };
    let (mut now, then) = (source(new), source(old));
    // The Secret for expansion may be set later.
    let expansion = "controllerExpandSecretRef";
    if then.has("csi")
        && !then.at("csi").has(expansion)
        && let Some(Value::Object(csi)) = now.get_mut("csi")
    {
        csi.remove(expansion);
    }
    if now != then {
        let diff = internal_structs::diff("core.PersistentVolumeSource", Some(&then), Some(&now));
        let detail = format!("spec.persistentvolumesource is immutable after creation\n{diff}");
        errors.push(FieldError::forbidden("spec.persistentvolumesource", detail));
    }
    let (mode, before) = (new.at("spec").at("volumeMode"), old.at("spec").at("volumeMode"));
    super::field_rules::immutable(&Path::new("volumeMode"), mode, before, &mut errors);
    let class = "volumeAttributesClassName";
    if old.at("spec").has(class) && !new.at("spec").has(class) {
        let detail = "update from non-nil value to nil is forbidden";
        errors.push(FieldError::forbidden(Path::new("spec").child(class), detail));
    }
    let (affinity, before) = (new.at("spec").at("nodeAffinity"), old.at("spec").at("nodeAffinity"));
    if before.is_some_and(|before| affinity != Some(&with_renamed_labels(before, affinity))) {
        let printed = internal_structs::bad_value("*core.VolumeNodeAffinity", affinity);
        let detail = "field is immutable, except for updating from beta label to GA";
        errors.push(FieldError::invalid("nodeAffinity", printed, detail));
    }
    errors
}

/// Labels of nodes that got other names when they became stable.
const RENAMED_LABELS: [(&str, &str); 5] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
];

/// Returns the stored affinity with the keys of the new one where the update may change them: to the newer name of the same
/// label. As in Kubernetes, an empty key is not told twice: it counts as the newer name of any other label.
fn with_renamed_labels(old: &Value, new: Option<&Value>) -> Value {
    let mut renamed = old.clone();
    let terms = renamed.pointer_mut("/required/nodeSelectorTerms").and_then(Value::as_array_mut);
    let new_terms = new.at("required").list("nodeSelectorTerms");
    for (term, new) in terms.into_iter().flatten().zip(new_terms) {
        for list in ["matchExpressions", "matchFields"] {
            let requirements = term.get_mut(list).and_then(Value::as_array_mut);
            for (requirement, new) in requirements.into_iter().flatten().zip(new.list(list)) {
                let key = (&*requirement).str("key");
                let newer = RENAMED_LABELS.iter().find(|(old, _)| *old == key).map_or("", |(_, newer)| newer);
                if key != new.str("key")
                    && newer == new.str("key")
                    && let Some(fields) = requirement.as_object_mut()
                {
                    fields.remove("key");
                    fields.extend(new.at("key").map(|key| ("key".to_owned(), key.clone())));
                }
            }
        }
    }
    renamed
}

fn spec(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    access_modes(&path.child("accessModes"), spec, errors);
    capacity(&path.child("capacity"), spec, errors);
    let policy = spec.str("persistentVolumeReclaimPolicy");
    if !policy.is_empty() {
        let at = path.child("persistentVolumeReclaimPolicy");
        supported(&at, policy, &["Delete", "Recycle", "Retain"], errors);
    }
    if let Some(affinity) = spec.at("nodeAffinity") {
        let at = path.child("nodeAffinity");
        let at = at.child("required");
        match affinity.at("required") {
            Some(required) => scheduling::node_selector(&at, required, errors),
            None => errors.push(FieldError::required(at, "must specify required node constraints")),
        }
    }
    sources(path, spec, errors);
    if policy == "Recycle" && is_root(spec.at("hostPath").str("path")) {
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        errors.push(FieldError::forbidden(path.child("persistentVolumeReclaimPolicy"), detail));
    }
    let class = spec.str("storageClassName");
    if !class.is_empty() {
        named(&path.child("storageClassName"), class, names::dns1123_subdomain(class), errors);
    }
    super::field_rules::optional_one_of(spec, path, "volumeMode", &["Block", "Filesystem"], errors);
    attributes_class(path, spec, errors);
}

fn attributes_class(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    let Some(class) = spec.at("volumeAttributesClassName").and_then(Value::as_str) else { return };
    let at = path.child("volumeAttributesClassName");
    if class.is_empty() {
        errors.push(FieldError::required(at, "an empty string is disallowed"));
    } else {
        subdomain(&at, class, errors);
    }
    if !spec.has("csi") {
        let detail = "has to be specified when using volumeAttributesClassName";
        errors.push(FieldError::required(path.child("csi"), detail));
    }
}

fn access_modes(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    let modes = spec.strs("accessModes");
    if modes.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    for mode in &modes {
        supported(path, mode, &ACCESS_MODES, errors);
    }
    let other = modes.iter().any(|mode| *mode != "ReadWriteOncePod" && ACCESS_MODES.contains(mode));
    if modes.contains(&"ReadWriteOncePod") && other {
        errors.push(FieldError::forbidden(path, "may not use ReadWriteOncePod with other access modes"));
    }
}

fn capacity(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    let capacity = spec.map("capacity");
    if capacity.is_none_or(|capacity| capacity.is_empty()) {
        errors.push(FieldError::required(path, ""));
    }
    if !spec.at("capacity").has("storage") || capacity.is_some_and(|capacity| capacity.len() > 1) {
        let shown = spec.at("capacity").cloned().unwrap_or(Value::Null);
        errors.push(FieldError::not_supported(path, shown, &["storage"]));
    }
    for (name, value) in capacity.into_iter().flatten() {
        let Ok(quantity) = Quantity::from_json(value) else { continue };
        if quantity.value() < 0 {
            let detail = "must be a valid resource quantity";
            errors.push(FieldError::invalid(path.key(name), quantity.value(), detail));
        }
        if quantity <= Quantity::zero() {
            errors.push(FieldError::invalid(
                path.key(name),
                quantity.to_string(),
                "must be greater than zero",
            ));
        }
    }
}

fn sources(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    let mut found = false;
    for name in SOURCES {
        let Some(source) = spec.at(name) else { continue };
        let at = path.child(name);
        if found {
            errors.push(FieldError::forbidden(at, "may not specify more than 1 volume type"));
            continue;
        }
        found = true;
        match name {
            "hostPath" => volume::host_path(&at, source, errors),
            "nfs" => volume::nfs(&at, source, errors),
            "local" => {
                match source.str("path") {
                    "" => errors.push(FieldError::required(at.child("path"), "")),
                    text => no_backsteps(&at.child("path"), text, errors),
                }
                if !spec.has("nodeAffinity") {
                    let detail = "Local volume requires node affinity";
                    errors.push(FieldError::required(path.child("nodeAffinity"), detail));
                }
            }
            "csi" => {
                volume::driver_name(&at.child("driver"), source.str("driver"), errors);
                required(source, &at, "volumeHandle", errors);
                for field in CSI_SECRETS {
                    if let Some(reference) = source.at(field) {
                        secret_reference(&at.child(field), reference, errors);
                    }
                }
            }
            "gcePersistentDisk" => volume::disk(&path.child("persistentDisk"), source, "pdName", errors),
            "awsElasticBlockStore" => volume::disk(&at, source, "volumeID", errors),
            other => volume::legacy::check(&at, other, source, true, errors),
        }
    }
    if !found {
        errors.push(FieldError::required(path, "must specify a volume type"));
    }
}

/// Whether an absolute path is that of the root folder once `.` and `..` are resolved.
fn is_root(path: &str) -> bool {
    let steps = path.split('/').filter(|step| !matches!(*step, "" | "."));
    let depth =
        steps.fold(0_usize, |depth, step| if step == ".." { depth.saturating_sub(1) } else { depth + 1 });
    path.starts_with('/') && depth == 0
}

/// Validates a reference to a Secret in any namespace.
fn secret_reference(path: &Path<'_>, reference: &Value, errors: &mut Vec<FieldError>) {
    match reference.str("name") {
        "" => errors.push(FieldError::required(path.child("name"), "")),
        name => subdomain(&path.child("name"), name, errors),
    }
    match reference.str("namespace") {
        "" => errors.push(FieldError::required(path.child("namespace"), "")),
        namespace => label(&path.child("namespace"), namespace, errors),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn the_labels_of_an_affinity_may_get_their_newer_names() {
        let affinity = |key: &str| {
            let expression = json!({"key": key, "operator": "In", "values": ["a"]});
            json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}})
        };
        let allowed =
            |old: &str, new: &str| with_renamed_labels(&affinity(old), Some(&affinity(new))) == affinity(new);
        assert!(allowed("beta.kubernetes.io/os", "kubernetes.io/os"));
        assert!(allowed("zone", ""));
        assert!(!allowed("beta.kubernetes.io/os", "kubernetes.io/arch"));
        assert!(!allowed("kubernetes.io/os", "beta.kubernetes.io/os"));
    }

    #[test]
    fn a_volume_does_not_move() {
        let volume = |zone: &str| {
            let expression = json!({"key": "zone", "operator": "In", "values": [zone]});
            let terms = json!([{"matchExpressions": [expression]}]);
            json!({"metadata": {"name": "v", "resourceVersion": "1"}, "spec": {"capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}})
        };
        assert!(update(&volume("a"), &volume("a"), "").is_empty());
        let told: Vec<String> =
            update(&volume("b"), &volume("a"), "").iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                r#"nodeAffinity: Invalid value: {"Required":{"NodeSelectorTerms":[{"MatchExpressions":[{"Key":"zone","Operator":"In","Values":["b"]}],"MatchFields":null}]}}: field is immutable, except for updating from beta label to GA"#
            ]
        );
    }
}
