//! Writes of built-in kinds that have consequences: policies, webhooks, services, roles, quotas, budgets,
//! collections.

use serde_json::{Value, json};

use super::{Ask, Case, ask, delete, get, merge, post};

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const CORE: &str = "/api/v1/namespaces/a";

fn case(name: &'static str, setup: Vec<Ask>, write: Ask, probes: Vec<Ask>) -> Case {
    Case { name, setup, write, probes }
}

pub(super) fn cases() -> Vec<Case> {
    let groups = [admission(), services(), access(), counted(), pods(), others()];
    groups.into_iter().flatten().collect()
}

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"a": "b"}})
}

fn try_map() -> Vec<Ask> {
    vec![post(format!("{CORE}/configmaps?dryRun=All"), map("tried"))]
}

fn policy(expression: &str) -> Value {
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]});
    json!({"metadata": {"name": "p"}, "spec": {"matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": expression}]}})
}

fn webhook(path: &str) -> Value {
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]});
    json!({"metadata": {"name": "h"}, "webhooks": [{"name": "h.example.com", "rules": [rule],
        "clientConfig": {"url": format!("https://hook.example.com{path}"), "caBundle": "Cg=="},
        "sideEffects": "None", "admissionReviewVersions": ["v1"]}]})
}

fn admission() -> Vec<Case> {
    let policies = format!("{ADMISSION}/validatingadmissionpolicies");
    let bindings = format!("{ADMISSION}/validatingadmissionpolicybindings");
    let hooks = format!("{ADMISSION}/validatingwebhookconfigurations");
    let binding =
        json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    let make_policy = || post(&policies, policy("false"));
    let make_binding = || post(&bindings, binding.clone());
    let both = || vec![make_policy(), make_binding()];
    let loose = json!({"spec": policy("true")["spec"]});
    let url = |path: &str| json!({"webhooks": webhook(path)["webhooks"]});
    vec![
        case("create a policy", vec![make_binding()], make_policy(), try_map()),
        case("create a binding", vec![make_policy()], make_binding(), try_map()),
        case("change a policy", both(), merge(format!("{policies}/p"), loose), try_map()),
        case("delete a policy", both(), delete(format!("{policies}/p")), try_map()),
        case("delete a binding", both(), delete(format!("{bindings}/b")), try_map()),
        case("delete all bindings", both(), delete(&bindings), try_map()),
        case("create a webhook", vec![], post(&hooks, webhook("/deny")), try_map()),
        case(
            "change a webhook",
            vec![post(&hooks, webhook("/deny"))],
            merge(format!("{hooks}/h"), url("/allow")),
            try_map(),
        ),
        case(
            "delete a webhook",
            vec![post(&hooks, webhook("/deny"))],
            delete(format!("{hooks}/h")),
            try_map(),
        ),
    ]
}

fn service(metadata: Value, address: &str, port: u16) -> Value {
    json!({"metadata": metadata, "spec": {"type": "NodePort", "clusterIP": address,
        "ports": [{"port": 80, "nodePort": port}]}})
}

/// Tries to allocate each address and port that the cases use; the attempt fails if a service has it.
fn try_services() -> Vec<Ask> {
    let path = format!("{CORE}/services?dryRun=All");
    let name = json!({"name": "tried"});
    let address = |last: u8| {
        let spec = json!({"clusterIP": format!("10.96.0.{last}"), "ports": [{"port": 80}]});
        post(&path, json!({"metadata": {"name": "tried"}, "spec": spec}))
    };
    let port = |port: u16| post(&path, service(name.clone(), "10.96.7.7", port));
    vec![address(20), address(21), port(30020), port(30021), port(30022)]
}

fn services() -> Vec<Case> {
    let services = format!("{CORE}/services");
    let one = || post(&services, service(json!({"name": "one"}), "10.96.0.20", 30020));
    let two = || post(&services, service(json!({"name": "two"}), "10.96.0.21", 30021));
    let path = format!("{services}/one");
    let other_port = json!({"spec": {"ports": [{"port": 80, "nodePort": 30022}]}});
    let no_port = json!({"spec": {"type": "ClusterIP", "ports": [{"port": 80, "nodePort": null}]}});
    let no_address = json!({"spec": {"type": "ExternalName", "externalName": "a.example.com",
        "clusterIP": null, "clusterIPs": null, "ports": [{"port": 80, "nodePort": null}]}});
    let generated = service(json!({"generateName": "one-"}), "10.96.0.20", 30020);
    let held = service(json!({"name": "one", "finalizers": ["example.com/hold"]}), "10.96.0.20", 30020);
    let going = || vec![post(&services, held.clone()), delete(path.clone())];
    let last = json!({"metadata": {"finalizers": null}});
    let last_and_port = json!({"metadata": {"finalizers": null}, "spec": other_port["spec"]});
    vec![
        case("create a service", vec![], one(), try_services()),
        case("generate a service", vec![], post(&services, generated), try_services()),
        case("change a port", vec![one()], merge(&path, other_port), try_services()),
        case("give up a port", vec![one()], merge(&path, no_port), try_services()),
        case("give up an address", vec![one()], merge(&path, no_address), try_services()),
        case("delete a service", vec![one(), two()], delete(&path), try_services()),
        case("delete all services", vec![one(), two()], delete(&services), try_services()),
        case("release a service", going(), merge(&path, last), try_services()),
        case("release a service with a change", going(), merge(&path, last_and_port), try_services()),
    ]
}

