//! The object in a write request: decoded, pruned, normalized and defaulted.

use bytes::Bytes;
use evenkeel_schema::field::FieldError;
use evenkeel_schema::json::{Map, Value, json};
use evenkeel_schema::normalize::{normalize_metadata, normalize_since};
use evenkeel_schema::strict_decoding::{self, DecodingErrors};
use evenkeel_schema::structural;
use evenkeel_schema::types::{self, Schema};
use evenkeel_schema::{defaults, empties, empty_lists, floats};

use crate::ResourceInfo;
use crate::context::RequestContext;
use crate::conversion;
use crate::decode::{self, Decoded, Expected, Media};
use crate::members::set_or_remove;
use crate::request::{FieldValidation, WriteQuery};
use crate::status::{Result, Status, quote};

/// The common end of both warnings about duplicate owner references.
const DEDUPLICATED: &str = "API server dedups owner references in 1.20+, and may reject such requests as \
                                       early as 1.24; please fix your requests; duplicate UID(s) observed: ";

/// What produced an object that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A body, or a patch whose result is decoded like a body.
    Decoded,
    /// A server-side apply. Its result never goes through the decoder that drops nulls and refuses mistyped metadata, so
    /// Kubernetes refuses a map that the apply emptied as null.
    Applied,
    /// A mutating webhook or policy. Its result is not decoded, but nulls are dropped.
    Mutated,
}

/// The object in a write request.
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
        if info.is_custom() && media == Media::Json {
            ctx.request.note_floats(floats::find(body));
        }
        let mut incoming = Self { object };
        odd.extend(incoming.shape(ctx, None, Source::Decoded).map_err(|why| cannot_handle(ctx, &why))?);
        Self::report(ctx, query.validation, odd)?;
        if let Some(trail) = ctx.audit {
            trail.note_object(&incoming.object);
        }
        Ok(incoming)
    }

    /// Normalizes and defaults the object. Returns the unknown fields of a custom resource, in the words of
    /// strict decoding; those of a built-in kind were reported when it was decoded.
    ///
    /// `old` is the stored object from which this one was made. Fields equal to those in `old` are already
    /// normalized and are skipped.
    ///
    /// # Errors
    /// Why a decoded custom resource is refused: its metadata, or that of an embedded resource, has a wrong type.
    pub(crate) fn shape(
        &mut self,
        ctx: &RequestContext<'_>,
        old: Option<&Value>,
        source: Source,
    ) -> std::result::Result<Vec<String>, String> {
        if !self.object["metadata"].is_object() {
            self.object["metadata"] = Value::Object(Map::new());
        }
        let info = &ctx.info;
        let mut odd = Vec::new();
        if let Some(custom) = &info.custom {
            drop_empty(&mut self.object["metadata"]);
            let found = metadata_errors(&self.object["metadata"]);
            if let Some(why) = found.refusal.filter(|_| source == Source::Decoded) {
                return Err(why);
            }
            odd.extend(unknown_metadata(&found.strict));
            let mut unknown = Vec::new();
            if !custom.preserve_unknown_fields {
                unknown = structural::prune(&custom.schema, &mut self.object);
            }
            match structural::coerce(&custom.schema, &mut self.object) {
                Ok(more) => unknown.extend(more),
                Err(error) if source == Source::Decoded => return Err(error.to_string()),
                // Validation refuses it.
                Err(_) => {}
            }
            odd.extend(unknown.iter().map(|it| format!("unknown field {}", quote(it))));
            normalize_metadata(&mut self.object["metadata"]);
            match source {
                Source::Applied => structural::default_applied(&custom.schema, &mut self.object),
                Source::Decoded | Source::Mutated => structural::default(&custom.schema, &mut self.object),
            }
        } else {
            let (group, version, kind) = (&info.group, &info.version, &info.kind);
            let forgets = clears_managed_fields(&self.object);
            let empty = empty_lists::find(group, kind, &self.object);
            ctx.request.note_empty(empties::find(&self.object));
            normalize_since(group, version, kind, &mut self.object, old);
            empty_lists::keep(&mut self.object, &empty);
            if info.strategy.has_string_data {
                evenkeel_schema::prepare::string_data(&mut self.object);
            }
            defaults::apply_since(group, version, kind, &mut self.object, old);
            conversion::round_trip(info, &mut self.object);
            if forgets {
                self.object["metadata"]["managedFields"] = json!([{}]);
            }
        }
        Ok(odd)
    }

    /// Refuses, warns of or ignores unknown and duplicate fields.
    fn report(ctx: &RequestContext<'_>, validation: FieldValidation, odd: Vec<String>) -> Result<()> {
        match validation {
            _ if odd.is_empty() => {}
            FieldValidation::Ignore => {}
            FieldValidation::Warn => odd.into_iter().for_each(|odd| ctx.request.warn(odd)),
            FieldValidation::Strict => {
                return Err(cannot_handle(ctx, &strict_decoding::strict_message(&odd)));
            }
        }
        Ok(())
    }

    /// The object's name; empty if it has none.
    pub(crate) fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Checks that the object's namespace is that of the path, and sets it if it is missing.
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

    /// Removes duplicate owner references, with a warning.
    pub(crate) fn drop_repeated_owners(&mut self, ctx: &RequestContext<'_>) {
        let repeated = drop_repeated_owners(&mut self.object);
        if !repeated.is_empty() {
            ctx.request.warn(format!(
                ".metadata.ownerReferences contains duplicate entries; {DEDUPLICATED}{}",
                repeated.join(", ")
            ));
        }
    }

    /// Checks that the object's name is that of the path.
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

