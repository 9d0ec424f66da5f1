//! Server-side apply and managed fields (`metadata.managedFields`).
//!
//! The API server calls [`update`] for the result of a create, update or patch request, and [`apply`] for an applied
//! configuration. Both return the object with its managed fields brought up to date. They run where Kubernetes runs them:
//! after decoding and defaulting, before admission. Fields that admission adds have no owner. At the end, [`keep_times`]
//! makes a write that changes nothing equal to the stored object.

mod compare;
mod conflict;
mod entries;
mod exact;
mod fields;
mod items;
mod last_applied;
mod merge;
mod prune;
mod remove;
mod reset;
mod scale;
mod typed;
mod updater;
mod validate;
mod zero;

use jiff::Timestamp;

pub use conflict::{Conflict, Conflicts};
pub use entries::{ManagerId, keep_times};
pub use reset::Reset;
pub use scale::Scale;

use crate::fieldset::FieldSet;
use crate::json::{self, Value};
use crate::types::Schema;
use entries::Managed;
use typed::{Atom, Node};
use updater::Updater;

/// The most Update entries that are kept; older ones are merged into one. The number is that of Kubernetes.
const UPDATE_MANAGERS_MAX: usize = 10;

/// The attributes of a write that its managed fields depend on.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The schema of the object, in the version of the request.
    pub schema: &'a Schema,
    /// The version of the request (`apps/v1`).
    pub api_version: &'a str,
    /// The kind of the object.
    pub kind: &'a str,
    /// The name of the field manager. An empty name is recorded as `unknown`.
    pub manager: &'a str,
    /// The subresource of the request, or an empty string.
    pub subresource: &'a str,
    /// The time of the write.
    pub now: Timestamp,
    /// The fields that this endpoint cannot own.
    pub reset: &'a Reset,
    /// Converts the object to the other versions that managers wrote in.
    pub versions: &'a dyn Versions,
}

/// The versions that an object is served in.
pub trait Versions {
    /// Converts the object to another version, and returns the schema of that version; `None` if that version is not served.
    fn convert(&self, object: &Value, api_version: &str) -> Option<(Value, &Schema)>;
}

/// An object that is served in one version only.
#[derive(Debug, Clone, Copy)]
pub struct OneVersion;

impl Versions for OneVersion {
    fn convert(&self, _: &Value, _: &str) -> Option<(Value, &Schema)> {
        None
    }
}

/// Why an apply was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ApplyError {
    /// Other managers own fields that the configuration would change: 409.
    #[error("{0}")]
    Conflicts(Conflicts),
    /// The request is not valid for this endpoint: 400.
    #[error("{0}")]
    BadRequest(String),
    /// The configuration does not match the schema. Kubernetes responds with 500.
    #[error("{0}")]
    Internal(String),
}

/// The fields that a manager would own after applying the object.
///
/// ```
/// use evenkeel_schema::{managed_fields, types};
/// let config = evenkeel_schema::json::json!({"spec": {"ports": [{"port": 80}]}});
/// let fields = managed_fields::fields(types::builtin("", "v1", "Service").unwrap(), &config);
/// assert_eq!(fields.paths()[0].to_string(), r#".spec.ports[port=80,protocol="TCP"]"#);
/// ```
pub fn fields(schema: &Schema, object: &Value) -> FieldSet {
    fields::fields_of(Node::root(schema), object)
}

/// Merges a configuration into an object, without regard to owners.
///
/// Atomic lists and maps in the configuration are refused, because they would remove the fields that they do not contain.
///
/// ```
/// use evenkeel_schema::{managed_fields, types};
/// let schema = types::builtin("", "v1", "ConfigMap").unwrap();
/// let live = evenkeel_schema::json::json!({"data": {"a": "1"}});
/// let changed = managed_fields::merge_configuration(schema, &live, &evenkeel_schema::json::json!({"data": {"b": "2"}})).unwrap();
/// assert_eq!(changed, evenkeel_schema::json::json!({"data": {"a": "1", "b": "2"}}));
/// ```
pub fn merge_configuration(schema: &Schema, live: &Value, config: &Value) -> Result<Value, String> {
    let root = Node::root(schema);
    let mut whole = Vec::new();
    whole_values(root, config, "", &mut whole);
    if !whole.is_empty() {
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
            whole.join(", ")
        ));
    }
    let mut merged = live.clone();
    merge::merge(root, &mut merged, config).map_err(|why| format!("failed to merge patch: {why}"))?;
    Ok(merged)
}

