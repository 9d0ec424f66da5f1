//! The descriptions of built-in types and their fields, which `kubectl explain` prints.
//!
//! They are most of the size of the documents, so programs choose whether they carry them ([`describe_types`]). Without
//! them everything works but the texts are missing.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::OnceLock;

use evenkeel_schema::json::{Map, Value, json};
use flate2::read::DeflateDecoder;
use serde::Deserialize;

use super::custom;

/// The compressed texts, as [`describe_types`] received them.
static COMPRESSED: OnceLock<&'static [u8]> = OnceLock::new();

/// The texts: each once, and for every type where its own texts are.
#[derive(Default, Deserialize)]
struct Descriptions {
    texts: Vec<Box<str>>,
    types: BTreeMap<Box<str>, Texts>,
}

/// The places of the texts of one type.
#[derive(Default, Deserialize)]
struct Texts {
    /// The description of the type itself.
    own: Option<usize>,
    /// The descriptions of its fields.
    fields: BTreeMap<Box<str>, usize>,
}

/// Makes the OpenAPI documents of this process describe built-in types and their fields.
///
/// `compressed` is JSON compressed with DEFLATE: `{"texts": […], "types": {TYPE: {"own": N, "fields": {FIELD: N}}}}`, where
/// N is a place in `texts`. It is unpacked when the first document is requested; only a call before that has an effect.
pub fn describe_types(compressed: &'static [u8]) {
    // Whoever comes second brings the same texts, because all programs take them from the same types.
    let _ = COMPRESSED.set(compressed);
}

/// Unpacks the texts for as long as documents are built. They are not kept, because the documents contain them.
pub(super) struct Describer(Descriptions);

impl Describer {
    pub(super) fn new() -> Self {
        let unpacked = COMPRESSED.get().map(|compressed| {
            let mut text = String::new();
            let read = DeflateDecoder::new(*compressed).read_to_string(&mut text);
            read.map_err(serde_json::Error::io).and_then(|_| serde_json::from_str(&text))
        });
        match unpacked {
            Some(Ok(descriptions)) => Self(descriptions),
            Some(Err(error)) => {
                tracing::error!(%error, "the descriptions of the built-in types are damaged");
                Self(Descriptions::default())
            }
            None => Self(Descriptions::default()),
        }
    }

    /// Adds the descriptions of a type to its schema.
    pub(super) fn describe(&self, name: &str, schema: &mut Value) {
        let Some(texts) = self.0.types.get(name) else {
            if !self.0.types.is_empty() {
                describe_list(name, schema);
            }
            return;
        };
        if name.ends_with(".WatchEvent") {
            put(schema, "object", "The object of the event; if the event is an error, a Status.".into());
        }
        let text = |at: &usize| self.0.texts.get(*at).map(|text| Value::from(text.as_ref()));
        let Some(schema) = schema.as_object_mut() else { return };
        schema.extend(texts.own.as_ref().and_then(text).map(|text| ("description".to_owned(), text)));
        let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
        for (field, at) in &texts.fields {
            if let (Some(Value::Object(field)), Some(text)) = (properties.get_mut(field.as_ref()), text(at)) {
                wrap_reference(field);
                field.insert("description".into(), text);
            }
        }
    }
}

/// Describes a list of objects, which has no type of its own in the sources of the texts.
fn describe_list(name: &str, schema: &mut Value) {
    let Some(list) = name.rsplit('.').next().filter(|name| name.ends_with("List")) else { return };
    let kind = list.trim_end_matches("List");
    for (field, described) in custom::list_fields() {
        put(schema, field, described["description"].clone());
    }
    put(schema, "items", format!("The objects of kind {kind}.").into());
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("description".into(), format!("{list} is a list of {kind}.").into());
    }
}

/// Describes a field, if the schema has it.
fn put(schema: &mut Value, field: &str, text: Value) {
    if let Some(Value::Object(field)) = schema["properties"].get_mut(field) {
        wrap_reference(field);
        field.insert("description".into(), text);
    }
}

/// Moves a reference into an `allOf`, because nothing may stand beside a reference.
fn wrap_reference(field: &mut Map) {
    if let Some(link) = field.remove("$ref") {
        field.insert("allOf".into(), json!([{ "$ref": link }]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_described_reference_is_wrapped() {
        let texts = r#"{"texts": ["A thing.", "Its part."], "types": {"a.Thing": {"own": 0, "fields": {"part": 1, "gone": 0}}}}"#;
        let describer = Describer(serde_json::from_str(texts).unwrap());
        let mut schema =
            json!({"type": "object", "properties": {"part": {"$ref": "#/x"}, "other": {"$ref": "#/y"}}});
        describer.describe("a.Thing", &mut schema);
        let part = json!({"description": "Its part.", "allOf": [{"$ref": "#/x"}]});
        assert_eq!(
            schema,
            json!({"type": "object", "description": "A thing.", "properties": {"part": part, "other": {"$ref": "#/y"}}})
        );
        let mut unknown = json!({"type": "string"});
        describer.describe("a.Other", &mut unknown);
        assert_eq!(unknown, json!({"type": "string"}));
    }
}
