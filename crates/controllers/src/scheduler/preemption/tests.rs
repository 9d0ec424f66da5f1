use super::*;
use crate::pod::tests::pod;
use crate::scheduler::placement::Placement;
use serde_json::{Value, json};

fn node(name: &str, extra: Value) -> Arc<crate::kinds::Node> {
    let mut value =
        json!({"metadata": {"name": name}, "status": {"allocatable": {"cpu": "2", "pods": "10"}}});
    value.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    Arc::new(pod(value))
}

fn wants(name: &str, priority: i32, cpu: &str, extra: Value) -> PlacedPod {
    let mut value = json!({
        "metadata": {"name": name, "uid": name, "namespace": "n", "labels": {"app": name}},
        "spec": {"priority": priority, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"startTime": "2026-01-01T00:00:00Z"},
    });
    for (path, more) in extra.as_object().unwrap() {
        value.pointer_mut(path).unwrap().as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    }
    PlacedPod::new(Arc::new(pod(value)))
}

/// Returns node and victims, or why nobody is evicted. The cache must be as before.
fn evaluated(incoming: &PlacedPod, budgets: &[Value], cache: &mut SchedulerCache) -> Result<String, String> {
    let budgets: Vec<_> = budgets.iter().filter_map(|it| Budget::of(&pod(it.clone()))).collect();
    let Placement::None(misfits) = placement::place(incoming, cache) else { panic!("the pod fits") };
    let before = contents(cache);
    let outcome = evaluate(incoming, &misfits, &budgets, cache);
    assert_eq!(contents(cache), before);
    let names =
        |victims: &[Arc<Pod>]| victims.iter().map(|it| it.name().to_owned()).collect::<Vec<_>>().join(" ");
    outcome.map(|it| format!("{}: {}", it.node, names(&it.victims))).map_err(|refused| refused.message)
}

/// Returns what is on the nodes: the pods, and how much they request together.
fn contents(cache: &SchedulerCache) -> Vec<(Vec<String>, Option<i64>)> {
    let of = |info: &crate::scheduler::cache::NodeInfo| {
        let uids = info.pods().map(|pod| pod.uid().to_owned()).collect();
        (uids, info.requested("cpu").map(|cpu| cpu.milli_value()))
    };
    cache.all().map(|(_, info)| of(info)).collect()
}

fn cache(nodes: &[&str], pods: &[(&str, PlacedPod)]) -> SchedulerCache {
    let mut cache = SchedulerCache::default();
    nodes.iter().for_each(|name| cache.observe_node(&node(name, json!({}))));
    pods.iter().for_each(|(node, pod)| cache.place(node, pod.clone()));
    cache
}

fn low(name: &str, priority: i32, cpu: &str) -> PlacedPod {
    wants(name, priority, cpu, json!({}))
}

#[test]
fn as_few_pods_as_possible_go_the_least_important_first() {
    let pods = [("a", low("x", 1, "500m")), ("a", low("y", 2, "500m")), ("a", low("z", 1, "1"))];
    let mut cache = cache(&["a"], &pods);
    assert_eq!(evaluated(&low("new", 10, "500m"), &[], &mut cache), Ok("a: z".to_owned()));
    assert_eq!(evaluated(&low("new", 10, "1500m"), &[], &mut cache), Ok("a: x z".to_owned()));
    assert_eq!(evaluated(&low("new", 10, "2"), &[], &mut cache), Ok("a: y x z".to_owned()));
    // Only pods of lower priority count.
    assert_eq!(evaluated(&low("new", 2, "1500m"), &[], &mut cache), Ok("a: x z".to_owned()));
    let none = "0/1 nodes are available: 1 No preemption victims found for incoming pod.";
    assert_eq!(evaluated(&low("new", 1, "500m"), &[], &mut cache), Err(none.to_owned()));
    let more = "0/1 nodes are available: 1 Insufficient cpu.";
    assert_eq!(evaluated(&low("new", 2, "2"), &[], &mut cache), Err(more.to_owned()));
}

