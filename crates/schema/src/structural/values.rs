//! Validates values against their schema: types, limits, formats, enumerations and combinations of schemas.
//!
//! Kubernetes collects the errors of all checks. If all alternatives of `anyOf` or `oneOf` fail, it reports the errors of
//! the one that passed the most checks. So this module counts passed checks, exactly where Kubernetes does.

use evenkeel_scalars::go;

use super::numbers::{self, Number};
use crate::field::{BadValue, ErrorKind, FieldError};
use crate::json::{Map, Value};
use crate::types::{Additional, ListType, Logic, Schema, Type};
use evenkeel_scalars::{formats, go_regex};

/// Validates the value at the field `root`, which is empty for a whole object.
pub(super) fn validate(root: &str, schema: &Schema, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let outcome = ratchet("", schema, value, old);
    outcome.failures.into_iter().map(|failure| failure.into_error(root)).collect()
}

/// The result of checking a value.
#[derive(Default)]
pub(super) struct Outcome {
    failures: Vec<Failure>,
    /// How many checks passed, by which the best of several failed alternatives is chosen.
    matches: usize,
}

/// One error; without a path, it is about the object as a whole.
pub(super) struct Failure {
    kind: ErrorKind,
    path: Option<String>,
    value: BadValue,
    detail: String,
}

impl Failure {
    fn at(path: &str, kind: ErrorKind, value: impl Into<BadValue>, detail: impl Into<String>) -> Self {
        Failure { kind, path: Some(path.to_owned()), value: value.into(), detail: detail.into() }
    }

    pub(super) fn invalid(path: &str, value: impl Into<BadValue>, detail: impl Into<String>) -> Self {
        Self::at(path, ErrorKind::Invalid, value, detail)
    }

    /// The error for a value of another type than `expected`.
    fn wrong_type(path: &str, expected: &str, actual: &str) -> Self {
        let detail = format!("{path} in body must be of type {expected}: {}", go::quote(actual));
        Self::at(path, ErrorKind::TypeInvalid, actual, detail)
    }

    pub(super) fn general(detail: String) -> Self {
        Failure { kind: ErrorKind::Invalid, path: None, value: "".into(), detail }
    }

    fn into_error(self, root: &str) -> FieldError {
        let path = self.path.as_deref().map(|path| path.strip_prefix('.').unwrap_or(path));
        let field = match (root, path.unwrap_or_default()) {
            ("", "") => "<nil>".to_owned(),
            ("", path) => path.to_owned(),
            (root, "") => root.to_owned(),
            (root, path) => format!("{root}.{path}"),
        };
        match self.kind {
            ErrorKind::Required => FieldError::required(field, ""),
            kind => FieldError { kind, field, bad_value: self.value, detail: self.detail },
        }
    }

    fn same_as(&self, other: &Failure) -> bool {
        self.path == other.path && self.detail == other.detail && self.kind == other.kind
    }
}

impl Outcome {
    fn is_valid(&self) -> bool {
        self.failures.is_empty()
    }

    /// Adds a failure, unless an equal one was added before.
    pub(super) fn fail(&mut self, failure: Failure) {
        if !self.failures.iter().any(|known| known.same_as(&failure)) {
            self.failures.push(failure);
        }
    }

    fn merge(&mut self, other: Outcome) {
        self.matches += other.matches;
        other.failures.into_iter().for_each(|failure| self.fail(failure));
    }
}

/// Checks a value, and drops its errors if it is equal to the old value.
fn ratchet(path: &str, schema: &Schema, value: &Value, old: Option<&Value>) -> Outcome {
    let mut outcome = check(path, schema, value, old);
    if !outcome.is_valid() && old == Some(value) {
        outcome.failures.clear();
    }
    outcome
}

fn check(path: &str, schema: &Schema, value: &Value, old: Option<&Value>) -> Outcome {
    let mut outcome = Outcome::default();
    if value.is_null() {
        null(path, schema, &mut outcome);
        return outcome;
    }
    if !types(schema).is_empty() || !format(schema).is_empty() {
        match type_failure(path, schema, value) {
            Some(failure) => outcome.fail(failure),
            None => outcome.matches += 1,
        }
        outcome.matches += 1;
    }
    if let Some(logic) = &schema.logic {
        combinations(path, logic, value, old, &mut outcome);
    }
    outcome.matches += 2;
    match value {
        Value::String(text) => string(path, schema, text, &mut outcome),
        Value::Number(number) => {
            numbers::check(path, schema, Number::from(number), &mut outcome);
            outcome.matches += 2;
        }
        Value::Array(items) => array(path, schema, items, old, &mut outcome),
        _ => {}
    }
    enumeration(path, schema, value, &mut outcome);
    outcome.matches += 1;
    if let Value::Object(fields) = value {
        object(path, schema, fields, old, &mut outcome);
        outcome.matches += 1;
    }
    outcome.matches += 1;
    outcome
}

