//! Normalizes schemas, so that two schemas of the same meaning are equal.

use serde_json::{Map, Value, json};

/// Keywords that mean the same when they are `false` and when they are missing.
const FLAGS: [&str; 7] = [
    "nullable",
    "uniqueItems",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
];

/// Keywords whose order has no meaning.
const SETS: [&str; 2] = ["required", "enum"];

/// Keywords that are numbers, where `1` and `1.0` are the same.
const NUMBERS: [&str; 3] = ["minimum", "maximum", "multipleOf"];

/// Normalizes a schema: removes values that mean the same as absence, sorts sets, unifies the notation of numbers, and
/// removes the `anyOf` that repeats `x-kubernetes-int-or-string`.
pub(crate) fn normalize(schema: &Value) -> Value {
    let Value::Object(fields) = schema else { return schema.clone() };
    let normal = fields.iter().filter_map(|(name, value)| Some((name.clone(), keyword(name, value)?)));
    let mut normal: Map<String, Value> = normal.collect();
    let repeats =
        [json!([{"type": "integer"}, {"type": "string"}]), json!([{"type": "string"}, {"type": "integer"}])];
    if normal.contains_key("x-kubernetes-int-or-string")
        && normal.get("anyOf").is_some_and(|any_of| repeats.contains(any_of))
    {
        normal.remove("anyOf");
    }
    Value::Object(normal)
}

fn keyword(name: &str, value: &Value) -> Option<Value> {
    if FLAGS.contains(&name) {
        return (value == &Value::Bool(true)).then(|| value.clone());
    }
    let value = match (name, value) {
        ("default" | "example", value) => value.clone(),
        ("properties", Value::Object(fields)) => {
            Value::Object(fields.iter().map(|(name, field)| (name.clone(), normalize(field))).collect())
        }
        ("items" | "additionalProperties" | "not", value) => normalize(value),
        ("anyOf" | "oneOf" | "allOf", Value::Array(schemas)) => {
            Value::Array(schemas.iter().map(normalize).collect())
        }
        ("x-kubernetes-validations", Value::Array(rules)) => Value::Array(rules.iter().map(rule).collect()),
        (name, Value::Array(items)) if SETS.contains(&name) => sorted(items),
        (name, Value::Number(number)) if NUMBERS.contains(&name) => whole(number),
        (_, value) => value.clone(),
    };
    let nothing = match &value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty() && name == "properties",
        _ => false,
    };
    // An empty default still has a meaning, but `null` is not a default.
    (!nothing || (name == "default" && !value.is_null())).then_some(value)
}

fn rule(rule: &Value) -> Value {
    let Value::Object(fields) = rule else { return rule.clone() };
    let meant = |value: &Value| !(value.is_null() || value == "");
    let fields = fields.iter().filter(|(_, value)| meant(value));
    Value::Object(fields.map(|(name, value)| (name.clone(), value.clone())).collect())
}

fn sorted(items: &[Value]) -> Value {
    let mut items = items.to_vec();
    items.sort_by_key(Value::to_string);
    items.dedup();
    Value::Array(items)
}

fn whole(number: &serde_json::Number) -> Value {
    /// The largest float below which every integer has an exact representation.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    match number.as_f64() {
        #[expect(clippy::cast_possible_truncation, reason = "the float is an integer within the exact range")]
        Some(float) if float.fract() == 0.0 && float.abs() <= EXACT_MAX => Value::from(float as i64),
        // Kubernetes reads limits as floats, so that large integers lose their last digits.
        Some(float) => Value::from(float),
        None => Value::Number(number.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schema: Value, expected: Value) {
        assert_eq!(normalize(&schema), expected);
    }

    #[test]
    fn what_has_no_meaning_is_dropped() {
        check(
            json!({"type": "object", "nullable": false, "required": ["b", "a"], "properties": {}, "description": ""}),
            json!({"type": "object", "required": ["a", "b"]}),
        );
        check(json!({"type": "number", "minimum": 1.0}), json!({"type": "number", "minimum": 1}));
        check(json!({"maximum": i64::MAX}), json!({"maximum": 9.223372036854776e18}));
        check(
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
            json!({"x-kubernetes-int-or-string": true}),
        );
        check(
            json!({"x-kubernetes-validations": [{"rule": "a", "message": ""}]}),
            json!({"x-kubernetes-validations": [{"rule": "a"}]}),
        );
    }

    #[test]
    fn what_has_meaning_stays() {
        for schema in [
            json!({"type": "string", "default": ""}),
            json!({"type": "object", "default": {}}),
            json!({"type": "array", "default": [], "items": {"type": "string"}}),
            json!({"anyOf": [{"type": "integer"}, {"type": "string"}]}),
            json!({"properties": {"required": {"type": "boolean"}, "nullable": {"type": "boolean"}}}),
            json!({"properties": {"anything": {}}}),
        ] {
            check(schema.clone(), schema);
        }
    }
}
