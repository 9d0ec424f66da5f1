use super::*;
use crate::Caller;
use crate::registry::{CustomInfo, ResourceInfo, SubresourceInfo};

fn get(registry: &Registry, path: &str, accept: &str) -> (u16, String, Value) {
    let request = http::Request::builder().uri(path).header("accept", accept).header("host", "here:1");
    let (mut head, ()) = request.body(()).unwrap().into_parts();
    let caller = Caller::of(&mut head.extensions);
    let request = Request::new(&head, &caller);
    match answer(registry, &request).expect("a path of discovery") {
        Ok(mut response) => {
            respond::dress(&mut response, http::HeaderMap::new());
            let content_type = response.headers()[CONTENT_TYPE].to_str().unwrap().to_owned();
            let status = response.status().as_u16();
            let body = response.into_body().whole().unwrap();
            (status, content_type, serde_json::from_slice(&body).unwrap())
        }
        Err(status) => (status.code, String::new(), json!(status.message)),
    }
}

fn custom(group: &str, version: &str, plural: &str, parts: Vec<SubresourceInfo>) -> ResourceInfo {
    let info = CustomInfo::for_tests(format!("{plural}.{group}"), json!({}));
    ResourceInfo {
        group: group.into(),
        version: version.into(),
        plural: plural.into(),
        singular: "widget".into(),
        kind: "Widget".into(),
        namespaced: true,
        verbs: ["get", "list", "watch"].map(String::from).to_vec(),
        subresources: parts,
        custom: Some(info.into()),
        ..ResourceInfo::default()
    }
}

#[test]
fn groups_come_in_the_order_of_kubernetes_and_custom_ones_last() {
    let registry = Registry::new();
    registry.replace(
        "widgets.a.example.com",
        vec![
            custom("a.example.com", "v1", "widgets", vec![]),
            custom("a.example.com", "v2", "widgets", vec![]),
        ],
    );
    let (_, _, list) = get(&registry, "/apis", "application/json");
    let names: Vec<_> =
        list["groups"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names[..3], ["apiregistration.k8s.io", "apps", "events.k8s.io"]);
    assert_eq!(names.last(), Some(&"a.example.com"));
    let (_, _, group) = get(&registry, "/apis/a.example.com", "application/json");
    assert_eq!(group["preferredVersion"]["version"], "v2");
    let (_, _, scaling) = get(&registry, "/apis/autoscaling/", "*/*");
    assert_eq!(scaling["preferredVersion"]["version"], "v2");
}

#[test]
fn resources_carry_the_hash_of_the_stored_version() {
    let registry = Registry::new();
    let hash = |path: &str, name: &str| {
        let (_, _, list) = get(&registry, path, "application/json");
        let resources = list["resources"].as_array().unwrap().clone();
        resources.into_iter().find(|it| it["name"] == name).unwrap()["storageVersionHash"].clone()
    };
    assert_eq!(hash("/api/v1", "configmaps"), "qFsyl6wFWjQ=");
    assert_eq!(hash("/apis/autoscaling/v1", "horizontalpodautoscalers"), "qwQve8ut294=");
    assert_eq!(hash("/apis/events.k8s.io/v1", "events"), "r2yiGXH7wu8=");
    assert_eq!(hash("/api/v1", "bindings"), Value::Null);
}

#[test]
fn the_aggregated_form_is_given_to_those_who_ask_for_it() {
    let registry = Registry::new();
    let scale = SubresourceInfo {
        name: "scale".into(),
        kind: "Scale".into(),
        group: "autoscaling".into(),
        version: "v1".into(),
        ..SubresourceInfo::default()
    };
    registry.replace("widgets.a.example.com", vec![custom("a.example.com", "v1", "widgets", vec![scale])]);
    let accept = format!(
        "{AGGREGATED_TYPE},application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
    );
    let (code, content_type, list) = get(&registry, "/apis", &accept);
    assert_eq!((code, content_type.as_str()), (200, AGGREGATED_TYPE));
    let last = list["items"].as_array().unwrap().last().unwrap();
    let widget = &last["versions"][0]["resources"][0];
    assert_eq!(widget["responseKind"], json!({"group": "a.example.com", "version": "v1", "kind": "Widget"}));
    assert_eq!(
        widget["subresources"][0]["responseKind"],
        json!({"group": "autoscaling", "version": "v1", "kind": "Scale"})
    );
    let (_, _, core) = get(&registry, "/api", &accept);
    assert_eq!(core["items"][0]["metadata"], json!({}));
    let pods = &core["items"][0]["versions"][0]["resources"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["resource"] == "pods")
        .unwrap()
        .clone();
    assert_eq!(pods["responseKind"], json!({"group": "", "version": "", "kind": "Pod"}));
}

#[test]
fn what_is_shared_between_servers_shows_no_custom_resource_of_another() {
    let with = Registry::new();
    with.replace("gadgets.apps", vec![custom("apps", "v1", "gadgets", vec![])]);
    let without = Registry::new();
    for registry in [&without, &with, &without] {
        let (_, _, list) = get(registry, "/apis", AGGREGATED_TYPE);
        let apps = list["items"].as_array().unwrap().iter().find(|it| it["metadata"]["name"] == "apps");
        let resources = apps.unwrap()["versions"][0]["resources"].as_array().unwrap();
        let gadgets = resources.iter().filter(|it| it["resource"] == "gadgets").count();
        assert_eq!(gadgets, registry.custom().len());
        assert_eq!(list["kind"], "APIGroupDiscoveryList");
    }
}

#[test]
fn the_old_aggregated_form_is_no_longer_served() {
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
    assert_eq!(get(&Registry::new(), "/apis", accept).0, 406);
}

#[test]
fn what_is_not_served_is_no_page_or_no_resource() {
    let registry = Registry::new();
    assert_eq!(get(&registry, "/apis/nope.example.com", "*/*").2, "404 page not found\n");
    assert_eq!(get(&registry, "/apis/apps/v7", "*/*").2, "the server could not find the requested resource");
    assert_eq!(get(&registry, "/api/v7", "*/*").2, "the server could not find the requested resource");
    assert_eq!(get(&registry, "/version", "*/*").2["minor"], "36");
    // A client of protobuf, such as Kubernetes' own end-to-end tests, used to be refused.
    let protobuf = "application/vnd.kubernetes.protobuf";
    assert_eq!(get(&registry, "/version", &format!("{protobuf}, */*")).2["minor"], "36");
    assert_eq!(get(&registry, "/version", protobuf).0, 406);
}
