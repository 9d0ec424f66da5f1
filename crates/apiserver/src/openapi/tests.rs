use super::*;
use crate::Caller;
use crate::registry::{CustomInfo, ResourceInfo, SubresourceInfo};

fn ask(openapi: &OpenApi, registry: &Registry, path: &str) -> Response<Body> {
    let request = http::Request::builder().uri(path).body(()).unwrap();
    let (mut head, ()) = request.into_parts();
    let caller = Caller::of(&mut head.extensions);
    let request = Request::new(&head, &caller);
    openapi.answer(registry, &request, "2026-01-01T00:00:00Z".parse().unwrap()).unwrap().unwrap()
}

fn get(openapi: &OpenApi, registry: &Registry, path: &str) -> Value {
    serde_json::from_slice(&ask(openapi, registry, path).into_body().whole().unwrap()).unwrap()
}

fn with_widgets() -> Registry {
    let registry = Registry::new();
    let schema = json!({"type": "object", "description": "A widget.", "properties": {"spec": {"type": "object", "properties": {
        "port": {"x-kubernetes-int-or-string": true}, "size": {"type": "integer", "minimum": 1}}}}});
    let custom =
        CustomInfo::for_tests("widgets.a.example.com", json!({"schema": {"openAPIV3Schema": schema}}));
    let status = SubresourceInfo {
        name: "status".into(),
        kind: "Widget".into(),
        verbs: vec!["get".into(), "patch".into()],
        ..SubresourceInfo::default()
    };
    let verbs = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
    let info = ResourceInfo {
        group: "a.example.com".into(),
        version: "v1".into(),
        plural: "widgets".into(),
        kind: "Widget".into(),
        list_kind: "WidgetList".into(),
        namespaced: true,
        verbs: verbs.map(String::from).to_vec(),
        subresources: vec![status],
        custom: Some(custom.into()),
        ..ResourceInfo::default()
    };
    registry.replace("widgets.a.example.com", vec![info]);
    registry
}

/// kubectl looks at the PATCH operation of a kind before it writes an object of that kind.
#[test]
fn a_patch_operation_says_what_kubectl_asks() {
    let document = get(&OpenApi::default(), &Registry::new(), "/openapi/v3/apis/apps/v1");
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({"group": "apps", "version": "v1", "kind": "Deployment"})
    );
    assert_eq!(patch["operationId"], "patchAppsV1NamespacedDeployment");
    let parameters = patch["parameters"].as_array().unwrap();
    assert!(parameters.iter().any(|it| it["name"] == "fieldValidation" && it["in"] == "query"));
    assert!(patch["requestBody"]["content"].get("application/strategic-merge-patch+json").is_some());
}

#[test]
fn schemas_carry_kinds_and_merge_rules_and_every_reference_leads_somewhere() {
    for (path, document) in built_in() {
        let document: Value = serde_json::from_slice(&document.bytes).unwrap();
        // The documents of the OpenID endpoints refer to nothing.
        let schemas = document["components"]["schemas"].as_object().cloned().unwrap_or_default();
        let text = document.to_string();
        for link in text.split("#/components/schemas/").skip(1) {
            let name = link.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "{path}: {name}");
        }
    }
    let document = get(&OpenApi::default(), &Registry::new(), "/openapi/v3/api/v1");
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["io.k8s.api.core.v1.Pod"]["x-kubernetes-group-version-kind"][0]["kind"], "Pod");
    let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
}

#[test]
fn custom_resources_are_described_by_their_definition() {
    let (openapi, registry) = (OpenApi::default(), with_widgets());
    let document = get(&openapi, &registry, "/openapi/v3/apis/a.example.com/v1");
    let widget = &document["components"]["schemas"]["com.example.a.v1.Widget"];
    assert_eq!(widget["description"], "A widget.");
    assert_eq!(
        widget["properties"]["spec"]["properties"]["port"]["anyOf"],
        json!([{"type": "integer"}, {"type": "string"}])
    );
    assert_eq!(
        widget["x-kubernetes-group-version-kind"],
        json!([{"group": "a.example.com", "version": "v1", "kind": "Widget"}])
    );
    assert!(widget["properties"]["metadata"]["allOf"].is_array());
    let patch = &document["paths"]["/apis/a.example.com/v1/namespaces/{namespace}/widgets/{name}"]["patch"];
    assert!(patch["requestBody"]["content"].get("application/strategic-merge-patch+json").is_none());
    assert_eq!(patch["operationId"], "patchAExampleComV1NamespacedWidget");
    let paths: Vec<_> = document["paths"].as_object().unwrap().keys().map(|name| name.as_str()).collect();
    assert_eq!(
        paths,
        [
            "/apis/a.example.com/v1/namespaces/{namespace}/widgets",
            "/apis/a.example.com/v1/namespaces/{namespace}/widgets/{name}",
            "/apis/a.example.com/v1/namespaces/{namespace}/widgets/{name}/status",
            "/apis/a.example.com/v1/widgets",
        ]
    );
    registry.replace("widgets.a.example.com", vec![]);
    assert!(get(&openapi, &registry, "/openapi/v3")["paths"].get("apis/a.example.com/v1").is_none());
}

