//! Encodes OpenAPI documents as protobuf, which kubectl and Go's discovery client ask for.
//!
//! The messages are those of gnostic's models of OpenAPI v2 and v3. A table below lists, for each message, the number,
//! the JSON name and the type of its fields, and one encoder writes all of them. The table contains only what the
//! documents of an API server contain: a test encodes all built-in documents and fails if one has a field that the
//! table lacks.

use evenkeel_schema::json::{Map, Value};
use evenkeel_schema::protobuf::{write_bytes, write_double, write_number};

use crate::encode::print_yaml;

/// Encodes an OpenAPI v2 document.
pub(super) fn v2(document: &Value) -> Vec<u8> {
    encode(&DOCUMENT_V2, document).0
}

/// Encodes an OpenAPI v3 document.
pub(super) fn v3(document: &Value) -> Vec<u8> {
    encode(&DOCUMENT_V3, document).0
}

/// Encodes a document, and lists the fields that the table lacks.
fn encode(message: &'static Message, document: &Value) -> (Vec<u8>, Vec<String>) {
    let mut encoder = Encoder::default();
    let mut out = Vec::new();
    encoder.message(&mut out, message, document);
    (out, encoder.unknown)
}

/// A type of values.
#[derive(Clone, Copy)]
enum Type {
    Text,
    Bool,
    Integer,
    Double,
    /// Any JSON value, written as YAML.
    Any,
    Message(&'static Message),
}

/// A message, by the form of its JSON.
enum Message {
    /// An object with named fields, and the number of the field for extensions, whose names begin with `x-`.
    Struct { fields: &'static [Field], extensions: u32 },
    /// An object with arbitrary keys: entries with a name and a value, in the field with this number.
    Map { number: u32, value: Type },
    /// One value or a list of them, in the field with this number.
    Values { number: u32, value: Type },
    /// A message with one field out of several, which the function chooses; `None` for an empty message.
    Either(fn(&Value) -> Option<(u32, Type)>),
}

/// A field of an object: its number, its name in JSON, and its type. A list is written item by item.
type Field = (u32, &'static str, Type);

use Type::{Any, Bool, Double, Integer, Text};

const fn of(message: &'static Message) -> Type {
    Type::Message(message)
}

/// A value given in place, or a reference. `$number` is the field of the value; references have number 2.
macro_rules! or_reference {
    ($message:expr, $reference:expr) => {
        Message::Either(|value| {
            let is_reference = value.get("$ref").is_some();
            Some(if is_reference { (2, of(&$reference)) } else { (1, of(&$message)) })
        })
    };
}

static STRINGS: Message = Message::Values { number: 1, value: Text };
static SECURITY_REQUIREMENT: Message = Message::Map { number: 1, value: of(&STRINGS) };

static DOCUMENT_V2: Message = Message::Struct {
    fields: &[
        (1, "swagger", Text),
        (2, "info", of(&INFO_V2)),
        (8, "paths", of(&PATHS_V2)),
        (9, "definitions", of(&DEFINITIONS_V2)),
        (12, "security", of(&SECURITY_REQUIREMENT)),
        (13, "securityDefinitions", of(&SECURITY_DEFINITIONS_V2)),
    ],
    extensions: 16,
};
static INFO_V2: Message = Message::Struct {
    fields: &[(1, "title", Text), (2, "version", Text), (3, "description", Text)],
    extensions: 7,
};
static PATHS_V2: Message = Message::Map { number: 2, value: of(&PATH_ITEM_V2) };
static DEFINITIONS_V2: Message = Message::Map { number: 1, value: of(&SCHEMA_V2) };
static SECURITY_DEFINITIONS_V2: Message = Message::Map { number: 1, value: of(&SECURITY_DEFINITION_V2) };
/// The only kind of credentials in the documents is an API key, number 2.
static SECURITY_DEFINITION_V2: Message = Message::Either(|_| Some((2, of(&API_KEY_V2))));
static API_KEY_V2: Message = Message::Struct {
    fields: &[(1, "type", Text), (2, "name", Text), (3, "in", Text), (4, "description", Text)],
    extensions: 5,
};
static PATH_ITEM_V2: Message = Message::Struct {
    fields: &[
        (2, "get", of(&OPERATION_V2)),
        (3, "put", of(&OPERATION_V2)),
        (4, "post", of(&OPERATION_V2)),
        (5, "delete", of(&OPERATION_V2)),
        (6, "options", of(&OPERATION_V2)),
        (7, "head", of(&OPERATION_V2)),
        (8, "patch", of(&OPERATION_V2)),
        (9, "parameters", of(&PARAMETERS_ITEM_V2)),
    ],
    extensions: 10,
};
static OPERATION_V2: Message = Message::Struct {
    fields: &[
        (1, "tags", Text),
        (2, "summary", Text),
        (3, "description", Text),
        (5, "operationId", Text),
        (6, "produces", Text),
        (7, "consumes", Text),
        (8, "parameters", of(&PARAMETERS_ITEM_V2)),
        (9, "responses", of(&RESPONSES_V2)),
        (10, "schemes", Text),
        (11, "deprecated", Bool),
        (12, "security", of(&SECURITY_REQUIREMENT)),
    ],
    extensions: 13,
};
static REFERENCE_V2: Message =
    Message::Struct { fields: &[(1, "$ref", Text), (2, "description", Text)], extensions: 0 };
static PARAMETERS_ITEM_V2: Message = or_reference!(PARAMETER_V2, REFERENCE_V2);
static PARAMETER_V2: Message = Message::Either(|value| match value["in"].as_str() {
    Some("body") => Some((1, of(&BODY_PARAMETER_V2))),
    _ => Some((2, of(&NON_BODY_PARAMETER_V2))),
});
static BODY_PARAMETER_V2: Message = Message::Struct {
    fields: &[
        (1, "description", Text),
        (2, "name", Text),
        (3, "in", Text),
        (4, "required", Bool),
        (5, "schema", of(&SCHEMA_V2)),
    ],
    extensions: 6,
};
static NON_BODY_PARAMETER_V2: Message = Message::Either(|value| match value["in"].as_str() {
    Some("header") => Some((1, of(&HEADER_OR_PATH_PARAMETER_V2))),
    Some("formData") => Some((2, of(&QUERY_PARAMETER_V2))),
    Some("query") => Some((3, of(&QUERY_PARAMETER_V2))),
    _ => Some((4, of(&HEADER_OR_PATH_PARAMETER_V2))),
});
static QUERY_PARAMETER_V2: Message = Message::Struct {
    fields: &[
        (1, "required", Bool),
        (2, "in", Text),
        (3, "description", Text),
        (4, "name", Text),
        (5, "allowEmptyValue", Bool),
        (6, "type", Text),
        (7, "format", Text),
        (10, "default", Any),
        (20, "uniqueItems", Bool),
    ],
    extensions: 23,
};
static HEADER_OR_PATH_PARAMETER_V2: Message = Message::Struct {
    fields: &[
        (1, "required", Bool),
        (2, "in", Text),
        (3, "description", Text),
        (4, "name", Text),
        (5, "type", Text),
        (6, "format", Text),
        (9, "default", Any),
        (19, "uniqueItems", Bool),
    ],
    extensions: 22,
};
static RESPONSES_V2: Message = Message::Map { number: 1, value: of(&RESPONSE_VALUE_V2) };
static RESPONSE_VALUE_V2: Message = or_reference!(RESPONSE_V2, REFERENCE_V2);
static RESPONSE_V2: Message = Message::Struct {
    fields: &[(1, "description", Text), (2, "schema", of(&SCHEMA_ITEM_V2))],
    extensions: 5,
};
static SCHEMA_ITEM_V2: Message = Message::Either(|_| Some((1, of(&SCHEMA_V2))));
static SCHEMA_V2: Message = Message::Struct {
    fields: &[
        (1, "$ref", Text),
        (2, "format", Text),
        (3, "title", Text),
        (4, "description", Text),
        (5, "default", Any),
        (6, "multipleOf", Double),
        (7, "maximum", Double),
        (8, "exclusiveMaximum", Bool),
        (9, "minimum", Double),
        (10, "exclusiveMinimum", Bool),
        (11, "maxLength", Integer),
        (12, "minLength", Integer),
        (13, "pattern", Text),
        (14, "maxItems", Integer),
        (15, "minItems", Integer),
        (16, "uniqueItems", Bool),
        (17, "maxProperties", Integer),
        (18, "minProperties", Integer),
        (19, "required", Text),
        (20, "enum", Any),
        (21, "additionalProperties", of(&ADDITIONAL_PROPERTIES_V2)),
        (22, "type", of(&STRINGS)),
        (23, "items", of(&ITEMS_V2)),
        (24, "allOf", of(&SCHEMA_V2)),
        (25, "properties", of(&DEFINITIONS_V2)),
        (29, "externalDocs", of(&EXTERNAL_DOCS)),
        (30, "example", Any),
    ],
    extensions: 31,
};
static ADDITIONAL_PROPERTIES_V2: Message = Message::Either(|value| match value {
    Value::Bool(_) => Some((2, Bool)),
    _ => Some((1, of(&SCHEMA_V2))),
});
static ITEMS_V2: Message = Message::Values { number: 1, value: of(&SCHEMA_V2) };
static EXTERNAL_DOCS: Message =
    Message::Struct { fields: &[(1, "description", Text), (2, "url", Text)], extensions: 3 };

static DOCUMENT_V3: Message = Message::Struct {
    fields: &[
        (1, "openapi", Text),
        (2, "info", of(&INFO_V3)),
        (4, "paths", of(&PATHS_V3)),
        (5, "components", of(&COMPONENTS_V3)),
        (6, "security", of(&SECURITY_REQUIREMENT)),
    ],
    extensions: 9,
};
static INFO_V3: Message = Message::Struct {
    fields: &[(1, "title", Text), (2, "description", Text), (6, "version", Text)],
    extensions: 7,
};
static PATHS_V3: Message = Message::Map { number: 1, value: of(&PATH_ITEM_V3) };
static COMPONENTS_V3: Message = Message::Struct {
    fields: &[(1, "schemas", of(&SCHEMAS_V3)), (7, "securitySchemes", of(&SECURITY_SCHEMES_V3))],
    extensions: 10,
};
static SCHEMAS_V3: Message = Message::Map { number: 1, value: of(&SCHEMA_OR_REFERENCE_V3) };
static SECURITY_SCHEMES_V3: Message = Message::Map { number: 1, value: of(&SECURITY_SCHEME_OR_REFERENCE_V3) };
static SECURITY_SCHEME_OR_REFERENCE_V3: Message = or_reference!(SECURITY_SCHEME_V3, REFERENCE_V3);
static SECURITY_SCHEME_V3: Message = Message::Struct {
    fields: &[(1, "type", Text), (2, "description", Text), (3, "name", Text), (4, "in", Text)],
    extensions: 9,
};
static PATH_ITEM_V3: Message = Message::Struct {
    fields: &[
        (2, "summary", Text),
        (3, "description", Text),
        (4, "get", of(&OPERATION_V3)),
        (5, "put", of(&OPERATION_V3)),
        (6, "post", of(&OPERATION_V3)),
        (7, "delete", of(&OPERATION_V3)),
        (8, "options", of(&OPERATION_V3)),
        (9, "head", of(&OPERATION_V3)),
        (10, "patch", of(&OPERATION_V3)),
        (13, "parameters", of(&PARAMETER_OR_REFERENCE_V3)),
    ],
    extensions: 14,
};
static OPERATION_V3: Message = Message::Struct {
    fields: &[
        (1, "tags", Text),
        (2, "summary", Text),
        (3, "description", Text),
        (5, "operationId", Text),
        (6, "parameters", of(&PARAMETER_OR_REFERENCE_V3)),
        (7, "requestBody", of(&REQUEST_BODY_OR_REFERENCE_V3)),
        (8, "responses", of(&RESPONSES_V3)),
        (10, "deprecated", Bool),
        (11, "security", of(&SECURITY_REQUIREMENT)),
    ],
    extensions: 13,
};
static REFERENCE_V3: Message = Message::Struct {
    fields: &[(1, "$ref", Text), (2, "summary", Text), (3, "description", Text)],
    extensions: 0,
};
static PARAMETER_OR_REFERENCE_V3: Message = or_reference!(PARAMETER_V3, REFERENCE_V3);
static PARAMETER_V3: Message = Message::Struct {
    fields: &[
        (1, "name", Text),
        (2, "in", Text),
        (3, "description", Text),
        (4, "required", Bool),
        (5, "deprecated", Bool),
        (6, "allowEmptyValue", Bool),
        (10, "schema", of(&SCHEMA_OR_REFERENCE_V3)),
        (13, "content", of(&MEDIA_TYPES_V3)),
    ],
    extensions: 14,
};
static REQUEST_BODY_OR_REFERENCE_V3: Message = or_reference!(REQUEST_BODY_V3, REFERENCE_V3);
static REQUEST_BODY_V3: Message = Message::Struct {
    fields: &[(1, "description", Text), (2, "content", of(&MEDIA_TYPES_V3)), (3, "required", Bool)],
    extensions: 4,
};
static MEDIA_TYPES_V3: Message = Message::Map { number: 1, value: of(&MEDIA_TYPE_V3) };
static MEDIA_TYPE_V3: Message =
    Message::Struct { fields: &[(1, "schema", of(&SCHEMA_OR_REFERENCE_V3))], extensions: 5 };
static RESPONSES_V3: Message = Message::Map { number: 2, value: of(&RESPONSE_OR_REFERENCE_V3) };
static RESPONSE_OR_REFERENCE_V3: Message = or_reference!(RESPONSE_V3, REFERENCE_V3);
static RESPONSE_V3: Message = Message::Struct {
    fields: &[(1, "description", Text), (3, "content", of(&MEDIA_TYPES_V3))],
    extensions: 5,
};
static SCHEMA_OR_REFERENCE_V3: Message = or_reference!(SCHEMA_V3, REFERENCE_V3);
static SCHEMA_V3: Message = Message::Struct {
    fields: &[
        (1, "nullable", Bool),
        (6, "externalDocs", of(&EXTERNAL_DOCS)),
        (7, "example", Any),
        (9, "title", Text),
        (10, "multipleOf", Double),
        (11, "maximum", Double),
        (12, "exclusiveMaximum", Bool),
        (13, "minimum", Double),
        (14, "exclusiveMinimum", Bool),
        (15, "maxLength", Integer),
        (16, "minLength", Integer),
        (17, "pattern", Text),
        (18, "maxItems", Integer),
        (19, "minItems", Integer),
        (20, "uniqueItems", Bool),
        (21, "maxProperties", Integer),
        (22, "minProperties", Integer),
        (23, "required", Text),
        (24, "enum", Any),
        (25, "type", Text),
        (26, "allOf", of(&SCHEMA_OR_REFERENCE_V3)),
        (27, "oneOf", of(&SCHEMA_OR_REFERENCE_V3)),
        (28, "anyOf", of(&SCHEMA_OR_REFERENCE_V3)),
        (29, "not", of(&SCHEMA_V3)),
        (30, "items", of(&ITEMS_V3)),
        (31, "properties", of(&SCHEMAS_V3)),
        (32, "additionalProperties", of(&ADDITIONAL_PROPERTIES_V3)),
        (33, "default", of(&DEFAULT_V3)),
        (34, "description", Text),
        (35, "format", Text),
    ],
    extensions: 36,
};
static ITEMS_V3: Message = Message::Values { number: 1, value: of(&SCHEMA_OR_REFERENCE_V3) };
static ADDITIONAL_PROPERTIES_V3: Message = Message::Either(|value| match value {
    Value::Bool(_) => Some((2, Bool)),
    _ => Some((1, of(&SCHEMA_OR_REFERENCE_V3))),
});
/// The message has no field for a default that is an object or a list.
static DEFAULT_V3: Message = Message::Either(|value| match value {
    Value::Number(_) => Some((1, Double)),
    Value::Bool(_) => Some((2, Bool)),
    Value::String(_) => Some((3, Text)),
    _ => None,
});

#[derive(Default)]
struct Encoder {
    /// The fields that the table lacks.
    unknown: Vec<String>,
}

impl Encoder {
    fn message(&mut self, out: &mut Vec<u8>, message: &'static Message, value: &Value) {
        match message {
            Message::Struct { fields, extensions } => {
                self.object(out, fields, *extensions, value.as_object().unwrap_or(&Map::new()));
            }
            Message::Map { number, value: of } => {
                let entries = value.as_object().into_iter().flatten();
                entries.for_each(|(name, value)| self.named(out, *number, name, *of, value));
            }
            Message::Values { number, value: of } => self.values(out, *number, *of, value),
            Message::Either(choose) => {
                if let Some((number, of)) = choose(value) {
                    self.value(out, number, of, value);
                }
            }
        }
    }

    fn object(&mut self, out: &mut Vec<u8>, fields: &[Field], extensions: u32, object: &Map) {
        for (number, name, of) in fields {
            match (object.get(name), of) {
                (None, _) => {}
                // A list where a message takes several values is one value.
                (Some(value), Type::Message(Message::Values { .. })) => self.value(out, *number, *of, value),
                (Some(value), _) => self.values(out, *number, *of, value),
            }
        }
        for (name, value) in object {
            // The message of a reference has no field for extensions.
            if name.starts_with("x-") {
                if extensions > 0 {
                    self.named(out, extensions, name, Any, value);
                }
            } else if !fields.iter().any(|field| *name == *field.1) {
                self.unknown.push(name.to_string());
            }
        }
    }

    /// Writes an entry with a name and a value.
    fn named(&mut self, out: &mut Vec<u8>, number: u32, name: &str, of: Type, value: &Value) {
        let mut entry = Vec::new();
        write_bytes(&mut entry, 1, name.as_bytes());
        self.value(&mut entry, 2, of, value);
        write_bytes(out, number, &entry);
    }

    /// Writes the items of a list, or a single value. As in proto3, zero is not written.
    fn values(&mut self, out: &mut Vec<u8>, number: u32, of: Type, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.value(out, number, of, item)),
            value if is_zero(value) && !matches!(of, Any | Type::Message(_)) => {}
            value => self.value(out, number, of, value),
        }
    }

