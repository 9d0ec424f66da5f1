//! The adapter of [`controller_ref`](crate::controller_ref): indexes that find candidates, and patches that adopt and
//! release them.

use std::sync::Arc;

use evenkeel_runtime::{Ctx, Index, Object, Result, ResultExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kube::core::params::Patch;
use serde_json::json;

use crate::controller_ref::{Claim, Claimant, controller_of, controller_reference};

/// The name of the index of objects without a controller, by namespace and label.
const ORPHANS: &str = "orphans";

/// The name of the index of claimants, by namespace and one label that their selector requires.
const SELECTS: &str = "selects";

/// The index value for selectors that require no single label.
const ANY: &str = "*";

/// The index from a namespace and a label to the objects without a controller.
pub(crate) fn orphans<K: Object>() -> Index<K> {
    Index::new(ORPHANS, |object: &K| orphan_keys(object.meta()))
}

/// The index from a namespace and a label to the claimants that may select an object with that label.
pub(crate) fn selects<K: Object>(
    selector: impl Fn(&K) -> Option<LabelSelector> + Send + Sync + 'static,
) -> Index<K> {
    Index::new(SELECTS, move |object: &K| {
        let key = selector(object).map(|selector| selector_key(object.meta(), &selector));
        key.into_iter().collect()
    })
}

/// Returns the index values that lead to possible claimants of an object. An object with a controller has none.
pub(crate) fn orphan_keys(metadata: &ObjectMeta) -> Vec<String> {
    if controller_of(metadata).is_some() {
        return Vec::new();
    }
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let labels = metadata.labels.iter().flatten().map(|(key, value)| format!("{namespace}/{key}={value}"));
    labels.chain([format!("{namespace}/{ANY}")]).collect()
}

fn selector_key(metadata: &ObjectMeta, selector: &LabelSelector) -> String {
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    match selector.match_labels.iter().flatten().next() {
        Some((key, value)) => format!("{namespace}/{key}={value}"),
        None => format!("{namespace}/{ANY}"),
    }
}

/// Adopts and releases objects of kind `C`, and returns those that `owner` controls afterwards.
pub(crate) async fn claim<O, C, S>(ctx: &Ctx<S>, owner: &O, selector: &LabelSelector) -> Result<Vec<Arc<C>>>
where
    O: Object<DynamicType = ()>,
    C: Object<DynamicType = ()>,
{
    let claimant = Claimant::new(owner.meta(), Some(selector));
    let cache = ctx.cache::<C>()?;
    let mut candidates = cache.owned_by(owner.meta().uid.as_deref().unwrap_or_default())?;
    candidates.extend(cache.by_index(ORPHANS, &selector_key(owner.meta(), selector))?);
    let mut claimed = Vec::with_capacity(candidates.len());
    let mut may_adopt = None;
    for candidate in candidates {
        match claimant.claim(candidate.meta()) {
            Claim::Ours => claimed.push(candidate),
            Claim::Foreign => {}
            Claim::Release => release(ctx, owner, &*candidate).await?,
            Claim::Adopt => {
                if may_adopt.is_none() {
                    may_adopt = Some(is_alive(ctx, owner).await?);
                }
                if may_adopt == Some(true) {
                    claimed.extend(adopt(ctx, owner, &*candidate).await?);
                }
            }
        }
    }
    claimed.sort_by(|a, b| a.meta().name.cmp(&b.meta().name));
    Ok(claimed)
}

/// Whether the API server still has the owner. An owner that exists only in the cache must not adopt: the garbage collector
/// would delete what it adopts.
async fn is_alive<O: Object<DynamicType = ()>, S>(ctx: &Ctx<S>, owner: &O) -> Result<bool> {
    let key = evenkeel_runtime::Request::of(owner);
    let live = ctx.fetch_at::<O>(&key).await?;
    Ok(live
        .is_some_and(|live| live.meta().uid == owner.meta().uid && live.meta().deletion_timestamp.is_none()))
}

async fn adopt<O, C, S>(ctx: &Ctx<S>, owner: &O, candidate: &C) -> Result<Option<Arc<C>>>
where
    O: Object<DynamicType = ()>,
    C: Object<DynamicType = ()>,
{
    let mut owners = candidate.meta().owner_references.clone().unwrap_or_default();
    owners.retain(|reference| Some(&reference.uid) != owner.meta().uid.as_ref());
    owners.push(controller_reference(owner));
    let adopted = set_owners(ctx, candidate, &owners).await;
    Ok(adopted.ignore_not_found()?.map(Arc::new))
}

async fn release<O, C, S>(ctx: &Ctx<S>, owner: &O, candidate: &C) -> Result<()>
where
    O: Object<DynamicType = ()>,
    C: Object<DynamicType = ()>,
{
    let mut owners = candidate.meta().owner_references.clone().unwrap_or_default();
    owners.retain(|reference| Some(&reference.uid) != owner.meta().uid.as_ref());
    set_owners(ctx, candidate, &owners).await.ignore_not_found()?;
    Ok(())
}

/// Writes the owner references of an object, unless the object has changed since it was read.
pub(crate) async fn set_owners<C: Object<DynamicType = ()>, S>(
    ctx: &Ctx<S>,
    object: &C,
    owners: &[OwnerReference],
) -> Result<C, evenkeel_runtime::ContextError> {
    let version = object.meta().resource_version.as_deref();
    let owners = if owners.is_empty() { json!(null) } else { json!(owners) };
    let patch = json!({"metadata": {"resourceVersion": version, "ownerReferences": owners}});
    ctx.patch(object, &Patch::Merge(patch)).await
}
