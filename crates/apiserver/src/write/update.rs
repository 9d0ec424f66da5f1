//! Replacing objects, and the common path of all changes to existing objects.

use std::sync::Arc;

use bytes::Bytes;
use evenkeel_schema::empty_lists;
use evenkeel_schema::field::FieldError;
use evenkeel_schema::json::Value;
use evenkeel_schema::managed_fields::keep_times;
use evenkeel_store::{Entry, Expect};
use http::Response;

use super::create::{Creator, create_object};
use super::prepare::prepare_update;
use crate::admission::{self, Admission, Operation};
use crate::allocate::Reservation;
use crate::body::Body;
use crate::commit::{RETRIES_MAX, put_storable, remove, reserve};
use crate::context::RequestContext;
use crate::encode::EncodedObject;
use crate::incoming::{Incoming, warn_of_repeated_owners, write_query};
use crate::read::respond_object;
use crate::request::{WriteQuery, negotiate_for, parse_version};
use crate::status::{Result, Status};
use crate::storage::{CheckedObject, ManagedFields};
use crate::strategy::Deletion;
use crate::{Header, conversion, decode, managed_fields, validate};

const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// Answers a PUT.
pub(crate) async fn update(ctx: &RequestContext<'_>, body: Bytes) -> Result<Response<Body>> {
    let accept = negotiate_for(ctx.request, false, ctx.info.is_custom())?;
    decode::media(ctx.request.header("content-type"))?;
    let query = write_query(ctx, "UpdateOptions")?;
    let mut incoming = Incoming::decode(ctx, &query, &body)?;
    incoming.place(ctx)?;
    incoming.check_name(ctx)?;
    incoming.drop_repeated_owners(ctx);
    let key = ctx.key();
    for _ in 0..RETRIES_MAX {
        let Some(current) = ctx.services.store.get(&key) else {
            let encoded = create_by_update(ctx, &query, &mut incoming).await?;
            return respond_object(ctx, 201, accept, encoded);
        };
        check_uid(ctx, &incoming.object, &key, &current.header.uid, current.revision)?;
        let new = incoming.object.clone();
        if let Some(encoded) = change(ctx, &query, &current, new, Writer::Update).await? {
            return respond_object(ctx, 200, accept, encoded);
        }
    }
    Err(conflict(ctx))
}

/// Creates an object by a PUT, if it does not exist and its kind allows that.
async fn create_by_update(
    ctx: &RequestContext<'_>,
    query: &WriteQuery,
    incoming: &mut Incoming,
) -> Result<EncodedObject> {
    if !ctx.info.strategy.allow_create_on_update || !ctx.path.subresource.is_empty() {
        return Err(ctx.not_found());
    }
    ctx.may_create()?;
    check_uid(ctx, &incoming.object, &ctx.key(), "", 0)?;
    if let Some(metadata) = incoming.object["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    create_object(ctx, query, incoming, Creator::Update).await
}

/// Checks the UID of a PUT, which is a precondition.
pub(crate) fn check_uid(
    ctx: &RequestContext<'_>,
    object: &Value,
    key: &str,
    actual: &str,
    revision: u64,
) -> Result<()> {
    let given = object["metadata"]["uid"].as_str().unwrap_or_default();
    if given.is_empty() || given == actual {
        return Ok(());
    }
    let key = kubernetes_key(ctx, key);
    // Kubernetes checks an absent object below the layer that adds the prefix of all keys.
    let key = if actual.is_empty() { format!("/registry{key}") } else { key };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: {}, AdditionalErrorMsg: \
         Precondition failed: UID in precondition: {given}, UID in object meta: {actual}",
        if revision > 0 { 0 } else { revision }
    );
    Err(Status::conflict(&ctx.info.group, &ctx.info.plural, &ctx.path.name, &why))
}

/// Returns the key of an object as Kubernetes' messages show it: without the group of a built-in kind, and with the
/// historical names of some resources.
fn kubernetes_key(ctx: &RequestContext<'_>, key: &str) -> String {
    let info = &ctx.info;
    let folder = if info.group.is_empty() { "core" } else { &info.group };
    let rest = key.strip_prefix(&format!("/registry/{folder}/{}/", info.plural)).unwrap_or(key);
    match info.plural.as_str() {
        plural if info.is_custom() => format!("/{folder}/{plural}/{rest}"),
        "replicationcontrollers" => format!("/controllers/{rest}"),
        "endpoints" => format!("/services/endpoints/{rest}"),
        "services" => format!("/services/specs/{rest}"),
        "nodes" => format!("/minions/{rest}"),
        "ingresses" => format!("/ingress/{rest}"),
        plural => format!("/{plural}/{rest}"),
    }
}

/// How a change was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    /// A PUT, or any patch but an apply: changed fields become owned by the field manager.
    Update,
    /// A server-side apply, which has already updated managedFields.
    Apply,
}

