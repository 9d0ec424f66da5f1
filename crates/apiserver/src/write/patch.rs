//! Patching objects: JSON patch, merge patch, strategic merge patch and server-side apply.

mod body;

use bytes::Bytes;
use evenkeel_schema::field::FieldError;
use evenkeel_schema::json::Value;
use evenkeel_schema::{json, strict_decoding};
use http::Response;

use self::body::{Patch, PatchType};
use super::create::{Creator, create_object};
use super::update::{Writer, change, conflict};
use crate::body::Body;
use crate::commit::RETRIES_MAX;
use crate::context::RequestContext;
use crate::encode::EncodedObject;
use crate::incoming::{Incoming, Source, write_query_after};
use crate::read::respond_object;
use crate::request::{FieldValidation, WriteQuery, negotiate_for};
use crate::status::{Result, Status};
use crate::{decode, managed_fields};

/// Answers a PATCH.
pub(crate) async fn patch(ctx: &RequestContext<'_>, body: Bytes) -> Result<Response<Body>> {
    let accept = negotiate_for(ctx.request, false, ctx.info.is_custom())?;
    let kind = PatchType::of(ctx)?;
    let query = write_query_after(ctx, "PatchOptions", options_errors(ctx, kind))?;
    self::body::note(ctx, kind, &body);
    // A patch other than an apply needs an existing object, and is parsed only if there is one.
    if kind != PatchType::Apply && ctx.services.store.get(&ctx.key()).is_none() {
        return Err(ctx.not_found());
    }
    let patch = Patch::parse(kind, body, query.validation)?;
    let (code, encoded) = patch_object(ctx, &query, &patch).await?;
    respond_object(ctx, code, accept, encoded)
}

fn options_errors(ctx: &RequestContext<'_>, kind: PatchType) -> Vec<FieldError> {
    let query = &ctx.request.query;
    match kind {
        PatchType::Apply if query.text("fieldManager").is_empty() => {
            vec![FieldError::required("fieldManager", "is required for apply patch")]
        }
        PatchType::Json | PatchType::Merge | PatchType::Strategic if query.get("force").is_some() => {
            vec![FieldError::forbidden("force", "may not be specified for non-apply patch")]
        }
        _ => Vec::new(),
    }
}

/// Patches the object that the path names; retries if another writer was faster.
async fn patch_object(
    ctx: &RequestContext<'_>,
    query: &WriteQuery,
    patch: &Patch,
) -> Result<(u16, EncodedObject)> {
    let key = ctx.key();
    for _ in 0..RETRIES_MAX {
        let Some(current) = ctx.services.store.get(&key) else {
            return create_by_apply(ctx, query, patch).await;
        };
        let old = ctx.services.converter.object(&ctx.services.objects, ctx.info, &current).await?;
        let (object, writer) = patched(ctx, query, patch, (*old).clone()).await?;
        let incoming = shape(ctx, query, patch, object, Some(&old))?;
        incoming.check_name(ctx)?;
        if let Some(encoded) = change(ctx, query, &current, incoming.object, writer).await? {
            return Ok((200, encoded));
        }
    }
    Err(conflict(ctx))
}

/// Whether a subresource object can be written by server-side apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MayApply {
    Yes,
    /// The applied object cannot be converted to the version of its parent.
    Unconvertible,
}

/// Patches a subresource object, such as a Scale. Returns the result and how it was written.
pub(crate) async fn patched_part(
    ctx: &RequestContext<'_>,
    query: &WriteQuery,
    body: &Bytes,
    old: &Value,
    revision: u64,
    may_apply: MayApply,
) -> Result<(Value, Writer)> {
    let kind = PatchType::of(ctx)?;
    write_query_after(ctx, "PatchOptions", options_errors(ctx, kind))?;
    self::body::note(ctx, kind, body);
    let patch = Patch::parse(kind, body.clone(), query.validation)?;
    if kind == PatchType::Apply && may_apply == MayApply::Unconvertible {
        let why = format!("request to convert CR to an invalid group/version: {}", ctx.info.api_version());
        return Err(cannot_convert(ctx, &patch, &why));
    }
    let mut old = old.clone();
    old["metadata"]["resourceVersion"] = revision.to_string().into();
    let (object, writer) = patched(ctx, query, &patch, old.clone()).await?;
    let incoming = shape(ctx, query, &patch, object, Some(&old))?;
    incoming.check_name(ctx)?;
    Ok((incoming.object, writer))
}

/// Applies a patch to the stored object.
async fn patched(
    ctx: &RequestContext<'_>,
    query: &WriteQuery,
    patch: &Patch,
    old: Value,
) -> Result<(Value, Writer)> {
    match patch.kind {
        PatchType::Apply => {
            let force = query.force.unwrap_or(false);
            Ok((managed_fields::apply(ctx, Some(old), patch.config(), force).await?, Writer::Apply))
        }
        _ => Ok((patch.apply(ctx, old)?, Writer::Update)),
    }
}

/// Creates an object by a server-side apply, if it does not exist.
async fn create_by_apply(
    ctx: &RequestContext<'_>,
    query: &WriteQuery,
    patch: &Patch,
) -> Result<(u16, EncodedObject)> {
    if patch.kind != PatchType::Apply || !ctx.path.subresource.is_empty() {
        return Err(ctx.not_found());
    }
    ctx.may_create()?;
    let object = managed_fields::apply(ctx, None, patch.config(), query.force.unwrap_or(false)).await?;
    let mut incoming = shape(ctx, query, patch, object, None)?;
    incoming.check_name(ctx)?;
    let uid = incoming.object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    if !uid.is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(Status::conflict(&ctx.info.group, &ctx.info.plural, &ctx.path.name, &why));
    }
    let encoded = create_object(ctx, query, &mut incoming, Creator::Apply).await?;
    Ok((201, encoded))
}

