//! Checks that a schema is structural: every field is described once, outside of `allOf`, `anyOf`, `oneOf` and `not`.

use evenkeel_scalars::go_regex;

use crate::field::{FieldError, Path};
use crate::json::Value;
use crate::read::Read;

/// What a node of the schema describes: the object, an item of a list, or a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Returns all violations, sorted by their text.
pub(super) fn validate(path: &Path<'_>, schema: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    node(path, schema, Level::Root, &mut errors);
    complete_values(path, path, Some(schema), schema, &mut errors);
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

fn node(path: &Path<'_>, schema: &Value, level: Level, errors: &mut Vec<FieldError>) {
    if schema.str("type") == "array" && !schema.has("items") {
        errors.push(FieldError::required(path.child("items"), "must be specified"));
    }
    if let Some(items) = schema.at("items") {
        node(&path.child("items"), items, Level::Item, errors);
    }
    let properties = path.child("properties");
    for (name, field) in schema.map("properties").into_iter().flatten() {
        node(&properties.key(name), field, Level::Field, errors);
    }
    if let Some(values) = schema.at("additionalProperties") {
        let path = path.child("additionalProperties");
        if level == Level::Root {
            errors.push(FieldError::forbidden(path, "must not be used at the root"));
        }
        if values.is_object() {
            node(&path, values, Level::Field, errors);
        }
    }
    extensions(path, schema, errors);
    let skip_any_of = is_int_or_string(schema.list("anyOf"));
    let skip_first = schema.list("allOf").first().is_some_and(|first| is_int_or_string(first.list("anyOf")));
    value_rules(path, schema, skip_any_of, skip_first, errors);
    kind(path, schema, level, errors);
    resource(path, schema, level, errors);
}

/// Whether the alternatives are `integer` and `string`: the only combination that may name types.
fn is_int_or_string(any_of: &[Value]) -> bool {
    let only_type = |schema: &Value, kind: &str| {
        schema.as_object().is_some_and(|fields| fields.len() == 1) && schema.str("type") == kind
    };
    matches!(any_of, [first, second] if only_type(first, "integer") && only_type(second, "string"))
}

fn extensions(path: &Path<'_>, schema: &Value, errors: &mut Vec<FieldError>) {
    if !schema.bool("x-kubernetes-int-or-string") {
        return;
    }
    for name in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
        if schema.bool(name) {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(path.child(name), true, detail));
        }
    }
}

fn kind(path: &Path<'_>, schema: &Value, level: Level, errors: &mut Vec<FieldError>) {
    let kind = schema.str("type");
    let path_type = path.child("type");
    let embedded = schema.bool("x-kubernetes-embedded-resource");
    if embedded && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match kind {
            "" => FieldError::required(path_type, detail),
            kind => FieldError::invalid(path_type, kind, detail),
        });
    } else if kind.is_empty()
        && !schema.bool("x-kubernetes-int-or-string")
        && !schema.bool("x-kubernetes-preserve-unknown-fields")
    {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(path_type, detail));
    }
    if embedded && schema.has("additionalProperties") {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(path.child("additionalProperties"), detail));
    }
    if level == Level::Root && !matches!(kind, "" | "object") {
        errors.push(FieldError::invalid(path_type, kind, "must be object at the root"));
    }
}

fn resource(path: &Path<'_>, schema: &Value, level: Level, errors: &mut Vec<FieldError>) {
    let embedded = schema.bool("x-kubernetes-embedded-resource");
    let checked = level == Level::Root || embedded;
    let properties = path.child("properties");
    for name in ["kind", "apiVersion"] {
        if let Some(field) = schema.at("properties").at(name).filter(|_| checked)
            && field.str("type") != "string"
        {
            let at = properties.key(name);
            errors.push(FieldError::invalid(at.child("type"), field.str("type"), "must be string"));
        }
    }
    if let Some(metadata) = schema.at("properties").at("metadata") {
        let at = properties.key("metadata");
        if checked && metadata.str("type") != "object" {
            errors.push(FieldError::invalid(at.child("type"), metadata.str("type"), "must be object"));
        }
        if level == Level::Root && !restricts_only_names(metadata) {
            let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            errors.push(FieldError::forbidden(at, detail));
        }
    }
    let empty = schema.map("properties").is_none_or(|fields| fields.is_empty());
    if embedded && !schema.bool("x-kubernetes-preserve-unknown-fields") && empty {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(properties, detail));
    }
}

fn restricts_only_names(metadata: &Value) -> bool {
    let fields = metadata.as_object().into_iter().flatten();
    fields.filter(|(_, value)| !value.is_null()).all(|(name, value)| match name.as_str() {
        "type" | "default" => true,
        "properties" => {
            let mut names = value.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
            names.all(|name| matches!(name, "name" | "generateName"))
        }
        _ => false,
    })
}