    fn value(&mut self, out: &mut Vec<u8>, number: u32, of: Type, value: &Value) {
        match of {
            Text => write_bytes(out, number, value.as_str().unwrap_or_default().as_bytes()),
            Bool => write_number(out, number, value.as_bool().unwrap_or_default().into()),
            Integer => write_number(out, number, value.as_i64().unwrap_or_default()),
            Double => write_double(out, number, value.as_f64().unwrap_or_default()),
            Any => {
                let mut any = Vec::new();
                write_bytes(&mut any, 2, print_yaml(value).as_bytes());
                write_bytes(out, number, &any);
            }
            Type::Message(message) => {
                let mut inner = Vec::new();
                self.message(&mut inner, message, value);
                write_bytes(out, number, &inner);
            }
        }
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_schema::json::json;

    use super::*;

    #[test]
    fn the_table_has_every_field_of_the_built_in_documents() {
        let mut documents = Vec::new();
        for (path, document) in super::super::built_in() {
            let value: Value = serde_json::from_slice(&document.bytes).unwrap();
            assert_eq!(encode(&DOCUMENT_V3, &value).1, Vec::<String>::new(), "{path}");
            documents.push(value);
        }
        let swagger = super::super::swagger::of(documents);
        assert_eq!(encode(&DOCUMENT_V2, &swagger).1, Vec::<String>::new());
    }

    /// A field with a message that consists of these parts.
    fn message(number: u32, parts: &[Vec<u8>]) -> Vec<u8> {
        let mut out = Vec::new();
        write_bytes(&mut out, number, &parts.concat());
        out
    }

    fn text(number: u32, text: &str) -> Vec<u8> {
        message(number, &[text.into()])
    }

    #[test]
    fn a_schema_is_written_as_gnostic_writes_it() {
        let schema = json!({"type": "object", "additionalProperties": false, "minLength": 0,
            "properties": {"a": {"type": "array", "items": {"$ref": "#/definitions/b"}}},
            "x-kubernetes-preserve-unknown-fields": true});
        let items = message(23, &[message(1, &[text(1, "#/definitions/b")])]);
        let property = message(2, &[message(22, &[text(1, "array")]), items]);
        let expected = [
            // A chosen alternative is written even if its value is zero; `minLength` is not.
            message(21, &[vec![2 << 3, 0]]),
            message(22, &[text(1, "object")]),
            message(25, &[message(1, &[text(1, "a"), property])]),
            message(31, &[text(1, "x-kubernetes-preserve-unknown-fields"), message(2, &[text(2, "true\n")])]),
        ];
        assert_eq!(encode(&SCHEMA_V2, &schema).0, expected.concat());
        let schema =
            json!({"allOf": [{"$ref": "#/components/schemas/b"}], "default": {}, "items": {"default": 1.5}});
        let expected = [
            message(26, &[message(2, &[text(1, "#/components/schemas/b")])]),
            message(
                30,
                &[message(
                    1,
                    &[message(
                        1,
                        &[message(33, &[[vec![1 << 3 | 1], 1.5f64.to_le_bytes().to_vec()].concat()])],
                    )],
                )],
            ),
            message(33, &[]),
        ];
        assert_eq!(encode(&SCHEMA_V3, &schema).0, expected.concat());
    }
}
