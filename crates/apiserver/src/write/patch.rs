//! Patching objects: JSON patch, merge patch, strategic merge patch and server-side apply.

mod body;

use bytes::Bytes;
use evenkeel_schema::field::FieldError;
use evenkeel_schema::unknown;
use http::Response;
use serde_json::Value;

use self::body::{Kind, Patch};
use super::RETRIES_MAX;
use super::create::create_object;
use super::incoming::{Incoming, write_query_after};
use super::update::{Writer, change, conflict};
use crate::body::Body;
use crate::call::Call;
use crate::encode::Shown;
use crate::read::respond_object;
use crate::request::{FieldValidation, WriteQuery, negotiate_for};
use crate::status::{Result, Status};
use crate::{faces, ownership};

/// Answers a PATCH.
pub(crate) async fn patch(call: &Call<'_>, body: Bytes) -> Result<Response<Body>> {
    let accept = negotiate_for(call.request, false, call.info.is_custom())?;
    let kind = Kind::of(call)?;
    let query = write_query_after(call, "PatchOptions", options_errors(call, kind))?;
    self::body::note(call, kind, &body);
    // A patch is read where there is something to patch.
    if kind != Kind::Apply && call.server.store().get(&call.key()).is_none() {
        return Err(call.not_found());
    }
    let patch = Patch::parse(kind, body, query.validation)?;
    let (code, shown) = patch_object(call, &query, &patch).await?;
    respond_object(call, code, accept, shown)
}

fn options_errors(call: &Call<'_>, kind: Kind) -> Vec<FieldError> {
    let query = &call.request.query;
    match kind {
        Kind::Apply if query.text("fieldManager").is_empty() => {
            vec![FieldError::required("fieldManager", "is required for apply patch")]
        }
        Kind::Json | Kind::Merge | Kind::Strategic if query.get("force").is_some() => {
            vec![FieldError::forbidden("force", "may not be specified for non-apply patch")]
        }
        _ => Vec::new(),
    }
}

/// Patches the object that the path names, again where another writer was faster.
async fn patch_object(call: &Call<'_>, query: &WriteQuery, patch: &Patch) -> Result<(u16, Shown)> {
    let key = call.key();
    for _ in 0..RETRIES_MAX {
        let Some(current) = call.server.store().get(&key) else {
            return create_by_apply(call, query, patch).await;
        };
        let old = faces::tree(call, &current)?;
        let own = faces::copy(call, &current, &old);
        let (object, writer) = patched(call, query, patch, own)?;
        let incoming = shape(call, query, patch, object, Some(&old))?;
        incoming.check_name(call)?;
        if let Some(shown) = change(call, query, &current, incoming.object, writer).await? {
            return Ok((200, shown));
        }
    }
    Err(conflict(call))
}

/// What a patch makes of a part of an object, and by which road it came.
pub(crate) fn patched_part(
    call: &Call<'_>,
    query: &WriteQuery,
    body: &Bytes,
    old: &Value,
    revision: u64,
) -> Result<(Value, Writer)> {
    let kind = Kind::of(call)?;
    write_query_after(call, "PatchOptions", options_errors(call, kind))?;
    self::body::note(call, kind, body);
    let patch = Patch::parse(kind, body.clone(), query.validation)?;
    let mut old = old.clone();
    old["metadata"]["resourceVersion"] = revision.to_string().into();
    let (object, writer) = patched(call, query, &patch, old.clone())?;
    let incoming = shape(call, query, &patch, object, Some(&old))?;
    incoming.check_name(call)?;
    Ok((incoming.object, writer))
}

/// What a patch makes of the object that is stored.
fn patched(call: &Call<'_>, query: &WriteQuery, patch: &Patch, old: Value) -> Result<(Value, Writer)> {
    match patch.kind {
        Kind::Apply => {
            let force = query.force.unwrap_or(false);
            Ok((ownership::apply(call, Some(old), patch.config(), force)?, Writer::Apply))
        }
        _ => Ok((patch.apply(call, old)?, Writer::Update)),
    }
}

