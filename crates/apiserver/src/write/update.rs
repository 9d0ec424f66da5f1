//! Replacing objects, and the road that every change of an existing object takes.

use std::sync::Arc;

use bytes::Bytes;
use evenkeel_schema::field::FieldError;
use evenkeel_schema::{empties, managed};
use evenkeel_store::{Entry, Expect};
use http::Response;
use serde_json::Value;

use super::create::create_object;
use super::incoming::{DEDUPLICATED, Incoming, drop_repeated_owners, write_query};
use super::{RETRIES_MAX, put_sealed, remove, reserve};
use crate::admit::{Admission, Operation, admit, ask, ask_to_mutate, charge, examine};
use crate::allocate::Reservation;
use crate::body::Body;
use crate::call::Call;
use crate::encode::Shown;
use crate::read::respond_object;
use crate::request::{WriteQuery, negotiate_for, parse_version};
use crate::status::{Result, Status};
use crate::storable::{make_room, seal_storable};
use crate::strategy::{Strategy, prepare_update};
use crate::{Header, decode, faces, ownership, validate};

const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// Answers a PUT.
pub(crate) async fn update(call: &Call<'_>, body: Bytes) -> Result<Response<Body>> {
    let accept = negotiate_for(call.request, false, call.info.is_custom())?;
    decode::media(call.request.header("content-type"))?;
    let query = write_query(call, "UpdateOptions")?;
    let mut incoming = Incoming::decode(call, &query, &body)?;
    incoming.place(call)?;
    incoming.check_name(call)?;
    incoming.drop_repeated_owners(call);
    let key = call.key();
    for _ in 0..RETRIES_MAX {
        let Some(current) = call.server.store().get(&key) else {
            let shown = create_by_update(call, &query, &mut incoming).await?;
            return respond_object(call, 201, accept, shown);
        };
        check_uid(call, &incoming.object, &key, &current.header.uid, current.revision)?;
        let new = incoming.object.clone();
        if let Some(shown) = change(call, &query, &current, new, Writer::Update).await? {
            return respond_object(call, 200, accept, shown);
        }
    }
    Err(conflict(call))
}

/// A PUT to a name that is missing creates it for some kinds.
async fn create_by_update(call: &Call<'_>, query: &WriteQuery, incoming: &mut Incoming) -> Result<Shown> {
    if !Strategy::of(call.info).creates_on_update || !call.path.subresource.is_empty() {
        return Err(call.not_found());
    }
    call.may_create()?;
    check_uid(call, &incoming.object, &call.key(), "", 0)?;
    if let Some(metadata) = incoming.object["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    create_object(call, query, incoming, true).await
}

/// A uid in a PUT is a precondition.
fn check_uid(call: &Call<'_>, object: &Value, key: &str, actual: &str, revision: u64) -> Result<()> {
    let given = object["metadata"]["uid"].as_str().unwrap_or_default();
    if given.is_empty() || given == actual {
        return Ok(());
    }
    let key = key.replacen(&format!("/{}/", group_folder(&call.info.group)), "/", 1);
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: {}, AdditionalErrorMsg: \
         Precondition failed: UID in precondition: {given}, UID in object meta: {actual}",
        if revision > 0 { 0 } else { revision }
    );
    Err(Status::conflict(&call.info.group, &call.info.plural, &call.path.name, &why))
}

/// Kubernetes' own keys have no folder for a group, and its messages show them.
fn group_folder(group: &str) -> &str {
    if group.is_empty() { "core" } else { group }
}

/// By which road a change came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    /// PUT or any patch but apply: what changed becomes the writer's.
    Update,
    /// Server-side apply, which has already settled who owns what.
    Apply,
}

/// Changes an existing object to `new`; none where another writer was faster and the caller may try again.
pub(crate) async fn change(
    call: &Call<'_>,
    query: &WriteQuery,
    current: &Arc<Entry<Header>>,
    mut new: Value,
    writer: Writer,
) -> Result<Option<Shown>> {
    let strategy = Strategy::of(call.info);
    let old = &*faces::tree(call, current)?;
    let version = take_version(&mut new)?;
    // Both sides carry the version that is replaced, as every rule that compares them expects.
    new["metadata"]["resourceVersion"] = current.revision.to_string().into();
    if writer == Writer::Update {
        ownership::track(call, &mut new, Some(old));
    }
    let name = &*call.path.name;
    let admission = Admission { call, operation: Operation::Update, name, generate_name: "", old: Some(old) };
    admit(&admission, &mut new)?;
    ask_to_mutate(&admission, &mut new).await?;
    warn_of_repeated_owners(call, &mut new);
    check_version(call, &strategy, version, current.revision)?;
    let subresource = endpoint(call);
    empties::forget(&call.info.group, &call.info.kind, &mut new);
    prepare_update(call.info, &mut new, old, subresource, call.server.env().now());
    managed::keep_times(old, &mut new);
    validate::updated(call, &new, old, subresource)?;
    examine(&admission, &new)?;
    ask(&admission, &new).await?;
    charge(&admission, &new, query.dry_run).await?;
    let reservation = reserve(call, &mut new, Some(old))?;
    store(call, query, current, new, reservation, writer).await
}

