//! What objects use of quotas, case by case.

use super::*;
use crate::json::json;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn shown(amounts: &Amounts) -> Value {
    amounts.iter().map(|(name, amount)| (name.clone(), Value::from(amount.to_string()))).collect()
}

fn used(resource: GroupResource<'_>, object: Value) -> Value {
    shown(&usage(resource, &object, NOW))
}

#[test]
fn names_belong_to_the_resources_that_use_them() {
    let secrets = GroupResource { group: "", plural: "secrets" };
    let deployments = GroupResource { group: "apps", plural: "deployments" };
    for (resource, tracked) in [
        (GroupResource::PODS, "pods count/pods cpu memory ephemeral-storage requests.cpu limits.memory"),
        (GroupResource::PODS, "hugepages-2Mi requests.hugepages-1Gi requests.example.com/gpu"),
        (GroupResource::PODS, "requests.deviceclass.resource.kubernetes.io/gpu"),
        (GroupResource::SERVICES, "services count/services services.nodeports services.loadbalancers"),
        (GroupResource::CLAIMS, "persistentvolumeclaims count/persistentvolumeclaims requests.storage"),
        (GroupResource::CLAIMS, "a.b.storageclass.storage.k8s.io/requests.storage"),
        (GroupResource::CLAIMS, "a.storageclass.storage.k8s.io/persistentvolumeclaims"),
        (secrets, "secrets count/secrets"),
        (deployments, "count/deployments.apps"),
    ] {
        for name in tracked.split(' ') {
            for other in
                [GroupResource::PODS, GroupResource::SERVICES, GroupResource::CLAIMS, secrets, deployments]
            {
                assert_eq!(tracks(other, name), other == resource, "{other:?} {name}");
            }
        }
    }
    for name in
        ["limits.hugepages-2Mi", "limits.example.com/gpu", "requests.kubernetes.io/x", "deployments", "x"]
    {
        assert!(!tracks(GroupResource::PODS, name) && !tracks(deployments, name), "{name}");
    }
    assert!(!tracks(GroupResource::CLAIMS, "a.storageclass.storage.k8s.io/cpu"));
}

#[test]
fn counts_name_their_resource() {
    let counted = |name| GroupResource::counted_by(name).map(|it| (it.group, it.plural));
    assert_eq!(counted("count/deployments.apps"), Some(("apps", "deployments")));
    assert_eq!(counted("count/widgets.example.com"), Some(("example.com", "widgets")));
    assert_eq!(counted("count/pods"), Some(("", "pods")));
    assert_eq!(counted("secrets"), Some(("", "secrets")));
    assert_eq!(counted("pods"), None);
}

#[test]
fn a_pod_uses_what_it_requests_and_is_limited_to() {
    let resources = json!({
        "requests": {"cpu": "100m", "example.com/gpu": "1", "hugepages-2Mi": "2Mi", "storage": "9"},
        "limits": {"memory": "1Gi", "example.com/gpu": "1", "hugepages-2Mi": "2Mi"},
    });
    let mut pod = json!({"spec": {"containers": [{"name": "c", "resources": resources}]}});
    let expected = json!({"count/pods": "1", "pods": "1", "cpu": "100m", "requests.cpu": "100m",
        "limits.memory": "1Gi", "hugepages-2Mi": "2Mi", "requests.hugepages-2Mi": "2Mi", "requests.example.com/gpu": "1"});
    assert_eq!(used(GroupResource::PODS, pod.clone()), expected);
    let metadata = |deleted: &str| json!({"deletionTimestamp": deleted, "deletionGracePeriodSeconds": 30});
    pod["metadata"] = metadata("1969-12-31T23:59:30Z");
    assert_eq!(used(GroupResource::PODS, pod.clone()), expected, "its grace period ends now");
    pod["metadata"] = metadata("1969-12-31T23:59:29Z");
    assert_eq!(used(GroupResource::PODS, pod.clone()), json!({"count/pods": "1"}), "its node is lost");
    pod["metadata"] = json!({});
    pod["status"] = json!({"phase": "Failed"});
    assert_eq!(used(GroupResource::PODS, pod), json!({"count/pods": "1"}));
}

