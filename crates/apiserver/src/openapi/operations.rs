//! The operations on a resource: the methods of its paths, with their parameters, bodies and responses.

use evenkeel_schema::json::{Map, Value, json};
use evenkeel_schema::types::{builtin_type, builtin_type_name};

use super::{custom, reference};
use crate::discovery::{Group, Version};
use crate::registry::{ResourceInfo, SubresourceInfo};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const CONNECT_METHODS: [(&str, &str); 5] =
    [("get", "get"), ("update", "put"), ("create", "post"), ("patch", "patch"), ("delete", "delete")];
/// The methods that a proxy passes on although they have no verb.
const PROXY_METHODS: [(&str, &str); 2] = [("head", "head"), ("options", "options")];

/// Returns every path of a group and version.
pub(super) fn paths(group: &Group, version: &Version) -> Value {
    let root = match group.name.as_str() {
        "" => format!("/api/{}", version.name),
        name => format!("/apis/{name}/{}", version.name),
    };
    let mut paths = Map::new();
    if !group.custom {
        let words = Words::of(group, Some(version));
        let id = format!("get{}APIResources", words.id);
        let list = format!("{META}.APIResourceList");
        paths.insert(format!("{root}/").into(), discovery(&words.tag, "get available resources", &id, &list));
    }
    for info in &version.resources {
        let resource = Resource { info, words: Words::of(group, Some(version)) };
        resource.add_paths(&root, &mut paths);
    }
    Value::Object(paths)
}

/// The one path that describes a group: `/apis/GROUP/`.
pub(super) fn group_path(group: &Group) -> Value {
    let words = Words::of(group, None);
    let id = format!("get{}APIGroup", words.id);
    let operation = discovery(&words.tag, "get information of a group", &id, &format!("{META}.APIGroup"));
    json!({ format!("/apis/{}/", group.name): operation })
}

/// The path of a list of API versions: `/api/` or `/apis/`.
pub(super) fn versions_path(path: &str, tag: &str, id: &str, type_name: &str) -> Value {
    let type_name = format!("{META}.{type_name}");
    json!({ path: discovery(tag, "get available API versions", id, &type_name) })
}

fn discovery(tag: &str, description: &str, id: &str, type_name: &str) -> Value {
    let types = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
    json!({ "get": get_operation(tag, description, id, &content_of(&types, &reference(type_name))) })
}

/// A GET without parameters.
pub(super) fn get_operation(tag: &str, description: &str, id: &str, content: &Value) -> Value {
    json!({
        "tags": [tag],
        "description": description,
        "operationId": id,
        "responses": {
            "200": { "description": "OK", "content": content },
            "401": { "description": "Unauthorized" },
        },
    })
}

/// The forms of a group and version that appear in tags and operation IDs.
struct Words {
    tag: String,
    id: String,
}

impl Words {
    fn of(group: &Group, version: Option<&Version>) -> Self {
        let name = group.name.strip_suffix(".k8s.io").filter(|_| !group.custom).unwrap_or(&group.name);
        let name = if name.is_empty() { "core" } else { name };
        let id: String = name.split(['.', '-']).map(capitalized).collect();
        let tag = lowered(&id);
        match version {
            None => Self { tag, id },
            Some(version) => Self {
                tag: format!("{tag}_{}", version.name),
                id: format!("{id}{}", capitalized(&version.name)),
            },
        }
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

/// A parameter of an operation: its name, whether it is part of the path, and its type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Parameter {
    name: &'static str,
    place: Place,
    kind: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Path,
    Query,
}

impl Parameter {
    const fn query(name: &'static str, kind: &'static str) -> Self {
        Self { name, place: Place::Query, kind }
    }

