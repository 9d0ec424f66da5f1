//! An object on its way in: decoded, without what its kind does not know, in its normal form, with defaults.

use bytes::Bytes;
use evenkeel_schema::field::FieldError;
use evenkeel_schema::normalize::{normalize_metadata, normalize_since};
use evenkeel_schema::structural;
use evenkeel_schema::types::{self, Schema};
use evenkeel_schema::unknown;
use evenkeel_schema::{defaults, empties};
use serde_json::{Map, Value, json};

use crate::ResourceInfo;
use crate::context::RequestContext;
use crate::decode::{self, Decoded, Expected, Media};
use crate::members::set_or_remove;
use crate::request::{FieldValidation, WriteQuery};
use crate::status::{Result, Status, quote};

/// How both warnings of repeated owners go on.
const DEDUPLICATED: &str = "API server dedups owner references in 1.20+, and may reject such requests as \
                                       early as 1.24; please fix your requests; duplicate UID(s) observed: ";

/// An object on its way in.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) object: Value,
}

impl Incoming {
    /// Decodes the body of a create or an update.
    pub(crate) fn decode(ctx: &RequestContext<'_>, query: &WriteQuery, body: &Bytes) -> Result<Self> {
        let info = &ctx.info;
        let expected = Expected { group: &info.group, version: &info.version, kind: &info.kind };
        let media = decode::media(ctx.request.header("content-type"))?;
        let schema = types::builtin(&info.group, &info.version, &info.kind);
        let (Decoded { object, oddities }, refusal) = match (schema, media) {
            (Some(schema), Media::Json) => decode::typed(info, &expected, schema, body)?,
            _ => {
                let mut decoded = decode::object(info, &expected, media, body, query.validation)?;
                let refusal = examine(schema, info, media, &mut decoded);
                (decoded, refusal)
            }
        };
        if let Some(why) = refusal {
            return Err(cannot_handle(ctx, &why));
        }
        let mut odd = oddities.0;
        let mut incoming = Self { object };
        odd.extend(incoming.shape(ctx, None));
        Self::report(ctx, query.validation, odd)?;
        if let Some(trail) = ctx.audit {
            trail.note_object(&incoming.object);
        }
        Ok(incoming)
    }

    /// Brings the object into the form of its kind. What a custom kind does not know is returned, as strict decoding
    /// words it; a built-in kind's unknown fields have been told by then.
    ///
    /// `old` is the stored object that this one was made from: what is as it was there has its form.
    pub(crate) fn shape(&mut self, ctx: &RequestContext<'_>, old: Option<&Value>) -> Vec<String> {
        self.shape_by(ctx, old, structural::default)
    }

    /// The same for what an apply made.
    pub(crate) fn shape_applied(&mut self, ctx: &RequestContext<'_>, old: Option<&Value>) -> Vec<String> {
        self.shape_by(ctx, old, structural::default_applied)
    }

    fn shape_by(
        &mut self,
        ctx: &RequestContext<'_>,
        old: Option<&Value>,
        default: fn(&types::Schema, &mut Value),
    ) -> Vec<String> {
        if !self.object["metadata"].is_object() {
            self.object["metadata"] = Value::Object(Map::new());
        }
        let info = &ctx.info;
        let mut odd = Vec::new();
        if let Some(custom) = &info.custom {
            drop_empty(&mut self.object["metadata"]);
            if !custom.preserve_unknown_fields {
                let unknown = structural::prune(&custom.schema, &mut self.object);
                odd.extend(unknown.iter().map(|it| format!("unknown field {}", quote(it))));
            }
            normalize_metadata(&mut self.object["metadata"]);
            default(&custom.schema, &mut self.object);
        } else {
            let (group, version, kind) = (&info.group, &info.version, &info.kind);
            let forgets = asks_to_forget(&self.object);
            let empty = empties::find(group, kind, &self.object);
            normalize_since(group, version, kind, &mut self.object, old);
            empties::keep(&mut self.object, &empty);
            if info.strategy.has_string_data {
                evenkeel_schema::prepare::string_data(&mut self.object);
            }
            defaults::apply_since(group, version, kind, &mut self.object, old);
            if forgets {
                self.object["metadata"]["managedFields"] = json!([{}]);
            }
        }
        odd
    }

    /// Refuses, warns about or ignores what did not fit.
    fn report(ctx: &RequestContext<'_>, validation: FieldValidation, odd: Vec<String>) -> Result<()> {
        match validation {
            _ if odd.is_empty() => {}
            FieldValidation::Ignore => {}
            FieldValidation::Warn => odd.into_iter().for_each(|odd| ctx.request.warn(odd)),
            FieldValidation::Strict => {
                return Err(cannot_handle(ctx, &unknown::strict_message(&odd)));
            }
        }
        Ok(())
    }

