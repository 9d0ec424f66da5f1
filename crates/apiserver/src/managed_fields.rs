//! managedFields: the adapter between requests and the server-side apply code in `evenkeel_schema`.

use std::sync::Arc;

use evenkeel_schema::api_resources::split_api_version;
use evenkeel_schema::managed_fields::{self, ApplyError, Context, Reset, Versions};
use evenkeel_schema::structural;
use evenkeel_schema::types::{self, Schema};
use serde_json::Value;

use crate::ResourceInfo;
use crate::context::RequestContext;
use crate::status::{Cause, Details, Result, Status};

/// Records in managedFields which fields this request changed; `old` is `None` for a create.
pub(crate) fn track(ctx: &RequestContext<'_>, new: &mut Value, old: Option<&Value>) {
    let Some(schema) = schema(ctx) else { return };
    let manager = ctx.request.manager();
    let api_version = ctx.info.api_version();
    let served = ServedVersions::of(ctx, &[old, Some(new)]);
    let context = context(ctx, schema, &manager, &api_version, &served);
    let lent = old.is_none() && ctx.info.strategy.takes_template_labels && add_template_labels(new);
    *new = managed_fields::update(&context, old, std::mem::take(new));
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
pub(crate) fn apply(
    ctx: &RequestContext<'_>,
    old: Option<Value>,
    config: &Value,
    force: bool,
) -> Result<Value> {
    let manager = ctx.request.query.text("fieldManager");
    let api_version = ctx.info.api_version();
    let empty = Schema::default();
    let schema = schema(ctx).unwrap_or(&empty);
    let served = ServedVersions::of(ctx, &[old.as_ref()]);
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

/// The versions of a custom resource in which its field managers wrote.
struct ServedVersions(Vec<Arc<ResourceInfo>>);

impl ServedVersions {
    fn of(ctx: &RequestContext<'_>, objects: &[Option<&Value>]) -> Self {
        let mut served = Self(Vec::new());
        if !ctx.info.is_custom() {
            return served;
        }
        served.0.push(ctx.info.clone());
        let entries = objects
            .iter()
            .flatten()
            .filter_map(|object| object["metadata"]["managedFields"].as_array())
            .flatten();
        for api_version in entries.filter_map(|entry| entry["apiVersion"].as_str()) {
            let (group, version) = split_api_version(api_version);
            if group == ctx.info.group && served.find(api_version).is_none() {
                served.0.extend(ctx.services.registry.find(group, version, &ctx.info.plural));
            }
        }
        served
    }

    fn find(&self, api_version: &str) -> Option<&ResourceInfo> {
        self.0.iter().find(|info| info.api_version() == api_version).map(|info| &**info)
    }
}

impl Versions for ServedVersions {
    fn convert(&self, object: &Value, api_version: &str) -> Option<(Value, &Schema)> {
        let custom = self.find(api_version)?.custom.as_ref()?;
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