#[test]
fn the_node_is_chosen_by_the_victims() {
    let mut cache = cache(&["a", "b", "c", "d"], &[]);
    cache.observe_node(&node("d", json!({"spec": {"unschedulable": true}})));
    cache.place("a", low("a1", 5, "2"));
    cache.place("b", low("b1", 3, "1"));
    cache.place("b", low("b2", 3, "1"));
    cache.place("c", low("c1", 3, "2"));
    assert_eq!(evaluated(&low("new", 10, "2"), &[], &mut cache), Ok("c: c1".to_owned()), "fewer victims");
    cache.forget("c1");
    cache.place("c", low("c1", 4, "2"));
    assert_eq!(evaluated(&low("new", 10, "2"), &[], &mut cache), Ok("b: b1 b2".to_owned()), "lower priority");
    let late = wants("a1", 3, "2", json!({"/status": {"startTime": "2026-01-02T00:00:00Z"}}));
    cache.place("a", late);
    cache.place("c", low("c1", 3, "2"));
    assert_eq!(evaluated(&low("new", 10, "2"), &[], &mut cache), Ok("a: a1".to_owned()), "started last");
    let nothing = "0/4 nodes are available: 1 Preemption is not helpful for scheduling, \
                   3 No preemption victims found for incoming pod.";
    assert_eq!(evaluated(&low("new", 3, "2"), &[], &mut cache), Err(nothing.to_owned()));
}

#[test]
fn budgets_are_kept_if_possible() {
    let budget = |app: &str, allowed: i32| json!({"metadata": {"namespace": "n"}, "spec": {"selector": {"matchLabels": {"app": app}}}, "status": {"disruptionsAllowed": allowed}});
    let mut cache = cache(&["a", "b"], &[("a", low("x", 1, "2")), ("b", low("y", 5, "2"))]);
    let new = low("new", 10, "2");
    assert_eq!(evaluated(&new, &[budget("x", 1)], &mut cache), Ok("a: x".to_owned()));
    assert_eq!(evaluated(&new, &[budget("x", 0)], &mut cache), Ok("b: y".to_owned()));
    // No budget forbids preemption.
    assert_eq!(evaluated(&new, &[budget("x", 0), budget("y", 0)], &mut cache), Ok("a: x".to_owned()));
    let everything = json!({"metadata": {"namespace": "n"}, "spec": {"selector": {}}, "status": {"disruptionsAllowed": 0}});
    assert_eq!(evaluated(&new, &[everything], &mut cache), Ok("a: x".to_owned()), "an empty selector");
    // On one node, those that a budget protects are spared.
    let mut cache = self::cache(&["a"], &[("a", low("x", 1, "1")), ("a", low("y", 5, "1"))]);
    assert_eq!(evaluated(&low("new", 10, "1"), &[budget("x", 0)], &mut cache), Ok("a: y".to_owned()));
}

#[test]
fn some_pods_do_not_preempt() {
    let mut cache = cache(&["a"], &[("a", low("x", 1, "2"))]);
    let shy = wants("new", 10, "2", json!({"/spec": {"preemptionPolicy": "Never"}}));
    assert_eq!(
        evaluated(&shy, &[], &mut cache),
        Err("not eligible due to preemptionPolicy=Never.".to_owned())
    );
    // While a victim leaves, no more are evicted.
    let leaving = wants(
        "x",
        1,
        "2",
        json!({
            "/metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            "/status": {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": REASON}]},
        }),
    );
    cache.place("a", leaving);
    let waits = wants("new", 10, "2", json!({"/status": {"nominatedNodeName": "a"}}));
    let message = "not eligible due to a terminating pod on the nominated node.";
    assert_eq!(evaluated(&waits, &[], &mut cache), Err(message.to_owned()));
    assert_eq!(evaluated(&low("new", 10, "2"), &[], &mut cache), Ok("a: x".to_owned()));
}

#[test]
fn a_pod_makes_room_where_anti_affinity_keeps_it_off() {
    let pods = [("a", wants("web", 1, "100m", json!({})))];
    let mut cache = cache(&[], &pods);
    cache.observe_node(&node("a", json!({"metadata": {"name": "a", "labels": {"zone": "z"}}, "status": {"allocatable": {"cpu": "2", "pods": "10"}}})));
    let alone = wants(
        "new",
        10,
        "100m",
        json!({"/spec": {"affinity": {"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}]}}}}),
    );
    assert_eq!(evaluated(&alone, &[], &mut cache), Ok("a: web".to_owned()));
}