#[test]
fn a_claim_uses_whole_bytes_and_what_an_expansion_allocated() {
    let claim = |asked: &str, allocated: &str| {
        json!({"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}},
            "spec": {"storageClassName": "new", "resources": {"requests": {"storage": asked}}},
            "status": {"allocatedResources": {"storage": allocated}}})
    };
    let storage = |claim| {
        used(GroupResource::CLAIMS, claim)["old.storageclass.storage.k8s.io/requests.storage"].clone()
    };
    assert_eq!(storage(claim("1500m", "1")), "2");
    assert_eq!(storage(claim("1Gi", "2Gi")), "2Gi");
    assert_eq!(storage(claim("3Gi", "2Gi")), "3Gi");
}

#[test]
fn scopes_choose_pods_and_claims() {
    let select = |scope: &str, operator: &str, values: Value| {
        let expression = json!({"scopeName": scope, "operator": operator, "values": values});
        json!({"spec": {"scopeSelector": {"matchExpressions": [expression]}}})
    };
    let about = |quota: &Value, pod: Value| matches(quota, GroupResource::PODS, &pod);
    let class = |name: &str| json!({"spec": {"priorityClassName": name}});
    for (operator, high, low, none) in [
        ("In", true, false, false),
        ("NotIn", false, true, true),
        ("Exists", true, true, false),
        ("DoesNotExist", false, false, true),
    ] {
        let quota = select("PriorityClass", operator, json!(["high"]));
        let found = [about(&quota, class("high")), about(&quota, class("low")), about(&quota, json!({}))];
        assert_eq!(found, [high, low, none], "{operator}");
    }
    let terminating = json!({"spec": {"scopes": ["Terminating", "BestEffort"]}});
    let deadline = json!({"spec": {"activeDeadlineSeconds": 0}});
    assert!(about(&terminating, deadline.clone()) && !about(&terminating, json!({})));
    let zero = json!({"spec": {"activeDeadlineSeconds": 1, "containers": [{"resources": {"requests": {"cpu": "0"}}}]}});
    assert!(about(&terminating, zero), "a request of nothing is best effort");
    assert!(!matches(&terminating, GroupResource::SERVICES, &deadline), "no other object has a scope");
    let quota = select("VolumeAttributesClass", "In", json!(["fast"]));
    let moving = json!({"spec": {"volumeAttributesClassName": "slow"}, "status": {"currentVolumeAttributesClassName": "fast"}});
    assert!(matches(&quota, GroupResource::CLAIMS, &moving) && !about(&quota, moving));
}

#[test]
fn what_must_be_specified_is_named_with_its_containers() {
    let resources = json!({"requests": {"cpu": "1"}});
    let pod = json!({"spec": {"containers": [{"name": "b"}, {"name": "a"}], "initContainers": [{"name": "i", "resources": resources}]}});
    let limited = ["limits.memory", "pods", "requests.cpu"];
    let told = unspecified(GroupResource::PODS, &pod, limited.into_iter());
    assert_eq!(told.as_deref(), Some("must specify limits.memory for: a,b,i; requests.cpu for: a,b"));
    let whole = json!({"spec": {"resources": {"limits": {"cpu": "1"}}, "containers": [{"name": "b"}]}});
    assert_eq!(
        unspecified(GroupResource::PODS, &whole, limited.into_iter()),
        None,
        "the pod says it as a whole"
    );
    assert_eq!(unspecified(GroupResource::SERVICES, &pod, limited.into_iter()), None);
}

#[test]
fn an_update_releases_what_it_gives_back() {
    let service = |kind: &str| json!({"spec": {"type": kind, "ports": [{"port": 80}]}});
    let gives = |old: &str, new: &str| releases(GroupResource::SERVICES, &service(old), &service(new), NOW);
    assert!(gives("NodePort", "ClusterIP") && gives("LoadBalancer", "NodePort"));
    assert!(!gives("ClusterIP", "NodePort") && !gives("NodePort", "NodePort"));
    let deadline = json!({"spec": {"activeDeadlineSeconds": 5}});
    assert!(releases(GroupResource::PODS, &json!({"spec": {}}), &deadline, NOW), "it leaves a scope");
}