/// Finds the paths of all atomic lists and maps in a configuration.
fn whole_values(node: Node<'_>, value: &Value, path: &str, found: &mut Vec<String>) {
    match (node.atom(Some(value)), value) {
        (Atom::Map(map), Value::Object(_)) if map.atomic => found.push(path.to_owned()),
        (Atom::List(list), Value::Array(_)) if list.atomic => found.push(path.to_owned()),
        (Atom::Map(map), Value::Object(fields)) => {
            for (name, value) in fields {
                if let Some((node, _)) = map.field(name) {
                    whole_values(node, value, &format!("{path}.{name}"), found);
                }
            }
        }
        (Atom::List(list), Value::Array(items)) => {
            items.iter().for_each(|item| whole_values(list.items(), item, path, found));
        }
        _ => {}
    }
}

/// Updates the managed fields after a create, update or patch request.
///
/// `live` is the stored object (`None` for a creation), `new` the one to be stored. If the request changed `managedFields`
/// itself, its entries count; `[]` and `[{}]` clear them. Managed fields never fail a write: an object that does not match
/// its schema loses them.
pub fn update(ctx: &Context<'_>, live: Option<&Value>, mut new: Value) -> Value {
    let sent = entries::take(&mut new);
    let managed = record_of_update(ctx, live, sent);
    let created = live.is_none_or(|live| json::text(live, &["metadata", "uid"]).is_empty());
    if managed.is_empty() && !created {
        return new;
    }
    let zero;
    let live = match live {
        Some(live) => live,
        None => {
            zero = zero::object(ctx);
            &zero
        }
    };
    match track(ctx, live, &new, managed, ctx.manager) {
        Ok(mut managed) => {
            managed.fold_old_updates(UPDATE_MANAGERS_MAX);
            managed.write_to(&mut new);
            new
        }
        Err(_) => new,
    }
}

/// The managed fields that an update starts from: those in the request if it has any, otherwise the stored ones.
fn record_of_update(ctx: &Context<'_>, live: Option<&Value>, sent: Option<Value>) -> Managed {
    let stored = live.and_then(|live| json::get(live, &["metadata", "managedFields"]));
    if sent.is_some() && sent.as_ref() == stored {
        return Managed::of_entries(sent).unwrap_or_default();
    }
    let read = || Managed::of_entries(stored.cloned()).unwrap_or_default();
    match sent {
        Some(sent) if ctx.subresource.is_empty() => {
            if entries::asks_for_reset(&sent) {
                return Managed::default();
            }
            Managed::of_request(sent).ok().filter(|managed| !managed.is_empty()).unwrap_or_else(read)
        }
        _ => read(),
    }
}

/// Makes a manager the owner of all fields that differ, without conflicts.
fn track(
    ctx: &Context<'_>,
    live: &Value,
    new: &Value,
    managed: Managed,
    manager: &str,
) -> Result<Managed, String> {
    // An object that was decoded into a built-in kind matches its schema. Only the Secrets of a ServiceAccount may lack the
    // key of their list.
    if !is_builtin(ctx) || ctx.kind == "ServiceAccount" {
        validate::validate(Node::root(ctx.schema), new, None, true)?;
    }
    let id = ManagerId::update(manager, ctx.api_version, ctx.subresource);
    Ok(Updater::new(ctx).update(live, new, managed, id))
}

fn is_builtin(ctx: &Context<'_>) -> bool {
    !ctx.schema.resolve().gvks.is_empty()
}

