use std::any::TypeId;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};

use super::*;
use crate::leader::LeaderElection;

fn declared<K: kube::Resource<DynamicType = ()> + 'static>(
    purpose: Purpose,
    namespaces: &[&str],
) -> Declaration {
    let namespaces = namespaces.iter().map(|namespace| (*namespace).to_owned()).collect();
    let resource = ApiResource::erase::<K>(&());
    Declaration { resource, type_id: TypeId::of::<K>(), namespaces, purpose, namespaced: true, owns: false }
}

/// The rules as lines: where, resources, verbs.
fn rules(manifests: &Manifests) -> Vec<String> {
    let line = |scope: &Option<String>, rule: &Rule| {
        let scope = scope.as_deref().unwrap_or("*");
        let names: String = rule.resource_names.iter().map(|name| format!(" {name}")).collect();
        format!(
            "{scope}: {} {}{names}: {}",
            rule.api_groups[0],
            rule.resources.join(" "),
            rule.verbs.join(" ")
        )
    };
    manifests
        .rules()
        .iter()
        .flat_map(|(_, scopes)| scopes)
        .flat_map(|(scope, rules)| rules.iter().map(move |rule| line(scope, rule)))
        .collect()
}

fn verbs(text: &str) -> Verbs {
    text.parse().unwrap()
}

#[test]
fn recorded_requests_replace_the_usual_writes() {
    let primary = Declaration { owns: true, ..declared::<ConfigMap>(Purpose::Primary, &[]) };
    let declarations = [primary, declared::<Secret>(Purpose::Owned, &[])];
    let usual = Manifests::new("op", "ops").declared(declarations);
    assert_eq!(
        rules(&usual),
        [
            "*:  configmaps: get list patch update watch",
            "*:  configmaps/finalizers: update",
            "*:  configmaps/status: patch update",
            "*:  secrets: create delete get list patch update watch",
            "*: events.k8s.io events: create patch",
        ]
    );
    assert_eq!(
        rules(&usual.verbs(verbs("secrets: patch"))),
        [
            "*:  configmaps: get list watch",
            "*:  configmaps/finalizers: update",
            "*:  secrets: list patch watch",
        ]
    );
}

#[test]
fn recorded_requests_hold_where_their_kind_was_declared() {
    let declarations =
        [declared::<ConfigMap>(Purpose::Primary, &["a"]), declared::<Secret>(Purpose::Read, &["b"])];
    let manifests = Manifests::new("op", "ops").declared(declarations).verbs(verbs(
        "configmaps/status: patch\nsecrets: patch\npods: create\nnodes (cluster): get\nevents.events.k8s.io: create",
    ));
    assert_eq!(
        rules(&manifests),
        [
            "*:  nodes: get",
            "a:  configmaps: get list watch",
            "a:  configmaps/status: patch",
            "a:  pods: create",
            "a: events.k8s.io events: create patch",
            "b:  pods: create",
            "b:  secrets: list patch watch",
            "b: events.k8s.io events: create patch",
        ]
    );
}

#[test]
fn what_holds_everywhere_is_not_repeated_in_a_namespace() {
    let declarations = [
        declared::<Node>(Purpose::Primary, &[]),
        declared::<Secret>(Purpose::Read, &[]),
        declared::<Secret>(Purpose::Owned, &["a"]),
    ];
    let manifests = Manifests::new("op", "ops").declared(declarations).verbs(verbs("nodes (cluster): patch"));
    assert_eq!(
        rules(&manifests),
        ["*:  nodes: get list patch watch", "*:  secrets: list watch"],
        "what owns nothing needs no leave for its finalizers"
    );
    let roles: usize = manifests.rules().iter().map(|(_, scopes)| scopes.len()).sum();
    assert_eq!(roles, 1, "no role is without rules");
}

#[test]
fn resources_of_a_group_with_the_same_verbs_share_a_rule() {
    let declarations = [declared::<ConfigMap>(Purpose::Read, &[]), declared::<Secret>(Purpose::Read, &[])];
    let manifests = Manifests::new("op", "ops").declared(declarations).verbs(Verbs::default());
    assert_eq!(rules(&manifests), ["*:  configmaps secrets: list watch"]);
}

#[test]
fn an_election_may_touch_its_own_lease_alone() {
    let election = LeaderElection::new("ops", "op-lease");
    let recorded = verbs("leases.coordination.k8s.io: get create update");
    let manifests = Manifests::new("op", "ops").leader_election(&election).verbs(recorded);
    assert_eq!(
        rules(&manifests),
        ["ops: coordination.k8s.io leases: create", "ops: coordination.k8s.io leases op-lease: get update"]
    );
}

#[test]
fn namespaced_sources_need_no_cluster_role() {
    let manifests = Manifests::new("op", "ops")
        .declared([declared::<Secret>(Purpose::Read, &["a", "b"])])
        .leader_election(&LeaderElection::new("ops", "op"))
        .port(8080)
        .image("registry.example.com/op:1");
    let objects = manifests.objects();
    let kinds: Vec<&str> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    let roles = ["Role", "RoleBinding"];
    let rest = ["Service", "Deployment", "PodDisruptionBudget", "NetworkPolicy"];
    let wanted = [&["Namespace", "ServiceAccount"][..], &roles, &roles, &roles, &rest].concat();
    assert_eq!(kinds, wanted, "two for the namespaces and one for the lease");
    let container = &objects[9]["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["readinessProbe"]["httpGet"]["port"], 8080);
    let yaml = manifests.yaml().unwrap();
    assert_eq!(yaml.matches("---\n").count(), 11, "{yaml}");
}
