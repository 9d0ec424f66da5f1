//! Creating objects.

use bytes::Bytes;
use evenkeel_schema::json::{Value, json};
use evenkeel_schema::{empty_lists, names};
use evenkeel_store::Expect;
use http::Response;

use super::prepare::prepare_create;
use crate::admission::{self, Admission, Operation};
use crate::allocate::Reservation;
use crate::body::Body;
use crate::commit::{RETRIES_MAX, put, reserve};
use crate::context::RequestContext;
use crate::encode::EncodedObject;
use crate::incoming::{Incoming, warn_of_repeated_owners, write_query};
use crate::members::set_or_remove;
use crate::read::respond_object;
use crate::request::{WriteQuery, negotiate_for};
use crate::status::{Result, Status};
use crate::storage::{ManagedFields, check_depth};
use crate::{conversion, decode, managed_fields, validate};

/// How many characters of a generateName are kept, so that the generated name fits a label.
const GENERATED_BASE_MAX: usize = names::LABEL_MAX - SUFFIX_LEN;
const SUFFIX_LEN: usize = 5;

/// Answers a POST to a collection.
pub(crate) async fn create(ctx: &RequestContext<'_>, body: Bytes) -> Result<Response<Body>> {
    let accept = negotiate_for(ctx.request, false, ctx.info.is_custom())?;
    decode::media(ctx.request.header("content-type"))?;
    let query = write_query(ctx, "CreateOptions")?;
    let mut incoming = Incoming::decode(ctx, &query, &body)?;
    incoming.place(ctx)?;
    incoming.drop_repeated_owners(ctx);
    let encoded = create_object(ctx, &query, &mut incoming, Creator::Create).await?;
    respond_object(ctx, 201, accept, encoded)
}

/// The kind of request that creates an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Creator {
    /// A POST. The object must not have a resourceVersion.
    Create,
    /// An update of an object that does not exist.
    Update,
    /// An apply, which has already recorded its fields in managedFields.
    Apply,
}

/// Creates a decoded object.
pub(crate) async fn create_object(
    ctx: &RequestContext<'_>,
    query: &WriteQuery,
    incoming: &mut Incoming,
    creator: Creator,
) -> Result<EncodedObject> {
    let name = incoming.name().to_owned();
    refuse_terminating(ctx, &name)?;
    let track = creator != Creator::Apply;
    let generated = name.is_empty() && incoming.object["metadata"]["generateName"].is_string();
    for attempt in 0..RETRIES_MAX {
        // A given name is tried only once, so the object need not be kept.
        let mut object =
            if generated { incoming.object.clone() } else { std::mem::take(&mut incoming.object) };
        if creator == Creator::Create {
            remove_system_fields(&mut object);
        }
        if track {
            managed_fields::track(ctx, &mut object, None).await;
        }
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let version = text("resourceVersion");
        let base = if generated { text("generateName") } else { String::new() };
        let admission = Admission {
            ctx,
            operation: Operation::Create,
            name: &name,
            generate_name: &base,
            old: None,
            part: None,
            dry_run: query.dry_run,
        };
        admission::mutate(&admission, &mut object).await?;
        // Set after mutation, because mutating plugins must not see fields that the server sets, such as a
        // generated name.
        fill_system_fields(ctx, &mut object);
        fill_name(ctx, &mut object, &name, generated);
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let admission = Admission { name: &name, ..admission };
        warn_of_repeated_owners(ctx, &mut object);
        empty_lists::forget(&ctx.info.group, &ctx.info.kind, &mut object);
        prepare_create(ctx.info, &mut object, ctx.services.env.now());
        record_requester(ctx, &mut object);
        validate::created(ctx, &object)?;
        admission::validate(&admission, &object).await?;
        let key = ctx.info.key(&ctx.path.namespace, &name);
        let reservation = reserve(ctx, &mut object, None)?;
        if query.dry_run {
            check_storable(ctx, &object).await?;
            return match ctx.services.store.get(&key) {
                Some(_) => Err(exists(ctx, &key, &name)),
                None => Ok(EncodedObject::encode_unstored(&object, &version)),
            };
        }
        if creator == Creator::Create {
            refuse_version(&version)?;
        }
        let managed = if track { ManagedFields::MayBeDropped } else { ManagedFields::Needed };
        match put(ctx, &key, object, Expect::Absent, managed).await? {
            Ok(entry) => {
                reservation.into_iter().for_each(Reservation::keep);
                let served = ctx.services.converter.served(ctx.info, &entry).await?;
                return Ok(served.encoded(entry.revision));
            }
            Err(_) if generated && attempt + 1 < RETRIES_MAX => {}
            Err(_) => return Err(exists(ctx, &key, &name)),
        }
    }
    Err(Status::internal("no free name was found"))
}