/// Applies a configuration.
///
/// `live` is `None` if the object does not exist yet. It is changed in place, so that the cost depends on the size of the
/// configuration, not of the object. The result is merged, but not defaulted. It is equal to `live` if the apply changed
/// nothing.
pub fn apply(
    ctx: &Context<'_>,
    live: Option<Value>,
    config: &Value,
    force: bool,
) -> Result<Value, ApplyError> {
    check_kind(ctx, config)?;
    let live = live.unwrap_or_else(|| zero::type_meta(ctx));
    if ctx.manager != last_applied::MANAGER {
        return apply_once(ctx, live, config, force);
    }
    let mut applied = match last_applied::is_on(&live) && !force {
        true => apply_over_client(ctx, live, config)?,
        false => apply_once(ctx, live, config, force)?,
    };
    last_applied::renew(&mut applied, config);
    Ok(applied)
}

/// Applies a configuration to an object with the annotation of client-side apply. Fields that the annotation contains with
/// their current value do not conflict.
fn apply_over_client(ctx: &Context<'_>, live: Value, config: &Value) -> Result<Value, ApplyError> {
    match apply_once(ctx, live.clone(), config, false) {
        Err(ApplyError::Conflicts(conflicts)) => {
            let left = last_applied::without_own(ctx, &live, conflicts)?;
            if !left.is_empty() {
                return Err(ApplyError::Conflicts(left));
            }
            apply_once(ctx, live, config, true)
        }
        other => other,
    }
}

fn apply_once(ctx: &Context<'_>, mut live: Value, config: &Value, force: bool) -> Result<Value, ApplyError> {
    let mut managed = Managed::of_entries(entries::take(&mut live))
        .map_err(|error| ApplyError::Internal(format!("failed to decode managed fields: {error}")))?;
    if managed.is_empty() {
        // Fields of an object without managed fields go to a manager of their own.
        let before = track(ctx, &zero::object(ctx), &live, managed, "before-first-apply");
        managed = before.map_err(|error| {
            ApplyError::Internal(format!("failed to create manager for existing fields: {error}"))
        })?;
    }
    check_config(ctx, &live, config)?;
    let id = ManagerId::apply(ctx.manager, ctx.subresource);
    let (changed, mut managed) = Updater::new(ctx).apply(&mut live, config, managed, &id, force)?;
    if changed {
        managed.touch(id, ctx.now);
    }
    managed.write_to(&mut live);
    Ok(live)
}

/// Checks that the configuration has the kind and the version of the endpoint.
fn check_kind(ctx: &Context<'_>, config: &Value) -> Result<(), ApplyError> {
    let (api_version, kind) = (json::text(config, &["apiVersion"]), json::text(config, &["kind"]));
    if (api_version, kind) == (ctx.api_version, ctx.kind) {
        return Ok(());
    }
    Err(ApplyError::BadRequest(format!("invalid object type: {}", gvk_text(config))))
}

fn check_config(ctx: &Context<'_>, live: &Value, config: &Value) -> Result<(), ApplyError> {
    if json::get(config, &["metadata", "managedFields"]).is_some_and(|entries| !entries.is_null()) {
        return Err(ApplyError::BadRequest("metadata.managedFields must be nil".into()));
    }
    let known = is_builtin(ctx).then_some(live);
    validate::validate(Node::root(ctx.schema), config, known, false).map_err(|error| {
        ApplyError::Internal(format!(
            "failed to create typed patch object ({}): {error}",
            object_text(config)
        ))
    })
}

/// Prints an object such as `default/web; apps/v1, Kind=Deployment`.
fn object_text(object: &Value) -> String {
    let (namespace, name) =
        (json::text(object, &["metadata", "namespace"]), json::text(object, &["metadata", "name"]));
    format!("{namespace}/{name}; {}", gvk_text(object))
}

/// Prints a kind such as `apps/v1, Kind=Deployment`, or `/v1, Kind=Pod` for the core group.
fn gvk_text(object: &Value) -> String {
    let (group, version) = crate::api_resources::split_api_version(json::text(object, &["apiVersion"]));
    format!("{group}/{version}, Kind={}", json::text(object, &["kind"]))
}
