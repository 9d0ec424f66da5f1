//! OpenAPI v2: one document with everything, for clients that do not know v3. It is built from the v3
//! documents.

use evenkeel_schema::json::{Map, Value, json};

/// Builds the v2 document from v3 documents.
pub(super) fn of(documents: impl IntoIterator<Item = Value>) -> Value {
    let mut paths = Map::new();
    let mut definitions = Map::new();
    for mut document in documents {
        let taken = |document: &mut Value, pointer: &str| match document.pointer_mut(pointer).map(Value::take)
        {
            Some(Value::Object(map)) => map,
            _ => Map::new(),
        };
        paths.extend(taken(&mut document, "/paths").into_iter().map(|(path, item)| (path, path_item(item))));
        definitions.extend(taken(&mut document, "/components/schemas"));
    }
    let mut swagger = json!({
        "swagger": "2.0",
        "info": { "title": "Kubernetes", "version": "1.36" },
        "paths": paths,
        "definitions": definitions,
        "securityDefinitions": { "BearerToken": {
            "type": "apiKey",
            "description": "Bearer Token authentication",
            "name": "authorization",
            "in": "header",
        } },
        "security": [{ "BearerToken": [] }],
    });
    relink(&mut swagger);
    for kind in ["DeleteOptions", "WatchEvent"] {
        let name = format!("io.k8s.apimachinery.pkg.apis.meta.v1.{kind}");
        if let Some(definition) = swagger["definitions"].get_mut(name) {
            definition["x-kubernetes-group-version-kind"] = kinds_of_all_groups(kind);
        }
    }
    for definition in swagger["definitions"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        drop_defaults(definition);
    }
    swagger
}

/// The versions in which Kubernetes knows the kinds that belong to every group, which are more than it serves.
const VERSIONS: &[(&str, &[&str])] = &[
    ("", &["v1"]),
    ("admission.k8s.io", &["v1", "v1beta1"]),
    ("admissionregistration.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("apiextensions.k8s.io", &["v1", "v1beta1"]),
    ("apiregistration.k8s.io", &["v1", "v1beta1"]),
    ("apps", &["v1", "v1beta1", "v1beta2"]),
    ("authentication.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("authorization.k8s.io", &["v1", "v1beta1"]),
    ("autoscaling", &["v1", "v2"]),
    ("batch", &["v1", "v1beta1"]),
    ("certificates.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("coordination.k8s.io", &["v1", "v1alpha2", "v1beta1"]),
    ("discovery.k8s.io", &["v1", "v1beta1"]),
    ("events.k8s.io", &["v1", "v1beta1"]),
    ("extensions", &["v1beta1"]),
    ("flowcontrol.apiserver.k8s.io", &["v1", "v1beta1", "v1beta2", "v1beta3"]),
    ("imagepolicy.k8s.io", &["v1alpha1"]),
    ("internal.apiserver.k8s.io", &["v1alpha1"]),
    ("networking.k8s.io", &["v1", "v1beta1"]),
    ("node.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("policy", &["v1", "v1beta1"]),
    ("rbac.authorization.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("resource.k8s.io", &["v1", "v1alpha3", "v1beta1", "v1beta2"]),
    ("scheduling.k8s.io", &["v1", "v1alpha2", "v1beta1"]),
    ("storage.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("storagemigration.k8s.io", &["v1beta1"]),
];

fn kinds_of_all_groups(kind: &str) -> Value {
    let all =
        VERSIONS.iter().flat_map(|(group, versions)| versions.iter().map(move |version| (group, version)));
    all.map(|(group, version)| json!({ "group": group, "kind": kind, "version": version })).collect()
}

/// Removes the defaults of a schema, which Kubernetes does not publish in v2.
fn drop_defaults(schema: &mut Value) {
    let Some(node) = schema.as_object_mut() else { return };
    node.remove("default");
    if let Some(fields) = node.get_mut("properties").and_then(Value::as_object_mut) {
        fields.values_mut().for_each(drop_defaults);
    }
    for key in ["items", "additionalProperties"] {
        node.get_mut(key).into_iter().for_each(drop_defaults);
    }
}

fn path_item(mut item: Value) -> Value {
    for (key, value) in item.as_object_mut().into_iter().flatten() {
        match key.as_str() {
            "parameters" => flatten(value),
            _ => operation(value),
        }
    }
    item
}

/// Moves request and response bodies from `content` to their places in v2.
fn operation(operation: &mut Value) {
    let Some(node) = operation.as_object_mut() else { return };
    node.entry("parameters").or_insert_with(|| json!([]));
    node.get_mut("parameters").into_iter().for_each(flatten);
    if let Some(body) = node.remove("requestBody") {
        let content = body["content"].as_object().cloned().unwrap_or_default();
        let mut parameter = json!({ "name": "body", "in": "body", "schema": first_schema(&content) });
        if body["required"] == true {
            parameter["required"] = true.into();
        }
        node.insert("consumes".into(), content.keys().cloned().collect());
        node.get_mut("parameters")
            .and_then(Value::as_array_mut)
            .into_iter()
            .for_each(|list| list.push(parameter.clone()));
    }
    let mut produces = Value::Null;
    for (_, response) in node.get_mut("responses").and_then(Value::as_object_mut).into_iter().flatten() {
        let Some(response) = response.as_object_mut() else { continue };
        if let Some(Value::Object(content)) = response.remove("content") {
            response.insert("schema".into(), first_schema(&content));
            produces = content.keys().cloned().collect();
        }
    }
    if !produces.is_null() {
        node.insert("produces".into(), produces);
    }
    node.insert("schemes".into(), json!(["https"]));
}

fn first_schema(content: &Map) -> Value {
    content.values().next().map(|media| media["schema"].clone()).unwrap_or_default()
}

/// Moves the fields of a parameter's schema into the parameter, as v2 demands.
fn flatten(parameters: &mut Value) {
    for parameter in parameters.as_array_mut().into_iter().flatten() {
        let Some(node) = parameter.as_object_mut() else { continue };
        if let Some(Value::Object(schema)) = node.remove("schema") {
            node.extend(schema);
        }
    }
}

/// Points references to v2's `#/definitions/`. v2 ignores the siblings of a `$ref`, so an `allOf` with one
/// reference becomes that reference, and alternatives become a string.
fn relink(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(relink),
        Value::Object(map) => {
            if let Some(link) = map.get("$ref").and_then(Value::as_str) {
                let link = link.replace("#/components/schemas/", "#/definitions/");
                map.insert("$ref".into(), link.into());
            }
            let lone = map.get("allOf").and_then(Value::as_array).filter(|all| all.len() == 1);
            if let Some(link) = lone.and_then(|all| all[0].get("$ref")).cloned() {
                map.remove("allOf");
                map.insert("$ref".into(), link);
                return relink(value);
            }
            // OpenAPI v2 has no alternatives, so an IntOrString and a Quantity are strings there.
            if map.get("oneOf").is_some_and(Value::is_array) {
                map.remove("oneOf");
                map.entry("type").or_insert_with(|| "string".into());
            }
            map.values_mut().for_each(relink);
        }
        _ => {}
    }
}
