//! The operations on a resource: the methods of its paths, with their parameters, bodies and responses.

use evenkeel_schema::types::{builtin_type, builtin_type_name};
use serde_json::{Map, Value, json};

use super::{custom, reference};
use crate::discovery::{Group, Version};
use crate::registry::{ResourceInfo, SubresourceInfo};

const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";

/// Returns every path of a group and version.
pub(super) fn paths(group: &Group, version: &Version) -> Value {
    let root = match group.name.as_str() {
        "" => format!("/api/{}", version.name),
        name => format!("/apis/{name}/{}", version.name),
    };
    let mut paths = Map::new();
    for info in &version.resources {
        let resource = Resource { info, words: Words::of(group, version) };
        resource.add_paths(&root, &mut paths);
    }
    Value::Object(paths)
}

/// The forms of a group and version that appear in tags and operation IDs.
struct Words {
    tag: String,
    id: String,
}

impl Words {
    fn of(group: &Group, version: &Version) -> Self {
        let name = group.name.strip_suffix(".k8s.io").filter(|_| !group.custom).unwrap_or(&group.name);
        let name = if name.is_empty() { "core" } else { name };
        let id: String = name.split(['.', '-']).map(capitalized).collect();
        let tag = lowered(&id);
        Self { tag: format!("{tag}_{}", version.name), id: format!("{id}{}", capitalized(&version.name)) }
    }
}

fn capitalized(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

fn lowered(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

struct Resource<'a> {
    info: &'a ResourceInfo,
    words: Words,
}

/// The request and response of an operation.
struct Exchange<'a> {
    /// The type of both bodies; `None` for byte streams such as `pods/exec`.
    type_name: Option<String>,
    group: &'a str,
    version: &'a str,
    kind: &'a str,
    /// The end of the operation ID: the kind and the subresource.
    suffix: String,
}

