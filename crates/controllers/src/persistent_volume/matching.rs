//! Finds the volume that fits a claim.

use std::sync::Arc;

use evenkeel_schema::quantity::Quantity;
use k8s_openapi::api::core::v1::{
    HostPathVolumeSource, ObjectReference, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec,
};
use k8s_openapi::apimachinery::pkg::api::resource;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::core::{Selector, SelectorExt};

/// The annotation with the provisioner of a volume.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The name of this provisioner.
const PROVISIONER: &str = "evenkeel.dev/instant";

/// The result of the search for a volume.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Choice {
    /// Use this volume.
    Take(Arc<PersistentVolume>),
    /// No volume fits.
    None,
}

/// Returns the storage class of a claim.
pub(super) fn class(claim: &PersistentVolumeClaim) -> Option<String> {
    claim.spec.as_ref()?.storage_class_name.clone()
}

/// Whether the volume is free or reserved for this claim.
pub(super) fn is_for(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let Some(reference) = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()) else { return true };
    reference.name == Some(claim.name_any())
        && reference.namespace == claim.namespace()
        && (reference.uid.is_none() || reference.uid == claim.uid())
}

/// Chooses a volume that is reserved for the claim, or else the smallest that fits.
pub(super) fn choose(claim: &PersistentVolumeClaim, volumes: &[Arc<PersistentVolume>]) -> Choice {
    let reserved =
        |volume: &Arc<PersistentVolume>| volume.spec.as_ref().is_some_and(|spec| spec.claim_ref.is_some());
    let fitting = volumes.iter().filter(|volume| is_for(volume, claim) && fits(claim, volume));
    let best = fitting.min_by_key(|volume| (!reserved(volume), size(volume), volume.name_any()));
    best.map_or(Choice::None, |volume| Choice::Take(volume.clone()))
}

fn size(volume: &PersistentVolume) -> Option<Quantity> {
    volume.spec.as_ref()?.capacity.as_ref()?.get("storage").and_then(parsed)
}

/// Parses a quantity. Validation rejects all others.
fn parsed(quantity: &resource::Quantity) -> Option<Quantity> {
    Quantity::parse(&quantity.0).ok()
}

fn fits(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let (Some(wanted), Some(given)) = (claim.spec.as_ref(), volume.spec.as_ref()) else { return false };
    let asked = wanted
        .resources
        .as_ref()
        .and_then(|resources| resources.requests.as_ref())
        .and_then(|all| all.get("storage"));
    let modes = given.access_modes.as_deref().unwrap_or_default();
    let selector: Option<Selector> = wanted.selector.clone().and_then(|selector| selector.try_into().ok());
    volume.metadata.deletion_timestamp.is_none()
        && asked.and_then(parsed) <= size(volume)
        && wanted.access_modes.iter().flatten().all(|mode| modes.contains(mode))
        && wanted.volume_mode.as_deref().unwrap_or("Filesystem")
            == given.volume_mode.as_deref().unwrap_or("Filesystem")
        && selector.is_none_or(|selector| selector.matches(volume.labels()))
}

/// Returns the new size of a volume of this provisioner if its claim asks for more than it has.
pub(super) fn growth(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Option<resource::Quantity> {
    let ours = volume.annotations().get(PROVISIONED_BY).is_some_and(|by| by == PROVISIONER);
    let resources = claim.spec.as_ref()?.resources.as_ref()?;
    let wanted = resources.requests.as_ref()?.get("storage")?;
    (ours && parsed(wanted)? > size(volume)?).then(|| wanted.clone())
}

/// Returns a new volume for a claim.
pub(super) fn provision(claim: &PersistentVolumeClaim) -> PersistentVolume {
    let spec = claim.spec.clone().unwrap_or_default();
    let name = format!("pvc-{}", claim.uid().unwrap_or_default());
    PersistentVolume {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            annotations: Some([(PROVISIONED_BY.to_owned(), PROVISIONER.to_owned())].into()),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeSpec {
            capacity: spec.resources.and_then(|resources| resources.requests),
            access_modes: spec.access_modes,
            volume_mode: spec.volume_mode,
            storage_class_name: spec.storage_class_name,
            persistent_volume_reclaim_policy: Some("Delete".to_owned()),
            claim_ref: Some(ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("PersistentVolumeClaim".to_owned()),
                namespace: claim.namespace(),
                name: Some(claim.name_any()),
                uid: claim.uid(),
                ..ObjectReference::default()
            }),
            host_path: Some(HostPathVolumeSource { path: format!("/evenkeel/{name}"), type_: None }),
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn volume(name: &str, size: &str) -> Arc<PersistentVolume> {
        Arc::new(serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"]}})).unwrap())
    }

    #[test]
    fn the_smallest_that_fits_is_taken() {
        let claim: PersistentVolumeClaim =
            serde_json::from_value(json!({"metadata": {"name": "c", "namespace": "n", "uid": "u"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}}))
            .unwrap();
        let volumes = [volume("large", "10Gi"), volume("right", "2Gi"), volume("small", "1Gi")];
        assert_eq!(choose(&claim, &volumes), Choice::Take(volumes[1].clone()));
        assert_eq!(choose(&claim, &volumes[2..]), Choice::None);
        assert!(is_for(&provision(&claim), &claim));
    }
}
