//! Writes to the store, and their consequences.

use std::sync::Arc;

use evenkeel_schema::json::Value;
use evenkeel_store::{Entry, Expect, Op, Write, WriteError, Written};

use crate::allocate::Reservation;
use crate::context::RequestContext;
use crate::status::{Result, Status};
use crate::storage::{CheckedObject, ManagedFields, StorableObject};
use crate::{Header, conversion, reports, storage};

/// How often a write that lost a race is retried.
pub(crate) const RETRIES_MAX: usize = 16;

/// Another writer has changed the key since it was read.
pub(crate) struct Raced;

/// The result of a write that may have lost a race.
pub(crate) type Attempt<T> = std::result::Result<T, Raced>;

/// Stores an object if its key is in the expected state.
pub(crate) async fn put(
    ctx: &RequestContext<'_>,
    key: &str,
    object: Value,
    expect: Expect,
    managed: ManagedFields,
) -> Result<Attempt<Arc<Entry<Header>>>> {
    let mut stored = ctx.services.converter.to_storage_version(ctx.info, object).await?;
    let storable = CheckedObject::new(&stored)?.fit_to_limit(&mut stored, managed)?;
    let entry = put_storable(ctx, key, storable, expect).await?;
    if let Ok(entry) = &entry {
        conversion::cache_object(&ctx.services.objects, ctx.info, entry, stored);
    }
    Ok(entry)
}

/// Stores an encoded object, in the storage version of the request's resource, if its key is in the expected state.
pub(crate) async fn put_storable(
    ctx: &RequestContext<'_>,
    key: &str,
    storable: StorableObject,
    expect: Expect,
) -> Result<Attempt<Arc<Entry<Header>>>> {
    let storable = match &ctx.info.custom {
        Some(custom) => storable.conforming_to(custom.stored_revision),
        None => storable,
    };
    let write = Write { key: key.into(), expect, op: storable.into_op() };
    match commit(ctx, write).await? {
        Ok(written) => match written.entry {
            Some(entry) => Ok(Ok(entry)),
            None => Err(Status::internal("the store took an object and gave nothing back")),
        },
        Err(raced) => Ok(Err(raced)),
    }
}

/// Stores an object other than the request's own, of a kind that is never converted. Returns `false` if the
/// key was not in the expected state.
pub(crate) async fn put_plain(
    ctx: &RequestContext<'_>,
    key: &str,
    mut object: Value,
    expect: Expect,
) -> Result<bool> {
    let write = Write { key: key.into(), expect, op: StorableObject::new(&mut object)?.into_op() };
    ctx.request.note_submission();
    match ctx.services.store.write(write).await {
        Ok(_) => Ok(true),
        Err(WriteError::Conflict { .. }) => Ok(false),
        Err(error) => Err(Status::internal(error)),
    }
}

/// Removes a key if it is still at this revision. Returns the revision of the removal.
pub(crate) async fn remove(ctx: &RequestContext<'_>, key: &str, revision: u64) -> Result<Attempt<u64>> {
    let write = Write { key: key.into(), expect: Expect::Revision(revision), op: Op::Delete };
    Ok(commit(ctx, write).await?.map(|written| written.revision))
}

async fn commit(ctx: &RequestContext<'_>, write: Write<Header>) -> Result<Attempt<Written<Header>>> {
    let key = write.key.clone();
    ctx.request.note_submission();
    match ctx.services.store.write(write).await {
        Ok(written) => {
            ctx.request.note_commit(written.revision);
            follow_up(ctx, &key, &written).await?;
            Ok(Ok(written))
        }
        Err(WriteError::Conflict { .. }) => Ok(Err(Raced)),
        Err(error) => Err(Status::internal(error)),
    }
}

/// Performs the consequences of a committed write in the server itself. The request completes them, even if
/// its client goes away (`completion.rs`).
///
/// Roles and admission policies need no notification, because their caches follow the store's revisions.
pub(crate) async fn follow_up(ctx: &RequestContext<'_>, key: &str, written: &Written<Header>) -> Result<()> {
    if let Some(custom) = &ctx.info.custom {
        ctx.services.definitions.follow_instance(&custom.definition, written).await?;
    } else if ctx.info.strategy.declares_resources {
        ctx.services.definitions.follow(key).await?;
    } else if let Some(report) = ctx.info.strategy.report {
        reports::follow(&ctx.services.store, &ctx.services.env, report, key).await?;
    } else if ctx.info.strategy.allocates_addresses
        && written.entry.is_none()
        && let Some(before) = &written.before
        && let Some(service) = storage::read_or_skip(before)
    {
        ctx.services.allocator.release(&service, None);
    }
    Ok(())
}

/// Reserves the addresses and ports that an object needs; `None` for kinds that need none.
pub(crate) fn reserve<'a>(
    ctx: &'a RequestContext<'_>,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<Option<Reservation<'a>>> {
    if !ctx.info.strategy.allocates_addresses {
        return Ok(None);
    }
    let reserved = ctx.services.allocator.assign(&ctx.services.env, object, old);
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    reserved.map(Some).map_err(|errors| Status::invalid(&ctx.info.group, &ctx.info.kind, name, &errors))
}