fn null(path: &str, schema: &Schema, outcome: &mut Outcome) {
    let types = types(schema);
    match types.is_empty() || schema.nullable {
        true => outcome.matches += 1,
        false => outcome.fail(Failure::wrong_type(path, &types.join(","), "null")),
    }
    enumeration(path, schema, &Value::Null, outcome);
}

/// The types that a value may have; empty if any type is allowed.
fn types(schema: &Schema) -> Vec<&'static str> {
    match (schema.int_or_string, schema.value_type) {
        (true, _) => vec!["integer", "string"],
        (false, Some(kind)) => vec![kind.name()],
        (false, None) => Vec::new(),
    }
}

/// The format, or an empty string if the type ignores the format.
fn format(schema: &Schema) -> &str {
    let format = schema.format.as_ref();
    let known = match (schema.int_or_string, schema.value_type) {
        (true, _) => false,
        (_, None | Some(Type::String)) => formats::is_known(format),
        (_, Some(Type::Integer)) => matches!(format, "int32" | "int64"),
        (_, Some(Type::Number)) => matches!(format, "float" | "double"),
        _ => false,
    };
    if known { format } else { "" }
}

/// The JSON type of a value, and the format of the Go type that holds it.
fn described(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::Number(number) if number.as_i64().is_none() => ("number", "float64"),
        Value::Number(_) => ("integer", "int64"),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
    }
}

fn type_failure(path: &str, schema: &Schema, value: &Value) -> Option<Failure> {
    let (types, format) = (types(schema), format(schema));
    let (actual, go_type) = described(value);
    let allows = |name: &str| types.contains(&name);
    let whole_float =
        actual == "number" && allows("integer") && value.as_f64().is_some_and(numbers::is_whole);
    let integer_as_number = actual == "integer" && allows("number");
    let fits = allows(actual) || whole_float || integer_as_number;
    let listish = matches!(value, Value::String(_) | Value::Array(_));
    if !listish && !format.is_empty() && !fits && go_type != format {
        return Some(Failure::wrong_type(path, format, go_type));
    }
    if listish && !format.is_empty() && !allows("number") && !allows("integer") {
        return None;
    }
    (!fits).then(|| Failure::wrong_type(path, &types.join(","), actual))
}

fn combinations(path: &str, logic: &Logic, value: &Value, old: Option<&Value>, outcome: &mut Outcome) {
    let results = |schemas: &[Schema]| -> Vec<Outcome> {
        schemas.iter().map(|schema| check(path, schema, value, old)).collect()
    };
    if !logic.any_of.is_empty() {
        any_of(path, results(&logic.any_of), outcome);
    }
    if !logic.one_of.is_empty() {
        one_of(path, results(&logic.one_of), outcome);
    }
    if !logic.all_of.is_empty() {
        all_of(path, results(&logic.all_of), outcome);
    }
    if let Some(not) = &logic.not
        && check(path, not, value, old).is_valid()
    {
        outcome.fail(Failure::general(format!("{} must not validate the schema (not)", go::quote(path))));
    }
}

/// The failed alternative that passed the most checks; the first one of several.
fn best(results: Vec<Outcome>) -> Option<Outcome> {
    results.into_iter().reduce(|best, next| if next.matches > best.matches { next } else { best })
}

fn any_of(path: &str, mut results: Vec<Outcome>, outcome: &mut Outcome) {
    if let Some(valid) = results.iter().position(Outcome::is_valid) {
        outcome.merge(results.swap_remove(valid));
        return;
    }
    outcome.fail(Failure::general(format!("{} must validate at least one schema (anyOf)", go::quote(path))));
    best(results).into_iter().for_each(|best| outcome.merge(best));
}

fn one_of(path: &str, mut results: Vec<Outcome>, outcome: &mut Outcome) {
    let valid = results.iter().filter(|result| result.is_valid()).count();
    let found = match valid {
        1 => {
            results.retain(Outcome::is_valid);
            results.into_iter().for_each(|valid| outcome.merge(valid));
            return;
        }
        0 => "Found none valid".to_owned(),
        valid => format!("Found {valid} valid alternatives"),
    };
    let detail = format!("{} must validate one and only one schema (oneOf). {found}", go::quote(path));
    outcome.fail(Failure::general(detail));
    if valid == 0 {
        best(results).into_iter().for_each(|best| outcome.merge(best));
    }
}

fn all_of(path: &str, results: Vec<Outcome>, outcome: &mut Outcome) {
    let (total, valid) = (results.len(), results.iter().filter(|result| result.is_valid()).count());
    results.into_iter().for_each(|result| outcome.merge(result));
    if valid != total {
        let none = if valid == 0 { ". None validated" } else { "" };
        outcome.fail(Failure::general(format!(
            "{} must validate all the schemas (allOf){none}",
            go::quote(path)
        )));
    }
}

