//! The annotation `kubectl.kubernetes.io/last-applied-configuration` of client-side apply, which lets kubectl migrate to
//! server-side apply.

use evenkeel_scalars::go;

use super::compare::compare;
use super::conflict::Conflicts;
use super::fields::fields_of;
use super::typed::Node;
use super::{ApplyError, Context, validate};
use crate::fieldset::FieldSet;
use crate::json::{self, Value};

/// The only manager for which the annotation matters.
pub(super) const MANAGER: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The size limit of all annotations together, keys and values.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// Drops the conflicts on fields that client-side apply set and that still have that value.
pub(super) fn without_own(
    ctx: &Context<'_>,
    live: &Value,
    conflicts: Conflicts,
) -> Result<Conflicts, ApplyError> {
    let Some(own) = applied_by_client(ctx, live) else { return Err(ApplyError::Conflicts(conflicts)) };
    let left = conflicts.0.into_iter().filter(|conflict| !own.has(&conflict.path.0)).collect();
    Ok(Conflicts(left))
}

fn applied_by_client(ctx: &Context<'_>, live: &Value) -> Option<FieldSet> {
    let text = annotation(live)?;
    let applied: Value = serde_json::from_str(text).ok()?;
    if json::text(&applied, &["apiVersion"]) != ctx.api_version {
        return None;
    }
    let node = Node::root(ctx.schema);
    validate::validate(node, live, None, false).ok()?;
    validate::validate(node, &applied, None, false).ok()?;
    let compared = compare(node, &applied, live);
    let fields = fields_of(node, &applied);
    Some(fields.difference(&compared.modified).difference(&compared.added).difference(&compared.removed))
}

/// Updates the annotation, if the object has it.
pub(super) fn renew(object: &mut Value, config: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut applied = config.clone();
    if let Some(annotations) = annotations_mut(&mut applied) {
        annotations.remove(ANNOTATION);
    }
    let Some(annotations) = annotations_mut(object) else { return };
    annotations.insert(ANNOTATION.into(), Value::String((go::json(&applied) + "\n").into()));
    let bytes: usize =
        annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if bytes > ANNOTATIONS_BYTES_MAX {
        annotations.remove(ANNOTATION);
    }
}

/// Whether the object has the annotation.
pub(super) fn is_on(object: &Value) -> bool {
    annotation(object).is_some()
}

fn annotation(object: &Value) -> Option<&str> {
    json::get(object, &["metadata", "annotations", ANNOTATION])?.as_str().filter(|text| !text.is_empty())
}

fn annotations_mut(object: &mut Value) -> Option<&mut json::Map> {
    object.get_mut("metadata")?.get_mut("annotations")?.as_object_mut()
}
