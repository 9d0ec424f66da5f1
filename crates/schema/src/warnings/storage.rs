//! Warnings about volumes, claims and storage classes.

use evenkeel_scalars::go;

use super::{fraction, node_labels};
use crate::json::{Value, get};
use crate::read::Read as _;

/// The kinds of volumes that no longer work, with what Kubernetes says about them in pods.
const POD_VOLUMES: [(&str, &str); 9] = [
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];
/// The kinds of PersistentVolumes with a warning, in Kubernetes' order.
const PERSISTENT_VOLUMES: [&str; 6] =
    ["cephfs", "photonPersistentDisk", "scaleIO", "storageOS", "glusterfs", "rbd"];
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const BETA_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";

/// Warns about the volumes of a pod.
pub(super) fn of_volumes(spec: &Value, at: &str, warnings: &mut Vec<String>) {
    for (index, volume) in spec.list("volumes").iter().enumerate() {
        let at = format!("{at}.volumes[{index}]");
        let gone = POD_VOLUMES.iter().filter(|(kind, _)| volume.has(kind));
        warnings.extend(gone.map(|(kind, text)| format!("{at}.{kind}: {text}")));
        if let Some(claim) = get(volume, &["ephemeral", "volumeClaimTemplate", "spec"]) {
            of_claim_spec(claim, &format!("{at}.ephemeral.volumeClaimTemplate.spec"), warnings);
        }
    }
    for volume in spec.list("volumes") {
        let sources = volume.at("projected").list("sources");
        let empty = sources.iter().filter(|source| source.as_object().is_none_or(|it| it.is_empty()));
        let name = go::quote(volume.str("name"));
        warnings.extend(empty.map(|_| format!("volume {name} (Projected) has no sources provided")));
    }
}

/// Warns about a request or limit of storage that is not a whole number of bytes.
pub(super) fn of_claim_spec(spec: &Value, at: &str, warnings: &mut Vec<String>) {
    warnings
        .extend(["requests", "limits"].into_iter().filter_map(|list| fraction(spec, at, list, "storage")));
}

pub(super) fn of_claim(claim: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    if get(claim, &["metadata", "annotations", BETA_CLASS]).is_some() {
        let text = r#"deprecated since v1.8; use "storageClassName" attribute instead"#;
        warnings.push(format!("metadata.annotations[{BETA_CLASS}]: {text}"));
    }
    of_claim_spec(claim.at("spec").unwrap_or(&Value::Null), "spec", &mut warnings);
    warnings
}

pub(super) fn of_persistent_volume(volume: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let annotations = [
        (BETA_CLASS, r#"deprecated since v1.8; use "storageClassName" attribute instead"#),
        (BETA_OPTIONS, r#"deprecated since v1.31; use "mountOptions" attribute instead"#),
    ];
    for (key, text) in annotations {
        if get(volume, &["metadata", "annotations", key]).is_some() {
            warnings.push(format!("metadata.annotations[{key}]: {text}"));
        }
    }
    let spec = volume.at("spec").unwrap_or(&Value::Null);
    if spec.str("persistentVolumeReclaimPolicy") == "Recycle" {
        let text = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.";
        warnings.push(format!("spec.persistentVolumeReclaimPolicy: {text}"));
    }
    let terms = spec.at("nodeAffinity").at("required").list("nodeSelectorTerms");
    for (index, term) in terms.iter().enumerate() {
        let at = format!("spec.nodeAffinity.required.nodeSelectorTerms[{index}]");
        node_labels::of_term(term, &at, false, &mut warnings);
    }
    let gone = PERSISTENT_VOLUMES.iter().filter(|kind| spec.has(kind));
    let text = |kind: &str| POD_VOLUMES.iter().find(|it| it.0 == kind).map_or("", |it| it.1);
    warnings.extend(gone.map(|kind| format!("spec.{kind}: {}", text(kind))));
    warnings
}

pub(super) fn of_class(class: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, topology) in class.list("allowedTopologies").iter().enumerate() {
        for (inner, expression) in topology.list("matchLabelExpressions").iter().enumerate() {
            let at = format!("allowedTopologies[{index}].matchLabelExpressions[{inner}].key");
            warnings
                .extend(node_labels::deprecation(expression.str("key")).map(|text| format!("{at}: {text}")));
        }
    }
    warnings
}

/// Warns about what a StatefulSet has besides its pod template.
pub(super) fn of_stateful_set(set: &Value, warnings: &mut Vec<String>) {
    let spec = set.at("spec").unwrap_or(&Value::Null);
    for (index, claim) in spec.list("volumeClaimTemplates").iter().enumerate() {
        let at = format!("spec.volumeClaimTemplates[{index}]");
        of_claim_spec(claim.at("spec").unwrap_or(&Value::Null), &at, warnings);
    }
    if spec.int("revisionHistoryLimit").is_some_and(|limit| limit < 0) {
        warnings.push(
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
                .to_owned(),
        );
    }
}
