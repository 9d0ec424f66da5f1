//! Growing the storage of a database.
//!
//! The volume claim templates of a StatefulSet cannot be changed, and it does not update claims that exist. So the
//! claims are patched one by one; then the StatefulSet is deleted with the propagation policy `Orphan` and created
//! again with the new template, and adopts the running pods. The next step is always derived from the current state, so
//! that a crash between two steps does no harm.

use std::sync::Arc;

use evenkeel::k8s_openapi::api::apps::v1::StatefulSet;
use evenkeel::k8s_openapi::api::core::v1::PersistentVolumeClaim;
use evenkeel::kube::api::{Api, DeleteParams, ListParams, Patch, Preconditions};
use evenkeel::kube::{Error, ResourceExt as _};
use evenkeel::{ContextError, Request};
use serde_json::json;

use crate::children::LABEL;
use crate::rejection::{Failure, Rejection};
use crate::{Backup, Ctx, Database};

/// The index of claims by their database.
pub(crate) const BY_DATABASE: &str = "database";

/// The progress of growing the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    /// All storage has the requested size.
    Fits,
    /// The StatefulSet is being deleted, and will be created again.
    Growing,
}

/// Takes the next steps from the current to the requested storage.
pub(crate) async fn grow<B: Backup>(database: &Database, ctx: &Ctx<B>) -> Result<Storage, Failure> {
    let wanted = &database.spec.storage;
    let claims = claims(database, ctx)?;
    for claim in &claims {
        let Some(has) = requested(claim) else { continue };
        if bytes(has) > bytes(wanted) {
            return Err(Rejection::Shrink { was: has.to_owned(), wanted: wanted.clone() }.into());
        }
    }
    for claim in &claims {
        if requested(claim).is_some_and(|has| bytes(has) < bytes(wanted)) {
            let patch = json!({ "spec": { "resources": { "requests": { "storage": wanted } } } });
            match ctx.patch(claim, &Patch::Merge(patch)).await {
                Ok(_) => {}
                // The StorageClass does not allow expansion, so a retry would be refused, too.
                Err(error) if error.status().is_some_and(|status| status.code == 403) => {
                    return Err(Rejection::Refused(error).into());
                }
                Err(error) => return Err(error.into()),
            }
            ctx.event(database, "StorageGrown", format!("{} is asked to grow to {wanted}", claim.name_any()));
        }
    }
    let Some(servers) = ctx.get::<StatefulSet>(&database.name_any())? else { return Ok(Storage::Fits) };
    if servers.metadata.deletion_timestamp.is_some() {
        return Ok(Storage::Growing);
    }
    if template(&servers).and_then(requested).is_none_or(|has| bytes(has) == bytes(wanted)) {
        return Ok(Storage::Fits);
    }
    let exactly = Preconditions { uid: servers.uid(), resource_version: None };
    ctx.delete_with(&servers, &DeleteParams::orphan().preconditions(exactly)).await?;
    Ok(Storage::Growing)
}

/// The claims of this database, including those of servers that were scaled down.
pub(crate) fn claims<B: Backup>(
    database: &Database,
    ctx: &Ctx<B>,
) -> Result<Vec<Arc<PersistentVolumeClaim>>, ContextError> {
    ctx.cache::<PersistentVolumeClaim>()?.by_index(BY_DATABASE, &Request::of(database).to_string())
}

/// The claims of this database as the API server has them now. The cache may lack the newest one.
pub(crate) async fn live_claims<B: Backup>(
    database: &Database,
    ctx: &Ctx<B>,
) -> Result<Vec<PersistentVolumeClaim>, Error> {
    let namespace = database.namespace().unwrap_or_default();
    let claims = Api::<PersistentVolumeClaim>::namespaced(ctx.client().clone(), &namespace);
    let of_database = ListParams::default().labels(&format!("{LABEL}={}", database.name_any()));
    Ok(claims.list(&of_database).await?.items)
}

/// The database that a claim belongs to.
pub(crate) fn database_of(claim: &PersistentVolumeClaim) -> Option<Request> {
    let name = claim.labels().get(LABEL)?;
    Some(Request::new(claim.namespace().as_deref(), name.as_str()))
}

/// The StorageClass that the servers were created with.
pub(crate) fn class(servers: &StatefulSet) -> Option<&str> {
    template(servers)?.spec.as_ref()?.storage_class_name.as_deref()
}

fn template(servers: &StatefulSet) -> Option<&PersistentVolumeClaim> {
    servers.spec.as_ref()?.volume_claim_templates.as_ref()?.first()
}

fn requested(claim: &PersistentVolumeClaim) -> Option<&str> {
    let requests = claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?;
    requests.get("storage").map(|quantity| quantity.0.as_str())
}

/// The size in bytes of a quantity with the units that the schema of a `Database` allows. The API server rewrites
/// quantities to the largest unit that fits, so their texts cannot be compared.
pub(crate) fn bytes(quantity: &str) -> u128 {
    let unit = |(suffix, shift): (&str, u32)| {
        let number: u128 = quantity.strip_suffix(suffix)?.parse().ok()?;
        number.checked_shl(shift)
    };
    let units = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("", 0)];
    units.into_iter().find_map(unit).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_are_compared_by_value() {
        assert_eq!(bytes("1Gi"), bytes("1024Mi"));
        assert!(bytes("2Gi") > bytes("1536Mi"));
        assert_eq!(bytes("1024"), bytes("1Ki"));
    }
}
