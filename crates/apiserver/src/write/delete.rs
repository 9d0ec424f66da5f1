//! Deleting objects, one or many.
//!
//! What a deletion does to an object is decided by a pure [`plan`]; carrying it out is a write like any other.

mod options;
mod plan;

use std::sync::Arc;

use bytes::Bytes;
use evenkeel_store::{Entry, Expect, Op, Write};
use http::Response;
use serde_json::Value;

pub(crate) use self::options::DeleteOptions;
pub(crate) use self::plan::check_preconditions;
use self::plan::{Plan, plan};
use super::{RETRIES_MAX, follow_up, put, remove};
use crate::admit::{Admission, Operation, admit, ask_deletion, examine_deletion};
use crate::body::Body;
use crate::call::Call;
use crate::encode::Shown;
use crate::header::seal;
use crate::read::{Found, Item, Selection, find_entries, respond_object, write_list};
use crate::request::{ListQuery, negotiate_for};
use crate::status::{Result, Status};
use crate::strategy::Strategy;
use crate::{Header, faces, respond, stored};

/// Kubernetes keeps the pods of a job by default, and says so.
const JOB_WARNING: &str = "child pods are preserved by default when jobs are deleted; set \
    propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning";

/// What became of an object.
pub(crate) enum Deleted {
    /// It is gone; this is what it was.
    Gone(Shown, Arc<Entry<Header>>),
    /// It stays for now, marked.
    Marked(Shown),
}

/// Answers a DELETE of one object.
pub(crate) async fn delete(call: &Call<'_>, body: Bytes) -> Result<Response<Body>> {
    let accept = negotiate_for(call.request, false, call.info.is_custom())?;
    let options = DeleteOptions::parse(call, &body)?;
    let code = match delete_object(call, &options).await? {
        Deleted::Marked(shown) => {
            let accepted = options.orphan_dependents == Some(false);
            respond_object(call, if accepted { 202 } else { 200 }, accept, shown)
        }
        Deleted::Gone(shown, _) if Strategy::of(call.info).returns_deleted => {
            respond_object(call, 200, accept, shown)
        }
        Deleted::Gone(_, entry) => {
            let info = &call.info;
            let status = Status::deleted(&info.group, &info.plural, &call.path.name, &entry.header.uid);
            respond::formatted(200, accept.format, status.to_json())
        }
    };
    let response = code?;
    if call.info.kind == "Job" && options.says_nothing_of_dependents() {
        call.request.warn(JOB_WARNING);
    }
    Ok(response)
}

/// Deletes the object that the path names, as far as it can go at once.
pub(crate) async fn delete_object(call: &Call<'_>, options: &DeleteOptions) -> Result<Deleted> {
    let key = call.key();
    for _ in 0..RETRIES_MAX {
        let entry = call.server.store().get(&key).ok_or_else(|| call.not_found())?;
        stored::check(&entry)?;
        admit_deletion(call, &entry, options).await?;
        let plan = plan(call, options, &entry)?;
        if let Some(deleted) = carry_out(call, options, entry, plan).await? {
            return Ok(deleted);
        }
    }
    Err(super::update::conflict(call))
}

async fn admit_deletion(call: &Call<'_>, entry: &Entry<Header>, options: &DeleteOptions) -> Result<()> {
    let name = &entry.header.name;
    let admission = Admission { call, operation: Operation::Delete, name, generate_name: "", old: None };
    admit(&admission, &mut Value::Null)?;
    examine_deletion(call, entry, options.dry_run)?;
    ask_deletion(call, entry, options.dry_run).await
}

