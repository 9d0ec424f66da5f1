//! Converts a schema to a node of an OpenAPI v3 document.

use super::{Additional, ListType, MapType, Schema, Type};
use crate::json::{Map, Value};

impl Schema {
    /// The node as Kubernetes publishes it in OpenAPI v3, with references as `#/components/schemas/…`.
    ///
    /// A reference with a default beside it is wrapped in an `allOf`, as the specification requires.
    pub fn to_openapi(&self) -> Value {
        let mut node = Map::new();
        self.reference_to(&mut node);
        self.shape_to(&mut node);
        self.merge_rules_to(&mut node);
        Value::Object(node)
    }

    fn reference_to(&self, node: &mut Map) {
        let Some(name) = self.type_name() else { return };
        let link = crate::json::json!({"$ref": format!("#/components/schemas/{name}")});
        match &self.default {
            None if self.patch_strategy.is_unset() => {
                node.insert("$ref".into(), link["$ref"].clone());
            }
            _ => {
                node.insert("allOf".into(), Value::Array(vec![link].into()));
            }
        }
    }

    fn shape_to(&self, node: &mut Map) {
        let mut put = |key: &str, value: Value| {
            node.insert(key.into(), value);
        };
        if let Some(value_type) = self.value_type {
            put("type", value_type.name().into());
        }
        if !self.format.is_empty() {
            put("format", self.format.as_ref().into());
        }
        if !self.properties.is_empty() {
            put(
                "properties",
                self.properties.iter().map(|(name, field)| (name.to_owned(), field.to_openapi())).collect(),
            );
        }
        if let Some(items) = &self.items {
            put("items", items.to_openapi());
        }
        match &self.additional {
            Additional::Schema(values) => put("additionalProperties", values.to_openapi()),
            Additional::Allowed(allowed) => put("additionalProperties", (*allowed).into()),
            Additional::Unset => {}
        }
        if let Some(default) = &self.default {
            put("default", default.clone());
        }
        if !self.enumeration.is_empty() {
            put("enum", self.enumeration.clone().into());
        }
        if !self.required.is_empty() {
            put("required", self.required.iter().map(|name| Value::from(name.as_ref())).collect());
        }
        if let Some(logic) = &self.logic
            && !logic.one_of.is_empty()
        {
            put("oneOf", logic.one_of.iter().map(Schema::to_openapi).collect());
        }
    }

    fn merge_rules_to(&self, node: &mut Map) {
        let mut put = |key: &str, value: Value| {
            node.insert(format!("x-kubernetes-{key}").into(), value);
        };
        if let Some(list_type) = self.list_type {
            put("list-type", list_type.name().into());
        }
        if !self.list_map_keys.is_empty() {
            put("list-map-keys", self.list_map_keys.iter().map(|key| Value::from(key.as_ref())).collect());
        }
        if let Some(map_type) = self.map_type {
            put("map-type", if map_type == MapType::Atomic { "atomic" } else { "granular" }.into());
        }
        let strategies = self.patch_strategy.names().join(",");
        if !strategies.is_empty() {
            put("patch-strategy", strategies.into());
        }
        if let Some(key) = &self.patch_merge_key {
            put("patch-merge-key", key.as_ref().into());
        }
        if let Some(unions) = &self.unions {
            put("unions", unions.clone());
        }
        if self.preserve_unknown_fields {
            put("preserve-unknown-fields", true.into());
        }
        if self.embedded_resource {
            put("embedded-resource", true.into());
        }
        if self.int_or_string && self.format != "int-or-string" {
            put("int-or-string", true.into());
        }
        if !self.gvks.is_empty() {
            let kinds = self.gvks.iter().map(
                |gvk| crate::json::json!({"group": gvk.group, "version": gvk.version, "kind": gvk.kind}),
            );
            put("group-version-kind", kinds.collect());
        }
    }
}

impl ListType {
    /// The value of `x-kubernetes-list-type`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Atomic => "atomic",
            Self::Set => "set",
            Self::Map => "map",
        }
    }
}

impl super::PatchStrategy {
    fn names(self) -> Vec<&'static str> {
        [("merge", self.merge), ("replace", self.replace), ("retainKeys", self.retain_keys)]
            .into_iter()
            .filter_map(|(name, on)| on.then_some(name))
            .collect()
    }
}

impl Schema {
    /// Whether the value is a list.
    pub fn is_list(&self) -> bool {
        self.value_type() == Some(Type::Array)
    }
}
