//! Refuses duplicate items in lists whose list type is `set` or `map`.

use std::collections::BTreeMap;

use crate::field::{FieldError, Path};
use crate::json::{Map, Value};
use crate::types::{Additional, ListType, Schema};

pub(super) fn validate(path: &Path<'_>, schema: &Schema, value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    visit(path, schema, value, &mut errors);
    errors
}

fn visit(path: &Path<'_>, schema: &Schema, value: &Value, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                if let Additional::Schema(values) = &schema.additional {
                    visit(&path.key(name), values, value, errors);
                }
                if let Some(schema) = schema.properties.get(name) {
                    visit(&path.child(name), schema, value, errors);
                }
            }
        }
        Value::Array(items) => {
            match schema.list_type {
                Some(ListType::Set) => {
                    errors.extend(
                        repeated(items).map(|index| FieldError::duplicate(path.index(index), &items[index])),
                    );
                }
                Some(ListType::Map) => map_items(path, schema, items, errors),
                _ => {}
            }
            if let Some(schema) = schema.items.as_deref() {
                for (index, item) in items.iter().enumerate() {
                    visit(&path.index(index), schema, item, errors);
                }
            }
        }
        _ => {}
    }
}

fn map_items(path: &Path<'_>, schema: &Schema, items: &[Value], errors: &mut Vec<FieldError>) {
    if let Some(index) = items.iter().position(|item| !item.is_object() && !item.is_null()) {
        let detail = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(path.index(index), &items[index], detail));
        return;
    }
    let keys: Vec<Value> = items.iter().map(|item| keys_of(schema, item)).collect();
    errors.extend(repeated(&keys).map(|index| FieldError::duplicate(path.index(index), &keys[index])));
}

fn keys_of(schema: &Schema, item: &Value) -> Value {
    let present = schema
        .list_map_keys
        .iter()
        .filter_map(|key| Some((key.to_string(), item.get(key.as_ref())?.clone())));
    Value::Object(present.collect::<Map>())
}

/// For every item that occurs more than once, the index of its second occurrence.
fn repeated(items: &[Value]) -> impl Iterator<Item = usize> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut again = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let times = seen.entry(item.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            again.push(index);
        }
    }
    again.into_iter()
}