#[test]
fn a_document_is_kept_under_its_hash() {
    let (openapi, registry) = (OpenApi::default(), Registry::new());
    let index = get(&openapi, &registry, "/openapi/v3");
    let url = index["paths"]["apis/batch/v1"]["serverRelativeURL"].as_str().unwrap();
    let right = ask(&openapi, &registry, url);
    assert_eq!(right.headers()[CACHE_CONTROL], "public, immutable");
    assert_eq!(right.headers()[EXPIRES], "Fri, 01 Jan 2027 00:00:00 UTC");
    let wrong = ask(&openapi, &registry, "/openapi/v3/apis/batch/v1?hash=ABC");
    assert_eq!((wrong.status().as_u16(), wrong.headers()[LOCATION].to_str().unwrap()), (301, url));
}

#[test]
fn version_two_has_definitions_and_flat_parameters() {
    let swagger = get(&OpenApi::default(), &with_widgets(), "/openapi/v2");
    assert!(swagger["definitions"].get("com.example.a.v1.Widget").is_some());
    let patch = &swagger["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    let parameters = patch["parameters"].as_array().unwrap();
    assert!(parameters.iter().any(|it| it["in"] == "body"));
    assert!(parameters.iter().any(|it| it["name"] == "dryRun" && it["type"] == "string"));
    assert_eq!(patch["responses"]["200"]["schema"]["$ref"], "#/definitions/io.k8s.api.apps.v1.Deployment");
    assert!(!swagger.to_string().contains("#/components/"));
}

/// Go's clients and tools generate code from the paths, and `kubectl get --raw` finds its way by them.
#[test]
fn documents_have_the_paths_of_kubernetes() {
    let (openapi, registry) = (OpenApi::default(), Registry::new());
    let document = get(&openapi, &registry, "/openapi/v3/api/v1");
    let paths = document["paths"].as_object().unwrap();
    let proxy = &paths["/api/v1/nodes/{name}/proxy/{path}"];
    let methods: Vec<&str> = proxy.as_object().unwrap().keys().map(|name| name.as_str()).collect();
    assert_eq!(methods, ["delete", "get", "head", "options", "parameters", "patch", "post", "put"]);
    assert_eq!(proxy["head"]["operationId"], "connectCoreV1HeadNodeProxyWithPath");
    let watch = &paths["/api/v1/watch/namespaces/{namespace}/pods/{name}"]["get"];
    assert_eq!(watch["operationId"], "watchCoreV1NamespacedPod");
    assert_eq!(paths["/api/v1/"]["get"]["operationId"], "getCoreV1APIResources");
    assert!(!paths.contains_key("/api/v1/watch/bindings"));
    let item = &paths["/api/v1/namespaces/{namespace}/pods/{name}"];
    let names = |list: &Value| {
        let names = list.as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(&item["parameters"]), ["name", "namespace", "pretty"]);
    assert_eq!(names(&item["put"]["parameters"]), ["dryRun", "fieldManager", "fieldValidation"]);
    let deleted = &item["delete"]["responses"]["200"]["content"]["application/json"]["schema"]["$ref"];
    assert_eq!(deleted, "#/components/schemas/io.k8s.api.core.v1.Pod");
    // A parameter of all operations of a path belongs to the path.
    assert_eq!(names(&paths["/api/v1/namespaces/{name}/finalize"]["parameters"]).len(), 5);
    for outer in ["api", "apis", "apis/apps", "version", "openid/v1/jwks", ".well-known/openid-configuration"]
    {
        let document = get(&openapi, &registry, &format!("/openapi/v3/{outer}"));
        assert_eq!(document["paths"].as_object().unwrap().len(), 1, "{outer}");
    }
    assert_eq!(ask(&openapi, &registry, "/openapi/v3/apis/none/v1").status(), 404);
}

#[test]
fn kinds_of_all_groups_name_their_group() {
    let (openapi, registry) = (OpenApi::default(), Registry::new());
    let name = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
    let document = get(&openapi, &registry, "/openapi/v3/apis/batch/v1");
    let kinds = &document["components"]["schemas"][name]["x-kubernetes-group-version-kind"];
    assert_eq!(kinds[1], json!({"group": "batch", "kind": "DeleteOptions", "version": "v1"}));
    let swagger = get(&openapi, &registry, "/openapi/v2");
    let kinds = &swagger["definitions"][name]["x-kubernetes-group-version-kind"];
    assert!(kinds.as_array().unwrap().len() > 50, "{kinds}");
    // v2 has no defaults, but a schema of definitions has a field of that name.
    let of_schemas = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    assert!(swagger["definitions"][of_schemas]["properties"].get("default").is_some());
    let port = &swagger["definitions"]["io.k8s.api.core.v1.ContainerPort"]["properties"]["protocol"];
    assert!(port.get("default").is_none(), "{port}");
}
