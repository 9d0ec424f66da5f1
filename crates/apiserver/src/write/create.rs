//! Creating objects.

use bytes::Bytes;
use evenkeel_schema::{empties, names};
use evenkeel_store::Expect;
use http::Response;
use serde_json::{Value, json};

use super::incoming::{Incoming, write_query};
use super::update::warn_of_repeated_owners;
use super::{RETRIES_MAX, put, reserve};
use crate::admit::{Admission, Operation, admit, ask, ask_to_mutate, charge, examine};
use crate::allocate::Reservation;
use crate::body::Body;
use crate::call::Call;
use crate::encode::Shown;
use crate::read::respond_object;
use crate::request::{WriteQuery, negotiate_for};
use crate::status::{Result, Status};
use crate::storable::check_depth;
use crate::strategy::{prepare_create, set_or_remove};
use crate::{decode, faces, ownership, validate};

/// How many characters of a generateName are kept before the suffix: together they fit a label.
const GENERATED_BASE_MAX: usize = names::LABEL_MAX - SUFFIX_LEN;
const SUFFIX_LEN: usize = 5;

/// Answers a POST to a collection.
pub(crate) async fn create(call: &Call<'_>, body: Bytes) -> Result<Response<Body>> {
    let accept = negotiate_for(call.request, false, call.info.is_custom())?;
    decode::media(call.request.header("content-type"))?;
    let query = write_query(call, "CreateOptions")?;
    let mut incoming = Incoming::decode(call, &query, &body)?;
    incoming.place(call)?;
    incoming.drop_repeated_owners(call);
    let shown = create_object(call, &query, &mut incoming, true).await?;
    respond_object(call, 201, accept, shown)
}

/// Creates a decoded object; `track` is whether its fields are entered as this writer's.
pub(crate) async fn create_object(
    call: &Call<'_>,
    query: &WriteQuery,
    incoming: &mut Incoming,
    track: bool,
) -> Result<Shown> {
    let name = incoming.name().to_owned();
    refuse_terminating(call, &name)?;
    refuse_version(&incoming.object)?;
    let generated = name.is_empty() && incoming.object["metadata"]["generateName"].is_string();
    for attempt in 0..RETRIES_MAX {
        // A name that was given is tried once, so that nobody needs the object afterwards.
        let mut object =
            if generated { incoming.object.clone() } else { std::mem::take(&mut incoming.object) };
        if track {
            ownership::track(call, &mut object, None);
        }
        let base =
            if generated { object["metadata"]["generateName"].as_str().unwrap_or_default() } else { "" };
        let base = base.to_owned();
        let admission =
            Admission { call, operation: Operation::Create, name: &name, generate_name: &base, old: None };
        admit(&admission, &mut object)?;
        ask_to_mutate(&admission, &mut object).await?;
        // Who may change an object does not see what is the server's to say of it, its generated name among that.
        fill_system_fields(call, &mut object);
        if generated {
            object["metadata"]["name"] = generated_name(call, &object).into();
        } else if name.is_empty() && call.info.kind == "LimitRange" && !call.info.is_custom() {
            // The only kind whose objects need no name.
            object["metadata"]["name"] = call.server.env().uid().into();
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let admission = Admission { name: &name, ..admission };
        warn_of_repeated_owners(call, &mut object);
        empties::forget(&call.info.group, &call.info.kind, &mut object);
        prepare_create(call.info, &mut object, call.server.env().now());
        record_requester(call, &mut object);
        validate::created(call, &object)?;
        examine(&admission, &object)?;
        ask(&admission, &object).await?;
        charge(&admission, &object, query.dry_run).await?;
        let key = call.info.key(&call.path.namespace, &name);
        let reservation = reserve(call, &mut object, None)?;
        if query.dry_run {
            check_depth(call.info, &object)?;
            return match call.server.store().get(&key) {
                Some(_) => Err(exists(call, &key, &name)),
                None => Ok(Shown::sealed(&object, 0)),
            };
        }
        match put(call, &key, object, Expect::Absent, !track).await? {
            Ok(entry) => {
                reservation.into_iter().for_each(Reservation::keep);
                return faces::show(call.info, &entry, entry.revision);
            }
            Err(_) if generated && attempt + 1 < RETRIES_MAX => {}
            Err(_) => return Err(exists(call, &key, &name)),
        }
    }
    Err(Status::internal("no free name was found"))
}

/// Nothing is added to what is being cleared.
fn refuse_terminating(call: &Call<'_>, name: &str) -> Result<()> {
    let info = &call.info;
    if !info.custom.as_ref().is_some_and(|it| it.terminating) {
        return Ok(());
    }
    let why = "create not allowed while custom resource definition is terminating";
    Err(Status::not_admitted(&info.group, &info.plural, name, why))
}

fn refuse_version(object: &Value) -> Result<()> {
    match object["metadata"]["resourceVersion"].as_str() {
        None | Some("" | "0") => Ok(()),
        Some(_) => Err(Status::server_error("resourceVersion should not be set on objects to be created")),
    }
}

/// What is the server's to say of a new object, whatever the client wrote.
fn fill_system_fields(call: &Call<'_>, object: &mut Value) {
    let now = call.server.now();
    let uid = call.server.env().uid();
    let metadata = &mut object["metadata"];
    metadata["uid"] = uid.into();
    metadata["creationTimestamp"] = now.into();
    for field in ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        set_or_remove(metadata, field, Value::Null);
    }
}

/// A CertificateSigningRequest says who asks, which the client cannot.
fn record_requester(call: &Call<'_>, object: &mut Value) {
    if call.info.kind != "CertificateSigningRequest" || call.info.is_custom() {
        return;
    }
    let user = call.user;
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

fn generated_name(call: &Call<'_>, object: &Value) -> String {
    let base = object["metadata"]["generateName"].as_str().unwrap_or_default();
    let mut end = base.len().min(GENERATED_BASE_MAX);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{}", &base[..end], call.server.env().suffix(SUFFIX_LEN))
}

fn exists(call: &Call<'_>, key: &str, name: &str) -> Status {
    let mut status = Status::already_exists(&call.info.group, &call.info.plural, name);
    if call.server.store().get(key).is_some_and(|it| it.header.deleting) {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
}