impl Resource<'_> {
    fn add_paths(&self, root: &str, paths: &mut Map<String, Value>) {
        let info = self.info;
        let scope = if info.namespaced { "/namespaces/{namespace}" } else { "" };
        let collection = format!("{root}{scope}/{}", info.plural);
        let object = self.exchange(&info.kind, None);
        self.add(
            paths,
            &collection,
            &object,
            &[("list", "get"), ("create", "post"), ("deletecollection", "delete")],
        );
        let item = format!("{collection}/{{name}}");
        let verbs = [("get", "get"), ("update", "put"), ("delete", "delete"), ("patch", "patch")];
        self.add(paths, &item, &object, &verbs);
        for part in &info.subresources {
            let verbs = [
                ("get", "get"),
                ("update", "put"),
                ("create", "post"),
                ("patch", "patch"),
                ("delete", "delete"),
            ];
            let exchange = self.exchange(info.kind_of(part), Some(part));
            self.add_for(paths, &format!("{item}/{}", part.name), &exchange, &verbs, &part.verbs);
        }
        if info.namespaced && info.verbs.iter().any(|verb| verb == "list") {
            let everywhere = format!("{root}/{}", info.plural);
            self.add(paths, &everywhere, &object, &[("list", "get")]);
        }
    }

    fn exchange<'b>(&'b self, kind: &'b str, part: Option<&'b SubresourceInfo>) -> Exchange<'b> {
        let info = self.info;
        let foreign = part.filter(|part| !part.version.is_empty());
        let (group, version) = match foreign {
            Some(part) => (part.group.as_str(), part.version.as_str()),
            None => (info.group.as_str(), info.version.as_str()),
        };
        let type_name = match (info.is_custom(), foreign) {
            (true, None) => Some(custom::type_name(info, kind)),
            _ => Some(builtin_type_name(group, version, kind)).filter(|name| builtin_type(name).is_some()),
        };
        let suffix = format!("{}{}", info.kind, part.map(|part| capitalized(&part.name)).unwrap_or_default());
        // Kubernetes documents the `scale` of a custom resource with the resource's own kind.
        match info.is_custom() {
            true => {
                Exchange { type_name, group: &info.group, version: &info.version, kind: &info.kind, suffix }
            }
            false => Exchange { type_name, group, version, kind, suffix },
        }
    }

    fn add(
        &self,
        paths: &mut Map<String, Value>,
        path: &str,
        exchange: &Exchange<'_>,
        verbs: &[(&str, &str)],
    ) {
        self.add_for(paths, path, exchange, verbs, &self.info.verbs);
    }

    fn add_for(
        &self,
        paths: &mut Map<String, Value>,
        path: &str,
        exchange: &Exchange<'_>,
        verbs: &[(&str, &str)],
        served: &[String],
    ) {
        let mut methods = Map::new();
        for (verb, method) in verbs.iter().filter(|(verb, _)| served.iter().any(|it| it == verb)) {
            methods.insert((*method).to_owned(), self.operation(verb, path, exchange));
        }
        if methods.is_empty() {
            return;
        }
        let names = ["name", "namespace"].into_iter().filter(|name| path.contains(&format!("{{{name}}}")));
        let mut parameters: Vec<Value> = names
            .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": unique("string") }))
            .collect();
        parameters.push(json!({ "name": "pretty", "in": "query", "schema": unique("string") }));
        methods.insert("parameters".to_owned(), parameters.into());
        paths.insert(path.to_owned(), Value::Object(methods));
    }

    fn operation(&self, verb: &str, path: &str, exchange: &Exchange<'_>) -> Value {
        let connects = exchange.type_name.is_none();
        let (word, action) = match verb {
            "list" => ("list", "list"),
            "get" => ("read", "get"),
            "create" => ("create", "post"),
            "update" => ("replace", "put"),
            "patch" => ("patch", "patch"),
            "deletecollection" => ("delete", "deletecollection"),
            other => (other, other),
        };
        let (word, action) = if connects { ("connect", "connect") } else { (word, action) };
        let mut operation = json!({
            "tags": [self.words.tag],
            "operationId": self.operation_id(word, verb, path, exchange, connects),
            "responses": self.responses(verb, exchange),
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": {
                "group": exchange.group,
                "version": exchange.version,
                "kind": exchange.kind,
            },
        });
        let parameters = if connects { Vec::new() } else { query_parameters(verb) };
        if !parameters.is_empty() {
            operation["parameters"] = parameters.into();
        }
        if let Some(body) = self.request_body(verb, exchange) {
            operation["requestBody"] = body;
        }
        operation
    }

    fn operation_id(
        &self,
        word: &str,
        verb: &str,
        path: &str,
        exchange: &Exchange<'_>,
        connects: bool,
    ) -> String {
        let inside = path.contains("{namespace}");
        let scope = if inside { "Namespaced" } else { "" };
        let collection = if verb == "deletecollection" { "Collection" } else { "" };
        let everywhere = if self.info.namespaced && !inside { "ForAllNamespaces" } else { "" };
        let method = if connects { capitalized(verb) } else { String::new() };
        format!("{word}{}{method}{collection}{scope}{}{everywhere}", self.words.id, exchange.suffix)
    }

    fn responses(&self, verb: &str, exchange: &Exchange<'_>) -> Value {
        let own = exchange.type_name.clone();
        let (codes, name) = match verb {
            "list" => (&["200"][..], own.map(|name| format!("{name}List"))),
            "create" => (&["200", "201", "202"][..], own),
            "update" => (&["200", "201"][..], own),
            "patch" if self.info.is_custom() => (&["200"][..], own),
            "patch" => (&["200", "201"][..], own),
            "delete" => (&["200", "202"][..], own.map(|_| STATUS.to_owned())),
            "deletecollection" => (&["200"][..], own.map(|_| STATUS.to_owned())),
            _ => (&["200"][..], own),
        };
        let mut responses = Map::new();
        for code in codes {
            let description = match *code {
                "201" => "Created",
                "202" => "Accepted",
                _ => "OK",
            };
            let content = self.content(verb, name.as_deref());
            responses.insert((*code).to_owned(), json!({ "description": description, "content": content }));
        }
        responses.insert("401".to_owned(), json!({ "description": "Unauthorized" }));
        Value::Object(responses)
    }

    fn content(&self, verb: &str, name: Option<&str>) -> Value {
        let Some(name) = name else { return json!({ "*/*": { "schema": { "type": "string" } } }) };
        let mut types = vec!["application/json", "application/yaml"];
        if !self.info.is_custom() {
            types.push("application/vnd.kubernetes.protobuf");
            if verb == "list" && self.info.verbs.iter().any(|it| it == "watch") {
                types.push("application/json;stream=watch");
                types.push("application/vnd.kubernetes.protobuf;stream=watch");
            }
        }
        content_of(&types, name)
    }

    fn request_body(&self, verb: &str, exchange: &Exchange<'_>) -> Option<Value> {
        let name = exchange.type_name.as_deref()?;
        let is_custom = self.info.is_custom();
        let any = if is_custom { &["application/json", "application/yaml"][..] } else { &["*/*"] };
        match verb {
            "create" | "update" => Some(json!({ "content": content_of(any, name), "required": true })),
            "delete" | "deletecollection" => Some(json!({ "content": content_of(any, DELETE_OPTIONS) })),
            "patch" => {
                let mut types = vec![
                    "application/json-patch+json",
                    "application/merge-patch+json",
                    "application/apply-patch+yaml",
                ];
                // From this media type kubectl sees whether it may send strategic merge patches.
                if !is_custom {
                    types.push("application/strategic-merge-patch+json");
                }
                Some(json!({ "content": content_of(&types, PATCH), "required": true }))
            }
            _ => None,
        }
    }
}

fn content_of(types: &[&str], name: &str) -> Value {
    types.iter().map(|media| ((*media).to_owned(), json!({ "schema": reference(name) }))).collect()
}

fn unique(kind: &str) -> Value {
    json!({ "type": kind, "uniqueItems": true })
}

fn query_parameters(verb: &str) -> Vec<Value> {
    let list = [
        ("allowWatchBookmarks", "boolean"),
        ("continue", "string"),
        ("fieldSelector", "string"),
        ("labelSelector", "string"),
        ("limit", "integer"),
        ("resourceVersion", "string"),
        ("resourceVersionMatch", "string"),
        ("sendInitialEvents", "boolean"),
        ("timeoutSeconds", "integer"),
        ("watch", "boolean"),
    ];
    let write = [("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
    let delete = [
        ("dryRun", "string"),
        ("gracePeriodSeconds", "integer"),
        ("orphanDependents", "boolean"),
        ("propagationPolicy", "string"),
    ];
    let parameters: Vec<(&str, &str)> = match verb {
        "list" => list.to_vec(),
        "create" | "update" => write.to_vec(),
        "patch" => write.into_iter().chain([("force", "boolean")]).collect(),
        "delete" => delete.to_vec(),
        // A `deletecollection` takes the selectors of a list, but cannot be watched.
        "deletecollection" => {
            let selection =
                list.into_iter().filter(|(name, _)| !matches!(*name, "allowWatchBookmarks" | "watch"));
            delete.into_iter().chain(selection).collect()
        }
        _ => Vec::new(),
    };
    let parameter =
        |(name, kind): (&str, &str)| json!({ "name": name, "in": "query", "schema": unique(kind) });
    parameters.into_iter().map(parameter).collect()
}
