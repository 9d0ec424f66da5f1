//! The schemas of custom resources: the schema of the CRD, with the fields that every object has.

use evenkeel_schema::json::{Map, Value, json};

use super::reference;
use crate::registry::ResourceInfo;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

const CONVENTIONS: &str =
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";

/// The name of a schema: the group's labels in reverse order, the version and the kind.
pub(super) fn type_name(info: &ResourceInfo, kind: &str) -> String {
    let group: Vec<&str> = info.group.rsplit('.').collect();
    format!("{}.{}.{kind}", group.join("."), info.version)
}

/// The schemas of the kind and of its list kind.
pub(super) fn schemas(info: &ResourceInfo) -> [(String, Value); 2] {
    let kind = type_name(info, &info.kind);
    // Kubernetes derives the name of the list's schema from the kind and ignores the CRD's `listKind`.
    let list = format!("{kind}List");
    let list_schema = list_of(info, &kind);
    [(kind, object_of(info)), (list, list_schema)]
}

fn object_of(info: &ResourceInfo) -> Value {
    let declared = info.custom.as_ref().and_then(|custom| custom.version.pointer("/schema/openAPIV3Schema"));
    let mut schema =
        declared.cloned().unwrap_or_else(|| json!({ "x-kubernetes-preserve-unknown-fields": true }));
    publish(&mut schema);
    schema["type"] = "object".into();
    if let Some(properties) = properties_of(&mut schema) {
        properties.insert("metadata".into(), metadata(OBJECT_META, "object's", "metadata"));
        properties.insert("apiVersion".into(), api_version());
        properties.insert("kind".into(), kind());
    }
    schema["x-kubernetes-group-version-kind"] = gvk(info, &info.kind);
    schema
}

fn list_of(info: &ResourceInfo, kind_name: &str) -> Value {
    let items = json!({
        "description": format!("List of {}. More info: {CONVENTIONS}", info.plural),
        "type": "array",
        "items": reference(kind_name),
    });
    json!({
        "description": format!("{} is a list of {}", info.list_kind, info.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": api_version(),
            "kind": kind(),
            "metadata": metadata(LIST_META, "list", "types-kinds"),
            "items": items,
        },
        "x-kubernetes-group-version-kind": gvk(info, &info.list_kind),
    })
}

/// The fields that every list has besides its items.
pub(super) fn list_fields() -> [(&'static str, Value); 3] {
    [
        ("apiVersion", api_version()),
        ("kind", kind()),
        ("metadata", metadata(LIST_META, "list", "types-kinds")),
    ]
}

/// Adds to a schema, recursively, what its `x-kubernetes-` extensions imply.
fn publish(schema: &mut Value) {
    let Some(node) = schema.as_object_mut() else { return };
    if node.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) && !node.contains_key("anyOf") {
        node.insert("anyOf".into(), json!([{ "type": "integer" }, { "type": "string" }]));
    }
    for key in ["properties", "patternProperties"] {
        if let Some(fields) = node.get_mut(key).and_then(Value::as_object_mut) {
            fields.values_mut().for_each(publish);
        }
    }
    for key in ["items", "additionalProperties", "not"] {
        node.get_mut(key).into_iter().for_each(publish);
    }
    if node.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) {
        embed(schema);
    }
}

/// Adds `apiVersion`, `kind` and `metadata` to the schema of an embedded resource.
fn embed(schema: &mut Value) {
    let Some(properties) = properties_of(schema) else { return };
    let link = |part: &str| format!("More info: {CONVENTIONS}#{part}");
    let api = format!(
        "apiVersion defines the versioned schema of this representation of an object. Servers should convert \
         recognized schemas to the latest internal value, and may reject unrecognized values. {}",
        link("resources")
    );
    let kind = format!(
        "kind is a string value representing the type of this object. In CamelCase. {}",
        link("types-kinds")
    );
    properties.insert("apiVersion".into(), json!({ "description": api, "type": "string" }));
    properties.insert("kind".into(), json!({ "description": kind, "type": "string" }));
    properties.insert("metadata".into(), metadata(OBJECT_META, "object's", "metadata"));
}

fn properties_of(schema: &mut Value) -> Option<&mut Map> {
    let node = schema.as_object_mut()?;
    node.entry("properties").or_insert_with(|| json!({})).as_object_mut()
}

fn api_version() -> Value {
    let text = format!(
        "APIVersion defines the versioned schema of this representation of an object. Servers should convert \
         recognized schemas to the latest internal value, and may reject unrecognized values. More info: \
         {CONVENTIONS}#resources"
    );
    json!({ "description": text, "type": "string" })
}

fn kind() -> Value {
    let text = format!(
        "Kind is a string value representing the REST resource this object represents. Servers may infer this from \
         the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: \
         {CONVENTIONS}#types-kinds"
    );
    json!({ "description": text, "type": "string" })
}

fn metadata(type_name: &str, whose: &str, part: &str) -> Value {
    let text = format!("Standard {whose} metadata. More info: {CONVENTIONS}#{part}");
    json!({ "description": text, "allOf": [reference(type_name)] })
}

fn gvk(info: &ResourceInfo, kind: &str) -> Value {
    json!([{ "group": info.group, "version": info.version, "kind": kind }])
}