/// Normalizes and defaults a patched object; unknown fields are blamed on the patch. Fields equal to those in
/// `old` are skipped.
fn shape(
    ctx: &RequestContext<'_>,
    query: &WriteQuery,
    patch: &Patch,
    mut object: Value,
    old: Option<&Value>,
) -> Result<Incoming> {
    check_type(ctx, patch, &mut object, old)?;
    let mut incoming = Incoming { object };
    let mut odd = patch.oddities.clone();
    let builtin = managed_fields::schema(ctx).filter(|_| !ctx.info.is_custom());
    if let Some(schema) = builtin.filter(|schema| !strict_decoding::fits(schema, &incoming.object, old)) {
        let findings = match patch.kind {
            PatchType::Strategic => strict_decoding::convert(schema, &incoming.object),
            _ => strict_decoding::decode_value(schema, &ctx.info.kind, &incoming.object),
        };
        if let Some(why) = findings.refusal.as_ref().filter(|_| patch.kind == PatchType::Apply) {
            return Err(unconvertible(ctx, patch, why));
        }
        odd.extend_from_slice(&findings.strict);
        if let Some(refused) = patch.undecodable(ctx, old, &incoming.object, findings) {
            return Err(refused);
        }
    }
    if patch.has_whole_floats {
        json::settle_floats(&mut incoming.object);
    }
    // The error of strict validation shows the object as the patch produced it.
    let strict = query.validation == FieldValidation::Strict && (builtin.is_none() || !odd.is_empty());
    let text = if strict { patch.shown(ctx, old, &incoming.object) } else { String::new() };
    let source = if patch.kind == PatchType::Apply { Source::Applied } else { Source::Decoded };
    let patched = (ctx.info.is_custom() && source == Source::Decoded).then(|| incoming.object.clone());
    odd.extend(incoming.shape(ctx, old, source).map_err(|why| {
        let shown = patched.map(|patched| patch.shown(ctx, old, &patched));
        invalid_patch(&shown.unwrap_or_default(), &why)
    })?);
    incoming.place(ctx)?;
    match query.validation {
        _ if odd.is_empty() => {}
        FieldValidation::Ignore => {}
        FieldValidation::Warn if patch.kind == PatchType::Apply => {
            let plain = odd.iter().map(|odd| odd.replace("yaml: unmarshal errors:\n  ", ""));
            plain.for_each(|odd| ctx.request.warn(odd));
        }
        FieldValidation::Strict if patch.kind == PatchType::Apply => {
            let odd = odd.join(", ");
            return Err(Status::bad_request(format!(
                "error strict decoding YAML: error converting YAML to JSON: {odd}"
            )));
        }
        FieldValidation::Warn => odd.into_iter().for_each(|odd| ctx.request.warn(odd)),
        FieldValidation::Strict => {
            return Err(invalid_patch(&text, &strict_decoding::strict_message(&odd)));
        }
    }
    Ok(incoming)
}

/// Checks that a patch does not change apiVersion and kind; it may omit them. Strategic merge patches are not
/// checked.
fn check_type(
    ctx: &RequestContext<'_>,
    patch: &Patch,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<()> {
    let wanted = [("apiVersion", ctx.info.api_version()), ("kind", ctx.info.kind.clone())];
    for (field, wanted) in wanted {
        let given = object[field].as_str().unwrap_or_default();
        if patch.kind != PatchType::Strategic && !given.is_empty() && given != wanted {
            return Err(other_type(ctx, patch, object, old, field, &wanted));
        }
        object[field] = wanted.into();
    }
    Ok(())
}

/// The error for a patch that changes apiVersion or kind.
fn other_type(
    ctx: &RequestContext<'_>,
    patch: &Patch,
    object: &Value,
    old: Option<&Value>,
    field: &str,
    wanted: &str,
) -> Status {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    if ctx.info.is_custom() {
        let error = FieldError::invalid(field, text(field), format!("must be {wanted}"));
        return Status::invalid(&ctx.info.group, text("kind"), &ctx.path.name, &[error]);
    }
    let why = decode::not_registered(text("kind"), text("apiVersion"));
    invalid_patch(&patch.shown(ctx, old, object), &why)
}

/// The error for an applied configuration whose values have the right types but cannot be converted.
fn unconvertible(ctx: &RequestContext<'_>, patch: &Patch, why: &str) -> Status {
    let kind = kind_text(ctx);
    let why = format!("unable to convert unstructured object to {kind}: error decoding from json: {why}");
    cannot_convert(ctx, patch, &why)
}

/// The error for an applied configuration that cannot be converted.
fn cannot_convert(ctx: &RequestContext<'_>, patch: &Patch, why: &str) -> Status {
    let metadata = &patch.config()["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    let (namespace, name, kind) = (text("namespace"), text("name"), kind_text(ctx));
    Status::server_error(format!(
        "failed to convert new object ({namespace}/{name}; {kind}) to proper version: {why}"
    ))
}

fn kind_text(ctx: &RequestContext<'_>) -> String {
    format!("{}/{}, Kind={}", ctx.info.group, ctx.info.version, ctx.info.kind)
}

/// The error for a patch whose result is invalid.
fn invalid_patch(text: &str, why: &str) -> Status {
    Status::invalid("", "", "", &[FieldError::invalid("patch", text, why)])
}