/// The errors with which Go decodes the metadata of a custom resource.
fn metadata_errors(metadata: &Value) -> DecodingErrors {
    let schema = types::builtin_type("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    schema.map(|schema| strict_decoding::decode_value(schema, "ObjectMeta", metadata)).unwrap_or_default()
}

/// Turns the strict errors of metadata into those of the whole object.
fn unknown_metadata(errors: &[String]) -> impl Iterator<Item = String> {
    const FOUND: &str = "unknown field \"";
    errors.iter().filter_map(|it| Some(format!("{FOUND}metadata.{}", it.strip_prefix(FOUND)?)))
}

/// Removes duplicate owner references after mutation, because a patch is not checked before.
pub(crate) fn warn_of_repeated_owners(ctx: &RequestContext<'_>, object: &mut Value) {
    let repeated = drop_repeated_owners(object);
    if !repeated.is_empty() {
        ctx.request.warn(format!(
            ".metadata.ownerReferences contains duplicate entries after mutating admission happens; {DEDUPLICATED}{}",
            repeated.join(", ")
        ));
    }
}

/// Removes duplicate owner references; returns their UIDs.
fn drop_repeated_owners(object: &mut Value) -> Vec<String> {
    if object["metadata"]["ownerReferences"].as_array().is_none_or(|owners| owners.len() < 2) {
        return Vec::new();
    }
    let owners = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
    let Some(owners) = owners else { return Vec::new() };
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

/// Checks an object that was decoded without its schema. Returns the error with which Go would refuse it, and
/// adds unknown fields to its warnings.
fn examine(
    schema: Option<&Schema>,
    info: &ResourceInfo,
    media: Media,
    decoded: &mut Decoded,
) -> Option<String> {
    let Some(schema) = schema else { return metadata_errors(decoded.object.get("metadata")?).refusal };
    if media == Media::Protobuf {
        return None;
    }
    let findings = strict_decoding::decode_value(schema, &info.kind, &decoded.object);
    decoded.oddities.0.extend(findings.strict);
    findings.refusal
}

/// Removes empty fields from the metadata of a custom resource, as if it had passed through a Go struct.
fn drop_empty(metadata: &mut Value) {
    let Some(map) = metadata.as_object_mut() else { return };
    map.retain(|key, value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        // Empty managedFields are a request to clear them.
        Value::Array(items) => !items.is_empty() || key == "managedFields",
        Value::Object(map) => !map.is_empty(),
        _ => true,
    });
}

/// The error for a body that is not a valid object of its kind.
fn cannot_handle(ctx: &RequestContext<'_>, why: &str) -> Status {
    let kind = &ctx.info.kind;
    let version = quote(&ctx.info.version);
    Status::bad_request(format!("{kind} in version {version} cannot be handled as a {kind}: {why}"))
}

/// Whether the client clears managedFields. Checked before normalization, which removes empty lists.
fn clears_managed_fields(object: &Value) -> bool {
    let entries = object["metadata"]["managedFields"].as_array();
    entries.is_some_and(|it| it.is_empty() || it.len() == 1 && it[0].as_object().is_some_and(Map::is_empty))
}

/// Parses the options of a write. `kind` is the kind of the options, such as `CreateOptions`.
pub(crate) fn write_query(ctx: &RequestContext<'_>, kind: &str) -> Result<WriteQuery> {
    write_query_after(ctx, kind, Vec::new())
}

/// Parses the options of a write that may already have errors.
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
