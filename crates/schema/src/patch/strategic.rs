//! Strategic merge patch: lists of objects are merged by a key, and directives such as `$patch: delete` control the merge.

mod order;
mod slices;

use evenkeel_scalars::go;

use super::PatchError;
use crate::json::{Map, Value};
use crate::types::{PatchStrategy, Schema, Type};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ELEMENT_ORDER: &str = "$setElementOrder";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";

/// Merges a patch into an object of a built-in kind.
///
/// The merge consumes the patch. Kubernetes shows the rest of it in the error if the result cannot be decoded.
///
/// ```
/// use evenkeel_schema::{patch::strategic, types};
/// use evenkeel_schema::json::json;
/// let pod = types::builtin("", "v1", "Pod").unwrap();
/// let mut object = json!({"spec": {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]}});
/// let mut patch = json!({"spec": {"containers": [{"name": "b", "image": "b:2"}]}});
/// strategic::apply(pod, &mut object, &mut patch).unwrap();
/// assert_eq!(object["spec"]["containers"][1], json!({"name": "b", "image": "b:2"}));
/// assert_eq!(object["spec"]["containers"][0]["name"], "a");
/// ```
pub fn apply(schema: &Schema, object: &mut Value, patch: &mut Value) -> Result<(), PatchError> {
    if patch.is_null() {
        return Ok(());
    }
    let (Value::Object(target), Value::Object(patch)) = (object, patch) else {
        return Err(bad("invalid JSON document"));
    };
    merge_map(target, patch, schema)
}

type Fields = Map;

fn bad(message: &str) -> PatchError {
    PatchError::BadRequest(message.into())
}

fn internal(message: String) -> PatchError {
    PatchError::Internal(message)
}

fn merge_map(original: &mut Fields, patch: &mut Fields, schema: &Schema) -> Result<(), PatchError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                *original = patch.clone();
            }
            Some("delete") => original.clear(),
            _ => return Err(unknown_directive(directive, patch)),
        }
        return Ok(());
    }
    retain_keys(original, patch)?;
    order::merge_ordered_lists(original, patch, schema)?;
    for (key, value) in patch.iter_mut() {
        let (key, deletes) = match key.starts_with(DELETE_FROM_LIST) {
            true => (after_prefix(key, DELETE_FROM_LIST)?, true),
            false => (key.as_str(), false),
        };
        merge_field(original, key, value, deletes, schema)?;
    }
    Ok(())
}

fn merge_field(
    original: &mut Fields,
    key: &str,
    value: &mut Value,
    deletes: bool,
    schema: &Schema,
) -> Result<(), PatchError> {
    if value.is_null() {
        original.remove(key);
        return Ok(());
    }
    match (original.get_mut(key), &mut *value) {
        (Some(Value::Object(old)), Value::Object(new)) => {
            let (field, strategy) = lookup(schema, key)?;
            if strategy.replace {
                *old = new.clone();
                return Ok(());
            }
            merge_map(old, new, field)
        }
        (Some(Value::Array(old)), Value::Array(new)) => {
            let list = lookup_list(schema, key)?;
            *old = slices::merge(std::mem::take(old), new, &list, deletes)?.into();
            Ok(())
        }
        _ if deletes => Ok(()),
        (old, _) => {
            // A scalar replaces another scalar unchanged; any other new value loses its directives and nulls.
            let same_scalar = old.is_some_and(|old| {
                is_scalar(old) && std::mem::discriminant(old) == std::mem::discriminant(value)
            });
            if !same_scalar {
                discard_nulls(value);
            }
            match without_directives(value) {
                Some(value) => original.insert(key.into(), value),
                None => original.remove(key),
            };
            Ok(())
        }
    }
}

fn is_scalar(value: &Value) -> bool {
    matches!(value, Value::String(_) | Value::Number(_) | Value::Bool(_))
}