    /// The object's name, empty where it has none.
    pub(crate) fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Demands the namespace of the path, or sets it where the object has none.
    pub(crate) fn place(&mut self, ctx: &RequestContext<'_>) -> Result<()> {
        let metadata = &mut self.object["metadata"];
        let given = metadata["namespace"].as_str().unwrap_or_default();
        let path = if ctx.info.namespaced { &*ctx.path.namespace } else { "" };
        match (given, path) {
            (given, path) if given == path => {}
            ("", path) => metadata["namespace"] = path.into(),
            (_, "") => set_or_remove(metadata, "namespace", Value::Null),
            _ => {
                return Err(Status::bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request",
                ));
            }
        }
        Ok(())
    }

    /// Takes out owners that are named twice, and says so.
    pub(crate) fn drop_repeated_owners(&mut self, ctx: &RequestContext<'_>) {
        let repeated = drop_repeated_owners(&mut self.object);
        if !repeated.is_empty() {
            ctx.request.warn(format!(
                ".metadata.ownerReferences contains duplicate entries; {DEDUPLICATED}{}",
                repeated.join(", ")
            ));
        }
    }

    /// Demands the name of the path.
    pub(crate) fn check_name(&self, ctx: &RequestContext<'_>) -> Result<()> {
        let wanted = &ctx.path.name;
        match self.name() {
            "" => Err(Status::bad_request(format!(
                "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
            ))),
            name if name != wanted => Err(Status::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({wanted})"
            ))),
            _ => Ok(()),
        }
    }
}

/// Takes out owners that are named twice after admission: a patch was not looked at before.
pub(crate) fn warn_of_repeated_owners(ctx: &RequestContext<'_>, object: &mut Value) {
    let repeated = drop_repeated_owners(object);
    if !repeated.is_empty() {
        ctx.request.warn(format!(
            ".metadata.ownerReferences contains duplicate entries after mutating admission happens; {DEDUPLICATED}{}",
            repeated.join(", ")
        ));
    }
}

/// Takes out owners that are named twice; returns their uids.
fn drop_repeated_owners(object: &mut Value) -> Vec<String> {
    let owners = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
    let Some(owners) = owners.filter(|it| it.len() > 1) else { return Vec::new() };
    let mut repeated = Vec::new();
    let mut kept: Vec<Value> = Vec::with_capacity(owners.len());
    for owner in owners.drain(..) {
        if kept.contains(&owner) {
            repeated.push(owner["uid"].as_str().unwrap_or_default().to_owned());
        } else {
            kept.push(owner);
        }
    }
    *owners = kept;
    repeated
}

/// Why an object that was read without its schema cannot be decoded, if so; what is odd about it is added.
fn examine(
    schema: Option<&Schema>,
    info: &ResourceInfo,
    media: Media,
    decoded: &mut Decoded,
) -> Option<String> {
    let Some(schema) = schema else { return metadata_refusal(&decoded.object) };
    if media == Media::Protobuf {
        return None;
    }
    let findings = unknown::decode_value(schema, &info.kind, &decoded.object);
    decoded.oddities.0.extend(findings.strict);
    findings.refusal
}

/// Why the metadata of a custom resource cannot be decoded, if so.
fn metadata_refusal(object: &Value) -> Option<String> {
    let schema = types::builtin_type("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")?;
    unknown::decode_value(schema, "ObjectMeta", object.get("metadata")?).refusal
}

/// The metadata of custom resources goes through a struct as well: what is empty there is left out.
fn drop_empty(metadata: &mut Value) {
    let Some(map) = metadata.as_object_mut() else { return };
    map.retain(|key, value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        // Emptied managedFields are a wish to forget them.
        Value::Array(items) => !items.is_empty() || key == "managedFields",
        Value::Object(map) => !map.is_empty(),
        _ => true,
    });
}

/// The refusal of a body that is no object of its kind.
fn cannot_handle(ctx: &RequestContext<'_>, why: &str) -> Status {
    let kind = &ctx.info.kind;
    let version = quote(&ctx.info.version);
    Status::bad_request(format!("{kind} in version {version} cannot be handled as a {kind}: {why}"))
}

/// Whether the writer empties managedFields. The normal form has no empty lists, so that it is looked at before.
fn asks_to_forget(object: &Value) -> bool {
    let entries = object["metadata"]["managedFields"].as_array();
    entries.is_some_and(|it| it.is_empty() || it.len() == 1 && it[0].as_object().is_some_and(Map::is_empty))
}

/// Checks the options of a write: `kind` is that of the options, such as `CreateOptions`.
pub(crate) fn write_query(ctx: &RequestContext<'_>, kind: &str) -> Result<WriteQuery> {
    write_query_after(ctx, kind, Vec::new())
}

/// The same where something is wrong with the options already.
pub(crate) fn write_query_after(
    ctx: &RequestContext<'_>,
    kind: &str,
    mut errors: Vec<FieldError>,
) -> Result<WriteQuery> {
    let query = &ctx.request.query;
    if let Some(manager) = query.get("fieldManager") {
        let path = evenkeel_schema::field::Path::new("fieldManager");
        evenkeel_schema::object_meta::field_manager(&path, manager, &mut errors);
    }
    let dry_run: Vec<&str> = query.all("dryRun").collect();
    if dry_run.iter().any(|it| *it != "All") {
        errors.push(FieldError::not_supported("dryRun", json!(dry_run), &["All"]));
    }
    let validation = match query.text("fieldValidation") {
        "" | "Warn" => FieldValidation::Warn,
        "Ignore" => FieldValidation::Ignore,
        "Strict" => FieldValidation::Strict,
        other => {
            errors.push(FieldError::not_supported(
                "fieldValidation",
                other,
                &["", "Ignore", "Strict", "Warn"],
            ));
            FieldValidation::Warn
        }
    };
    if !errors.is_empty() {
        return Err(Status::invalid("meta.k8s.io", kind, "", &errors));
    }
    Ok(WriteQuery { dry_run: !dry_run.is_empty(), validation, force: query.flag("force") })
}
