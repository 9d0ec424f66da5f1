//! The subresource `scale`: the replicas of an object as an object of the kind Scale.

use std::sync::Arc;

use bytes::Bytes;
use evenkeel_schema::field::FieldError;
use evenkeel_schema::json::{Map, Value, json};
use evenkeel_schema::managed_fields::Scale;
use evenkeel_schema::selector::LabelSelector;
use evenkeel_store::Entry;
use http::Response;

use crate::body::Body;
use crate::commit::RETRIES_MAX;
use crate::context::RequestContext;
use crate::encode::EncodedObject;
use crate::incoming::{Incoming, write_query};
use crate::read::{find_named, respond_object};
use crate::request::{WriteQuery, negotiate};
use crate::status::{Result, Status};
use crate::write::{MayApply, Writer, change, check_uid, conflict, patched_part};
use crate::{Header, ResourceInfo, managed_fields};

/// Marks the replicas of a custom resource that has none, while a Scale is written.
const UNSET_REPLICAS: i64 = i32::MIN as i64;

/// Answers a request to `…/scale`.
pub(super) async fn answer(ctx: &RequestContext<'_>, verb: &str, body: Bytes) -> Result<Response<Body>> {
    let accept = negotiate(ctx.request, false)?;
    let part_info = Arc::new(info(ctx));
    let part = RequestContext { info: &part_info, ..*ctx };
    if verb == "get" {
        let entry = find_named(ctx).await?;
        let mut scale =
            scale_of(ctx, &ctx.services.converter.decoded(ctx.info, &entry).await?, Missing::Refused)?;
        remove_managed_fields(&mut scale);
        return respond_object(&part, 200, accept, EncodedObject::encode(&scale, entry.revision));
    }
    let encoded = write(ctx, &part, verb, &body).await?;
    respond_object(&part, 200, accept, encoded)
}

/// The resource with which a Scale is decoded, patched and tracked in managedFields.
fn info(ctx: &RequestContext<'_>) -> ResourceInfo {
    ResourceInfo {
        group: "autoscaling".into(),
        version: "v1".into(),
        kind: "Scale".into(),
        plural: ctx.info.plural.clone(),
        namespaced: ctx.info.namespaced,
        prefix: ctx.info.prefix.clone(),
        ..ResourceInfo::default()
    }
}

async fn write(
    ctx: &RequestContext<'_>,
    part: &RequestContext<'_>,
    verb: &str,
    body: &Bytes,
) -> Result<EncodedObject> {
    let kind = if verb == "patch" { "PatchOptions" } else { "UpdateOptions" };
    let query = write_query(ctx, kind)?;
    let key = ctx.key();
    // The body of an update is decoded before the parent object is looked up.
    let update = if verb == "patch" { None } else { Some(decode_update(part, &query, body)?) };
    for _ in 0..RETRIES_MAX {
        let entry = ctx.services.store.get(&key).ok_or_else(|| ctx.not_found())?;
        let parent = ctx.services.converter.decoded(ctx.info, &entry).await?;
        let old = scale_of(ctx, &parent, Missing::Marked)?;
        let (mut scale, writer) = match &update {
            None => patched_part(part, &query, body, &old, entry.revision, may_apply(ctx)).await?,
            Some(scale) => (scale.clone(), Writer::Update),
        };
        if writer == Writer::Update {
            managed_fields::track(part, &mut scale, Some(&old)).await;
        }
        let new = scaled(ctx, &parent, &scale, &entry)?;
        // managedFields were already updated on the Scale, so the update of the parent must not track them
        // again.
        if let Some(encoded) = change(ctx, &query, &entry, new, Writer::Apply).await? {
            let parent = encoded.to_value();
            let mut scale = scale_of(ctx, &parent, Missing::Refused)?;
            remove_managed_fields(&mut scale);
            return Ok(EncodedObject::encode(&scale, encoded.revision()));
        }
    }
    Err(conflict(ctx))
}

/// Whether a Scale can be applied. As in Kubernetes, that of a custom resource cannot be: it would have to be converted as
/// if it were the custom resource.
fn may_apply(ctx: &RequestContext<'_>) -> MayApply {
    if ctx.info.is_custom() { MayApply::Unconvertible } else { MayApply::Yes }
}

/// Decodes the Scale in the body of an update.
fn decode_update(part: &RequestContext<'_>, query: &WriteQuery, body: &Bytes) -> Result<Value> {
    let mut incoming = Incoming::decode(part, query, body)?;
    incoming.check_name(part)?;
    incoming.place(part)?;
    Ok(incoming.object)
}