/// An apply to a name that is missing creates it.
async fn create_by_apply(call: &Call<'_>, query: &WriteQuery, patch: &Patch) -> Result<(u16, Shown)> {
    if patch.kind != Kind::Apply || !call.path.subresource.is_empty() {
        return Err(call.not_found());
    }
    call.may_create()?;
    let object = ownership::apply(call, None, patch.config(), query.force.unwrap_or(false))?;
    let mut incoming = shape(call, query, patch, object, None)?;
    incoming.check_name(call)?;
    let uid = incoming.object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    if !uid.is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(Status::conflict(&call.info.group, &call.info.plural, &call.path.name, &why));
    }
    let shown = create_object(call, query, &mut incoming, false).await?;
    Ok((201, shown))
}

/// Brings a patched object into the form of its kind; what does not fit is the patch's fault. What is as it was in
/// `old` fits.
fn shape(
    call: &Call<'_>,
    query: &WriteQuery,
    patch: &Patch,
    mut object: Value,
    old: Option<&Value>,
) -> Result<Incoming> {
    check_type(call, patch, &mut object)?;
    let mut incoming = Incoming { object };
    let mut odd = patch.oddities.clone();
    let builtin = ownership::schema(call).filter(|_| !call.info.is_custom());
    if let Some(schema) = builtin.filter(|schema| !unknown::fits(schema, &incoming.object, old)) {
        let findings = match patch.kind {
            Kind::Strategic => unknown::convert(schema, &incoming.object),
            _ => unknown::decode_value(schema, &call.info.kind, &incoming.object),
        };
        if let Some(why) = findings.refusal.as_ref().filter(|_| patch.kind == Kind::Apply) {
            return Err(unconvertible(call, patch, why));
        }
        if let Some(why) = findings.refusal {
            return Err(invalid_patch(&patch.shown(&incoming.object), &why));
        }
        odd.extend(findings.strict);
    }
    // A strict refusal shows the object as the patch made it.
    let strict = query.validation == FieldValidation::Strict && (builtin.is_none() || !odd.is_empty());
    let text = if strict { patch.shown(&incoming.object) } else { String::new() };
    odd.extend(match patch.kind {
        Kind::Apply => incoming.shape_applied(call, old),
        _ => incoming.shape(call, old),
    });
    incoming.place(call)?;
    match query.validation {
        _ if odd.is_empty() => {}
        FieldValidation::Ignore => {}
        FieldValidation::Warn if patch.kind == Kind::Apply => {
            let plain = odd.iter().map(|odd| odd.replace("yaml: unmarshal errors:\n  ", ""));
            plain.for_each(|odd| call.request.warn(odd));
        }
        FieldValidation::Strict if patch.kind == Kind::Apply => {
            let odd = odd.join(", ");
            return Err(Status::bad_request(format!(
                "error strict decoding YAML: error converting YAML to JSON: {odd}"
            )));
        }
        FieldValidation::Warn => odd.into_iter().for_each(|odd| call.request.warn(odd)),
        FieldValidation::Strict => {
            return Err(invalid_patch(&text, &unknown::strict_message(&odd)));
        }
    }
    Ok(incoming)
}

/// A patch may leave out apiVersion and kind, but not change them; a strategic one is not even looked at.
fn check_type(call: &Call<'_>, patch: &Patch, object: &mut Value) -> Result<()> {
    let wanted = [("apiVersion", call.info.api_version()), ("kind", call.info.kind.clone())];
    for (field, wanted) in wanted {
        let given = object[field].as_str().unwrap_or_default();
        if patch.kind != Kind::Strategic && !given.is_empty() && given != wanted {
            let text = patch.shown(object);
            let why = format!("the {field} of a patched object cannot be changed to {given}");
            return Err(invalid_patch(&text, &why));
        }
        object[field] = wanted.into();
    }
    Ok(())
}

/// The refusal of an applied configuration whose values are of the right types and yet cannot be read.
fn unconvertible(call: &Call<'_>, patch: &Patch, why: &str) -> Status {
    let metadata = &patch.config()["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    let kind = format!("{}/{}, Kind={}", call.info.group, call.info.version, call.info.kind);
    Status::server_error(format!(
        "failed to convert new object ({}/{}; {kind}) to proper version: unable to convert unstructured object to \
         {kind}: error decoding from json: {why}",
        text("namespace"),
        text("name")
    ))
}

/// The refusal of a patch for what it makes of the object.
fn invalid_patch(text: &str, why: &str) -> Status {
    Status::invalid("", "", "", &[FieldError::invalid("patch", text, why)])
}
