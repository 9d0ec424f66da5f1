//! Finds the volume that fits a claim.

use std::sync::Arc;

use evenkeel_schema::quantity::Quantity;
use evenkeel_tree::{Tree, tree};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::core::SelectorExt;

use crate::kinds::{PersistentVolume, PersistentVolumeClaim};
use crate::object::{Fields, Object, selector};

/// The annotation with the provisioner of a volume.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The name of this provisioner.
const PROVISIONER: &str = "evenkeel.dev/instant";

/// Returns the storage class of a claim or volume, or an empty string if it has none.
pub(super) fn class(object: &Object) -> &str {
    object.str("spec/storageClassName").unwrap_or_default()
}

/// Returns the reference by which a volume is bound to a claim.
pub(super) fn reference(claim: &PersistentVolumeClaim) -> Tree {
    tree!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.metadata.namespace.clone(),
        "name": claim.name(), "uid": claim.metadata.uid.clone(),
    })
}

/// Whether the volume is free or reserved for this claim.
pub(super) fn is_for(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let (reference, wanted) = (volume.at("spec/claimRef"), reference(claim));
    let same = |field: &str| reference.at(field) == wanted.at(field);
    reference.is_null() || (same("name") && same("namespace") && (!reference.has("uid") || same("uid")))
}

/// Chooses a volume that is reserved for the claim, or else the smallest that fits.
pub(super) fn choose(
    claim: &PersistentVolumeClaim,
    volumes: &[Arc<PersistentVolume>],
) -> Option<Arc<PersistentVolume>> {
    let fitting = volumes.iter().filter(|volume| is_for(volume, claim) && fits(claim, volume));
    let best = fitting.min_by_key(|volume| (!volume.has("spec/claimRef"), size(volume), volume.name()));
    best.cloned()
}

fn size(volume: &PersistentVolume) -> Option<Quantity> {
    quantity(volume, "spec/capacity/storage")
}

/// Parses the quantity at a path. Validation guarantees that it is valid.
fn quantity(object: &Object, path: &str) -> Option<Quantity> {
    Quantity::parse(object.str(path)?).ok()
}

/// Returns whether the storage of a claim or volume is a file system or a block device.
fn mode(object: &Object) -> &str {
    object.str("spec/volumeMode").unwrap_or("Filesystem")
}

/// The path of a claim's requested size.
const REQUESTED: &str = "spec/resources/requests/storage";

fn fits(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let modes = volume.list("spec/accessModes");
    let selector = claim.label_selector("spec/selector").and_then(selector);
    !volume.is_deleting()
        && claim.has("spec")
        && volume.has("spec")
        && quantity(claim, REQUESTED) <= size(volume)
        && claim.list("spec/accessModes").iter().all(|mode| modes.contains(mode))
        && mode(claim) == mode(volume)
        && selector.is_none_or(|selector| selector.matches(volume.labels()))
}

/// Returns why a claim cannot be bound to the volume that it names, in Kubernetes' words.
pub(super) fn mismatch(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Option<&'static str> {
    let modes = volume.list("spec/accessModes");
    if quantity(claim, REQUESTED) > size(volume) {
        return Some("requested PV is too small");
    }
    if class(claim) != class(volume) {
        return Some("storageClassName does not match");
    }
    if mode(claim) != mode(volume) {
        return Some("incompatible volumeMode");
    }
    let fits = claim.list("spec/accessModes").iter().all(|mode| modes.contains(mode));
    (!fits).then_some("incompatible accessMode")
}

/// Returns the new size of a volume of this provisioner if its claim asks for more than it has.
pub(super) fn growth(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Option<Tree> {
    let ours = volume.annotation(PROVISIONED_BY) == Some(PROVISIONER);
    (ours && quantity(claim, REQUESTED)? > size(volume)?).then(|| claim.at(REQUESTED).clone())
}

/// Returns a new volume for a claim.
pub(super) fn provision(claim: &PersistentVolumeClaim) -> PersistentVolume {
    let name = format!("pvc-{}", claim.metadata.uid.as_deref().unwrap_or_default());
    let metadata = ObjectMeta {
        name: Some(name.clone()),
        annotations: Some([(PROVISIONED_BY.to_owned(), PROVISIONER.to_owned())].into()),
        ..ObjectMeta::default()
    };
    let spec = tree!({
        "capacity": claim.at("spec/resources/requests"),
        "accessModes": claim.at("spec/accessModes"),
        "volumeMode": claim.at("spec/volumeMode"),
        "storageClassName": claim.at("spec/storageClassName"),
        "persistentVolumeReclaimPolicy": "Delete",
        "claimRef": reference(claim),
        "hostPath": tree!({"path": format!("/evenkeel/{name}")}),
    });
    PersistentVolume::new(metadata, tree!({"spec": spec}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::object;
    use serde_json::json;

    fn volume(name: &str, size: &str) -> Arc<PersistentVolume> {
        let spec = json!({"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"]});
        Arc::new(object(json!({"metadata": {"name": name}, "spec": spec})))
    }

    #[test]
    fn the_smallest_that_fits_is_taken() {
        let claim = object(json!({"metadata": {"name": "c", "namespace": "n", "uid": "u"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}}));
        let volumes = [volume("large", "10Gi"), volume("right", "2Gi"), volume("small", "1Gi")];
        assert_eq!(choose(&claim, &volumes), Some(volumes[1].clone()));
        assert_eq!(choose(&claim, &volumes[2..]), None);
        assert!(is_for(&provision(&claim), &claim));
    }
}