    fn to_json(self, object: &str) -> Value {
        let schema = json!({ "type": self.kind, "uniqueItems": true });
        match (self.place, self.name) {
            (Place::Query, name) => json!({ "name": name, "in": "query", "schema": schema }),
            (Place::Path, "name") => json!({
                "name": "name", "in": "path", "required": true, "schema": schema,
                "description": format!("name of the {object}"),
            }),
            (Place::Path, name) => json!({ "name": name, "in": "path", "required": true, "schema": schema }),
        }
    }
}

/// An operation before the parameters that it shares with the others of its path are moved to the path.
struct Operation {
    method: &'static str,
    value: Value,
    parameters: Vec<Parameter>,
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
    /// The subresource; empty for the object itself.
    part: &'a str,
    /// The end of the operation ID: the kind and the subresource.
    suffix: String,
}

impl Resource<'_> {
    fn add_paths(&self, root: &str, paths: &mut Map) {
        let info = self.info;
        let scope = if info.namespaced { "/namespaces/{namespace}" } else { "" };
        let collection = format!("{root}{scope}/{}", info.plural);
        let object = self.exchange(&info.kind, None);
        let verbs = [("list", "get"), ("create", "post"), ("deletecollection", "delete")];
        self.add(paths, &collection, &object, &verbs, &info.verbs);
        let item = format!("{collection}/{{name}}");
        let verbs = [("get", "get"), ("update", "put"), ("delete", "delete"), ("patch", "patch")];
        self.add(paths, &item, &object, &verbs, &info.verbs);
        for part in &info.subresources {
            self.add_part(paths, &format!("{item}/{}", part.name), part);
        }
        let listed = info.verbs.iter().any(|verb| verb == "list");
        if info.namespaced && listed {
            let everywhere = format!("{root}/{}", info.plural);
            self.add(paths, &everywhere, &object, &[("list", "get")], &info.verbs);
        }
        if info.verbs.iter().any(|verb| verb == "watch") && !info.is_custom() {
            self.add_watches(root, scope, paths);
        }
    }

    fn add_part(&self, paths: &mut Map, path: &str, part: &SubresourceInfo) {
        let exchange = self.exchange(self.info.kind_of(part), Some(part));
        if exchange.type_name.is_some() {
            return self.add(paths, path, &exchange, &CONNECT_METHODS, &part.verbs);
        }
        let mut verbs = CONNECT_METHODS.to_vec();
        verbs.retain(|(verb, _)| part.verbs.iter().any(|it| it == verb));
        let proxies = part.name == "proxy";
        verbs.extend(PROXY_METHODS.iter().filter(|_| proxies));
        let served: Vec<String> = verbs.iter().map(|(verb, _)| (*verb).to_owned()).collect();
        self.add(paths, path, &exchange, &verbs, &served);
        if proxies {
            self.add(paths, &format!("{path}/{{path}}"), &exchange, &verbs, &served);
        }
    }

    /// Adds the paths below `/watch/`, which are older than the parameter `watch`.
    fn add_watches(&self, root: &str, scope: &str, paths: &mut Map) {
        let plural = &self.info.plural;
        let object = self.exchange(&self.info.kind, None);
        let mut add = |path: String, verb| {
            self.add(paths, &path, &object, &[(verb, "get")], &["watch".to_owned(), "watchlist".to_owned()]);
        };
        add(format!("{root}/watch/{plural}"), "watchlist");
        if !scope.is_empty() {
            add(format!("{root}/watch{scope}/{plural}"), "watchlist");
        }
        add(format!("{root}/watch{scope}/{plural}/{{name}}"), "watch");
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
        let part = part.map_or("", |part| part.name.as_str());
        // Kubernetes documents the `scale` of a custom resource with the resource's own kind.
        let (group, version, kind) = match info.is_custom() {
            true => (info.group.as_str(), info.version.as_str(), info.kind.as_str()),
            false => (group, version, kind),
        };
        Exchange { type_name, group, version, kind, part, suffix }
    }

    /// Adds a path with the methods whose verbs are served.
    fn add(
        &self,
        paths: &mut Map,
        path: &str,
        exchange: &Exchange<'_>,
        verbs: &[(&'static str, &'static str)],
        served: &[String],
    ) {
        let served = verbs.iter().filter(|(verb, _)| served.iter().any(|it| it == verb));
        let operations: Vec<Operation> = served
            .map(|(verb, method)| Operation {
                method,
                value: self.operation(verb, method, path, exchange),
                parameters: parameters(verb, path, exchange),
            })
            .collect();
        if !operations.is_empty() {
            paths.insert(path.into(), self.path_item(operations));
        }
    }

    /// Joins the operations of a path. Parameters that all of them have belong to the path.
    fn path_item(&self, operations: Vec<Operation>) -> Value {
        let print = |list: &[Parameter]| list.iter().map(|it| it.to_json(&self.info.kind)).collect::<Value>();
        let mut shared = operations.first().map(|it| it.parameters.clone()).unwrap_or_default();
        shared.retain(|parameter| operations.iter().all(|it| it.parameters.contains(parameter)));
        let mut item = Map::new();
        for mut operation in operations {
            operation.parameters.retain(|parameter| !shared.contains(parameter));
            if !operation.parameters.is_empty() {
                operation.value["parameters"] = print(&operation.parameters);
            }
            item.insert(operation.method.into(), operation.value);
        }
        if !shared.is_empty() {
            item.insert("parameters".into(), print(&shared));
        }
        Value::Object(item)
    }

