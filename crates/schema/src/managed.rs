//! Server-side apply, and the record of who owns which field (`metadata.managedFields`).
//!
//! The API server calls [`update`] for what Create, Update and Patch made of an object, and [`apply`] for an applied
//! configuration; both give the object back with its record brought up to date. The order around them is
//! Kubernetes's: decode and default first, then ownership, then admission. What admission adds is owned by nobody.
//! Last comes [`keep_times`], which makes a write that changed nothing equal to what is stored.

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

/// At most so many Update entries are kept; older ones are folded into one. The number is Kubernetes's.
const UPDATE_MANAGERS_MAX: usize = 10;

/// One write, as far as ownership is concerned.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The schema of the object, in the version of the request.
    pub schema: &'a Schema,
    /// The version of the request (`apps/v1`).
    pub api_version: &'a str,
    /// The kind of the object.
    pub kind: &'a str,
    /// Who writes. An empty name is recorded as `unknown`.
    pub manager: &'a str,
    /// The subresource that is written to, or empty.
    pub subresource: &'a str,
    /// When the write happens.
    pub now: Timestamp,
    /// What this endpoint may not own.
    pub reset: &'a Reset,
    /// How to see the object in the other versions that managers wrote in.
    pub versions: &'a dyn Versions,
}

/// The versions that an object is served in.
pub trait Versions {
    /// The object in another version, with the schema of that version; `None` where it is not served (any more).
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
    /// Others own fields that the configuration would change: 409.
    #[error("{0}")]
    Conflicts(Conflicts),
    /// The request makes no sense for this endpoint: 400.
    #[error("{0}")]
    BadRequest(String),
    /// The configuration does not fit the schema. Kubernetes answers 500.
    #[error("{0}")]
    Internal(String),
}

/// The fields of an object, as an apply of it would own them.
///
/// ```
/// use evenkeel_schema::{managed, types};
/// let config = serde_json::json!({"spec": {"ports": [{"port": 80}]}});
/// let fields = managed::fields(types::builtin("", "v1", "Service").unwrap(), &config);
/// assert_eq!(fields.paths()[0].to_string(), r#".spec.ports[port=80,protocol="TCP"]"#);
/// ```
pub fn fields(schema: &Schema, object: &Value) -> FieldSet {
    fields::fields_of(Node::root(schema), object)
}

/// Lays a configuration over an object, without looking at who owns what.
///
/// What the schema takes as one value is refused: the configuration would take away what it does not name.
///
/// ```
/// use evenkeel_schema::{managed, types};
/// let schema = types::builtin("", "v1", "ConfigMap").unwrap();
/// let live = serde_json::json!({"data": {"a": "1"}});
/// let changed = managed::lay_over(schema, &live, &serde_json::json!({"data": {"b": "2"}})).unwrap();
/// assert_eq!(changed, serde_json::json!({"data": {"a": "1", "b": "2"}}));
/// ```
pub fn lay_over(schema: &Schema, live: &Value, config: &Value) -> Result<Value, String> {
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

/// The paths of all values in a configuration that are lists, maps or structs and yet one value.
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

/// Records what a Create, Update or Patch changed.
///
/// `live` is the object as it is stored (`None` for a creation), `new` the one to be stored. Its own record counts
/// where the request changed it; `[]` and `[{}]` clear it. Ownership never fails a write: an object that does not
/// fit its schema loses its record.
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

/// The record that an update starts from: its own where it brings one, else what is stored.
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

/// Gives the fields that differ to a manager. Nobody is asked.
fn track(
    ctx: &Context<'_>,
    live: &Value,
    new: &Value,
    managed: Managed,
    manager: &str,
) -> Result<Managed, String> {
    // What was decoded into a built-in kind fits its schema.
    if !is_builtin(ctx) {
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
/// `live` is `None` where the object does not exist yet. It is changed where it stands, so that the cost is that of
/// the configuration, not of the object. What comes back is merged, not yet defaulted; it is equal to `live` where
/// the apply changed nothing.
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

/// The same over an object that kubectl applied from its own side: what it set there is no conflict.
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
        // What was there before anybody kept a record belongs to a manager of its own.
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

/// The configuration is of the kind and version of the endpoint.
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

/// `default/web; apps/v1, Kind=Deployment`
fn object_text(object: &Value) -> String {
    let (namespace, name) =
        (json::text(object, &["metadata", "namespace"]), json::text(object, &["metadata", "name"]));
    format!("{namespace}/{name}; {}", gvk_text(object))
}

/// `apps/v1, Kind=Deployment`, and `/v1, Kind=Pod` for the core group.
fn gvk_text(object: &Value) -> String {
    let (group, version) = crate::kinds::split_api_version(json::text(object, &["apiVersion"]));
    format!("{group}/{version}, Kind={}", json::text(object, &["kind"]))
}
