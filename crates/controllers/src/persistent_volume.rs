//! PersistentVolumes: claims are bound to volumes that fit, or to volumes that are provisioned for them. Finalizers protect
//! volumes and claims that are in use.
//!
//! Volumes are provisioned only if there are simulated nodes. On a cluster without nodes, a claim waits for a volume that
//! someone else provisions, as on Kubernetes.

pub(crate) mod attributes_class;
mod matching;

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_runtime::{Action, Controller, Ctx, Event, Index, Request, Result, ResultExt, Source, Trigger};
use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt;
use kube::core::params::Patch;
use matching::Choice;
use serde_json::json;

use crate::{MANAGER, finalizer, pod};

/// The finalizer of a claim, until no pod uses it.
const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
/// The finalizer of a volume, until no claim is bound to it.
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";

/// The name of the index of pods by the claims that they use.
const BY_CLAIM: &str = "claim";

/// The controller that binds claims. `provision` tells whether to provision volumes for them.
pub(crate) fn claims(provision: bool) -> Controller<PersistentVolumeClaim> {
    let claim_of = |volume: &PersistentVolume| {
        let claim = volume.spec.as_ref()?.claim_ref.as_ref()?;
        Some(Request::new(claim.namespace.as_deref(), claim.name.as_deref()?))
    };
    let by_class =
        Index::new("class", |claim: &PersistentVolumeClaim| vec![matching::class(claim).unwrap_or_default()]);
    Controller::new("persistentvolume-binder", bind)
        .watches(Trigger::<PersistentVolume>::map(claim_of))
        .watches_indexed(by_class.clone(), |volume: &PersistentVolume| {
            let free = volume.spec.as_ref().is_some_and(|spec| spec.claim_ref.is_none());
            let class =
                volume.spec.as_ref().and_then(|spec| spec.storage_class_name.clone()).unwrap_or_default();
            free.then_some(class).into_iter().collect()
        })
        .watches_indexed(by_class, |class: &StorageClass| vec![class.name_any()])
        .reads_with(Source::<PersistentVolume>::new().index(Index::new(
            "class",
            |volume: &PersistentVolume| {
                vec![
                    volume.spec.as_ref().and_then(|spec| spec.storage_class_name.clone()).unwrap_or_default(),
                ]
            },
        )))
        .field_manager(MANAGER)
        .state(provision)
}

async fn bind(claim: Arc<PersistentVolumeClaim>, ctx: Ctx<bool>) -> Result<Action> {
    if claim.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let spec = claim.spec.clone().unwrap_or_default();
    let volume = match spec.volume_name.as_deref().filter(|name| !name.is_empty()) {
        Some(name) => match ctx.get_at::<PersistentVolume>(&Request::cluster(name))? {
            Some(volume) => Some(PersistentVolume::clone(&volume)),
            None => ctx.fetch_at::<PersistentVolume>(&Request::cluster(name)).await?,
        },
        None => find(&ctx, &claim).await?,
    };
    match volume {
        Some(volume) if matching::is_for(&volume, &claim) => {
            let volume = grow(&ctx, &claim, volume).await?;
            complete(&ctx, &claim, volume).await
        }
        Some(_) => Ok(Action::await_change()),
        None => phase(&ctx, &claim, if spec.volume_name.is_some() { "Lost" } else { "Pending" }).await,
    }
}

/// Finds a volume that fits, or provisions one.
async fn find(ctx: &Ctx<bool>, claim: &PersistentVolumeClaim) -> Result<Option<PersistentVolume>> {
    let class = matching::class(claim).unwrap_or_default();
    let volumes = ctx.cache::<PersistentVolume>()?.by_index("class", &class)?;
    match matching::choose(claim, &volumes) {
        Choice::Take(volume) => Ok(Some(PersistentVolume::clone(&volume))),
        Choice::None => {
            let known =
                class.is_empty() || ctx.get_at::<StorageClass>(&Request::cluster(class.as_str()))?.is_some();
            // An empty class name asks for an existing volume.
            let wanted = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref()) != Some("");
            if !*ctx.state() || !known || !wanted {
                return Ok(None);
            }
            let volume = matching::provision(claim);
            let name = volume.name_any();
            let made = ctx.create_unowned(volume).await.ignore_already_exists()?;
            if made.is_some() {
                ctx.event(claim, "ProvisioningSucceeded", format!("Successfully provisioned volume {name}"));
            }
            match made {
                Some(volume) => Ok(Some(volume)),
                None => Ok(ctx.fetch_at::<PersistentVolume>(&Request::cluster(name)).await?),
            }
        }
    }
}

/// Grows a provisioned volume with its claim, as a volume resizer does.
async fn grow(
    ctx: &Ctx<bool>,
    claim: &PersistentVolumeClaim,
    volume: PersistentVolume,
) -> Result<PersistentVolume> {
    match matching::growth(claim, &volume) {
        Some(capacity) => {
            let patch = Patch::Merge(json!({"spec": {"capacity": {"storage": capacity}}}));
            Ok(ctx.patch(&volume, &patch).await?)
        }
        None => Ok(volume),
    }
}

