//! The quota usage of PersistentVolumeClaims: their number and their storage, in total and by storage class.

use std::collections::BTreeSet;

use super::number;
use crate::json::Value;
use crate::pod_resources::{self, Amounts};
use crate::quantity::{Format, Quantity};
use crate::read::Read;

const TRACKED: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];
/// The text between the name of a storage class and the resource that is limited for it.
const CLASS_INFIX: &str = ".storageclass.storage.k8s.io/";
/// The deprecated annotation with the name of the storage class, now in `spec.storageClassName`.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

pub(super) fn tracks(name: &str) -> bool {
    let by_class = name.rsplit_once(CLASS_INFIX).is_some_and(|(_, resource)| TRACKED.contains(&resource));
    TRACKED.contains(&name) || by_class
}

pub(super) fn usage(claim: &Value) -> Amounts {
    let mut used = Amounts::from([("persistentvolumeclaims".to_owned(), number(1))]);
    used.extend(storage(claim).map(|storage| ("requests.storage".to_owned(), storage)));
    let class = class(claim);
    if !class.is_empty() {
        let by_class: Vec<_> = used
            .iter()
            .map(|(name, amount)| (format!("{class}{CLASS_INFIX}{name}"), amount.clone()))
            .collect();
        used.extend(by_class);
    }
    used
}

fn class(claim: &Value) -> &str {
    let annotations = claim.at("metadata").at("annotations");
    match annotations.at(CLASS_ANNOTATION) {
        Some(class) => class.as_str().unwrap_or_default(),
        None => claim.at("spec").str("storageClassName"),
    }
}

/// The storage that a claim requests, or that an expansion has allocated if that is more, in whole bytes.
fn storage(claim: &Value) -> Option<Quantity> {
    let asked = pod_resources::read(claim.at("spec").at("resources").at("requests")).remove("storage")?;
    let allocated = pod_resources::read(claim.at("status").at("allocatedResources")).remove("storage");
    Some(whole(allocated.filter(|amount| *amount > asked).unwrap_or(asked)))
}

fn whole(amount: Quantity) -> Quantity {
    match amount.is_whole() {
        true => amount,
        false if amount.format() == Format::BinarySi => Quantity::new(amount.value(), Format::BinarySi),
        false => Quantity::new(amount.value(), amount.format()),
    }
}

/// The VolumeAttributesClasses that a claim refers to: the requested, the current and the target one.
pub(super) fn attribute_classes(claim: &Value) -> BTreeSet<&str> {
    let status = claim.at("status");
    let names = [
        claim.at("spec").str("volumeAttributesClassName"),
        status.str("currentVolumeAttributesClassName"),
        status.at("modifyVolumeStatus").str("targetVolumeAttributesClassName"),
    ];
    names.into_iter().filter(|name| !name.is_empty()).collect()
}

pub(super) fn moves(old: &Value, new: &Value) -> bool {
    let allocated =
        |claim: &Value| pod_resources::read(claim.at("status").at("allocatedResources")).remove("storage");
    allocated(old) != allocated(new) || attribute_classes(old) != attribute_classes(new)
}
