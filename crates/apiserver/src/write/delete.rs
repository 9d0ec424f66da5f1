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
use crate::conversion::Served;
use crate::encode::EncodedObject;
use crate::header::encode_object;
use crate::read::{Selection, find_entries, respond_object, write_list};
use crate::request::{ListQuery, negotiate_for};
use crate::status::{Result, Status};
use crate::storage::ManagedFields;
use crate::{Header, respond};

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
    warn(ctx, &options);
    match delete_object(ctx, &options).await? {
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
    }
}

/// Warns of what happens to the dependents of objects if the client does not say.
fn warn(ctx: &RequestContext<'_>, options: &DeleteOptions) {
    if let Some(warning) = ctx.info.strategy.deletion_warning.filter(|_| options.says_nothing_of_dependents())
    {
        ctx.request.warn(warning);
    }
}

/// Deletes the object that the path names, as far as possible at once.
pub(crate) async fn delete_object(ctx: &RequestContext<'_>, options: &DeleteOptions) -> Result<Deleted> {
    if ctx.info.strategy.undeletable.contains(&&*ctx.path.name) {
        let (group, plural, name) = (&ctx.info.group, &ctx.info.plural, &ctx.path.name);
        let why = "this is a system priority class and cannot be deleted";
        return Err(Status::not_admitted(group, plural, name, why));
    }
    let key = ctx.key();
    for _ in 0..RETRIES_MAX {
        let entry = ctx.services.store.get(&key).ok_or_else(|| ctx.not_found())?;
        // As in Kubernetes, an object that cannot be converted cannot be deleted in this version.
        let served = ctx.services.converter.served(ctx.info, &entry).await?;
        admit_deletion(ctx, &served, options.dry_run).await?;
        let plan = plan(ctx, options, &served)?;
        if let Some(deleted) = carry_out(ctx, options, entry, &served, plan).await? {
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
    served: &Served,
    plan: Plan,
) -> Result<Option<Deleted>> {
    let converter = &ctx.services.converter;
    match plan {
        Plan::Nothing => Ok(Some(Deleted::Marked(served.encoded(entry.revision)))),
        Plan::Remove if options.dry_run => Ok(Some(Deleted::Gone(served.encoded(entry.revision), entry))),
        Plan::Remove => {
            let Ok(revision) = remove(ctx, &entry.key, entry.revision).await? else { return Ok(None) };
            Ok(Some(Deleted::Gone(served.encoded(revision), entry)))
        }
        Plan::Mark { object, then_remove } if options.dry_run => {
            let encoded = EncodedObject::encode(&object, entry.revision);
            Ok(Some(if then_remove { Deleted::Gone(encoded, entry) } else { Deleted::Marked(encoded) }))
        }
        Plan::Mark { object, then_remove } => {
            let stored = converter.to_storage_version(ctx.info, object.clone()).await?;
            if encode_object(&stored).0 == entry.value {
                return Ok(Some(Deleted::Marked(served.encoded(entry.revision))));
            }
            let expect = Expect::Revision(entry.revision);
            let Ok(marked) = put(ctx, &entry.key, object, expect, ManagedFields::MayBeDropped).await? else {
                return Ok(None);
            };
            if !then_remove {
                let encoded = converter.served(ctx.info, &marked).await?.encoded(marked.revision);
                return Ok(Some(Deleted::Marked(encoded)));
            }
            remove_marked(ctx, marked).await
        }
    }
}

/// Removes an object that has been marked; `None` if it must not be removed any more. Another client may remove it first,
/// as the node of a pod does when it sees the mark: the deletion has succeeded then, too.
async fn remove_marked(ctx: &RequestContext<'_>, marked: Arc<Entry<Header>>) -> Result<Option<Deleted>> {
    let mut revision = marked.revision;
    for _ in 0..RETRIES_MAX {
        let removed = remove(ctx, &marked.key, revision).await?;
        let now = ctx.services.store.get(&marked.key).filter(|now| now.header.uid == marked.header.uid);
        match (removed, now) {
            (Err(_), Some(now)) if now.header.finalizers => return Ok(None),
            (Err(_), Some(now)) => revision = now.revision,
            (removed, _) => {
                let served = ctx.services.converter.served(ctx.info, &marked).await?;
                let encoded = served.encoded(removed.unwrap_or(revision));
                return Ok(Some(Deleted::Gone(encoded, marked)));
            }
        }
    }
    Ok(None)
}

/// Answers a DELETE of a collection with the deleted objects in their previous state.
pub(crate) async fn delete_collection(ctx: &RequestContext<'_>, body: Bytes) -> Result<Response<Body>> {
    let accept = negotiate_for(ctx.request, false, ctx.info.is_custom())?;
    let mut query = ListQuery::parse(&ctx.request.query)?;
    crate::read::validate_list(&query)?;
    let selection = Selection::parse(ctx.info, &query.labels, &query.fields)?;
    let options = DeleteOptions::parse(ctx, &body)?;
    warn(ctx, &options);
    if query.version_match.is_empty() && !matches!(query.version.as_str(), "" | "0") {
        // Kubernetes lists the objects in pages of one revision.
        query.version_match = "Exact".to_owned();
    }
    let found = find_entries(ctx, &query, &selection).await?;
    let mut rest = Vec::new();
    let mut batch = Vec::new();
    for served in &found.entries {
        admit_deletion(ctx, served, options.dry_run).await?;
        match plan(ctx, &options, served)? {
            Plan::Remove if options.dry_run => {}
            Plan::Remove => {
                let expect = Expect::Revision(served.revision);
                batch.push(Write { key: served.key.clone(), expect, op: Op::Delete });
            }
            _ => rest.extend(ctx.services.store.get(&served.key)),
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
    write_list(ctx, accept, &found.deleted())
}

/// Deletes one object of a collection; success if it is already gone.
async fn delete_entry(
    ctx: &RequestContext<'_>,
    options: &DeleteOptions,
    entry: &Arc<Entry<Header>>,
) -> Result<()> {
    let mut entry = entry.clone();
    for _ in 0..RETRIES_MAX {
        let served = ctx.services.converter.served(ctx.info, &entry).await?;
        let plan = plan(ctx, options, &served)?;
        if carry_out(ctx, options, entry.clone(), &served, plan).await?.is_some() {
            return Ok(());
        }
        match ctx.services.store.get(&entry.key) {
            Some(again) => entry = again,
            None => return Ok(()),
        }
    }
    Err(super::update::conflict(ctx))
}