/// Writes the binding to the volume and to the claim, as far as it is not there yet.
async fn complete(
    ctx: &Ctx<bool>,
    claim: &PersistentVolumeClaim,
    volume: PersistentVolume,
) -> Result<Action> {
    let name = volume.name_any();
    let reference = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("PersistentVolumeClaim".to_owned()),
        namespace: claim.namespace(),
        name: Some(claim.name_any()),
        uid: claim.uid(),
        resource_version: None,
        field_path: None,
    };
    let held =
        volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()).and_then(|claim| claim.uid.clone());
    if held != claim.uid() {
        let patch = json!({"metadata": {"resourceVersion": volume.metadata.resource_version}, "spec": {"claimRef": reference}});
        ctx.patch(&volume, &Patch::Merge(patch)).await?;
    }
    if volume.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Bound") {
        let patch = Patch::Merge(json!({"status": {"phase": "Bound"}}));
        ctx.objects::<PersistentVolume>(())
            .patch_subresource("status", &Request::cluster(name.as_str()), &patch)
            .await?;
    }
    let completed = claim.annotations().contains_key("pv.kubernetes.io/bind-completed");
    let named = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()) == Some(name.as_str());
    if !completed || !named {
        let mut annotations = BTreeMap::from([("pv.kubernetes.io/bind-completed", "yes")]);
        if !named {
            annotations.insert("pv.kubernetes.io/bound-by-controller", "yes");
        }
        let patch = json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": name}});
        ctx.patch(claim, &Patch::Merge(patch)).await.ignore_not_found()?;
    }
    let mut status = claim.status.clone().unwrap_or_default();
    status.phase = Some("Bound".to_owned());
    status.access_modes = volume.spec.as_ref().and_then(|spec| spec.access_modes.clone());
    status.capacity = volume.spec.as_ref().and_then(|spec| spec.capacity.clone());
    ctx.status(claim, status).await.ignore_not_found()?;
    Ok(Action::await_change())
}

async fn phase(ctx: &Ctx<bool>, claim: &PersistentVolumeClaim, phase: &str) -> Result<Action> {
    let mut status = claim.status.clone().unwrap_or_default();
    status.phase = Some(phase.to_owned());
    ctx.status(claim, status).await.ignore_not_found()?;
    Ok(Action::await_change())
}

/// The controller that releases or deletes volumes whose claim is gone.
pub(crate) fn volumes() -> Controller<PersistentVolume> {
    let volume_of = |event: &Event<PersistentVolumeClaim>| {
        let name = event.object().spec.as_ref().and_then(|spec| spec.volume_name.clone());
        name.map(Request::cluster)
    };
    Controller::new("persistentvolume-reclaimer", reclaim)
        .watches(Trigger::<PersistentVolumeClaim>::events(volume_of))
        .field_manager(MANAGER)
}

async fn reclaim(volume: Arc<PersistentVolume>, ctx: Ctx) -> Result<Action> {
    let claim = volume.spec.as_ref().and_then(|spec| spec.claim_ref.clone());
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    let bound = match &claim {
        None => false,
        Some(claim) => {
            let key = Request::new(claim.namespace.as_deref(), claim.name.as_deref().unwrap_or_default());
            let found = ctx.get_at::<PersistentVolumeClaim>(&key)?.map(|found| found.uid());
            let found = match found {
                Some(found) => Some(found),
                None => ctx.fetch_at::<PersistentVolumeClaim>(&key).await?.map(|found| found.uid()),
            };
            found.is_some_and(|uid| claim.uid.is_none() || uid == claim.uid)
        }
    };
    if volume.metadata.deletion_timestamp.is_some() {
        if !bound {
            finalizer::remove(&ctx, &*volume, VOLUME_PROTECTION).await?;
        }
        return Ok(Action::await_change());
    }
    let was_bound = claim.as_ref().is_some_and(|claim| claim.uid.is_some());
    let wanted = match (bound, was_bound) {
        (true, _) => return Ok(Action::await_change()),
        (false, true) => "Released",
        (false, false) => "Available",
    };
    if phase != wanted {
        let patch = Patch::Merge(json!({"status": {"phase": wanted}}));
        ctx.objects::<PersistentVolume>(())
            .patch_subresource("status", &Request::of(&*volume), &patch)
            .await
            .ignore_not_found()?;
    }
    let policy = volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    if wanted == "Released" && policy == Some("Delete") {
        ctx.delete(&volume).await?;
    }
    Ok(Action::await_change())
}

/// The controller that removes the protection finalizer from deleted claims when no pod uses them.
pub(crate) fn protection() -> Controller<PersistentVolumeClaim> {
    let by_claim = Index::new(BY_CLAIM, |pod: &Pod| claims_of(pod));
    let used = |pod: &Pod| {
        let namespace = pod.namespace();
        claims_of(pod)
            .into_iter()
            .filter_map(move |key| {
                let name = key.split_once('/')?.1.to_owned();
                Some(Request::new(namespace.as_deref(), name))
            })
            .collect::<Vec<_>>()
    };
    Controller::new("pvc-protection-controller", protect)
        .watches_with(Source::<Pod>::new().index(by_claim), Trigger::map(used))
        .field_manager(MANAGER)
}

fn claims_of(pod: &Pod) -> Vec<String> {
    let namespace = pod.namespace().unwrap_or_default();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes
        .filter_map(|volume| {
            Some(format!("{namespace}/{}", volume.persistent_volume_claim.as_ref()?.claim_name))
        })
        .collect()
}

async fn protect(claim: Arc<PersistentVolumeClaim>, ctx: Ctx) -> Result<Action> {
    if claim.metadata.deletion_timestamp.is_none() {
        return Ok(Action::await_change());
    }
    let users = ctx.cache::<Pod>()?.by_index(BY_CLAIM, &Request::of(&*claim).to_string())?;
    if !users.iter().any(|user| !pod::is_finished(user)) {
        finalizer::remove(&ctx, &*claim, CLAIM_PROTECTION).await?;
    }
    Ok(Action::await_change())
}