/// Carries out what was decided; none where another writer was faster.
async fn carry_out(
    call: &Call<'_>,
    options: &DeleteOptions,
    entry: Arc<Entry<Header>>,
    plan: Plan,
) -> Result<Option<Deleted>> {
    let show = |entry: &Entry<Header>| faces::show(call.info, entry, entry.revision);
    match plan {
        Plan::Nothing => Ok(Some(Deleted::Marked(show(&entry)?))),
        Plan::Remove if options.dry_run => Ok(Some(Deleted::Gone(show(&entry)?, entry))),
        Plan::Remove => {
            let Ok(revision) = remove(call, &entry.key, entry.revision).await? else { return Ok(None) };
            let shown = faces::show(call.info, &entry, revision)?;
            Ok(Some(Deleted::Gone(shown, entry)))
        }
        Plan::Mark { object, then_remove } if options.dry_run => {
            let shown = Shown::sealed(&object, entry.revision);
            Ok(Some(if then_remove { Deleted::Gone(shown, entry) } else { Deleted::Marked(shown) }))
        }
        Plan::Mark { object, then_remove } => {
            if seal(&faces::to_stored(call.info, object.clone())).0 == entry.value {
                return Ok(Some(Deleted::Marked(show(&entry)?)));
            }
            let expect = Expect::Revision(entry.revision);
            let Ok(marked) = put(call, &entry.key, object, expect, false).await? else { return Ok(None) };
            if !then_remove {
                return Ok(Some(Deleted::Marked(show(&marked)?)));
            }
            let Ok(revision) = remove(call, &marked.key, marked.revision).await? else { return Ok(None) };
            let shown = faces::show(call.info, &marked, revision)?;
            Ok(Some(Deleted::Gone(shown, marked)))
        }
    }
}

/// Answers a DELETE of a collection, with the items as they were before.
pub(crate) async fn delete_collection(call: &Call<'_>, body: Bytes) -> Result<Response<Body>> {
    let accept = negotiate_for(call.request, false, call.info.is_custom())?;
    let mut query = ListQuery::parse(&call.request.query)?;
    crate::read::validate_list(&query)?;
    let selection = Selection::parse(call.info, &query.labels, &query.fields)?;
    let options = DeleteOptions::parse(call, &body)?;
    if query.version_match.is_empty() && !matches!(query.version.as_str(), "" | "0") {
        // Kubernetes lists what it deletes in pages, which are those of one revision.
        query.version_match = "Exact".to_owned();
    }
    let found = find_entries(call, &query, &selection).await?;
    let mut rest = Vec::new();
    let mut batch = Vec::new();
    for entry in found.entries.iter().filter(|entry| stored::check(entry).is_ok()) {
        admit_deletion(call, entry, &options).await?;
        match plan(call, &options, entry)? {
            Plan::Remove if options.dry_run => {}
            Plan::Remove => {
                let expect = Expect::Revision(entry.revision);
                batch.push(Write { key: entry.key.clone(), expect, op: Op::Delete });
            }
            _ => rest.push(entry.clone()),
        }
    }
    call.request.note_submission();
    let keys: Vec<Arc<str>> = batch.iter().map(|it| it.key.clone()).collect();
    for (result, key) in call.server.store().write_all(batch).await.into_iter().zip(keys) {
        match result {
            Ok(written) => {
                call.request.note_commit(written.revision);
                follow_up(call, &key, &written).await?;
            }
            Err(_) => rest.extend(call.server.store().get(&key)),
        }
    }
    for entry in rest {
        delete_entry(call, &options, &entry).await?;
    }
    let items = Item::all(call, &found.entries);
    write_list(call, accept, items, &Found::all(Vec::new(), found.revision))
}

/// Deletes one of a collection; that it has gone in the meantime is as good.
async fn delete_entry(call: &Call<'_>, options: &DeleteOptions, entry: &Arc<Entry<Header>>) -> Result<()> {
    let mut entry = entry.clone();
    for _ in 0..RETRIES_MAX {
        let plan = plan(call, options, &entry)?;
        if carry_out(call, options, entry.clone(), plan).await?.is_some() {
            return Ok(());
        }
        match call.server.store().get(&entry.key) {
            Some(again) => entry = again,
            None => return Ok(()),
        }
    }
    Err(super::update::conflict(call))
}
