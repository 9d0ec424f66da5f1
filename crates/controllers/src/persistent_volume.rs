//! PersistentVolumes: claims are bound to volumes that fit, or to volumes that are provisioned for them. Finalizers protect
//! volumes and claims that are in use.
//!
//! Volumes are provisioned only if there are simulated nodes. On a cluster without nodes, a claim waits for a volume that
//! someone else provisions, as on Kubernetes.

pub(crate) mod attributes_class;
mod matching;

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_runtime::{Action, Controller, Ctx, Event, Index, Request, Result, ResultExt, Trigger};
use kube::core::params::Patch;
use serde_json::json;

use crate::kinds::{
    PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, PersistentVolume, PersistentVolumeClaim, Pod,
    STORAGE_CLASS, StorageClass,
};
use crate::object::{Object, OfKind, write_status};
use crate::{MANAGER, finalizer, pod};

/// The finalizer of a claim, until no pod uses it.
const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
/// The finalizer of a volume, until no claim is bound to it.
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";

/// The annotation of a claim whose binding is complete.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// The provisioner of a class whose volumes someone creates by hand.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// The name of the index of pods by the claims that they use.
const BY_CLAIM: &str = "claim";

/// The name of the index of claims and volumes by storage class.
const BY_CLASS: &str = "class";

/// The controller that binds claims. `provision` tells whether to provision volumes for them.
pub(crate) fn claims(provision: bool) -> Controller<Object> {
    let claim_of = |volume: &PersistentVolume| {
        let claim = volume.at("spec/claimRef");
        Some(Request::new(claim.str("namespace"), claim.str("name")?))
    };
    let by_class = || Index::new(BY_CLASS, |object: &Object| vec![matching::class(object).to_owned()]);
    let free_in = |volume: &PersistentVolume| match volume.has("spec/claimRef") {
        true => Vec::new(),
        false => vec![matching::class(volume).to_owned()],
    };
    Controller::new_with("persistentvolume-controller", PERSISTENT_VOLUME_CLAIM.source(), bind)
        .watches_with(PERSISTENT_VOLUME.source(), Trigger::map(claim_of))
        .watches_indexed_with(PERSISTENT_VOLUME.source(), by_class(), free_in)
        .watches_indexed_with(STORAGE_CLASS.source(), by_class(), |class: &StorageClass| {
            vec![class.name().to_owned()]
        })
        .reads_with(PERSISTENT_VOLUME.source().index(by_class()))
        .field_manager(MANAGER)
        .event_source("persistentvolume-controller")
        .state(provision)
}

async fn bind(claim: Arc<PersistentVolumeClaim>, ctx: Ctx<bool>) -> Result<Action> {
    if claim.is_deleting() {
        return Ok(Action::await_change());
    }
    let volumes = ctx.kind(&PERSISTENT_VOLUME);
    let volume = match claim.str("spec/volumeName").filter(|name| !name.is_empty()) {
        Some(name) => match volumes.get(&Request::cluster(name))? {
            Some(volume) => Some(volume),
            None => volumes.fetch(&Request::cluster(name)).await?.map(Arc::new),
        },
        None => find(&ctx, &claim).await?,
    };
    let completed = claim.annotation(BIND_COMPLETED).is_some();
    match volume {
        Some(volume) if matching::is_for(&volume, &claim) => {
            let chosen = claim.is("spec/volumeName", volume.name()) && !volume.has("spec/claimRef");
            if let Some(why) = matching::mismatch(&claim, &volume).filter(|_| chosen && !completed) {
                let note = format!("Cannot bind to requested volume {:?}: {why}", volume.name());
                ctx.kind(&PERSISTENT_VOLUME_CLAIM).warning(&*claim, "VolumeMismatch", note);
                return phase(&ctx, &claim, "Pending").await;
            }
            let volume = grow(&ctx, &claim, volume).await?;
            complete(&ctx, &claim, &volume).await
        }
        Some(_) if completed => {
            let why = "Two claims are bound to the same volume, this one is bound incorrectly";
            lose(&ctx, &claim, "ClaimMisbound", why).await
        }
        Some(volume) => {
            let note = format!("volume {:?} already bound to a different claim.", volume.name());
            ctx.kind(&PERSISTENT_VOLUME_CLAIM).warning(&*claim, "FailedBinding", note);
            phase(&ctx, &claim, "Pending").await
        }
        None if completed => {
            let lost = match claim.str("spec/volumeName").is_some_and(|name| !name.is_empty()) {
                true => "its",
                false => "reference to",
            };
            let why = format!("Bound claim has lost {lost} PersistentVolume. Data on the volume is lost!");
            lose(&ctx, &claim, "ClaimLost", &why).await
        }
        None => phase(&ctx, &claim, "Pending").await,
    }
}

