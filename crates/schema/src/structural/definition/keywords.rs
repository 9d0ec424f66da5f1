//! Checks which OpenAPI keywords a definition uses, and in which combinations.

use evenkeel_scalars::go;

use super::super::rules::{Report, RuleScope, elements_max};
use super::{RuleChecks, field_path};
use crate::field::{BadValue, FieldError, Path};
use crate::json::Value;
use crate::read::Read;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
const META_FIELDS: [&str; 3] = ["metadata", "kind", "apiVersion"];

/// Validates the keywords of a schema and of all schemas below it.
pub(super) fn validate(path: &Path<'_>, schema: &Value, rules: RuleChecks) -> Vec<FieldError> {
    let report = Report::new(rules == RuleChecks::Compile);
    let mut found = Found { errors: Vec::new(), rules: report };
    let scope = (rules != RuleChecks::None).then_some(Scope { cardinality: Some(1), uncorrelatable: None });
    visit(path, schema, &Context { root: true, rules: scope, ..Context::default() }, &mut found);
    // Kubernetes reports the errors of CEL rules after those of the schema.
    let mut errors = found.errors;
    errors.extend(found.rules.finish(path));
    errors
}

/// The errors found so far.
struct Found {
    errors: Vec<FieldError>,
    rules: Report,
}

/// Whether a schema uses a keyword anywhere that cannot be converted to a structural schema. Then only that is reported.
pub(super) fn is_unsupported(schema: &Value) -> bool {
    let used = |name: &str| match schema.at(name) {
        None => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Object(fields)) => !fields.is_empty() || name == "additionalItems",
        Some(_) => true,
    };
    let keywords =
        ["id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions"];
    keywords.into_iter().any(used)
        || schema.at("items").is_some_and(Value::is_array)
        || schema.at("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false))
        || children(schema).any(is_unsupported)
}

/// The schemas directly below one.
pub(super) fn children(schema: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|name| schema.list(name));
    let single = ["not", "items", "additionalProperties"].into_iter().filter_map(|name| schema.at(name));
    let fields = schema.map("properties").into_iter().flatten().map(|(_, field)| field);
    lists.chain(single.filter(|child| child.is_object())).chain(fields)
}

#[derive(Clone, Default)]
struct Context {
    root: bool,
    in_meta: bool,
    /// Why defaults are forbidden here, if they are.
    no_defaults: Option<String>,
    /// The scope of CEL rules here; `None` if rules are not checked.
    rules: Option<Scope>,
}

/// The surroundings of the CEL rules of one node.
#[derive(Clone)]
struct Scope {
    /// How often the value can occur in an object; `None` if nothing in the schema limits that.
    cardinality: Option<u64>,
    /// The nearest list above whose items have no keys, so that an item has no old value.
    uncorrelatable: Option<String>,
}

fn visit(path: &Path<'_>, schema: &Value, context: &Context, found: &mut Found) {
    let known = found.errors.len();
    visit_parts(path, schema, context, found);
    // The errors of rules on an invalid schema would be misleading.
    let Some(scope) = context.rules.as_ref().filter(|_| found.errors.len() == known) else { return };
    if !schema.list("x-kubernetes-validations").is_empty() {
        let rule_scope = RuleScope {
            root: context.root,
            cardinality: scope.cardinality,
            uncorrelatable: scope.uncorrelatable.as_deref(),
        };
        found.rules.check(path, schema, &rule_scope);
    }
}

fn visit_parts(path: &Path<'_>, schema: &Value, context: &Context, found: &mut Found) {
    let errors = &mut found.errors;
    standard(path, schema, context, errors);
    if schema.bool("uniqueItems") {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(path.child("uniqueItems"), detail));
    }
    let context = Context { rules: scope_below(schema, context.rules.as_ref()), ..context.clone() };
    let below = Context { root: false, ..context.clone() };
    additional_properties(path, schema, &below, found);
    let properties = path.child("properties");
    for (name, field) in schema.map("properties").into_iter().flatten() {
        visit(&properties.key(name), field, &field_context(schema, name, &context), found);
    }
    combinations(path, schema, &Context { rules: None, ..below.clone() }, found);
    if let Some(items) = schema.at("items").filter(|items| items.is_object()) {
        let mut below = below;
        if let Some(scope) = below.rules.as_mut().filter(|_| schema.str("x-kubernetes-list-type") != "map") {
            scope.uncorrelatable.get_or_insert_with(|| path.to_string());
        }
        visit(&path.child("items"), items, &below, found);
    }
    extensions(path, schema, &mut found.errors);
}

