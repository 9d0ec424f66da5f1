use super::*;
use crate::pod::tests::pod;
use serde_json::{Value, json};

fn node(name: &str, extra: Value) -> Arc<Node> {
    let mut value = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "5"}},
    });
    let labels = extra["labels"].clone();
    labels
        .as_object()
        .into_iter()
        .flatten()
        .for_each(|(key, label)| value["metadata"]["labels"][key] = label.clone());
    value.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    Arc::new(pod(value))
}

fn cache(nodes: &[Arc<Node>]) -> SchedulerCache {
    let mut cache = SchedulerCache::default();
    nodes.iter().for_each(|node| cache.observe_node(node));
    cache
}

fn zones(zones: &[&str]) -> SchedulerCache {
    let node = |(index, zone): (usize, &&str)| node(&format!("n{index}"), json!({"labels": {"zone": zone}}));
    cache(&zones.iter().enumerate().map(node).collect::<Vec<_>>())
}

fn wants(cpu: &str) -> PlacedPod {
    placed(json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}))
}

fn placed(value: Value) -> PlacedPod {
    PlacedPod::new(Arc::new(pod(value)))
}

fn named(uid: &str, pod: &PlacedPod) -> PlacedPod {
    let mut copy = (*pod.pod).clone();
    copy.metadata.uid = Some(uid.to_owned());
    PlacedPod::new(Arc::new(copy))
}

/// Places a pod and leaves it there. Returns its node, or why there is none.
fn put(uid: &str, pod: &PlacedPod, cache: &mut SchedulerCache) -> Result<String, String> {
    let pod = named(uid, pod);
    match place(&pod, cache) {
        Placement::Node(node) => {
            cache.place(&node, pod);
            Ok(node)
        }
        Placement::None(misfits) => Err(describe(misfits.len(), misfits.values())),
    }
}

#[test]
fn pods_spread_by_load_and_then_by_name() {
    let mut cache = cache(&[node("a", json!({})), node("b", json!({}))]);
    let chosen: Vec<_> =
        ["1", "2", "3", "4"].iter().map(|uid| put(uid, &wants("1"), &mut cache).unwrap()).collect();
    assert_eq!(chosen, ["a", "b", "a", "b"]);
    let full = put("5", &wants("500m"), &mut cache).unwrap_err();
    assert_eq!(full, "0/2 nodes are available: 2 Insufficient cpu.");
}

#[test]
fn the_message_counts_the_reasons() {
    let mut cache = cache(&[
        node("a", json!({"spec": {"unschedulable": true}})),
        node("b", json!({})),
        node("c", json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}})),
    ]);
    let message = put("1", &wants("3"), &mut cache).unwrap_err();
    let reasons = "1 Insufficient cpu, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable";
    assert_eq!(message, format!("0/3 nodes are available: {reasons}."));
}

#[test]
fn a_taint_to_avoid_and_a_preference_outweigh_the_load() {
    let avoided = json!({"spec": {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}});
    let mut cache =
        cache(&[node("a", avoided), node("b", json!({})), node("c", json!({"labels": {"disk": "fast"}}))]);
    assert_eq!(put("1", &wants("1"), &mut cache).unwrap(), "b");
    let preference =
        json!({"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}});
    let likes = placed(json!({"spec": {"affinity": {"nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [preference]}}, "containers": []}}));
    assert_eq!(["2", "3"].map(|uid| put(uid, &likes, &mut cache).unwrap()), ["c", "c"]);
}

fn term(app: &str, key: &str) -> Value {
    json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}})
}

/// Returns a pod with a label, and with required terms of one kind.
fn related(app: &str, kind: &str, terms: Value) -> PlacedPod {
    placed(json!({"metadata": {"namespace": "n", "labels": {"app": app}}, "spec": {"containers": [],
        "affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}}))
}

fn plain(app: &str) -> PlacedPod {
    placed(json!({"metadata": {"namespace": "n", "labels": {"app": app}}, "spec": {"containers": []}}))
}

#[test]
fn affinity_needs_a_pod_in_the_same_domain() {
    let mut cache = zones(&["a", "b", "b"]);
    let near = related("web", "podAffinity", json!([term("db", "zone")]));
    assert_eq!(
        put("1", &near, &mut cache).unwrap_err(),
        "0/3 nodes are available: 3 node(s) didn't match pod affinity rules."
    );
    cache.place("n2", named("db", &plain("db")));
    assert_eq!(put("1", &near, &mut cache).unwrap(), "n1", "the zone counts, not the node");
    let elsewhere = placed(
        json!({"metadata": {"namespace": "other", "labels": {"app": "web"}}, "spec": {"containers": [],
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term("db", "zone")]}}}}),
    );
    assert!(put("2", &elsewhere, &mut cache).is_err(), "a term is about the pod's own namespace");
}

#[test]
fn the_first_pod_of_a_group_may_go_anywhere() {
    let mut cache = zones(&["a", "b"]);
    let together = related("web", "podAffinity", json!([term("web", "zone")]));
    assert_eq!(["1", "2"].map(|uid| put(uid, &together, &mut cache).unwrap()), ["n0", "n0"]);
    let nowhere = related("web", "podAffinity", json!([term("web", "rack")]));
    assert!(put("3", &nowhere, &mut cache).is_err(), "no node has the label");
}

#[test]
fn anti_affinity_holds_for_both_sides() {
    let mut cache = zones(&["a", "b"]);
    let alone = related("web", "podAntiAffinity", json!([term("web", "kubernetes.io/hostname")]));
    assert_eq!(["1", "2"].map(|uid| put(uid, &alone, &mut cache).unwrap()), ["n0", "n1"]);
    assert_eq!(
        put("3", &alone, &mut cache).unwrap_err(),
        "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."
    );
    assert_eq!(
        put("4", &plain("web"), &mut cache).unwrap_err(),
        "0/2 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules."
    );
    assert!(put("5", &plain("db"), &mut cache).is_ok());
    cache.forget("2");
    assert_eq!(put("4", &plain("web"), &mut cache).unwrap(), "n1");
}

#[test]
fn preferred_affinity_draws_and_repels() {
    let mut cache = zones(&["a", "b", "c"]);
    let prefers = |kind: &str, weight: i64| {
        placed(
            json!({"metadata": {"namespace": "n", "labels": {"app": "web"}}, "spec": {"containers": [], "affinity": {
            kind: {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "podAffinityTerm": term("db", "zone")}]}}}}),
        )
    };
    cache.place("n1", named("db", &plain("db")));
    assert_eq!(put("1", &prefers("podAffinity", 10), &mut cache).unwrap(), "n1");
    cache.place("n0", named("db2", &plain("db")));
    assert_eq!(put("2", &prefers("podAntiAffinity", 10), &mut cache).unwrap(), "n2");
}

fn spread(extra: Value) -> PlacedPod {
    let mut constraint = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}});
    constraint.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    placed(json!({"metadata": {"namespace": "n", "labels": {"app": "web"}},
        "spec": {"containers": [], "topologySpreadConstraints": [constraint]}}))
}