/// Changes an existing object to `new`; `None` if another writer was faster and the caller may retry.
pub(crate) async fn change(
    ctx: &RequestContext<'_>,
    query: &WriteQuery,
    current: &Arc<Entry<Header>>,
    mut new: Value,
    writer: Writer,
) -> Result<Option<EncodedObject>> {
    let old = &*ctx.services.converter.object(&ctx.services.objects, ctx.info, current).await?;
    let version = take_version(&mut new)?;
    // Both versions carry the replaced resourceVersion, as all rules that compare them expect.
    new["metadata"]["resourceVersion"] = current.revision.to_string().into();
    if writer == Writer::Update {
        managed_fields::track(ctx, &mut new, Some(old)).await;
    }
    let name = &*ctx.path.name;
    let admission = Admission {
        ctx,
        operation: Operation::Update,
        name,
        generate_name: "",
        old: Some(old),
        part: None,
        dry_run: query.dry_run,
    };
    admission::mutate(&admission, &mut new).await?;
    warn_of_repeated_owners(ctx, &mut new);
    check_version(ctx, version, current.revision)?;
    let subresource = endpoint(ctx);
    empty_lists::forget(&ctx.info.group, &ctx.info.kind, &mut new);
    prepare_update(ctx.info, &mut new, old, subresource, ctx.services.env.now());
    keep_times(old, &mut new);
    validate::updated(ctx, &new, old, subresource)?;
    admission::validate(&admission, &new).await?;
    let reservation = reserve(ctx, &mut new, Some(old))?;
    store(ctx, query, current, new, reservation, writer).await
}

/// The subresource whose rules apply to a change; a change of `scale` follows the rules of the object itself.
fn endpoint<'a>(ctx: &'a RequestContext<'_>) -> &'a str {
    match &*ctx.path.subresource {
        "scale" => "",
        other => other,
    }
}

/// Removes the resourceVersion from an object and returns it; zero if it has none.
fn take_version(object: &mut Value) -> Result<u64> {
    let Some(metadata) = object["metadata"].as_object_mut() else { return Ok(0) };
    match metadata.remove("resourceVersion") {
        Some(Value::String(text)) if !text.is_empty() => parse_version(&text).map_err(Status::server_error),
        _ => Ok(0),
    }
}

fn check_version(ctx: &RequestContext<'_>, given: u64, current: u64) -> Result<()> {
    if given == current || (given == 0 && ctx.info.strategy.allow_unconditional_update) {
        return Ok(());
    }
    if given == 0 {
        let error = FieldError::invalid(
            "metadata.resourceVersion",
            Value::from(0),
            "must be specified for an update",
        );
        let info = &ctx.info;
        return Err(Status::invalid(&info.group, &info.plural, &ctx.path.name, &[error]));
    }
    Err(conflict(ctx))
}

pub(crate) fn conflict(ctx: &RequestContext<'_>) -> Status {
    Status::conflict(&ctx.info.group, &ctx.info.plural, &ctx.path.name, MODIFIED)
}

/// Stores a changed object, or removes it if it was being deleted and nothing holds it any more. The
/// reservation is released unless the object is stored.
async fn store(
    ctx: &RequestContext<'_>,
    query: &WriteQuery,
    current: &Arc<Entry<Header>>,
    new: Value,
    reservation: Option<Reservation<'_>>,
    writer: Writer,
) -> Result<Option<EncodedObject>> {
    let converted = conversion::converts(ctx.info).then(|| new.clone());
    let mut stored = ctx.services.converter.to_storage_version(ctx.info, new).await?;
    let new = converted.as_ref().unwrap_or(&stored);
    let sealed = CheckedObject::new(&stored)?;
    if *sealed.bytes() == current.value {
        return served(ctx, current).await.map(Some);
    }
    let goes = completes_deletion(ctx, new, current);
    if query.dry_run {
        return Ok(Some(EncodedObject::encode(new, current.revision)));
    }
    let expect = Expect::Revision(current.revision);
    if goes {
        let removed = remove(ctx, &current.key, current.revision).await?;
        // The response shows the object of this write, which was never stored, at the previous revision.
        return Ok(removed.ok().map(|_| EncodedObject::encode(new, current.revision)));
    }
    let managed = match writer {
        Writer::Update => ManagedFields::MayBeDropped,
        Writer::Apply => ManagedFields::Needed,
    };
    let storable = sealed.fit_to_limit(&mut stored, managed)?;
    let Ok(entry) = put_storable(ctx, &current.key, storable, expect).await? else { return Ok(None) };
    if let Some(reservation) = reservation {
        reservation.keep();
        let before = ctx.services.converter.decoded(ctx.info, current).await?;
        ctx.services.allocator.release(&before, Some(&stored));
    }
    conversion::cache_object(&ctx.services.objects, ctx.info, &entry, stored);
    served(ctx, &entry).await.map(Some)
}

/// Returns a stored object in the version of the request.
async fn served(ctx: &RequestContext<'_>, entry: &Arc<Entry<Header>>) -> Result<EncodedObject> {
    Ok(ctx.services.converter.served(ctx.info, entry).await?.encoded(entry.revision))
}

/// Whether this write removes the last finalizer of an object that is being deleted, so that the object is
/// removed now.
fn completes_deletion(ctx: &RequestContext<'_>, new: &Value, current: &Entry<Header>) -> bool {
    let metadata = &new["metadata"];
    let some = |list: &Value| list.as_array().is_some_and(|it| !it.is_empty());
    let has_contents = ctx.info.strategy.deletion == Deletion::NamespaceContents;
    let content = has_contents && some(&new["spec"]["finalizers"]);
    let grace = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or_default();
    current.header.deleting && !some(&metadata["finalizers"]) && !content && grace == 0
}
