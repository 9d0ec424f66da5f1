//! Deleting objects, one or many.
//!
//! A pure function, [`plan()`], decides what a deletion does to an object; carrying it out is a write like any other.

mod damaged;
mod options;
mod plan;

use std::sync::Arc;

use bytes::Bytes;
use evenkeel_store::{Entry, Expect, Op, Write};
use http::Response;

use self::damaged::delete_damaged;
pub(crate) use self::options::{DeleteOptions, IGNORE_READ_ERROR};
pub(crate) use self::plan::check_preconditions;
use self::plan::{Plan, plan};
use crate::admission::admit_deletion;
use crate::body::Body;
use crate::commit::{RETRIES_MAX, follow_up, put, remove};
use crate::context::RequestContext;
use crate::encode::EncodedObject;
use crate::header::encode_object;
use crate::read::{Found, Item, Selection, find_entries, respond_object, write_list};
use crate::request::{ListQuery, negotiate_for};
use crate::status::{Result, Status};
use crate::storage::ManagedFields;
use crate::{Header, conversion, respond, storage};

/// The result of a deletion.
pub(crate) enum Deleted {
    /// The object is gone; this was its last state.
    Gone(EncodedObject, Arc<Entry<Header>>),
    /// The object remains for now, with a deletion timestamp.
    Marked(EncodedObject),
}

/// Answers a DELETE of one object.
pub(crate) async fn delete(ctx: &RequestContext<'_>, body: Bytes) -> Result<Response<Body>> {
    let accept = negotiate_for(ctx.request, false, ctx.info.is_custom())?;
    let options = DeleteOptions::parse(ctx, &body)?;
    if options.ignore_read_error
        && let Some(status) = delete_damaged(ctx, &options).await?
    {
        return respond::formatted(200, accept.format, status.to_json());
    }
    let code = match delete_object(ctx, &options).await? {
        Deleted::Marked(encoded) => {
            let accepted = options.orphan_dependents == Some(false);
            respond_object(ctx, if accepted { 202 } else { 200 }, accept, encoded)
        }
        Deleted::Gone(encoded, _) if ctx.info.strategy.returns_deleted_object => {
            respond_object(ctx, 200, accept, encoded)
        }
        Deleted::Gone(_, entry) => {
            let info = &ctx.info;
            let status = Status::deleted(&info.group, &info.plural, &ctx.path.name, &entry.header.uid);
            respond::formatted(200, accept.format, status.to_json())
        }
    };
    let response = code?;
    if let Some(warning) = ctx.info.strategy.deletion_warning.filter(|_| options.says_nothing_of_dependents())
    {
        ctx.request.warn(warning);
    }
    Ok(response)
}

/// Deletes the object that the path names, as far as possible at once.
pub(crate) async fn delete_object(ctx: &RequestContext<'_>, options: &DeleteOptions) -> Result<Deleted> {
    let key = ctx.key();
    for _ in 0..RETRIES_MAX {
        let entry = ctx.services.store.get(&key).ok_or_else(|| ctx.not_found())?;
        storage::check_readable(&entry)?;
        admit_deletion(ctx, &entry, options.dry_run).await?;
        let plan = plan(ctx, options, &entry)?;
        if let Some(deleted) = carry_out(ctx, options, entry, plan).await? {
            return Ok(deleted);
        }
    }
    Err(super::update::conflict(ctx))
}

