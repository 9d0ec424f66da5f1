//! The lifecycle of CRDs: names, served resources, and deletion with all custom resources.

use serde_json::{Value, json};

use super::{Ask, Case, delete, get, merge, post};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/a/widgets";

fn definition(plural: &str, kind: &str) -> Value {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer", "maximum": 5}}}}});
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    json!({"metadata": {"name": format!("{plural}.example.com")}, "spec": {
        "group": "example.com", "scope": "Namespaced", "versions": [version],
        "names": {"plural": plural, "kind": kind}}})
}

fn widgets() -> Ask {
    post(DEFINITIONS, definition("widgets", "Widget"))
}

fn path() -> String {
    format!("{DEFINITIONS}/widgets.example.com")
}

fn widget(name: &str, finalizers: Value) -> Ask {
    let metadata = json!({"name": name, "finalizers": finalizers});
    let body = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata});
    post(WIDGETS, body)
}

fn probes() -> Vec<Ask> {
    let large = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "large"},
        "spec": {"size": 9}});
    vec![
        get(WIDGETS),
        get("/apis/example.com/v2/namespaces/a/widgets"),
        post(format!("{WIDGETS}?dryRun=All"), large),
        get("/apis/example.com/v1/namespaces/a/gadgets"),
    ]
}

fn case(name: &'static str, setup: Vec<Ask>, write: Ask) -> Case {
    Case { name, setup, write, probes: probes() }
}

pub(super) fn cases() -> Vec<Case> {
    let free = json!([]);
    let held = json!(["example.com/hold"]);
    let mut wider = definition("widgets", "Widget")["spec"]["versions"].clone();
    wider[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]["maximum"] = 10.into();
    let mut second = wider[0].clone();
    (second["name"], second["storage"]) = ("v2".into(), false.into());
    let two = json!({"spec": {"versions": [wider[0], second]}});
    let terminating = || vec![widgets(), widget("w", json!(["example.com/hold"])), delete(path())];
    let release = json!({"metadata": {"finalizers": null}});
    // Both CRDs want the same kind; the second waits until the kind is free.
    let waiting = || vec![widgets(), post(DEFINITIONS, definition("gadgets", "Widget"))];
    let short = || {
        let named = |plural, kind| {
            let mut definition = definition(plural, kind);
            definition["spec"]["names"]["shortNames"] = json!(["s"]);
            post(DEFINITIONS, definition)
        };
        vec![named("widgets", "Widget"), named("gadgets", "Gadget")]
    };
    let renamed = json!({"spec": {"names": {"shortNames": null}}});
    vec![
        case("create a definition", vec![], widgets()),
        case("create a definition whose kind is taken", vec![widgets()], waiting().remove(1)),
        case("change a definition", vec![widgets()], merge(path(), two)),
        case("delete a definition", vec![widgets()], delete(path())),
        case(
            "delete a definition with instances",
            vec![widgets(), widget("w", free.clone()), widget("x", free.clone())],
            delete(path()),
        ),
        case(
            "delete a definition whose instance is held",
            vec![widgets(), widget("w", held), widget("x", free)],
            delete(path()),
        ),
        case("release the last instance", terminating(), merge(format!("{WIDGETS}/w"), release)),
        case("give up a name that another definition waits for", short(), merge(path(), renamed)),
        case("delete a definition whose name another waits for", waiting(), delete(path())),
    ]
}

/// The deletion of all CRDs at once. Each is a separate write, and the client retries if the request is
/// interrupted.
pub(super) fn collections() -> Vec<Case> {
    let gadgets = post(DEFINITIONS, definition("gadgets", "Gadget"));
    let held = widget("w", json!(["example.com/hold"]));
    vec![case("delete all definitions", vec![widgets(), gadgets, held], delete(DEFINITIONS))]
}