    fn operation(&self, verb: &str, method: &str, path: &str, exchange: &Exchange<'_>) -> Value {
        let connects = exchange.type_name.is_none();
        let (word, action) = match verb {
            _ if connects => ("connect", "connect"),
            "list" => ("list", "list"),
            "get" => ("read", "get"),
            "create" => ("create", "post"),
            "update" => ("replace", "put"),
            "patch" => ("patch", "patch"),
            "deletecollection" => ("delete", "deletecollection"),
            "watchlist" => ("watch", "watchlist"),
            other => (other, other),
        };
        let mut operation = json!({
            "tags": [self.words.tag],
            "description": self.description(verb, method, exchange),
            "operationId": self.operation_id(word, verb, method, path, exchange),
            "responses": self.responses(verb, exchange),
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": {
                "group": exchange.group,
                "version": exchange.version,
                "kind": exchange.kind,
            },
        });
        if let Some(body) = self.request_body(verb, exchange) {
            operation["requestBody"] = body;
        }
        operation
    }

    fn description(&self, verb: &str, method: &str, exchange: &Exchange<'_>) -> String {
        let kind = &self.info.kind;
        let article = if kind.starts_with(['A', 'E', 'I', 'O', 'U']) { "an" } else { "a" };
        let part = exchange.part;
        if exchange.type_name.is_none() {
            return format!("connect {} requests to {part} of {kind}", method.to_uppercase());
        }
        let specified = match part {
            "" => format!("the specified {kind}"),
            part => format!("{part} of the specified {kind}"),
        };
        match verb {
            "list" if self.is_watched() => format!("list or watch objects of kind {kind}"),
            "list" => format!("list objects of kind {kind}"),
            "create" if part.is_empty() => format!("create {article} {kind}"),
            "create" => format!("create {part} of {article} {kind}"),
            "get" => format!("read {specified}"),
            "update" => format!("replace {specified}"),
            "patch" => format!("partially update {specified}"),
            "deletecollection" => format!("delete collection of {kind}"),
            "delete" => format!("delete {article} {kind}"),
            "watchlist" => format!("watch individual changes to a list of {kind} (deprecated)"),
            _ => format!("watch changes to an object of kind {kind} (deprecated)"),
        }
    }

    fn is_watched(&self) -> bool {
        self.info.verbs.iter().any(|it| it == "watch")
    }

    fn operation_id(
        &self,
        word: &str,
        verb: &str,
        method: &str,
        path: &str,
        exchange: &Exchange<'_>,
    ) -> String {
        let inside = path.contains("{namespace}");
        let scope = if inside { "Namespaced" } else { "" };
        let collection = if verb == "deletecollection" { "Collection" } else { "" };
        let list = if verb == "watchlist" { "List" } else { "" };
        let everywhere = if self.info.namespaced && !inside { "ForAllNamespaces" } else { "" };
        let with_path = if path.ends_with("{path}") { "WithPath" } else { "" };
        let method = if word == "connect" { capitalized(method) } else { String::new() };
        let (id, suffix) = (&self.words.id, &exchange.suffix);
        format!("{word}{id}{method}{collection}{scope}{suffix}{list}{everywhere}{with_path}")
    }

    fn responses(&self, verb: &str, exchange: &Exchange<'_>) -> Value {
        let own = exchange.type_name.clone();
        let status = || Some(format!("{META}.Status"));
        let (codes, name) = match verb {
            _ if own.is_none() => (&["200"][..], None),
            "list" => (&["200"][..], own.map(|name| format!("{name}List"))),
            "watchlist" | "watch" => (&["200"][..], Some(format!("{META}.WatchEvent"))),
            "create" => (&["200", "201", "202"][..], own),
            "update" => (&["200", "201"][..], own),
            "patch" if self.info.is_custom() => (&["200"][..], own),
            "patch" => (&["200", "201"][..], own),
            "delete" if self.info.strategy.returns_deleted_object => (&["200", "202"][..], own),
            "delete" => (&["200", "202"][..], status()),
            "deletecollection" => (&["200"][..], status()),
            _ => (&["200"][..], own),
        };
        let mut responses = Map::new();
        for code in codes {
            let description = match *code {
                "201" => "Created",
                "202" => "Accepted",
                _ => "OK",
            };
            let content = self.content(verb, exchange.part, name.as_deref());
            responses.insert((*code).into(), json!({ "description": description, "content": content }));
        }
        responses.insert("401".into(), json!({ "description": "Unauthorized" }));
        Value::Object(responses)
    }

    fn content(&self, verb: &str, part: &str, name: Option<&str>) -> Value {
        let text = json!({ "type": "string" });
        let Some(name) = name else { return content_of(&["*/*"], &text) };
        let mut types = vec!["application/json", "application/yaml"];
        if !self.info.is_custom() {
            types.push("application/vnd.kubernetes.protobuf");
            if matches!(verb, "list" | "watch" | "watchlist") {
                types.push("application/json;stream=watch");
                types.push("application/vnd.kubernetes.protobuf;stream=watch");
            }
        }
        if part == "log" {
            types.push("text/plain");
            return content_of(&types, &text);
        }
        content_of(&types, &reference(name))
    }

    fn request_body(&self, verb: &str, exchange: &Exchange<'_>) -> Option<Value> {
        let name = exchange.type_name.as_deref()?;
        let is_custom = self.info.is_custom();
        let any = if is_custom { &["application/json", "application/yaml"][..] } else { &["*/*"] };
        match verb {
            "create" | "update" => {
                Some(json!({ "content": content_of(any, &reference(name)), "required": true }))
            }
            "delete" | "deletecollection" => {
                Some(json!({ "content": content_of(any, &reference(&format!("{META}.DeleteOptions"))) }))
            }
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
                let patch = reference(&format!("{META}.Patch"));
                Some(json!({ "content": content_of(&types, &patch), "required": true }))
            }
            _ => None,
        }
    }
}