/// The scope of the nodes below a schema. Their cardinality is that of the schema times the elements that it can hold.
fn scope_below(schema: &Value, scope: Option<&Scope>) -> Option<Scope> {
    let scope = scope?;
    let cardinality = scope.cardinality.zip(elements_max(schema)).map(|(a, b)| a.saturating_mul(b));
    Some(Scope { cardinality, uncorrelatable: scope.uncorrelatable.clone() })
}

fn combinations(path: &Path<'_>, schema: &Value, below: &Context, found: &mut Found) {
    if let Some(not) = schema.at("not") {
        visit(&path.child("not"), not, below, found);
    }
    for name in ["allOf", "oneOf", "anyOf"] {
        let list = path.child(name);
        for (index, part) in schema.list(name).iter().enumerate() {
            visit(&list.index(index), part, below, found);
        }
    }
}

fn extensions(path: &Path<'_>, schema: &Value, errors: &mut Vec<FieldError>) {
    if schema.at("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let at = path.child("x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(at, false, "must be true or undefined"));
    }
    map_type(path, schema, errors);
    list_type(path, schema, errors);
    if schema.str("x-kubernetes-list-type") == "map" {
        list_map(path, schema, errors);
    }
    unique_items(path, schema, errors);
    rules(path, schema, errors);
}

fn field_context(schema: &Value, name: &str, context: &Context) -> Context {
    let mut below = Context { root: false, ..context.clone() };
    let resource = context.root || schema.bool("x-kubernetes-embedded-resource");
    if resource && META_FIELDS.contains(&name) {
        below.in_meta = true;
        if context.root {
            below.no_defaults = Some(format!("in top-level {name}"));
        }
    }
    below
}

fn standard(path: &Path<'_>, schema: &Value, context: &Context, errors: &mut Vec<FieldError>) {
    let kind = schema.str("type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(path.child("type"), kind, &TYPES));
    }
    if let (Some(reason), true) = (&context.no_defaults, schema.has("default")) {
        errors.push(FieldError::forbidden(path.child("default"), format!("must not be set {reason}")));
    }
    let filled = |name: &str| schema.map(name).is_some_and(|fields| !fields.is_empty());
    let unsupported = [
        ("id", !schema.str("id").is_empty()),
        ("additionalItems", schema.has("additionalItems")),
        ("patternProperties", filled("patternProperties")),
        ("definitions", filled("definitions")),
        ("dependencies", schema.has("dependencies")),
        ("$ref", schema.has("$ref")),
    ];
    for (name, _) in unsupported.into_iter().filter(|(_, used)| *used) {
        errors.push(FieldError::forbidden(path.child(name), format!("{name} is not supported")));
    }
    if kind == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        errors.push(FieldError::forbidden(path.child("type"), detail));
    }
    if !schema.list("items").is_empty() {
        errors.push(FieldError::forbidden(
            path.child("items"),
            "items must be a schema object and not an array",
        ));
    }
    if context.in_meta && schema.bool("x-kubernetes-embedded-resource") {
        let at = path.child("x-kubernetes-embedded-resource");
        errors.push(FieldError::forbidden(at, "must not be used inside of resource meta"));
    }
}