/// Returns the parent object with the replicas and the managedFields of a Scale.
fn scaled(ctx: &RequestContext<'_>, parent: &Value, scale: &Value, entry: &Entry<Header>) -> Result<Value> {
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or_default();
    if ctx.info.is_custom() {
        if replicas == UNSET_REPLICAS {
            let path = Paths::of(ctx.info).replicas.join(".");
            let why = format!("the spec replicas field {:?} cannot be empty", format!(".{path}"));
            return Err(Status::bad_request(why));
        }
    } else if replicas < 0 {
        let error = FieldError::invalid("spec.replicas", replicas, "must be greater than or equal to 0");
        return Err(Status::invalid("autoscaling", "Scale", &ctx.path.name, &[error]));
    }
    check_uid(ctx, scale, &entry.key, &entry.header.uid, entry.revision)?;
    let mut parent = parent.clone();
    let entries = mapping(ctx).entries_of_parent(&parent, scale);
    let paths = Paths::of(ctx.info);
    set(&mut parent, &paths.replicas, replicas.into());
    crate::members::set_or_remove(&mut parent["metadata"], "managedFields", entries);
    let version = scale["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let version = if version.is_empty() { entry.revision.to_string() } else { version.to_owned() };
    parent["metadata"]["resourceVersion"] = version.into();
    Ok(parent)
}

/// The JSON paths of a kind's replicas and selector.
struct Paths {
    replicas: Vec<String>,
    status_replicas: Vec<String>,
    selector: Option<Vec<String>>,
}

impl Paths {
    fn of(info: &ResourceInfo) -> Self {
        let parts = |path: &str| path.split('.').filter(|it| !it.is_empty()).map(str::to_owned).collect();
        match &info.custom {
            None => Self {
                replicas: parts(".spec.replicas"),
                status_replicas: parts(".status.replicas"),
                selector: None,
            },
            Some(custom) => {
                let scale = &custom.version["subresources"]["scale"];
                let path = |name: &str| parts(scale[name].as_str().unwrap_or_default());
                Self {
                    replicas: path("specReplicasPath"),
                    status_replicas: path("statusReplicasPath"),
                    selector: Some(path("labelSelectorPath")),
                }
            }
        }
    }
}

fn mapping(ctx: &RequestContext<'_>) -> Scale {
    let paths = Paths::of(ctx.info);
    let replicas: Vec<&str> = paths.replicas.iter().map(String::as_str).collect();
    Scale::new(&ctx.info.api_version(), &replicas)
}

/// Removes managedFields from a Scale before it is shown; they belong to the parent object.
fn remove_managed_fields(scale: &mut Value) {
    crate::members::set_or_remove(&mut scale["metadata"], "managedFields", Value::Null);
}

/// How to treat a custom resource without the field of its replicas.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// A read fails.
    Refused,
    /// A write continues, because it may set the field. Until then the field is [`UNSET_REPLICAS`].
    Marked,
}

fn scale_of(ctx: &RequestContext<'_>, parent: &Value, missing: Missing) -> Result<Value> {
    let paths = Paths::of(ctx.info);
    let metadata = &parent["metadata"];
    let mut encoded = Map::new();
    for field in ["name", "namespace", "uid", "creationTimestamp"] {
        encoded.extend(metadata.get(field).map(|it| (field.to_owned(), it.clone())));
    }
    let entries = mapping(ctx).entries_of_scale(parent);
    if entries.as_array().is_some_and(|it| !it.is_empty()) {
        encoded.insert("managedFields".into(), entries);
    }
    let replicas = get(parent, &paths.replicas);
    if ctx.info.is_custom() && replicas.is_none() && missing == Missing::Refused {
        return Err(Status::internal(format!(
            "the spec replicas field {:?} does not exist",
            format!(".{}", paths.replicas.join("."))
        )));
    }
    let mut spec = Map::new();
    let unset = if ctx.info.is_custom() && replicas.is_none() { UNSET_REPLICAS } else { 0 };
    let replicas = replicas.and_then(Value::as_i64).unwrap_or(unset);
    if replicas != 0 {
        spec.insert("replicas".into(), replicas.into());
    }
    let count = get(parent, &paths.status_replicas).and_then(Value::as_i64).unwrap_or_default();
    let mut status = json!({"replicas": count});
    let selector = selector(ctx, parent, &paths);
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    Ok(json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": encoded, "spec": spec, "status": status,
    }))
}

/// The selector of a Scale's status, as text.
fn selector(ctx: &RequestContext<'_>, parent: &Value, paths: &Paths) -> String {
    if let Some(path) = &paths.selector {
        return get(parent, path).and_then(Value::as_str).unwrap_or_default().to_owned();
    }
    let selector = &parent["spec"]["selector"];
    if ctx.info.strategy.selects_by_label_map {
        let labels = selector.as_object().into_iter().flatten();
        let labels = labels.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()));
        return LabelSelector::from_labels(labels).to_string();
    }
    LabelSelector::from_object(selector).map(|it| it.to_string()).unwrap_or_default()
}

fn get<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    if path.is_empty() { None } else { path.iter().try_fold(object, |value, key| value.get(key)) }
}

fn set(object: &mut Value, path: &[String], value: Value) {
    match path {
        [] => *object = value,
        [first, rest @ ..] => {
            if !object.is_object() {
                *object = Value::Object(Map::new());
            }
            set(&mut object[first.as_str()], rest, value);
        }
    }
}