/// Takes out owners that are named twice after admission: a patch was not looked at before.
pub(super) fn warn_of_repeated_owners(call: &Call<'_>, object: &mut Value) {
    let repeated = drop_repeated_owners(object);
    if !repeated.is_empty() {
        call.request.warn(format!(
            ".metadata.ownerReferences contains duplicate entries after mutating admission happens; {DEDUPLICATED}{}",
            repeated.join(", ")
        ));
    }
}

/// The endpoint whose rules a change is held to: a Scale changes the object itself.
fn endpoint<'a>(call: &'a Call<'_>) -> &'a str {
    match &*call.path.subresource {
        "scale" => "",
        other => other,
    }
}

/// Takes the resourceVersion out of an object; zero where it has none.
fn take_version(object: &mut Value) -> Result<u64> {
    let Some(metadata) = object["metadata"].as_object_mut() else { return Ok(0) };
    match metadata.remove("resourceVersion") {
        Some(Value::String(text)) if !text.is_empty() => parse_version(&text).map_err(Status::server_error),
        _ => Ok(0),
    }
}

fn check_version(call: &Call<'_>, strategy: &Strategy, given: u64, current: u64) -> Result<()> {
    if given == current || (given == 0 && strategy.unconditional_update) {
        return Ok(());
    }
    if given == 0 {
        let error = FieldError::invalid(
            "metadata.resourceVersion",
            Value::from(0),
            "must be specified for an update",
        );
        let info = &call.info;
        return Err(Status::invalid(&info.group, &info.plural, &call.path.name, &[error]));
    }
    Err(conflict(call))
}

pub(crate) fn conflict(call: &Call<'_>) -> Status {
    Status::conflict(&call.info.group, &call.info.plural, &call.path.name, MODIFIED)
}

/// Stores what an object was changed to, or removes it where nothing holds it any more. What was reserved for the
/// change is given back unless it is stored.
async fn store(
    call: &Call<'_>,
    query: &WriteQuery,
    current: &Arc<Entry<Header>>,
    new: Value,
    reservation: Option<Reservation<'_>>,
    writer: Writer,
) -> Result<Option<Shown>> {
    let converted = faces::converts(call.info).then(|| new.clone());
    let mut stored = faces::to_stored(call.info, new);
    let new = converted.as_ref().unwrap_or(&stored);
    let sealed = seal_storable(call.info, &stored)?;
    if sealed.0 == current.value {
        return faces::show(call.info, current, current.revision).map(Some);
    }
    let goes = is_done(new, current);
    if query.dry_run {
        return Ok(Some(Shown::sealed(new, current.revision)));
    }
    let expect = Expect::Revision(current.revision);
    if goes {
        let removed = remove(call, &current.key, current.revision).await?;
        // What is shown is the last write, which was never stored: it still has the old version.
        return Ok(removed.ok().map(|_| Shown::sealed(new, current.revision)));
    }
    let sealed = make_room(call.info, &mut stored, sealed, writer == Writer::Apply)?;
    let Ok(entry) = put_sealed(call, &current.key, sealed, expect).await? else { return Ok(None) };
    if let Some(reservation) = reservation {
        reservation.keep();
        let before = faces::open(call.info, current)?;
        call.server.inner().allocator.release(&before, Some(&stored));
    }
    faces::keep(call, &entry, stored);
    faces::show(call.info, &entry, entry.revision).map(Some)
}

/// Whether this write takes the last finalizer from an object that is being deleted, so that it goes now.
fn is_done(new: &Value, current: &Entry<Header>) -> bool {
    let metadata = &new["metadata"];
    let some = |list: &Value| list.as_array().is_some_and(|it| !it.is_empty());
    let content = new["kind"] == "Namespace" && new["apiVersion"] == "v1" && some(&new["spec"]["finalizers"]);
    let grace = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or_default();
    current.header.deleting && !some(&metadata["finalizers"]) && !content && grace == 0
}
