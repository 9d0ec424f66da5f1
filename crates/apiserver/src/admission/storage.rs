//! Plugins for claims and volumes: the default storage class, the finalizers that protect objects in use, and
//! which claims may be expanded.

use std::cmp::Reverse;

use evenkeel_schema::json::{Value, json};
use evenkeel_schema::quantity::Quantity;
use evenkeel_store::Range;

use super::plugin::{Admission, Handles, Operation, Plugin};
use crate::registry::{GroupResource, storage_prefix};
use crate::status::{Result, Status};
use crate::storage;

/// The annotation that named the class before the field existed; it still takes precedence.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// The annotations that mark the default storage class.
const DEFAULT: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
/// The protecting finalizers. Claims are kept while a pod uses them, volumes while a claim does, volume
/// attributes classes while either does.
const PROTECTION: [(GroupResource, &str); 3] = [
    (GroupResource::PERSISTENT_VOLUME_CLAIMS, "kubernetes.io/pvc-protection"),
    (GroupResource::PERSISTENT_VOLUMES, "kubernetes.io/pv-protection"),
    (GroupResource::VOLUME_ATTRIBUTES_CLASSES, "kubernetes.io/vac-protection"),
];

/// The DefaultStorageClass plugin.
#[derive(Debug)]
pub(super) struct DefaultStorageClass;

impl Plugin for DefaultStorageClass {
    fn handles(&self) -> Handles {
        Handles::creation_of(&[GroupResource::PERSISTENT_VOLUME_CLAIMS])
    }

    fn mutate(&self, admission: &Admission<'_>, claim: &mut Value) -> Result<()> {
        if class_of(claim).is_none()
            && let Some(class) = default_class(admission)?
        {
            claim["spec"]["storageClassName"] = class.into();
        }
        Ok(())
    }
}

/// The StorageObjectInUseProtection plugin.
#[derive(Debug)]
pub(super) struct InUseProtection;

impl Plugin for InUseProtection {
    fn handles(&self) -> Handles {
        Handles::creation_of(&[
            GroupResource::PERSISTENT_VOLUME_CLAIMS,
            GroupResource::PERSISTENT_VOLUMES,
            GroupResource::VOLUME_ATTRIBUTES_CLASSES,
        ])
    }

    fn mutate(&self, admission: &Admission<'_>, object: &mut Value) -> Result<()> {
        let protection = PROTECTION.into_iter().find(|(resource, _)| admission.is_about(*resource));
        let Some((_, finalizer)) = protection else { return Ok(()) };
        match object["metadata"]["finalizers"].as_array_mut() {
            Some(finalizers) if finalizers.iter().any(|it| it == finalizer) => {}
            Some(finalizers) => finalizers.push(finalizer.into()),
            None => object["metadata"]["finalizers"] = json!([finalizer]),
        }
        Ok(())
    }
}

/// The PersistentVolumeClaimResize plugin.
#[derive(Debug)]
pub(super) struct Resize;

impl Plugin for Resize {
    fn handles(&self) -> Handles {
        Handles {
            operations: &[Operation::Update],
            resources: &[GroupResource::PERSISTENT_VOLUME_CLAIMS],
            subresources: false,
        }
    }

    fn validate(&self, admission: &Admission<'_>, claim: &Value) -> Result<()> {
        let Some(old) = admission.old else { return Ok(()) };
        if requested(claim) <= requested(old) {
            return Ok(());
        }
        let refused =
            |why| Err(Status::not_admitted("", "persistentvolumeclaims", admission.shown_name(), why));
        if old["status"]["phase"] != "Bound" {
            return refused("Only bound persistent volume claims can be expanded");
        }
        let (class, before) = (class_of(claim), class_of(old));
        match class.filter(|class| !class.is_empty() && Some(*class) == before) {
            Some(class) if may_expand(admission, class) => Ok(()),
            _ => refused(
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
                 support resize",
            ),
        }
    }
}

fn class_of(claim: &Value) -> Option<&str> {
    let annotated = claim["metadata"]["annotations"][CLASS].as_str();
    annotated.or_else(|| claim["spec"]["storageClassName"].as_str())
}

fn requested(claim: &Value) -> Quantity {
    let text = claim["spec"]["resources"]["requests"]["storage"].as_str();
    text.unwrap_or_default().parse().unwrap_or_else(|_| Quantity::zero())
}

fn may_expand(admission: &Admission<'_>, class: &str) -> bool {
    let key = format!("{}{class}", storage_prefix("storage.k8s.io", "storageclasses"));
    let class = admission.ctx.services.store.get(&key);
    let class: Option<Value> = class.and_then(|entry| storage::read_or_skip(&entry));
    class.is_some_and(|class| class["allowVolumeExpansion"] == true)
}

/// The newest of the default storage classes; by name if two are equally new.
fn default_class(admission: &Admission<'_>) -> Result<Option<String>> {
    let prefix = storage_prefix("storage.k8s.io", "storageclasses");
    let page = admission.ctx.services.store.range(&Range { prefix, ..Range::default() });
    let page = page.map_err(Status::internal)?;
    // An unreadable class might be the default, so the write is refused.
    let classes: Vec<Value> = page.entries.iter().map(|entry| storage::read(entry)).collect::<Result<_>>()?;
    let classes = classes.into_iter();
    let marked =
        classes.filter(|class| DEFAULT.iter().any(|it| class["metadata"]["annotations"][it] == "true"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let aged = marked.map(|class| {
        let metadata = &class["metadata"];
        (Reverse(text(&metadata["creationTimestamp"])), text(&metadata["name"]))
    });
    Ok(aged.min().map(|(_, name)| name))
}