fn string(path: &str, schema: &Schema, text: &str, outcome: &mut Outcome) {
    if let Some(failure) = text_failure(path, schema, text) {
        outcome.fail(failure);
    }
    outcome.matches += 1;
    let format = format(schema);
    if schema.value_type.is_none_or(|value_type| value_type == Type::String) && formats::is_known(format) {
        if !formats::matches(format, text) {
            outcome.fail(Failure::wrong_type(path, format, text));
        }
        outcome.matches += 1;
    }
}

/// The first limit that a string exceeds. Lengths count characters, though the message says bytes.
fn text_failure(path: &str, schema: &Schema, text: &str) -> Option<Failure> {
    let limits = schema.limits.as_deref()?;
    let length = text.chars().count() as u64;
    if let Some(max) = limits.max_length.filter(|max| length > *max) {
        let unit = if max == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {max} {unit}");
        return Some(Failure::at(path, ErrorKind::TooLong, BadValue::Omitted, detail));
    }
    if let Some(min) = limits.min_length.filter(|min| length < *min) {
        return Some(Failure::invalid(
            path,
            text,
            format!("{path} in body should be at least {min} chars long"),
        ));
    }
    let pattern = limits.pattern.as_deref()?;
    match go_regex::compiled(pattern) {
        Some(regex) if regex.is_match(text) => None,
        _ => Some(Failure::invalid(path, text, format!("{path} in body should match '{pattern}'"))),
    }
}

fn array(path: &str, schema: &Schema, items: &[Value], old: Option<&Value>, outcome: &mut Outcome) {
    if let Some(item_schema) = schema.items.as_deref() {
        for (index, item) in items.iter().enumerate() {
            let old = old.and_then(|old| correlate(schema, item, old));
            outcome.merge(ratchet(&format!("{path}[{index}]"), item_schema, item, old));
        }
    }
    let limits = schema.limits.as_deref();
    let size = items.len() as u64;
    if let Some(min) = limits.and_then(|limits| limits.min_items).filter(|min| size < *min) {
        let detail = format!("{path} in body should have at least {min} items");
        outcome.fail(Failure::invalid(path, size, detail));
    }
    if let Some(max) = limits.and_then(|limits| limits.max_items).filter(|max| size > *max) {
        outcome.fail(too_many(path, size, max));
    }
    outcome.matches += 2;
}

fn too_many(path: &str, size: u64, max: u64) -> Failure {
    let unit = if max == 1 { "item" } else { "items" };
    Failure::at(path, ErrorKind::TooMany, size, format!("must have at most {max} {unit}"))
}

/// The item of the old list with the same keys; `None` if the list type is not `map`.
fn correlate<'a>(schema: &Schema, item: &Value, old: &'a Value) -> Option<&'a Value> {
    if schema.list_type != Some(ListType::Map) {
        return None;
    }
    let same = |key: &str, old: &Value| item.get(key) == old.get(key);
    old.as_array()?.iter().find(|old| schema.list_map_keys.iter().all(|key| same(key, old)))
}

fn enumeration(path: &str, schema: &Schema, value: &Value, outcome: &mut Outcome) {
    let allowed = &schema.enumeration;
    if allowed.is_empty() || allowed.iter().any(|candidate| same_value(candidate, value)) {
        return;
    }
    let names: Vec<String> = allowed
        .iter()
        .map(|value| value.as_str().map_or_else(|| go::json(value), str::to_owned))
        .map(|text| go::quote(&text))
        .collect();
    let detail = format!("supported values: {}", names.join(", "));
    outcome.fail(Failure::at(path, ErrorKind::NotSupported, value, detail));
}

fn same_value(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (a, b) => a == b,
    }
}

