//! Compiles the `openAPIV3Schema` of a CustomResourceDefinition to a [`Schema`].

use super::definition::{RuleChecks, schema_errors};
use crate::field::{FieldError, Path};
use crate::json::Value;
use crate::read::Read;
use crate::types::{
    Additional, Limits, ListType, Logic, MapType, Properties, Schema, Text, Type, Validation,
};

/// Compiles a schema. The errors say why it is not structural.
///
/// ```
/// let schema = evenkeel_schema::json::json!({"type": "object", "properties": {"spec": {"type": "object"}}});
/// assert!(evenkeel_schema::structural::compile(&schema).is_ok());
/// ```
pub fn compile(schema: &Value) -> Result<Schema, Vec<FieldError>> {
    let errors = schema_errors(&Path::new("openAPIV3Schema"), schema, RuleChecks::None);
    if errors.is_empty() { Ok(node(schema)) } else { Err(errors) }
}

/// Compiles one node of a schema and all nodes below it. Unknown keywords are ignored.
pub(super) fn node(schema: &Value) -> Schema {
    Schema {
        value_type: Type::parse(schema.str("type")),
        format: Text::Owned(schema.str("format").to_owned()),
        properties: properties(schema),
        items: schema.at("items").filter(|items| items.is_object()).map(|items| Box::new(node(items))),
        additional: additional(schema),
        list_type: list_type(schema.str("x-kubernetes-list-type")),
        list_map_keys: texts(schema, "x-kubernetes-list-map-keys"),
        map_type: map_type(schema.str("x-kubernetes-map-type")),
        default: schema.get("default").filter(|default| !default.is_null()).cloned(),
        required: texts(schema, "required"),
        enumeration: schema.list("enum").to_vec(),
        nullable: schema.bool("nullable"),
        preserve_unknown_fields: schema.bool("x-kubernetes-preserve-unknown-fields"),
        embedded_resource: schema.bool("x-kubernetes-embedded-resource"),
        int_or_string: schema.bool("x-kubernetes-int-or-string"),
        limits: limits(schema),
        logic: logic(schema),
        validations: schema.list("x-kubernetes-validations").iter().map(validation).collect(),
        ..Schema::default()
    }
}

fn properties(schema: &Value) -> Properties {
    let fields = schema.map("properties").into_iter().flatten();
    fields.map(|(name, field)| (Text::Owned(name.clone().to_string()), node(field))).collect()
}

fn additional(schema: &Value) -> Additional {
    match schema.at("additionalProperties") {
        Some(Value::Bool(allowed)) => Additional::Allowed(*allowed),
        Some(values @ Value::Object(_)) => Additional::Schema(Box::new(node(values))),
        _ => Additional::Unset,
    }
}

fn list_type(text: &str) -> Option<ListType> {
    match text {
        "atomic" => Some(ListType::Atomic),
        "set" => Some(ListType::Set),
        "map" => Some(ListType::Map),
        _ => None,
    }
}

fn map_type(text: &str) -> Option<MapType> {
    match text {
        "atomic" => Some(MapType::Atomic),
        "granular" => Some(MapType::Granular),
        _ => None,
    }
}

fn texts(schema: &Value, field: &str) -> Vec<Text> {
    schema.strs(field).into_iter().map(|text| Text::Owned(text.to_owned())).collect()
}

fn limits(schema: &Value) -> Option<Box<Limits>> {
    let float = |name: &str| schema.at(name).and_then(Value::as_f64);
    let count = |name: &str| schema.at(name).and_then(Value::as_u64);
    let pattern = schema.str("pattern");
    let limits = Limits {
        minimum: float("minimum"),
        exclusive_minimum: schema.bool("exclusiveMinimum"),
        maximum: float("maximum"),
        exclusive_maximum: schema.bool("exclusiveMaximum"),
        multiple_of: float("multipleOf"),
        min_length: count("minLength"),
        max_length: count("maxLength"),
        pattern: (!pattern.is_empty()).then(|| pattern.to_owned()),
        min_items: count("minItems"),
        max_items: count("maxItems"),
        unique_items: schema.bool("uniqueItems"),
        min_properties: count("minProperties"),
        max_properties: count("maxProperties"),
    };
    (limits != Limits::default()).then(|| Box::new(limits))
}

fn logic(schema: &Value) -> Option<Box<Logic>> {
    let nodes = |name: &str| schema.list(name).iter().map(node).collect();
    let logic = Logic {
        all_of: nodes("allOf"),
        any_of: nodes("anyOf"),
        one_of: nodes("oneOf"),
        not: schema.at("not").map(|not| Box::new(node(not))),
    };
    (logic != Logic::default()).then(|| Box::new(logic))
}

fn validation(rule: &Value) -> Validation {
    Validation {
        rule: rule.str("rule").to_owned(),
        message: rule.str("message").to_owned(),
        message_expression: rule.str("messageExpression").to_owned(),
        reason: rule.str("reason").to_owned(),
        field_path: rule.str("fieldPath").to_owned(),
        optional_old_self: rule.at("optionalOldSelf").and_then(Value::as_bool),
    }
}