#[test]
fn a_spread_is_as_even_as_its_skew() {
    let mut cache = zones(&["a", "a", "b"]);
    let chosen: Vec<_> =
        ["1", "2", "3", "4"].iter().map(|uid| put(uid, &spread(json!({})), &mut cache).unwrap()).collect();
    assert_eq!(chosen, ["n0", "n2", "n1", "n2"]);
    cache.observe_node(&node("n3", json!({})));
    cache.observe_node(&node("n4", json!({"labels": {"zone": "c"}, "spec": {"unschedulable": true}})));
    assert_eq!(
        put("5", &spread(json!({})), &mut cache).unwrap_err(),
        "0/5 nodes are available: 1 node(s) didn't match pod topology spread constraints (missing required label), \
         1 node(s) were unschedulable, 3 node(s) didn't match pod topology spread constraints."
    );
    assert!(put("5", &spread(json!({"maxSkew": 3})), &mut cache).is_ok());
}

#[test]
fn too_few_domains_count_as_one_that_is_empty() {
    let mut cache = zones(&["a", "b"]);
    let wide = spread(json!({"minDomains": 3}));
    assert_eq!(["1", "2"].map(|uid| put(uid, &wide, &mut cache).is_ok()), [true, true]);
    assert!(put("3", &wide, &mut cache).is_err());
    assert!(put("3", &spread(json!({})), &mut cache).is_ok());
}

#[test]
fn a_soft_spread_only_prefers() {
    let mut cache = zones(&["a", "b"]);
    let soft = spread(json!({"whenUnsatisfiable": "ScheduleAnyway"}));
    for uid in ["1", "2"] {
        cache.place("n0", named(uid, &plain("web")));
    }
    cache.place("n1", named("3", &wants("1")));
    assert_eq!(put("4", &soft, &mut cache).unwrap(), "n1", "although the node has more load");
}

#[test]
fn room_that_was_made_for_a_pod_is_kept_for_it() {
    let mut cache = cache(&[node("a", json!({}))]);
    let of = |uid: &str, priority: i32, nominated: Option<&str>| {
        let mut pod = (*named(uid, &wants("2")).pod).clone();
        pod.set("spec/priority", priority);
        pod.set("status/nominatedNodeName", nominated);
        PlacedPod::new(Arc::new(pod))
    };
    let waits = of("high", 10, Some("a"));
    cache.nominate(&waits.pod, Some("a"));
    assert!(matches!(place(&of("low", 1, None), &mut cache), Placement::None(_)));
    assert_eq!(place(&of("higher", 11, None), &mut cache), Placement::Node("a".to_owned()));
    assert_eq!(place(&waits, &mut cache), Placement::Node("a".to_owned()));
    assert_eq!(cache.all().map(|(_, info)| info.pod_count()).sum::<usize>(), 0, "the cache is as it was");
}
