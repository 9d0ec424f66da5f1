//! Fuzzes CEL validation rules: for any expression and object, evaluation ends soon and its result is small.
#![no_main]

use evenkeel_schema::structural::{self, Rules};
use evenkeel_schema::json::{Value, json};

// The first line is the rule, the rest is the object under `spec`. An update of the object to itself is
// tried, too.
libfuzzer_sys::fuzz_target!(|text: &str| {
    let (rule, object) = text.split_once('\n').unwrap_or((text, "{}"));
    let item = json!({"type": "object", "required": ["k"], "properties": {
        "k": {"type": "string"}, "v": {"type": "integer"}}});
    let spec = json!({
        "type": "object",
        "x-kubernetes-validations": [{"rule": rule, "messageExpression": rule, "message": "m"}],
        "properties": {
            "s": {"type": "string"}, "n": {"type": "integer"}, "d": {"type": "number"}, "b": {"type": "boolean"},
            "p": {"x-kubernetes-int-or-string": true}, "u": {"x-kubernetes-preserve-unknown-fields": true},
            "t": {"type": "string", "format": "date-time"}, "w": {"type": "string", "format": "duration"},
            "y": {"type": "string", "format": "byte"}, "a-b": {"type": "string", "nullable": true},
            "l": {"type": "array", "items": {"type": "integer"}},
            "z": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "i": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": item},
            "m": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    });
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let definition = json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}});
    let _ = structural::definition::validate(&definition, None);
    let Ok(compiled) = structural::compile(&schema) else { return };
    let Some(rules) = Rules::compile(&compiled) else { return };
    let spec: Value = serde_json::from_str(object).unwrap_or_else(|_| json!({"s": object, "n": 1, "l": [1, 2, 3]}));
    let object = json!({"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "a"}, "spec": spec});
    let _ = rules.validate(&object, None);
    let _ = rules.validate(&object, Some(&object));
});
