//! Protects VolumeAttributesClasses that a claim or a volume uses.

use std::borrow::Cow;
use std::sync::Arc;

use evenkeel_runtime::{Action, Controller, Ctx, Index, Request, Result, Source, Trigger};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ClusterResourceScope;
use kube::{Resource, ResourceExt};
use serde::{Deserialize, Serialize};

use crate::{MANAGER, finalizer};

const PROTECTION: &str = "kubernetes.io/vac-protection";
/// The name of the index of claims and volumes by the classes that they use.
const BY_CLASS: &str = "attributes class";

/// The metadata of a VolumeAttributesClass, which is all that the protection needs.
///
/// `k8s-openapi` has the whole type only from Kubernetes 1.34 on.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct VolumeAttributesClass {
    metadata: ObjectMeta,
}

impl Resource for VolumeAttributesClass {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "VolumeAttributesClass".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "storage.k8s.io".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "volumeattributesclasses".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The controller that removes the protection finalizer from deleted classes when nothing uses them.
pub(crate) fn protection() -> Controller<VolumeAttributesClass> {
    let claims = Source::<PersistentVolumeClaim>::new().index(Index::new(BY_CLASS, used_by_claim));
    let volumes = Source::<PersistentVolume>::new().index(Index::new(BY_CLASS, used_by_volume));
    let classes = |names: Vec<String>| names.into_iter().map(Request::cluster).collect::<Vec<_>>();
    Controller::new("volumeattributesclass-protection-controller", protect)
        .watches_with(claims, Trigger::map(move |claim| classes(used_by_claim(claim))))
        .watches_with(volumes, Trigger::map(move |volume| classes(used_by_volume(volume))))
        .field_manager(MANAGER)
}

/// Returns the classes that a claim wants, has, and is being changed to.
fn used_by_claim(claim: &PersistentVolumeClaim) -> Vec<String> {
    let wanted = claim.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.clone());
    let status = claim.status.as_ref();
    let current = status.and_then(|status| status.current_volume_attributes_class_name.clone());
    let target = status
        .and_then(|status| status.modify_volume_status.as_ref())
        .and_then(|modify| modify.target_volume_attributes_class_name.clone());
    let mut names: Vec<String> = [wanted, current, target].into_iter().flatten().collect();
    names.sort();
    names.dedup();
    names
}

fn used_by_volume(volume: &PersistentVolume) -> Vec<String> {
    volume.spec.iter().filter_map(|spec| spec.volume_attributes_class_name.clone()).collect()
}

async fn protect(class: Arc<VolumeAttributesClass>, ctx: Ctx) -> Result<Action> {
    if class.metadata.deletion_timestamp.is_none() {
        return Ok(Action::await_change());
    }
    let name = class.name_any();
    let free = ctx.cache::<PersistentVolumeClaim>()?.by_index(BY_CLASS, &name)?.is_empty()
        && ctx.cache::<PersistentVolume>()?.by_index(BY_CLASS, &name)?.is_empty();
    if free {
        finalizer::remove(&ctx, &*class, PROTECTION).await?;
    }
    Ok(Action::await_change())
}