fn object(path: &str, schema: &Schema, fields: &Map, old: Option<&Value>, outcome: &mut Outcome) {
    let limits = schema.limits.as_deref();
    let size = fields.len() as u64;
    if let Some(min) = limits.and_then(|limits| limits.min_properties).filter(|min| size < *min) {
        let detail = format!("{path} in body should have at least {min} properties");
        outcome.fail(Failure::invalid(path, size, detail));
    }
    if let Some(max) = limits.and_then(|limits| limits.max_properties).filter(|max| size > *max) {
        outcome.fail(too_many(path, size, max));
    }
    for (name, value) in fields {
        let old = old.and_then(|old| old.get(name));
        match (schema.properties.get(name), &schema.additional) {
            (None, Additional::Allowed(false)) => {
                outcome.fail(Failure::invalid(
                    path,
                    "",
                    format!("{path}.{name} in body is a forbidden property"),
                ));
            }
            (None, Additional::Schema(values)) => {
                outcome.merge(ratchet(&format!("{path}.{name}"), values, value, old));
            }
            _ => {}
        }
    }
    for (name, field) in schema.properties.iter() {
        let Some(value) = fields.get(name) else { continue };
        let at = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        // Kubernetes passes no old value for `kind` and `apiVersion`, so that their errors are never dropped.
        let type_meta = path.is_empty() && matches!(name, "kind" | "apiVersion");
        let old = old.and_then(|old| old.get(name)).filter(|_| !type_meta);
        outcome.merge(ratchet(&at, field, value, old));
    }
    for name in schema.required.iter().filter(|name| !fields.contains_key(name.as_ref())) {
        outcome.fail(Failure::at(&format!("{path}.{name}"), ErrorKind::Required, "", ""));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;
    use crate::structural::compile::node;

    #[track_caller]
    fn check_texts(schema: Value, object: Value, texts: &[&str]) {
        let errors: Vec<String> =
            validate("", &node(&schema), &object, None).iter().map(ToString::to_string).collect();
        assert_eq!(errors, texts);
    }

    #[test]
    fn types_and_limits() {
        let schema = json!({"type": "object", "required": ["r"], "properties": {
            "i": {"type": "integer", "minimum": 1, "maximum": 3}, "s": {"type": "string", "maxLength": 2, "pattern": "^a"},
            "l": {"type": "array", "maxItems": 1, "items": {"type": "string"}}, "e": {"type": "string", "enum": ["a", "b"]},
            "m": {"type": "object", "minProperties": 1, "additionalProperties": {"type": "integer"}},
            "p": {"x-kubernetes-int-or-string": true}, "r": {"type": "string"}}});
        check_texts(
            schema.clone(),
            json!({"i": "x", "s": "abc", "l": ["a", 1], "e": "c", "m": {"k": "v"}, "p": true}),
            &[
                r#"e: Unsupported value: "c": supported values: "a", "b""#,
                r#"i: Invalid value: "string": i in body must be of type integer: "string""#,
                r#"l[1]: Invalid value: "integer": l[1] in body must be of type string: "integer""#,
                "l: Too many: 2: must have at most 1 item",
                r#"m.k: Invalid value: "string": m.k in body must be of type integer: "string""#,
                r#"p: Invalid value: "boolean": p in body must be of type integer,string: "boolean""#,
                "s: Too long: may not be more than 2 bytes",
                "r: Required value",
            ],
        );
        check_texts(
            schema,
            json!({"i": 0, "s": "x", "m": {}, "p": "8%", "r": "x"}),
            &[
                "i: Invalid value: 0: i in body should be greater than or equal to 1",
                "m: Invalid value: 0: m in body should have at least 1 properties",
                r#"s: Invalid value: "x": s in body should match '^a'"#,
            ],
        );
    }

    #[test]
    fn alternatives_report_the_best() {
        let schema = json!({"type": "object", "properties": {
            "c": {"type": "integer", "anyOf": [{"minimum": 10}, {"maximum": 1}]},
            "d": {"type": "integer", "not": {"enum": [4]}},
            "e": {"type": "integer", "allOf": [{"minimum": 1}, {"maximum": 3}]},
            "o": {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {
                "a": {"type": "string"}, "b": {"type": "string"}}}}});
        check_texts(
            schema,
            json!({"c": 5, "d": 4, "e": 4, "o": {}}),
            &[
                r#"<nil>: Invalid value: "": "c" must validate at least one schema (anyOf)"#,
                "c: Invalid value: 5: c in body should be greater than or equal to 10",
                r#"<nil>: Invalid value: "": "d" must not validate the schema (not)"#,
                "e: Invalid value: 4: e in body should be less than or equal to 3",
                r#"<nil>: Invalid value: "": "e" must validate all the schemas (allOf)"#,
                r#"<nil>: Invalid value: "": "o" must validate one and only one schema (oneOf). Found none valid"#,
                "o.a: Required value",
            ],
        );
    }

    #[test]
    fn what_did_not_change_is_forgiven() {
        let schema = node(&json!({"type": "object", "properties": {"a": {"type": "integer", "maximum": 3},
            "l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer", "maximum": 3}}}}}}));
        let old = json!({"a": 5, "l": [{"k": "x", "v": 9}]});
        assert!(
            validate(
                "",
                &schema,
                &json!({"a": 5, "b": 1, "l": [{"k": "y", "v": 1}, {"k": "x", "v": 9}]}),
                Some(&old)
            )
            .is_empty()
        );
        assert_eq!(validate("", &schema, &json!({"a": 6, "l": []}), Some(&old)).len(), 1);
    }
}