fn access() -> Vec<Case> {
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let role = json!({"metadata": {"name": "r"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]});
    let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"});
    let binding = json!({"metadata": {"name": "r"}, "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}});
    let probes = || vec![Ask { user: Some("jane"), ..get(format!("{CORE}/configmaps")) }];
    let bind = || post(bindings, binding.clone());
    let make = || post(roles, role.clone());
    vec![
        case("create a role", vec![bind()], make(), probes()),
        case("bind a role", vec![make()], bind(), probes()),
        case("delete a role", vec![make(), bind()], delete(format!("{roles}/r")), probes()),
        case("unbind a role", vec![make(), bind()], delete(format!("{bindings}/r")), probes()),
    ]
}

/// Writes that a quota counts. If the usage differs from the number of objects, the write has happened in
/// part.
fn counted() -> Vec<Case> {
    let quotas = format!("{CORE}/resourcequotas");
    let hard = json!({"count/configmaps": "3"});
    let quota = post(&quotas, json!({"metadata": {"name": "q"}, "spec": {"hard": hard}}));
    let counted = json!({"status": {"hard": hard, "used": {"count/configmaps": "1"}}});
    let setup = || {
        let first = post(format!("{CORE}/configmaps"), map("first"));
        vec![first, quota.clone(), merge(format!("{quotas}/q/status"), counted.clone())]
    };
    let generated = json!({"metadata": {"generateName": "m-"}});
    vec![
        case("create what is counted", setup(), post(format!("{CORE}/configmaps"), map("second")), try_map()),
        case("generate what is counted", setup(), post(format!("{CORE}/configmaps"), generated), try_map()),
        case(
            "refuse what is there already",
            setup(),
            post(format!("{CORE}/configmaps?dryRun=All"), map("first")),
            try_map(),
        ),
    ]
}

fn pod(name: &str) -> Ask {
    post(
        format!("{CORE}/pods"),
        json!({"metadata": {"name": name, "labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": false}}),
    )
}

fn pods() -> Vec<Case> {
    let account = || post(format!("{CORE}/serviceaccounts"), json!({"metadata": {"name": "default"}}));
    let pods = format!("{CORE}/pods");
    let running =
        json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    let bind = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    let bind = || post(format!("{pods}/p/binding"), bind.clone());
    let run = || merge(format!("{pods}/p/status"), running.clone());
    let budgets = "/apis/policy/v1/namespaces/a/poddisruptionbudgets";
    let spec = json!({"minAvailable": 0, "selector": {"matchLabels": {"app": "x"}}});
    let budget = post(budgets, json!({"metadata": {"name": "b"}, "spec": spec}));
    let allowed = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 1,
        "desiredHealthy": 0, "expectedPods": 1}});
    let allowed = merge(format!("{budgets}/b/status"), allowed);
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    let evict = || post(format!("{pods}/p/eviction"), eviction.clone());
    let token = post(format!("{CORE}/serviceaccounts/default/token"), json!({"spec": {}}));
    vec![
        case("create a pod", vec![account()], pod("p"), vec![]),
        case("bind a pod", vec![account(), pod("p")], bind(), vec![]),
        case("delete a pod", vec![account(), pod("p")], delete(format!("{pods}/p")), vec![]),
        case(
            "delete a running pod",
            vec![account(), pod("p"), bind(), run()],
            delete(format!("{pods}/p")),
            vec![],
        ),
        case("delete all pods", vec![account(), pod("p"), pod("q"), bind()], delete(&pods), vec![]),
        case(
            "evict a pod",
            vec![account(), pod("p"), bind(), run(), budget.clone(), allowed.clone()],
            evict(),
            vec![],
        ),
        case("evict a pending pod", vec![account(), pod("p"), budget, allowed], evict(), vec![]),
        case("request a token", vec![account()], token, vec![]),
    ]
}

fn others() -> Vec<Case> {
    let maps = format!("{CORE}/configmaps");
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}});
    let leases = "/apis/coordination.k8s.io/v1/namespaces/a/leases";
    let finalized = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}, "spec": {}});
    let three = || vec![post(&maps, map("one")), post(&maps, held.clone()), post(&maps, map("two"))];
    vec![
        case("delete a collection", three(), delete(&maps), vec![]),
        case("create a lease by update", vec![], ask("PUT", format!("{leases}/l"), lease), vec![]),
        case("delete a namespace", vec![], delete("/api/v1/namespaces/a"), try_map()),
        case(
            "finalize a namespace",
            vec![delete("/api/v1/namespaces/a")],
            ask("PUT", "/api/v1/namespaces/a/finalize", finalized),
            try_map(),
        ),
    ]
}
