//! Writes: create, update, patch and delete, all through one road to the store.

mod create;
mod delete;
mod incoming;
mod patch;
mod update;

pub(crate) use create::create;
pub(crate) use delete::{
    DeleteOptions, IGNORE_READ_ERROR, check_preconditions, delete, delete_collection, delete_object,
};
pub(crate) use incoming::{Incoming, write_query};
pub(crate) use patch::{patch, patched_part};
pub(crate) use update::{Writer, change, conflict, update};

use std::sync::Arc;

use evenkeel_store::{Entry, Expect, Op, Write, WriteError, Written};
use serde_json::Value;

use crate::allocate::Reservation;
use crate::context::RequestContext;
use crate::status::{Result, Status};
use crate::storage::{CheckedObject, ManagedFields, StorableObject};
use crate::{Header, conversion, crd, storage};

/// How often a write that lost a race is tried again before it is given up.
pub(crate) const RETRIES_MAX: usize = 16;

/// What another writer did to the key in the meantime.
pub(crate) struct Raced;

/// The outcome of a write that may have lost a race.
pub(crate) type Attempt<T> = std::result::Result<T, Raced>;

/// Stores an object where the key is still as expected.
pub(crate) async fn put(
    ctx: &RequestContext<'_>,
    key: &str,
    object: Value,
    expect: Expect,
    managed: ManagedFields,
) -> Result<Attempt<Arc<Entry<Header>>>> {
    let mut stored = conversion::to_storage_version(ctx.info, object);
    let storable = CheckedObject::new(&stored)?.fit_to_limit(&mut stored, managed)?;
    let entry = put_storable(ctx, key, storable, expect).await?;
    if let Ok(entry) = &entry {
        conversion::cache_object(ctx, entry, stored);
    }
    Ok(entry)
}

/// Stores the bytes of an object where the key is still as expected.
pub(crate) async fn put_storable(
    ctx: &RequestContext<'_>,
    key: &str,
    storable: StorableObject,
    expect: Expect,
) -> Result<Attempt<Arc<Entry<Header>>>> {
    let write = Write { key: key.into(), expect, op: storable.into_op() };
    match commit(ctx, write).await? {
        Ok(written) => match written.entry {
            Some(entry) => Ok(Ok(entry)),
            None => Err(Status::internal("the store took an object and gave nothing back")),
        },
        Err(raced) => Ok(Err(raced)),
    }
}

/// Stores an object of a kind that has one face, beside the request's own. Returns whether the key was as expected.
pub(crate) async fn put_plain(
    ctx: &RequestContext<'_>,
    key: &str,
    mut object: Value,
    expect: Expect,
) -> Result<bool> {
    let write = Write { key: key.into(), expect, op: StorableObject::new(&mut object)?.into_op() };
    ctx.request.note_submission();
    match ctx.server.store().write(write).await {
        Ok(_) => Ok(true),
        Err(WriteError::Conflict { .. }) => Ok(false),
        Err(error) => Err(Status::internal(error)),
    }
}

/// Removes a key that is still at this revision.
pub(crate) async fn remove(ctx: &RequestContext<'_>, key: &str, revision: u64) -> Result<Attempt<u64>> {
    let write = Write { key: key.into(), expect: Expect::Revision(revision), op: Op::Delete };
    Ok(commit(ctx, write).await?.map(|written| written.revision))
}

async fn commit(ctx: &RequestContext<'_>, write: Write<Header>) -> Result<Attempt<Written<Header>>> {
    let key = write.key.clone();
    ctx.request.note_submission();
    match ctx.server.store().write(write).await {
        Ok(written) => {
            ctx.request.note_commit(written.revision);
            follow_up(ctx, &key, &written).await?;
            Ok(Ok(written))
        }
        Err(WriteError::Conflict { .. }) => Ok(Err(Raced)),
        Err(error) => Err(Status::internal(error)),
    }
}

/// What a write of this resource entails in the server itself. It is done once the write is stored, in a request that
/// is carried to its end ([`Completion`](crate::completion)).
///
/// What is known of roles and of admission policies is not told here: it follows the store's revisions by itself.
pub(crate) async fn follow_up(ctx: &RequestContext<'_>, key: &str, written: &Written<Header>) -> Result<()> {
    if let Some(custom) = &ctx.info.custom {
        crd::follow_instance(ctx.server, &custom.definition, written).await?;
    } else if ctx.info.kind == "CustomResourceDefinition" {
        crd::follow(ctx.server, key).await?;
    } else if ctx.info.kind == "Service"
        && written.entry.is_none()
        && let Some(before) = &written.before
        && let Some(service) = storage::read_or_skip(before)
    {
        ctx.server.inner().allocator.release(&service, None);
    }
    Ok(())
}

/// Takes the addresses and ports that a service needs; nothing for other kinds.
pub(crate) fn reserve<'a>(
    ctx: &'a RequestContext<'_>,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<Option<Reservation<'a>>> {
    if ctx.info.kind != "Service" || ctx.info.is_custom() {
        return Ok(None);
    }
    let reserved = ctx.server.inner().allocator.assign(ctx.server.env(), object, old);
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    reserved.map(Some).map_err(|errors| Status::invalid("", "Service", name, &errors))
}
