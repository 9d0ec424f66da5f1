//! The schemas of built-in types as JSON text, each encoded once per process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use evenkeel_schema::types::{Additional, Schema, builtin_type};
use parking_lot::Mutex;

/// A built-in type: its schema as JSON, and the names of the types that it refers to.
#[derive(Clone, Debug)]
pub(super) struct TypeText {
    pub(super) json: Arc<str>,
    references: Arc<[String]>,
}

/// Returns the named types and all types that they refer to, directly or indirectly. Unknown names are
/// skipped.
pub(super) fn close_over(names: impl IntoIterator<Item = String>) -> BTreeMap<String, TypeText> {
    let mut closed = BTreeMap::new();
    let mut open: Vec<String> = names.into_iter().collect();
    while let Some(name) = open.pop() {
        if closed.contains_key(&name) {
            continue;
        }
        if let Some(text) = text_of(&name) {
            open.extend(text.references.iter().cloned());
            closed.insert(name, text);
        }
    }
    closed
}

fn text_of(name: &str) -> Option<TypeText> {
    static TEXTS: Mutex<BTreeMap<String, TypeText>> = Mutex::new(BTreeMap::new());
    if let Some(text) = TEXTS.lock().get(name) {
        return Some(text.clone());
    }
    let schema = builtin_type(name)?;
    let mut references = BTreeSet::new();
    collect(schema, &mut references);
    let json = schema.to_openapi().to_string().into();
    let text = TypeText { json, references: references.into_iter().collect() };
    TEXTS.lock().insert(name.to_owned(), text.clone());
    Some(text)
}

fn collect(schema: &Schema, references: &mut BTreeSet<String>) {
    references.extend(schema.type_name().map(str::to_owned));
    schema.properties.iter().for_each(|(_, field)| collect(field, references));
    schema.items.iter().for_each(|items| collect(items, references));
    if let Additional::Schema(values) = &schema.additional {
        collect(values, references);
    }
}