fn additional_properties(path: &Path<'_>, schema: &Value, below: &Context, found: &mut Found) {
    let Some(values) = schema.at("additionalProperties") else { return };
    let path = path.child("additionalProperties");
    let has_fields = schema.map("properties").is_some_and(|fields| !fields.is_empty());
    if has_fields && *values != Value::Bool(true) {
        let detail = "additionalProperties and properties are mutual exclusive";
        found.errors.push(FieldError::forbidden(path, detail));
    }
    if values.is_object() {
        let mut below = below.clone();
        if below.in_meta {
            below.no_defaults = Some("inside additionalProperties applying to object metadata".into());
        }
        visit(&path, values, &below, found);
    }
}

fn map_type(path: &Path<'_>, schema: &Value, errors: &mut Vec<FieldError>) {
    let Some(map_type) = schema.at("x-kubernetes-map-type").and_then(Value::as_str) else { return };
    expect_type(path, schema, "object", "x-kubernetes-map-type", errors);
    if !matches!(map_type, "atomic" | "granular") {
        let at = path.child("x-kubernetes-map-type");
        errors.push(FieldError::not_supported(at, map_type, &["atomic", "granular"]));
    }
}

/// Checks that a schema has the type that a keyword needs.
fn expect_type(
    path: &Path<'_>,
    schema: &Value,
    kind: &str,
    keyword: &str,
    errors: &mut Vec<FieldError>,
) -> bool {
    let detail = format!("must be {kind} if {keyword} is specified");
    match schema.str("type") {
        actual if actual == kind => return true,
        "" => errors.push(FieldError::required(path.child("type"), detail)),
        actual => errors.push(FieldError::invalid(path.child("type"), actual, detail)),
    }
    false
}

fn list_type(path: &Path<'_>, schema: &Value, errors: &mut Vec<FieldError>) {
    let at = path.child("x-kubernetes-list-type");
    let list_type = schema.at("x-kubernetes-list-type").and_then(Value::as_str);
    if let Some(list_type) = list_type {
        if expect_type(path, schema, "array", "x-kubernetes-list-type", errors) && list_type == "set" {
            atomic_items(&path.child("items"), schema.at("items"), errors);
        }
        if !matches!(list_type, "atomic" | "set" | "map") {
            errors.push(FieldError::not_supported(at, list_type, &["atomic", "set", "map"]));
        }
    }
    if !schema.list("x-kubernetes-list-map-keys").is_empty() {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        match list_type {
            None => errors.push(FieldError::required(at, detail)),
            Some("map") => {}
            Some(other) => errors.push(FieldError::invalid(at, other, detail)),
        }
    }
}

fn atomic_items(path: &Path<'_>, items: Option<&Value>, errors: &mut Vec<FieldError>) {
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    // Kubernetes shows the list type also if the map type is wrong.
    let shown = items.at("x-kubernetes-list-type").cloned().unwrap_or(Value::Null);
    let shown = BadValue::Printed(go::json(&shown));
    match items.str("type") {
        "array" if !matches!(items.str("x-kubernetes-list-type"), "" | "atomic") => {
            errors.push(FieldError::invalid(path.child("x-kubernetes-list-type"), shown, detail));
        }
        "object" if items.str("x-kubernetes-map-type") != "atomic" => {
            errors.push(FieldError::invalid(path.child("x-kubernetes-map-type"), shown, detail));
        }
        _ => {}
    }
}

fn list_map(path: &Path<'_>, schema: &Value, errors: &mut Vec<FieldError>) {
    let keys = schema.strs("x-kubernetes-list-map-keys");
    let keys_path = path.child("x-kubernetes-list-map-keys");
    let items_path = path.child("items");
    if keys.is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        errors.push(FieldError::required(keys_path, detail));
    }
    let Some(items) = schema.at("items") else {
        let detail = "must have a schema if x-kubernetes-list-type is map";
        errors.push(FieldError::required(items_path, detail));
        return;
    };
    if items.str("type") != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(items_path.child("type"), items.str("type"), detail));
        return;
    }
    let properties = items_path.child("properties");
    for (index, key) in keys.iter().enumerate() {
        match items.at("properties").at(key) {
            Some(field) if matches!(field.str("type"), "array" | "object") => {
                let field = properties.key(key);
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid(field.child("type"), "object", detail));
            }
            Some(_) => {}
            None => {
                let detail = "entries must all be names of item properties";
                errors.push(FieldError::invalid(keys_path, Value::from(keys.clone()), detail));
            }
        }
        if keys[..index].contains(key) {
            let detail = "must not contain duplicate entries";
            errors.push(FieldError::invalid(keys_path, Value::from(keys.clone()), detail));
        }
    }
}

