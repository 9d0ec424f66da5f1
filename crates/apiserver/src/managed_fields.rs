//! managedFields: the adapter between requests and the server-side apply code in `evenkeel_schema`.

use std::sync::Arc;

use evenkeel_schema::api_resources::split_api_version;
use evenkeel_schema::json::Value;
use evenkeel_schema::managed_fields::{self, ApplyError, Context, Reset, Versions};
use evenkeel_schema::structural;
use evenkeel_schema::types::{self, Schema};

use parking_lot::Mutex;

use crate::context::RequestContext;
use crate::members::set_or_remove;
use crate::status::{Cause, Details, Result, Status};
use crate::{ResourceInfo, conversion};

/// Records in managedFields which fields this request changed; `old` is `None` for a create.
///
/// Managed fields never make a write fail: if the object cannot be converted to the versions of its managers, they are
/// dropped.
pub(crate) async fn track(ctx: &RequestContext<'_>, new: &mut Value, old: Option<&Value>) {
    let Some(schema) = schema(ctx) else { return };
    let manager = ctx.request.manager();
    let api_version = ctx.info.api_version();
    let mut served = ServedVersions::of(ctx, &[old, Some(new)]);
    let lent = old.is_none() && ctx.info.strategy.takes_template_labels && add_template_labels(new);
    if served.by_webhook() {
        let tracked = served.settle(ctx, |served| {
            let context = context(ctx, schema, &manager, &api_version, served);
            managed_fields::update(&context, old, new.clone())
        });
        match tracked.await {
            Ok(tracked) => *new = tracked,
            Err(status) => {
                tracing::warn!(why = status.message, "an object loses its managedFields");
                set_or_remove(&mut new["metadata"], "managedFields", Value::Null);
            }
        }
    } else {
        let context = context(ctx, schema, &manager, &api_version, &served);
        *new = managed_fields::update(&context, old, std::mem::take(new));
    }
    if lent && let Some(metadata) = new["metadata"].as_object_mut() {
        metadata.remove("labels");
    }
}

/// Gives a new Job without labels the labels of its pod template for the time of tracking, so that its
/// creator owns them. Labels that the server adds later belong to nobody. Returns whether labels were added.
fn add_template_labels(object: &mut Value) -> bool {
    let labels = &object["spec"]["template"]["metadata"]["labels"];
    let some = |labels: &Value| labels.as_object().is_some_and(|it| !it.is_empty());
    if !some(labels) || some(&object["metadata"]["labels"]) {
        return false;
    }
    object["metadata"]["labels"] = labels.clone();
    true
}

/// Merges an applied configuration into the stored object.
pub(crate) async fn apply(
    ctx: &RequestContext<'_>,
    old: Option<Value>,
    config: &Value,
    force: bool,
) -> Result<Value> {
    let manager = ctx.request.query.text("fieldManager");
    let api_version = ctx.info.api_version();
    let empty = Schema::default();
    let schema = schema(ctx).unwrap_or(&empty);
    let mut served = ServedVersions::of(ctx, &[old.as_ref()]);
    if served.by_webhook() {
        let applied = served.settle(ctx, |served| {
            let context = context(ctx, schema, manager, &api_version, served);
            managed_fields::apply(&context, old.clone(), config, force)
        });
        return applied.await?.map_err(refusal);
    }
    let context = context(ctx, schema, manager, &api_version, &served);
    managed_fields::apply(&context, old, config, force).map_err(refusal)
}

fn context<'a>(
    ctx: &'a RequestContext<'_>,
    schema: &'a Schema,
    manager: &'a str,
    api_version: &'a str,
    versions: &'a ServedVersions,
) -> Context<'a> {
    let info = &ctx.info;
    let has_status = info.subresource("status").is_some();
    let subresource = &*ctx.path.subresource;
    let reset = if info.is_custom() {
        Reset::custom(subresource, has_status)
    } else {
        Reset::builtin(&info.group, &info.kind, subresource, has_status)
    };
    let now = ctx.services.env.now();
    Context { schema, api_version, kind: &info.kind, manager, subresource, now, reset, versions }
}

/// How many conversions the managed fields of one write may need: of the stored, new, merged and pruned object, to each
/// version and back. A definition with more versions in use than this allows must be migrated first.
const CONVERSIONS_MAX: usize = 64;

