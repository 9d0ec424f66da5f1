//! Prunes unknown fields.

use crate::json::{Map, Text, Value};
use crate::types::{Additional, Schema};

const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Drops unknown fields from a custom resource and returns their paths, sorted.
///
/// The object's own `apiVersion`, `kind` and `metadata` are kept whatever the schema says.
pub fn prune(schema: &Schema, object: &mut Value) -> Vec<String> {
    prune_root(schema, object, true)
}

/// Drops unknown fields from a part of a custom resource, such as a default or the status, and returns their paths, sorted.
pub fn prune_embedded(schema: &Schema, value: &mut Value) -> Vec<String> {
    prune_root(schema, value, false)
}

fn prune_root(schema: &Schema, value: &mut Value, is_object: bool) -> Vec<String> {
    let mut pruner = Pruner { path: Vec::new(), unknown: Vec::new() };
    pruner.value(Some(schema), value, is_object || schema.embedded_resource);
    pruner.unknown.sort_unstable();
    pruner.unknown
}

struct Pruner {
    path: Vec<String>,
    unknown: Vec<String>,
}

impl Pruner {
    fn value(&mut self, schema: Option<&Schema>, value: &mut Value, resource: bool) {
        let keeps = schema.is_some_and(|schema| schema.preserve_unknown_fields);
        match value {
            Value::Object(object) => self.object(schema, object, resource, keeps),
            Value::Array(items) => self.items(schema, items, keeps),
            _ => {}
        }
    }

    /// Prunes the items of a list. With `keeps`, their unknown fields stay, but fields with a schema are still pruned below.
    fn items(&mut self, schema: Option<&Schema>, items: &mut [Value], keeps: bool) {
        let schema = schema.and_then(|schema| schema.items.as_deref());
        if keeps && schema.is_none() {
            return;
        }
        for (index, item) in items.iter_mut().enumerate() {
            self.path.push(format!("[{index}]"));
            match item {
                Value::Object(object) if keeps => self.object(schema, object, is_resource(schema), true),
                Value::Array(items) if keeps => self.items(schema, items, true),
                item => self.value(schema, item, is_resource(schema)),
            }
            self.path.pop();
        }
    }

    fn object(&mut self, schema: Option<&Schema>, object: &mut Map, resource: bool, keeps: bool) {
        let names: Vec<Text> = object.keys().cloned().collect();
        for name in names {
            if resource && META_FIELDS.contains(&name.as_str()) {
                continue;
            }
            match schema.map_or(Known::No, |schema| known(schema, &name)) {
                Known::No if keeps => {}
                Known::No => {
                    if !self.path.is_empty() || !META_FIELDS.contains(&name.as_str()) {
                        self.unknown.push(self.at(&name));
                    }
                    object.remove(&name);
                }
                Known::Anything => self.child(None, object, &name),
                Known::Schema(schema) => self.child(Some(schema), object, &name),
            }
        }
    }

    fn child(&mut self, schema: Option<&Schema>, object: &mut Map, name: &str) {
        let Some(value) = object.get_mut(name) else { return };
        self.path.push(if self.path.is_empty() { name.to_owned() } else { format!(".{name}") });
        self.value(schema, value, is_resource(schema));
        self.path.pop();
    }

    fn at(&self, name: &str) -> String {
        match self.path.is_empty() {
            true => name.to_owned(),
            false => format!("{}.{name}", self.path.concat()),
        }
    }
}

enum Known<'a> {
    No,
    /// `additionalProperties: true`: the key stays, and the value below it has no schema.
    Anything,
    Schema(&'a Schema),
}

fn known<'a>(schema: &'a Schema, name: &str) -> Known<'a> {
    match (schema.properties.get(name), &schema.additional) {
        (Some(schema), _) => Known::Schema(schema),
        (None, Additional::Schema(schema)) => Known::Schema(schema),
        (None, Additional::Allowed(_)) => Known::Anything,
        (None, Additional::Unset) => Known::No,
    }
}

fn is_resource(schema: Option<&Schema>) -> bool {
    schema.is_some_and(|schema| schema.embedded_resource)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;
    use crate::structural::compile::node;

    #[test]
    fn unknown_fields_go_at_every_depth() {
        let schema = node(
            &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "l": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "m": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "k": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}}}}}}}),
        );
        let mut object = json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"odd": 1}, "x": 1, "spec": {
            "y": 1, "l": [{"a": "1", "z": 1}], "m": {"k": {"a": "1", "z": 1}}, "k": {"q": {"r": 1}, "a": {"b": "1", "c": 1}}}});
        assert_eq!(prune(&schema, &mut object), ["spec.k.a.c", "spec.l[0].z", "spec.m.k.z", "spec.y", "x"]);
        assert_eq!(
            object,
            json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"odd": 1}, "spec": {
                "l": [{"a": "1"}], "m": {"k": {"a": "1"}}, "k": {"q": {"r": 1}, "a": {"b": "1"}}}})
        );
    }
}