/// Refuses to create custom resources while their CRD is being deleted.
fn refuse_terminating(ctx: &RequestContext<'_>, name: &str) -> Result<()> {
    let info = &ctx.info;
    if !info.custom.as_ref().is_some_and(|it| it.terminating) {
        return Ok(());
    }
    let why = "create not allowed while custom resource definition is terminating";
    Err(Status::not_admitted(&info.group, &info.plural, name, why))
}

/// Checks for a dry run what a write would find out: that the object can be stored.
async fn check_storable(ctx: &RequestContext<'_>, object: &Value) -> Result<()> {
    check_depth(object)?;
    if conversion::converts(ctx.info) {
        ctx.services.converter.to_storage_version(ctx.info, object.clone()).await?;
    }
    Ok(())
}

fn refuse_version(version: &str) -> Result<()> {
    match version {
        "" | "0" => Ok(()),
        _ => Err(Status::server_error("resourceVersion should not be set on objects to be created")),
    }
}

/// Removes deletion metadata that a client sent, so that no manager owns it.
fn remove_system_fields(object: &mut Value) {
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        set_or_remove(&mut object["metadata"], field, Value::Null);
    }
}

/// Sets the metadata that the server controls, whatever the client sent.
fn fill_system_fields(ctx: &RequestContext<'_>, object: &mut Value) {
    let now = ctx.services.now();
    let uid = ctx.services.env.uid();
    let metadata = &mut object["metadata"];
    metadata["uid"] = uid.into();
    metadata["creationTimestamp"] = now.into();
    for field in ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        set_or_remove(metadata, field, Value::Null);
    }
}

/// Names an object that the client has sent without a name. `given` is the name in the request, and `generated` says
/// whether the request has a `generateName` instead.
fn fill_name(ctx: &RequestContext<'_>, object: &mut Value, given: &str, generated: bool) {
    if generated {
        object["metadata"]["name"] = generated_name(ctx, object).into();
    } else if given.is_empty() && ctx.info.strategy.generates_missing_name {
        // LimitRange is the only kind whose objects need no name.
        object["metadata"]["name"] = ctx.services.env.uid().into();
    }
}

/// Records the requesting user in a CertificateSigningRequest; clients cannot set it.
fn record_requester(ctx: &RequestContext<'_>, object: &mut Value) {
    if !ctx.info.strategy.records_requester {
        return;
    }
    let user = ctx.user;
    let spec = &mut object["spec"];
    spec["username"] = user.name.as_str().into();
    if !user.uid.is_empty() {
        spec["uid"] = user.uid.as_str().into();
    }
    if !user.groups.is_empty() {
        spec["groups"] = user.groups.clone().into();
    }
    if !user.extra.is_empty() {
        spec["extra"] = json!(user.extra);
    }
}

fn generated_name(ctx: &RequestContext<'_>, object: &Value) -> String {
    let base = object["metadata"]["generateName"].as_str().unwrap_or_default();
    let mut end = base.len().min(GENERATED_BASE_MAX);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{}", &base[..end], ctx.services.env.suffix(SUFFIX_LEN))
}

fn exists(ctx: &RequestContext<'_>, key: &str, name: &str) -> Status {
    let mut status = Status::already_exists(&ctx.info.group, &ctx.info.plural, name);
    if ctx.services.store.get(key).is_some_and(|it| it.header.deleting) {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
}