/// Marks a claim as lost, and records one event about that.
async fn lose(ctx: &Ctx<bool>, claim: &PersistentVolumeClaim, reason: &str, why: &str) -> Result<Action> {
    if !claim.is("status/phase", "Lost") {
        ctx.kind(&PERSISTENT_VOLUME_CLAIM).warning(claim, reason, why);
    }
    phase(ctx, claim, "Lost").await
}

/// Finds a volume that fits, or provisions one.
async fn find(ctx: &Ctx<bool>, claim: &PersistentVolumeClaim) -> Result<Option<Arc<PersistentVolume>>> {
    let volumes = ctx.kind(&PERSISTENT_VOLUME);
    let class = matching::class(claim);
    let found = matching::choose(claim, &volumes.cache()?.by_index(BY_CLASS, class)?);
    if found.is_some() {
        return Ok(found);
    }
    let object = match class.is_empty() {
        true => None,
        false => ctx.kind(&STORAGE_CLASS).get(&Request::cluster(class))?,
    };
    let known = class.is_empty() || object.is_some();
    let provisioner = object.as_ref().and_then(|class| class.str("provisioner"));
    // An empty class name asks for an existing volume, and so does a class without a provisioner.
    let wanted = claim.str("spec/storageClassName") != Some("") && provisioner != Some(NO_PROVISIONER);
    let lost = claim.annotation(BIND_COMPLETED).is_some();
    if !*ctx.state() || !known || !wanted || lost {
        if !lost {
            tell_unbound(ctx, claim, class, provisioner);
        }
        return Ok(None);
    }
    let volume = matching::provision(claim);
    let key = Request::of(&volume);
    let made = match volumes.create_unowned(volume).await.ignore_already_exists()? {
        Some(volume) => {
            let note = format!("Successfully provisioned volume {}", key.name);
            ctx.kind(&PERSISTENT_VOLUME_CLAIM).event(claim, "ProvisioningSucceeded", note);
            Some(volume)
        }
        None => volumes.fetch(&key).await?,
    };
    Ok(made.map(Arc::new))
}

/// Records why there is no volume for a claim. `provisioner` is that of its class, if there is such a class.
fn tell_unbound(ctx: &Ctx<bool>, claim: &PersistentVolumeClaim, class: &str, provisioner: Option<&str>) {
    let claims = ctx.kind(&PERSISTENT_VOLUME_CLAIM);
    if class.is_empty() {
        let why = "no persistent volumes available for this claim and no storage class is set";
        return claims.event(claim, "FailedBinding", why);
    }
    match provisioner {
        None => {
            let why = format!("storageclass.storage.k8s.io \"{class}\" not found");
            claims.warning(claim, "ProvisioningFailed", why);
        }
        Some(NO_PROVISIONER) => {
            let why = format!("no volume plugin matched name: {NO_PROVISIONER}");
            claims.warning(claim, "ProvisioningFailed", why);
        }
        Some(provisioner) => {
            let note = format!(
                "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the \
                 system administrator. If volume creation is delayed, please verify that the provisioner is running and \
                 correctly registered."
            );
            claims.event(claim, "ExternalProvisioning", note);
        }
    }
}

/// Grows a provisioned volume with its claim, as a volume resizer does.
async fn grow(
    ctx: &Ctx<bool>,
    claim: &PersistentVolumeClaim,
    volume: Arc<PersistentVolume>,
) -> Result<Arc<PersistentVolume>> {
    match matching::growth(claim, &volume) {
        Some(capacity) => {
            let patch = Patch::Merge(json!({"spec": {"capacity": {"storage": capacity}}}));
            Ok(Arc::new(ctx.kind(&PERSISTENT_VOLUME).patch(&Request::of(&*volume), &patch).await?))
        }
        None => Ok(volume),
    }
}

/// Writes the binding to the volume and to the claim, as far as it is not there yet.
async fn complete(
    ctx: &Ctx<bool>,
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
) -> Result<Action> {
    let (volumes, key) = (ctx.kind(&PERSISTENT_VOLUME), Request::of(volume));
    if volume.str("spec/claimRef/uid") != claim.metadata.uid.as_deref() {
        let version = &volume.metadata.resource_version;
        let spec = json!({"claimRef": matching::reference(claim)});
        let patch = json!({"metadata": {"resourceVersion": version}, "spec": spec});
        volumes.patch(&key, &Patch::Merge(patch)).await?;
    }
    if !volume.is("status/phase", "Bound") {
        let patch = Patch::Merge(json!({"status": {"phase": "Bound"}}));
        volumes.patch_subresource("status", &key, &patch).await?;
    }
    let completed = claim.annotation(BIND_COMPLETED).is_some();
    let named = claim.is("spec/volumeName", volume.name());
    if !completed || !named {
        let mut annotations = BTreeMap::from([(BIND_COMPLETED, "yes")]);
        if !named {
            annotations.insert("pv.kubernetes.io/bound-by-controller", "yes");
        }
        let patch = json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": volume.name()}});
        let claims = ctx.kind(&PERSISTENT_VOLUME_CLAIM);
        claims.patch(ctx.request(), &Patch::Merge(patch)).await.ignore_not_found()?;
    }
    let mut status = claim.at("status").clone();
    status.set("phase", "Bound");
    status.set("accessModes", volume.at("spec/accessModes"));
    status.set("capacity", volume.at("spec/capacity"));
    write_status(ctx, &PERSISTENT_VOLUME_CLAIM, claim, &status).await.ignore_not_found()?;
    Ok(Action::await_change())
}

