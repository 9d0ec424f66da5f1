//! Protects VolumeAttributesClasses that a claim or a volume uses.

use std::sync::Arc;

use evenkeel_runtime::{Action, Controller, Ctx, Index, Request, Result, Trigger};

use crate::kinds::{
    PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, VOLUME_ATTRIBUTES_CLASS, VolumeAttributesClass,
};
use crate::object::{Object, OfKind};
use crate::{MANAGER, finalizer};

const PROTECTION: &str = "kubernetes.io/vac-protection";
/// The name of the index of claims and volumes by the classes that they use.
const BY_CLASS: &str = "attributes class";

/// The paths where a claim names the classes that it wants, has, and is being changed to, and where a volume names its
/// class.
const NAMES: [&str; 3] = [
    "spec/volumeAttributesClassName",
    "status/currentVolumeAttributesClassName",
    "status/modifyVolumeStatus/targetVolumeAttributesClassName",
];

/// The controller that removes the protection finalizer from deleted classes when nothing uses them.
pub(crate) fn protection() -> Controller<Object> {
    let by_class = || Index::new(BY_CLASS, used_by);
    let classes = || {
        Trigger::map(|object: &Object| used_by(object).into_iter().map(Request::cluster).collect::<Vec<_>>())
    };
    let name = "volumeattributesclass-protection-controller";
    Controller::new_with(name, VOLUME_ATTRIBUTES_CLASS.source(), protect)
        .watches_with(PERSISTENT_VOLUME_CLAIM.source().index(by_class()), classes())
        .watches_with(PERSISTENT_VOLUME.source().index(by_class()), classes())
        .field_manager(MANAGER)
}

/// Returns the classes that a claim or a volume uses.
fn used_by(object: &Object) -> Vec<String> {
    let mut names: Vec<_> = NAMES.iter().filter_map(|path| object.str(path)).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

async fn protect(class: Arc<VolumeAttributesClass>, ctx: Ctx) -> Result<Action> {
    if !class.is_deleting() {
        return Ok(Action::await_change());
    }
    for kind in [&PERSISTENT_VOLUME_CLAIM, &PERSISTENT_VOLUME] {
        if !ctx.kind(kind).cache()?.by_index(BY_CLASS, class.name())?.is_empty() {
            return Ok(Action::await_change());
        }
    }
    finalizer::remove(&ctx, &VOLUME_ATTRIBUTES_CLASS, &class, PROTECTION).await?;
    Ok(Action::await_change())
}