/// Carries out a plan; `None` if another writer was faster.
async fn carry_out(
    ctx: &RequestContext<'_>,
    options: &DeleteOptions,
    entry: Arc<Entry<Header>>,
    plan: Plan,
) -> Result<Option<Deleted>> {
    let show = |entry: &Entry<Header>| conversion::encoded(ctx.info, entry, entry.revision);
    match plan {
        Plan::Nothing => Ok(Some(Deleted::Marked(show(&entry)?))),
        Plan::Remove if options.dry_run => Ok(Some(Deleted::Gone(show(&entry)?, entry))),
        Plan::Remove => {
            let Ok(revision) = remove(ctx, &entry.key, entry.revision).await? else { return Ok(None) };
            let encoded = conversion::encoded(ctx.info, &entry, revision)?;
            Ok(Some(Deleted::Gone(encoded, entry)))
        }
        Plan::Mark { object, then_remove } if options.dry_run => {
            let encoded = EncodedObject::encode(&object, entry.revision);
            Ok(Some(if then_remove { Deleted::Gone(encoded, entry) } else { Deleted::Marked(encoded) }))
        }
        Plan::Mark { object, then_remove } => {
            if encode_object(&conversion::to_storage_version(ctx.info, object.clone())).0 == entry.value {
                return Ok(Some(Deleted::Marked(show(&entry)?)));
            }
            let expect = Expect::Revision(entry.revision);
            let Ok(marked) = put(ctx, &entry.key, object, expect, ManagedFields::MayBeDropped).await? else {
                return Ok(None);
            };
            if !then_remove {
                return Ok(Some(Deleted::Marked(show(&marked)?)));
            }
            let Ok(revision) = remove(ctx, &marked.key, marked.revision).await? else { return Ok(None) };
            let encoded = conversion::encoded(ctx.info, &marked, revision)?;
            Ok(Some(Deleted::Gone(encoded, marked)))
        }
    }
}

/// Answers a DELETE of a collection with the deleted objects in their previous state.
pub(crate) async fn delete_collection(ctx: &RequestContext<'_>, body: Bytes) -> Result<Response<Body>> {
    let accept = negotiate_for(ctx.request, false, ctx.info.is_custom())?;
    let mut query = ListQuery::parse(&ctx.request.query)?;
    crate::read::validate_list(&query)?;
    let selection = Selection::parse(ctx.info, &query.labels, &query.fields)?;
    let options = DeleteOptions::parse(ctx, &body)?;
    if query.version_match.is_empty() && !matches!(query.version.as_str(), "" | "0") {
        // Kubernetes lists the objects in pages of one revision.
        query.version_match = "Exact".to_owned();
    }
    let found = find_entries(ctx, &query, &selection).await?;
    let mut rest = Vec::new();
    let mut batch = Vec::new();
    for entry in found.entries.iter().filter(|entry| storage::check_readable(entry).is_ok()) {
        admit_deletion(ctx, entry, options.dry_run).await?;
        match plan(ctx, &options, entry)? {
            Plan::Remove if options.dry_run => {}
            Plan::Remove => {
                let expect = Expect::Revision(entry.revision);
                batch.push(Write { key: entry.key.clone(), expect, op: Op::Delete });
            }
            _ => rest.push(entry.clone()),
        }
    }
    ctx.request.note_submission();
    let keys: Vec<Arc<str>> = batch.iter().map(|it| it.key.clone()).collect();
    for (result, key) in ctx.services.store.write_all(batch).await.into_iter().zip(keys) {
        match result {
            Ok(written) => {
                ctx.request.note_commit(written.revision);
                follow_up(ctx, &key, &written).await?;
            }
            Err(_) => rest.extend(ctx.services.store.get(&key)),
        }
    }
    for entry in rest {
        delete_entry(ctx, &options, &entry).await?;
    }
    let items = Item::all(ctx, &found.entries);
    write_list(ctx, accept, items, &Found::all(Vec::new(), found.revision))
}

/// Deletes one object of a collection; success if it is already gone.
async fn delete_entry(
    ctx: &RequestContext<'_>,
    options: &DeleteOptions,
    entry: &Arc<Entry<Header>>,
) -> Result<()> {
    let mut entry = entry.clone();
    for _ in 0..RETRIES_MAX {
        let plan = plan(ctx, options, &entry)?;
        if carry_out(ctx, options, entry.clone(), plan).await?.is_some() {
            return Ok(());
        }
        match ctx.services.store.get(&entry.key) {
            Some(again) => entry = again,
            None => return Ok(()),
        }
    }
    Err(super::update::conflict(ctx))
}