async fn phase(ctx: &Ctx<bool>, claim: &PersistentVolumeClaim, phase: &str) -> Result<Action> {
    let mut status = claim.at("status").clone();
    status.set("phase", phase);
    write_status(ctx, &PERSISTENT_VOLUME_CLAIM, claim, &status).await.ignore_not_found()?;
    Ok(Action::await_change())
}

/// The controller that releases or deletes volumes whose claim is gone.
pub(crate) fn volumes() -> Controller<Object> {
    let volume_of =
        |event: &Event<PersistentVolumeClaim>| event.object().str("spec/volumeName").map(Request::cluster);
    Controller::new_with("persistentvolume-reclaimer", PERSISTENT_VOLUME.source(), reclaim)
        .watches_with(PERSISTENT_VOLUME_CLAIM.source(), Trigger::events(volume_of))
        .field_manager(MANAGER)
        .event_source("persistentvolume-controller")
}

/// Whether the claim that a volume refers to exists.
async fn is_bound(ctx: &Ctx, volume: &PersistentVolume) -> Result<bool> {
    let claim = volume.at("spec/claimRef");
    if claim.is_null() {
        return Ok(false);
    }
    let claims = ctx.kind(&PERSISTENT_VOLUME_CLAIM);
    let key = Request::new(claim.str("namespace"), claim.str("name").unwrap_or_default());
    let found = match claims.get(&key)? {
        Some(found) => Some(found),
        None => claims.fetch(&key).await?.map(Arc::new),
    };
    Ok(found.is_some_and(|found| !claim.has("uid") || claim.str("uid") == found.metadata.uid.as_deref()))
}

async fn reclaim(volume: Arc<PersistentVolume>, ctx: Ctx) -> Result<Action> {
    let bound = is_bound(&ctx, &volume).await?;
    if volume.is_deleting() {
        if !bound {
            finalizer::remove(&ctx, &PERSISTENT_VOLUME, &volume, VOLUME_PROTECTION).await?;
        }
        return Ok(Action::await_change());
    }
    let wanted = match (bound, volume.has("spec/claimRef/uid")) {
        (true, _) => return Ok(Action::await_change()),
        (false, true) => "Released",
        (false, false) => "Available",
    };
    let volumes = ctx.kind(&PERSISTENT_VOLUME);
    if !volume.is("status/phase", wanted) {
        let patch = Patch::Merge(json!({"status": {"phase": wanted}}));
        volumes.patch_subresource("status", ctx.request(), &patch).await.ignore_not_found()?;
    }
    if wanted == "Released" && volume.is("spec/persistentVolumeReclaimPolicy", "Delete") {
        volumes.delete(&volume).await?;
    }
    Ok(Action::await_change())
}

/// The controller that removes the protection finalizer from deleted claims when no pod uses them.
pub(crate) fn protection() -> Controller<Object> {
    let by_claim = Index::new(BY_CLAIM, |pod: &Pod| claims_of(pod).map(|key| key.to_string()).collect());
    let used = |pod: &Pod| claims_of(pod).collect::<Vec<_>>();
    Controller::new_with("pvc-protection-controller", PERSISTENT_VOLUME_CLAIM.source(), protect)
        .watches_with(POD.source().index(by_claim), Trigger::map(used))
        .field_manager(MANAGER)
}

/// Returns the claims that a pod uses.
fn claims_of(pod: &Pod) -> impl Iterator<Item = Request> {
    let names = pod.list("spec/volumes").iter().filter_map(|it| it.str("persistentVolumeClaim/claimName"));
    names.map(|name| Request::new(pod.metadata.namespace.as_deref(), name))
}

async fn protect(claim: Arc<PersistentVolumeClaim>, ctx: Ctx) -> Result<Action> {
    if !claim.is_deleting() {
        return Ok(Action::await_change());
    }
    let users = ctx.kind(&POD).cache()?.by_index(BY_CLAIM, &ctx.request().to_string())?;
    if !users.iter().any(|user| !pod::is_finished(user)) {
        finalizer::remove(&ctx, &PERSISTENT_VOLUME_CLAIM, &claim, CLAIM_PROTECTION).await?;
    }
    Ok(Action::await_change())
}