fn content_of(types: &[&str], schema: &Value) -> Value {
    types.iter().map(|media| ((*media).to_owned(), json!({ "schema": schema }))).collect()
}

/// The parameters of an operation, sorted by name.
fn parameters(verb: &str, path: &str, exchange: &Exchange<'_>) -> Vec<Parameter> {
    let in_path = ["name", "namespace", "path"].into_iter();
    let in_path = in_path.filter(|name| path.contains(&format!("{{{name}}}")));
    let mut parameters: Vec<Parameter> =
        in_path.map(|name| Parameter { name, place: Place::Path, kind: "string" }).collect();
    let queries = match &exchange.type_name {
        None => connect_parameters(exchange.part),
        Some(_) => {
            parameters.push(Parameter::query("pretty", "string"));
            if exchange.part == "log" { LOG.to_vec() } else { query_parameters(verb) }
        }
    };
    parameters.extend(queries.into_iter().map(|(name, kind)| Parameter::query(name, kind)));
    parameters.sort();
    parameters
}

/// The name and type of a parameter in the query.
type Query = (&'static str, &'static str);

const LOG: [Query; 9] = [
    ("container", "string"),
    ("follow", "boolean"),
    ("insecureSkipTLSVerifyBackend", "boolean"),
    ("limitBytes", "integer"),
    ("previous", "boolean"),
    ("sinceSeconds", "integer"),
    ("stream", "string"),
    ("tailLines", "integer"),
    ("timestamps", "boolean"),
];

fn connect_parameters(part: &str) -> Vec<Query> {
    let streams = [
        ("container", "string"),
        ("stderr", "boolean"),
        ("stdin", "boolean"),
        ("stdout", "boolean"),
        ("tty", "boolean"),
    ];
    match part {
        "attach" => streams.to_vec(),
        "exec" => streams.into_iter().chain([("command", "string")]).collect(),
        "portforward" => vec![("ports", "integer")],
        _ => vec![("path", "string")],
    }
}

fn query_parameters(verb: &str) -> Vec<Query> {
    let list = [
        ("allowWatchBookmarks", "boolean"),
        ("continue", "string"),
        ("fieldSelector", "string"),
        ("labelSelector", "string"),
        ("limit", "integer"),
        ("resourceVersion", "string"),
        ("resourceVersionMatch", "string"),
        ("sendInitialEvents", "boolean"),
        ("shardSelector", "string"),
        ("timeoutSeconds", "integer"),
        ("watch", "boolean"),
    ];
    let write = [("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
    let delete = [
        ("dryRun", "string"),
        ("gracePeriodSeconds", "integer"),
        ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
        ("orphanDependents", "boolean"),
        ("propagationPolicy", "string"),
    ];
    match verb {
        "list" | "watch" | "watchlist" => list.to_vec(),
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
    }
}
