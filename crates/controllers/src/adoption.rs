//! The adapter of [`controller_ref`](crate::controller_ref): indexes that find candidates, and patches that adopt and
//! release them.

use std::sync::Arc;

use evenkeel_runtime::{Cache, ContextError, Ctx, Index, Request, Result, ResultExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kube::core::params::Patch;
use serde_json::json;

use crate::controller_ref::{Claim, Claimant, controller_of, controller_reference};
use crate::object::{Fields, Kind, Object, OfKind};

/// The name of the index of objects without a controller, by namespace and label.
const ORPHANS: &str = "orphans";

/// The name of the index of claimants, by namespace and one label that their selector requires.
const SELECTS: &str = "selects";

/// The index value for selectors that require no single label.
const ANY: &str = "*";

/// The index from a namespace and a label to the objects without a controller.
pub(crate) fn orphans() -> Index<Object> {
    Index::new(ORPHANS, |object: &Object| orphan_keys(&object.metadata))
}

/// The index from a namespace and a label to the claimants that may select an object with that label.
pub(crate) fn selects(
    selector: impl Fn(&Object) -> Option<LabelSelector> + Send + Sync + 'static,
) -> Index<Object> {
    Index::new(SELECTS, move |object: &Object| {
        let key = selector(object).map(|selector| selector_key(&object.metadata, &selector));
        key.into_iter().collect()
    })
}

/// Returns the label selector in `spec.selector`, which most kinds that adopt objects have.
pub(crate) fn selector(claimant: &Object) -> Option<LabelSelector> {
    claimant.label_selector("spec/selector")
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

/// Whether there are objects without a controller that an object with this selector may adopt.
pub(crate) fn has_orphans(
    cache: &Cache<Object>,
    owner: &Object,
    selector: &LabelSelector,
) -> Result<bool, ContextError> {
    Ok(cache.count_by_index(ORPHANS, &selector_key(&owner.metadata, selector))? > 0)
}

/// Adopts and releases objects of a kind, and returns those that `owner` controls afterwards.
pub(crate) async fn claim<S>(
    ctx: &Ctx<S>,
    owner: (&'static Kind, &Object),
    kind: &'static Kind,
    selector: &LabelSelector,
) -> Result<Vec<Arc<Object>>> {
    let metadata = &owner.1.metadata;
    let claimant = Claimant::new(metadata, Some(selector));
    let cache = ctx.kind(kind).cache()?;
    let mut candidates = cache.owned_by(metadata.uid.as_deref().unwrap_or_default())?;
    candidates.extend(cache.by_index(ORPHANS, &selector_key(metadata, selector))?);
    let mut claimed = Vec::with_capacity(candidates.len());
    let mut may_adopt = None;
    for candidate in candidates {
        match claimant.claim(&candidate.metadata) {
            Claim::Ours => claimed.push(candidate),
            Claim::Foreign => {}
            Claim::Release => {
                let owners = owners_without(&candidate, owner.1);
                set_owners(ctx, kind, &candidate, &owners).await.ignore_not_found()?;
            }
            Claim::Adopt => {
                if may_adopt.is_none() {
                    may_adopt = Some(is_alive(ctx, owner).await?);
                }
                if may_adopt == Some(true) {
                    let mut owners = owners_without(&candidate, owner.1);
                    owners.push(controller_reference(owner.0, owner.1));
                    let adopted = set_owners(ctx, kind, &candidate, &owners).await.ignore_not_found()?;
                    claimed.extend(adopted.map(Arc::new));
                }
            }
        }
    }
    claimed.sort_by(|a, b| a.name().cmp(b.name()));
    Ok(claimed)
}

/// Whether the API server still has the owner. An owner that exists only in the cache must not adopt: the garbage collector
/// would delete what it adopts.
async fn is_alive<S>(ctx: &Ctx<S>, (kind, owner): (&'static Kind, &Object)) -> Result<bool> {
    let live = ctx.kind(kind).fetch(&Request::of(owner)).await?;
    Ok(live.is_some_and(|live| live.metadata.uid == owner.metadata.uid && !live.is_deleting()))
}

fn owners_without(object: &Object, owner: &Object) -> Vec<OwnerReference> {
    let mut owners = object.metadata.owner_references.clone().unwrap_or_default();
    owners.retain(|reference| Some(&reference.uid) != owner.metadata.uid.as_ref());
    owners
}

/// Writes the owner references of an object, unless the object has changed since it was read.
pub(crate) async fn set_owners<S>(
    ctx: &Ctx<S>,
    kind: &'static Kind,
    object: &Object,
    owners: &[OwnerReference],
) -> Result<Object, ContextError> {
    let version = object.metadata.resource_version.as_deref();
    let owners = if owners.is_empty() { json!(null) } else { json!(owners) };
    let patch = json!({"metadata": {"resourceVersion": version, "ownerReferences": owners}});
    ctx.kind(kind).patch(&Request::of(object), &Patch::Merge(patch)).await
}