/// Removes the fields that `$retainKeys` does not list.
fn retain_keys(original: &mut Fields, patch: &mut Fields) -> Result<(), PatchError> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let wrong = || bad("invalid patch format of retainKeys");
    let Value::Array(keys) = keys else { return Err(wrong()) };
    let named = |key: &str| keys.iter().any(|each| each.as_str() == Some(key));
    let is_directive = |key: &str| key.starts_with(DELETE_FROM_LIST) || key.starts_with(SET_ELEMENT_ORDER);
    if patch.iter().any(|(key, value)| !value.is_null() && !is_directive(key) && !named(key)) {
        return Err(wrong());
    }
    original.retain(|key, _| named(key));
    Ok(())
}

/// The field name in a directive: `containers` for `$setElementOrder/containers`.
fn after_prefix<'k>(key: &'k str, prefix: &str) -> Result<&'k str, PatchError> {
    match key.split_once('/') {
        Some((found, rest)) if found == prefix => Ok(rest),
        _ if prefix == DELETE_FROM_LIST => Err(bad("invalid patch format of primitive list")),
        _ => Err(bad("invalid patch format of setElementOrder list")),
    }
}

/// A list field: the schema of its items, and how they are merged.
struct List<'s> {
    items: &'s Schema,
    strategy: PatchStrategy,
    key: Option<&'s str>,
}

fn lookup<'s>(schema: &'s Schema, key: &str) -> Result<(&'s Schema, PatchStrategy), PatchError> {
    let named = schema.type_name().and_then(|name| name.rsplit('.').next());
    let schema = schema.resolve();
    if schema.properties.is_empty() && schema.value_type == Some(Type::Object) && schema.values().is_some() {
        return Err(internal(
            "merging an object in json but data type is not struct, instead is: map".to_owned(),
        ));
    }
    // The lookup ignores case, like Go's decoder.
    let found = schema.properties.get(key).or_else(|| {
        schema.properties.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, field)| field)
    });
    let field = found.ok_or_else(|| {
        let name = named.or(schema.gvks.first().map(|gvk| gvk.kind.as_ref())).unwrap_or_default();
        internal(format!("unable to find api field in struct {name} for the json field {}", go::quote(key)))
    })?;
    Ok((field, field.patch_strategy))
}

fn lookup_list<'s>(schema: &'s Schema, key: &str) -> Result<List<'s>, PatchError> {
    let (field, strategy) = lookup(schema, key)?;
    let items =
        field.items().ok_or_else(|| internal("expected slice or array type, but got: struct".to_owned()))?;
    Ok(List { items, strategy, key: field.patch_merge_key.as_deref() })
}

fn unknown_directive(directive: &Value, patch: &Fields) -> PatchError {
    let text = match directive {
        Value::String(text) => text.to_string(),
        Value::Null => "%!s(<nil>)".into(),
        other => format!("%!s({}={})", go::type_name(other), go::text(other)),
    };
    internal(format!("unknown patch type: {text} in map: {}", map_text(patch)))
}

fn no_merge_key(map: &Fields, key: &str) -> PatchError {
    internal(format!("map: {} does not contain declared merge key: {key}", map_text(map)))
}

fn not_a(expected: &str, found: &Value) -> PatchError {
    let found = if found.is_null() { "%!s(<nil>)" } else { go::type_name(found) };
    internal(format!("expected a {expected}, but received a {found}"))
}

fn map_text(map: &Fields) -> String {
    go::text(&Value::Object(map.clone()))
}

/// Removes nulls from a new value, in which they have nothing to remove.
fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// Copies a new value without its directives; `None` if the value itself is a directive. The patch loses its directives, too.
fn without_directives(value: &mut Value) -> Option<Value> {
    strip_directives(value).then(|| value.clone())
}

fn strip_directives(value: &mut Value) -> bool {
    match value {
        Value::Object(map) => {
            if map.contains_key(DIRECTIVE) {
                return false;
            }
            map.retain(|_, value| strip_directives(value));
            true
        }
        Value::Array(items) => {
            items.retain_mut(strip_directives);
            true
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests;