/// The versions of a custom resource in which its field managers have written.
///
/// The rules of managed fields are pure functions, but a conversion by webhook has to wait. So a conversion that is not
/// known yet is recorded as missing; it is made, and the function runs again ([`ServedVersions::settle`]).
struct ServedVersions {
    infos: Vec<Arc<ResourceInfo>>,
    /// The conversions made so far: the object, the version, and the result.
    known: Vec<(Value, String, Value)>,
    /// The first conversion that was needed but is not known.
    missing: Mutex<Option<(Value, String)>>,
}

impl ServedVersions {
    fn of(ctx: &RequestContext<'_>, objects: &[Option<&Value>]) -> Self {
        let mut served = Self { infos: Vec::new(), known: Vec::new(), missing: Mutex::default() };
        if !ctx.info.is_custom() {
            return served;
        }
        served.infos.push(ctx.info.clone());
        let entries = objects
            .iter()
            .flatten()
            .filter_map(|object| object["metadata"]["managedFields"].as_array())
            .flatten();
        for api_version in entries.filter_map(|entry| entry["apiVersion"].as_str()) {
            let (group, version) = split_api_version(api_version);
            if group == ctx.info.group && served.find(api_version).is_none() {
                served.infos.extend(ctx.services.registry.find(group, version, &ctx.info.plural));
            }
        }
        served
    }

    fn find(&self, api_version: &str) -> Option<&ResourceInfo> {
        self.infos.iter().find(|info| info.api_version() == api_version).map(|info| &**info)
    }

    /// Whether a webhook converts between these versions.
    fn by_webhook(&self) -> bool {
        self.infos.len() > 1 && self.infos.iter().any(|info| conversion::calls_webhook(info))
    }

    /// Runs a function until all conversions that it needs are known.
    async fn settle<T>(&mut self, ctx: &RequestContext<'_>, run: impl Fn(&Self) -> T) -> Result<T> {
        for _ in 0..CONVERSIONS_MAX {
            let result = run(self);
            let Some((object, version)) = self.missing.get_mut().take() else { return Ok(result) };
            let (Some(to), Some(from)) =
                (self.find(&version), self.find(object["apiVersion"].as_str().unwrap_or_default()))
            else {
                return Err(Status::internal("a field manager wrote in a version that is not served"));
            };
            let converted = ctx.services.converter.convert(from, to, &object).await?;
            self.known.push((object, version, converted));
        }
        Err(Status::internal("the managed fields of this object need too many conversions"))
    }
}

impl Versions for ServedVersions {
    fn convert(&self, object: &Value, api_version: &str) -> Option<(Value, &Schema)> {
        let custom = self.find(api_version)?.custom.as_ref()?;
        if custom.webhook.is_some() && object["apiVersion"] != api_version {
            let known = self.known.iter().find(|(from, to, _)| to == api_version && from == object);
            if known.is_none() {
                self.missing.lock().get_or_insert_with(|| (object.clone(), api_version.to_owned()));
            }
            return known.map(|(_, _, converted)| (converted.clone(), &custom.schema));
        }
        let mut object = object.clone();
        object["apiVersion"] = api_version.into();
        if !custom.preserve_unknown_fields {
            structural::prune(&custom.schema, &mut object);
        }
        Some((object, &custom.schema))
    }
}

/// The schema of the request's kind, in the version of the request.
pub(crate) fn schema<'a>(ctx: &'a RequestContext<'_>) -> Option<&'a Schema> {
    let info = &ctx.info;
    match &info.custom {
        Some(custom) => Some(&custom.schema),
        None => types::builtin(&info.group, &info.version, &info.kind),
    }
}

fn refusal(error: ApplyError) -> Status {
    match error {
        ApplyError::BadRequest(message) => Status::bad_request(message),
        ApplyError::Internal(message) => Status::server_error(message),
        ApplyError::Conflicts(conflicts) => {
            let causes = conflicts.0.iter().map(|conflict| Cause {
                reason: "FieldManagerConflict".to_owned(),
                message: conflict.message(),
                field: conflict.path.to_string(),
            });
            let details = Details { causes: causes.collect(), ..Details::default() };
            Status::new(409, "Conflict", conflicts.to_string()).with(details)
        }
    }
}