fn value_rules(
    path: &Path<'_>,
    schema: &Value,
    skip_any_of: bool,
    skip_first: bool,
    errors: &mut Vec<FieldError>,
) {
    let any_of = path.child("anyOf");
    for (index, alternative) in schema.list("anyOf").iter().enumerate().filter(|_| !skip_any_of) {
        nested(&any_of.index(index), alternative, false, errors);
    }
    let all_of = path.child("allOf");
    for (index, part) in schema.list("allOf").iter().enumerate() {
        nested(&all_of.index(index), part, skip_first && index == 0, errors);
    }
    let one_of = path.child("oneOf");
    for (index, alternative) in schema.list("oneOf").iter().enumerate() {
        nested(&one_of.index(index), alternative, false, errors);
    }
    if let Some(not) = schema.at("not") {
        nested(&path.child("not"), not, false, errors);
    }
    let text = schema.str("pattern");
    if go_regex::compiled(text).is_none() {
        let detail = format!("must be a valid regular expression, but isn't: {}", go_regex::go_error(text));
        errors.push(FieldError::invalid(path.child("pattern"), text, detail));
    }
}

/// Checks a schema below a combination, which may restrict values but not describe fields.
fn nested(path: &Path<'_>, schema: &Value, skip_any_of: bool, errors: &mut Vec<FieldError>) {
    value_rules(path, schema, skip_any_of, false, errors);
    if let Some(items) = schema.at("items") {
        nested(&path.child("items"), items, false, errors);
    }
    let properties = path.child("properties");
    for (name, field) in schema.map("properties").into_iter().flatten() {
        nested(&properties.key(name), field, false, errors);
    }
    const EMPTY: &str = "must be empty to be structural";
    const FALSE: &str = "must be false to be structural";
    const UNDEFINED: &str = "must be undefined to be structural";
    let additional = schema.at("additionalProperties").is_some_and(|values| *values != Value::Bool(false));
    let forbidden = [
        ("type", !schema.str("type").is_empty(), EMPTY),
        ("additionalProperties", additional, UNDEFINED),
        ("default", schema.has("default"), UNDEFINED),
        ("title", !schema.str("title").is_empty(), EMPTY),
        ("description", !schema.str("description").is_empty(), EMPTY),
        ("nullable", schema.bool("nullable"), FALSE),
        ("x-kubernetes-preserve-unknown-fields", schema.bool("x-kubernetes-preserve-unknown-fields"), FALSE),
        ("x-kubernetes-embedded-resource", schema.bool("x-kubernetes-embedded-resource"), FALSE),
        ("x-kubernetes-int-or-string", schema.bool("x-kubernetes-int-or-string"), FALSE),
        ("x-kubernetes-list-map-keys", !schema.list("x-kubernetes-list-map-keys").is_empty(), EMPTY),
        ("x-kubernetes-list-type", schema.has("x-kubernetes-list-type"), UNDEFINED),
        ("x-kubernetes-map-type", schema.has("x-kubernetes-map-type"), UNDEFINED),
        ("x-kubernetes-validations", !schema.list("x-kubernetes-validations").is_empty(), EMPTY),
    ];
    for (name, _, detail) in forbidden.into_iter().filter(|(_, is_set, _)| *is_set) {
        errors.push(FieldError::forbidden(path.child(name), detail));
    }
    if schema.at("properties").has("metadata") {
        errors.push(FieldError::forbidden(
            properties.key("metadata"),
            "must not be specified in a nested context",
        ));
    }
}

/// Checks that the fields which a combination restricts are described outside of it. `at` is the schema outside, `from`
/// the schema inside of the combination.
fn complete_values(
    at: &Path<'_>,
    from: &Path<'_>,
    described: Option<&Value>,
    rules: &Value,
    errors: &mut Vec<FieldError>,
) {
    if let Some(not) = rules.at("not") {
        complete(at, &from.child("not"), described, not, errors);
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        let list = from.child(name);
        for (index, rules) in rules.list(name).iter().enumerate() {
            complete(at, &list.index(index), described, rules, errors);
        }
    }
}

fn complete(
    at: &Path<'_>,
    from: &Path<'_>,
    described: Option<&Value>,
    rules: &Value,
    errors: &mut Vec<FieldError>,
) {
    let Some(described) = described else {
        errors.push(FieldError::required(at, format!("because it is defined in {from}")));
        return;
    };
    complete_values(at, from, Some(described), rules, errors);
    if let Some(items) = rules.at("items") {
        complete(&at.child("items"), &from.child("items"), described.at("items"), items, errors);
    }
    let (at, from) = (at.child("properties"), from.child("properties"));
    for (name, field) in rules.map("properties").into_iter().flatten() {
        complete(&at.key(name), &from.key(name), described.at("properties").at(name), field, errors);
    }
}