/// Checks that items of sets and maps, and the key fields of the latter, always have a value.
fn unique_items(path: &Path<'_>, schema: &Value, errors: &mut Vec<FieldError>) {
    let list_type = schema.str("x-kubernetes-list-type");
    let Some(items) = schema.at("items").filter(|items| items.is_object()) else { return };
    if !matches!(list_type, "set" | "map") {
        return;
    }
    let path = path.child("items");
    if items.bool("nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(path.child("nullable"), detail));
    }
    if list_type != "map" {
        return;
    }
    let properties = path.child("properties");
    for key in schema.strs("x-kubernetes-list-map-keys") {
        let Some(field) = items.at("properties").at(key) else { continue };
        let at = properties.key(key);
        if !items.strs("required").contains(&key) && !field.has("default") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(FieldError::required(at.child("default"), detail));
        }
        if field.bool("nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(at.child("nullable"), detail));
        }
    }
}

fn rules(path: &Path<'_>, schema: &Value, errors: &mut Vec<FieldError>) {
    let list = path.child("x-kubernetes-validations");
    for (index, rule) in schema.list("x-kubernetes-validations").iter().enumerate() {
        let path = list.index(index);
        rule_texts(&path, rule, errors);
        let reason = rule.str("reason");
        if rule.has("reason") && !REASONS.contains(&reason) {
            errors.push(FieldError::not_supported(path.child("reason"), reason, &REASONS));
        }
        let field_path = rule.str("fieldPath");
        let at = path.child("fieldPath");
        if !field_path.is_empty() && field_path.trim().is_empty() {
            errors.push(FieldError::invalid(at, field_path, "must be non-empty if specified"));
        }
        if field_path.contains(['\n', '\r']) {
            errors.push(FieldError::invalid(at, field_path, "must not contain line breaks"));
        }
        if !field_path.is_empty()
            && !is_unsupported(schema)
            && field_path::find(schema, field_path, true).is_err()
        {
            errors.push(FieldError::invalid(at, field_path, "must be a valid path"));
        }
    }
}

fn rule_texts(path: &Path<'_>, rule: &Value, errors: &mut Vec<FieldError>) {
    let (text, message) = (rule.str("rule").trim(), rule.str("message"));
    let breaks = |text: &str| text.contains(['\n', '\r']);
    if text.is_empty() {
        errors.push(FieldError::required(path.child("rule"), "rule is not specified"));
    } else if !message.is_empty() && message.trim().is_empty() {
        errors.push(FieldError::invalid(path.child("message"), message, "must be non-empty if specified"));
    } else if breaks(message.trim()) {
        errors.push(FieldError::invalid(path.child("message"), message, "must not contain line breaks"));
    } else if breaks(text) && message.trim().is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        errors.push(FieldError::required(path.child("message"), detail));
    }
    let expression = rule.str("messageExpression");
    if !expression.is_empty() && expression.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(path.child("messageExpression"), detail));
    }
}

/// The name of a keyword in the Go struct.
pub(super) fn go_name(keyword: &str) -> String {
    match keyword {
        "id" => "ID".into(),
        "$schema" => "Schema".into(),
        "$ref" => "Ref".into(),
        keyword => {
            let words = keyword.strip_prefix("x-kubernetes-");
            let prefix = if words.is_some() { "X" } else { "" };
            let words = words.unwrap_or(keyword).split('-').map(|word| {
                let (first, rest) = word.split_at(usize::from(!word.is_empty()));
                format!("{}{rest}", first.to_uppercase())
            });
            format!("{prefix}{}", words.collect::<String>())
        }
    }
}
