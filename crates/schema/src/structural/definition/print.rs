//! Prints a schema as Go prints the internal struct: every field, in the struct's order.

use evenkeel_scalars::go;

use crate::json::{Map, Value};
use crate::read::Read as _;

/// How a field of the struct is printed when the schema lacks it, and what its value is made of.
#[derive(Clone, Copy)]
enum Kind {
    /// A string: empty if absent.
    Text,
    /// A boolean: false if absent.
    Flag,
    /// Anything else that is printed as it is: null if absent.
    Plain,
    Schema,
    Schemas,
    SchemaMap,
    SchemaOrList,
    SchemaOrBool,
    SchemaOrTexts,
    Rules,
    Docs,
}

/// The fields of the struct: the names in Go and in the API.
const FIELDS: [(&str, &str, Kind); 44] = [
    ("ID", "id", Kind::Text),
    ("Schema", "$schema", Kind::Text),
    ("Ref", "$ref", Kind::Plain),
    ("Description", "description", Kind::Text),
    ("Type", "type", Kind::Text),
    ("Nullable", "nullable", Kind::Flag),
    ("Format", "format", Kind::Text),
    ("Title", "title", Kind::Text),
    ("Default", "default", Kind::Plain),
    ("Maximum", "maximum", Kind::Plain),
    ("ExclusiveMaximum", "exclusiveMaximum", Kind::Flag),
    ("Minimum", "minimum", Kind::Plain),
    ("ExclusiveMinimum", "exclusiveMinimum", Kind::Flag),
    ("MaxLength", "maxLength", Kind::Plain),
    ("MinLength", "minLength", Kind::Plain),
    ("Pattern", "pattern", Kind::Text),
    ("MaxItems", "maxItems", Kind::Plain),
    ("MinItems", "minItems", Kind::Plain),
    ("UniqueItems", "uniqueItems", Kind::Flag),
    ("MultipleOf", "multipleOf", Kind::Plain),
    ("Enum", "enum", Kind::Plain),
    ("MaxProperties", "maxProperties", Kind::Plain),
    ("MinProperties", "minProperties", Kind::Plain),
    ("Required", "required", Kind::Plain),
    ("Items", "items", Kind::SchemaOrList),
    ("AllOf", "allOf", Kind::Schemas),
    ("OneOf", "oneOf", Kind::Schemas),
    ("AnyOf", "anyOf", Kind::Schemas),
    ("Not", "not", Kind::Schema),
    ("Properties", "properties", Kind::SchemaMap),
    ("AdditionalProperties", "additionalProperties", Kind::SchemaOrBool),
    ("PatternProperties", "patternProperties", Kind::SchemaMap),
    ("Dependencies", "dependencies", Kind::SchemaOrTexts),
    ("AdditionalItems", "additionalItems", Kind::SchemaOrBool),
    ("Definitions", "definitions", Kind::SchemaMap),
    ("ExternalDocs", "externalDocs", Kind::Docs),
    ("Example", "example", Kind::Plain),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Kind::Plain),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", Kind::Flag),
    ("XIntOrString", "x-kubernetes-int-or-string", Kind::Flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Kind::Plain),
    ("XListType", "x-kubernetes-list-type", Kind::Plain),
    ("XMapType", "x-kubernetes-map-type", Kind::Plain),
    ("XValidations", "x-kubernetes-validations", Kind::Rules),
];

/// Prints a schema.
pub(super) fn schema(schema: &Value) -> String {
    let printed = FIELDS.iter().map(|(go_name, name, kind)| {
        let value = schema.at(name);
        format!("\"{go_name}\":{}", field(*kind, value))
    });
    format!("{{{}}}", printed.collect::<Vec<_>>().join(","))
}

fn field(kind: Kind, value: Option<&Value>) -> String {
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return match kind {
            Kind::Text => "\"\"",
            Kind::Flag => "false",
            _ => "null",
        }
        .to_owned();
    };
    match (kind, value) {
        (Kind::Schema, value) => schema(value),
        (Kind::Schemas, Value::Array(items)) => list(items, schema),
        (Kind::SchemaMap, Value::Object(entries)) => map(entries, schema),
        (Kind::SchemaOrList, Value::Array(items)) => {
            format!(r#"{{"Schema":null,"JSONSchemas":{}}}"#, list(items, schema))
        }
        (Kind::SchemaOrList, value) => format!(r#"{{"Schema":{},"JSONSchemas":null}}"#, schema(value)),
        (Kind::SchemaOrBool, Value::Bool(allows)) => format!(r#"{{"Allows":{allows},"Schema":null}}"#),
        (Kind::SchemaOrBool, value) => format!(r#"{{"Allows":true,"Schema":{}}}"#, schema(value)),
        (Kind::SchemaOrTexts, Value::Object(entries)) => map(entries, |value| match value {
            Value::Array(_) => format!(r#"{{"Schema":null,"Property":{}}}"#, go::json(value)),
            value => format!(r#"{{"Schema":{},"Property":null}}"#, schema(value)),
        }),
        (Kind::Rules, Value::Array(items)) => list(items, rule),
        (Kind::Docs, docs) => {
            let text = |name| go::json(&Value::from(docs.str(name)));
            format!(r#"{{"Description":{},"URL":{}}}"#, text("description"), text("url"))
        }
        (_, value) => go::json(value),
    }
}

fn rule(rule: &Value) -> String {
    let text = |name| go::json(&Value::from(rule.str(name)));
    let plain = |name| field(Kind::Plain, rule.at(name));
    format!(
        r#"{{"Rule":{},"Message":{},"MessageExpression":{},"Reason":{},"FieldPath":{},"OptionalOldSelf":{}}}"#,
        text("rule"),
        text("message"),
        text("messageExpression"),
        plain("reason"),
        text("fieldPath"),
        plain("optionalOldSelf"),
    )
}

fn list(items: &[Value], print: impl Fn(&Value) -> String) -> String {
    format!("[{}]", items.iter().map(print).collect::<Vec<_>>().join(","))
}

fn map(entries: &Map, print: impl Fn(&Value) -> String) -> String {
    let entries = entries
        .iter()
        .map(|(name, value)| format!("{}:{}", go::json(&Value::from(name.as_str())), print(value)));
    format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn every_field_is_printed_in_its_place() {
        let printed =
            schema(&json!({"type": "object", "items": {"type": "string"}, "additionalProperties": true}));
        assert!(printed.starts_with(
            r#"{"ID":"","Schema":"","Ref":null,"Description":"","Type":"object","Nullable":false,"#
        ));
        assert!(printed.contains(
            r#""Items":{"Schema":{"ID":"","Schema":"","Ref":null,"Description":"","Type":"string","#
        ));
        assert!(
            printed
                .contains(r#""AdditionalProperties":{"Allows":true,"Schema":null},"PatternProperties":null"#)
        );
        assert!(printed.ends_with(r#""XListType":null,"XMapType":null,"XValidations":null}"#), "{printed}");
    }
}
