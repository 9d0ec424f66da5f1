use evenkeel_schema::json::json;

use super::*;

/// Compares the cells after the name, for an object that is ten minutes old.
fn check(group: &str, kind: &str, mut object: Value, expected: Value) {
    object["metadata"]["name"] = json!("n");
    object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    let row = of(group, kind).unwrap();
    let cells = cells(row, &object, "2026-01-01T00:10:00Z".parse().unwrap());
    assert_eq!(json!(cells[1..]), expected, "{kind} {object}");
}

fn pod(object: Value, ready: &str, status: &str, restarts: &str) {
    check("", "Pod", object, json!([ready, status, restarts, "10m", "<none>", "<none>", "<none>", "<none>"]));
}

#[test]
fn a_running_pod_in_wide() {
    let object = json!({
        "spec": {"containers": [{"name": "a"}, {"name": "b"}], "nodeName": "node-1",
            "readinessGates": [{"conditionType": "x"}, {"conditionType": "y"}]},
        "status": {"phase": "Running", "podIPs": [{"ip": "10.1.0.4"}], "nominatedNodeName": "node-2",
            "conditions": [{"type": "x", "status": "True"}],
            "containerStatuses": [
                {"name": "a", "ready": true, "restartCount": 2, "state": {"running": {}},
                 "lastState": {"terminated": {"finishedAt": "2026-01-01T00:08:30Z"}}},
                {"name": "b", "ready": false, "restartCount": 1, "state": {"running": {}}}]},
    });
    check(
        "",
        "Pod",
        object,
        json!(["1/2", "Running", "3 (90s ago)", "10m", "10.1.0.4", "node-1", "node-2", "1/2"]),
    );
}

#[test]
fn the_status_of_a_pod_is_its_most_telling_reason() {
    let with = |status: Value| json!({"spec": {"containers": [{"name": "a"}]}, "status": status});
    pod(with(json!({"phase": "Pending"})), "0/1", "Pending", "0");
    pod(with(json!({"phase": "Failed", "reason": "Evicted"})), "0/1", "Evicted", "0");
    let gated =
        json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]});
    pod(with(gated), "0/1", "SchedulingGated", "0");
    let state =
        |state: Value| json!({"phase": "Running", "containerStatuses": [{"name": "a", "state": state}]});
    pod(with(state(json!({"waiting": {"reason": "CrashLoopBackOff"}}))), "0/1", "CrashLoopBackOff", "0");
    pod(with(state(json!({"terminated": {"exitCode": 3}}))), "0/1", "ExitCode:3", "0");
    pod(with(state(json!({"terminated": {"exitCode": 137, "signal": 9}}))), "0/1", "Signal:9", "0");
    pod(with(state(json!({"terminated": {"exitCode": 1, "reason": "Error"}}))), "0/1", "Error", "0");
}

#[test]
fn a_pod_with_one_container_done_is_not_completed() {
    let with = |second: Value, conditions: Value| {
        json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}, "status": {"phase": "Running",
            "conditions": conditions, "containerStatuses": [
                {"name": "a", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}, second]}})
    };
    let running = json!({"name": "b", "ready": true, "state": {"running": {}}});
    let ready = json!([{"type": "Ready", "status": "True"}]);
    pod(with(running.clone(), ready), "1/2", "Running", "0");
    pod(with(running, json!([])), "1/2", "NotReady", "0");
    let failed = json!({"name": "b", "state": {"terminated": {"exitCode": 2, "reason": "Error"}}});
    pod(with(failed, json!([])), "0/2", "Error", "0");
}

#[test]
fn init_containers_hold_a_pod_up_and_sidecars_count() {
    let with = |init: Value| {
        json!({"spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]},
            "status": {"phase": "Pending", "initContainerStatuses": init}})
    };
    pod(
        with(json!([{"name": "i", "state": {"waiting": {"reason": "PodInitializing"}}}])),
        "0/2",
        "Init:0/2",
        "0",
    );
    pod(
        with(json!([{"name": "i", "restartCount": 4, "state": {"terminated": {"exitCode": 1}}}])),
        "0/2",
        "Init:ExitCode:1",
        "4",
    );
    pod(
        with(json!([{"name": "i", "state": {"waiting": {"reason": "ImagePullBackOff"}}}])),
        "0/2",
        "Init:ImagePullBackOff",
        "0",
    );
    let done = json!({"name": "i", "restartCount": 5, "state": {"terminated": {"exitCode": 0}}});
    let sidecar =
        json!({"name": "s", "started": true, "ready": true, "restartCount": 1, "state": {"running": {}}});
    pod(with(json!([done, sidecar])), "1/2", "Pending", "1");
}

#[test]
fn a_deleted_pod_is_terminating_until_it_is_done() {
    let with = |status: Value| json!({"metadata": {"deletionTimestamp": "2026-01-01T00:09:00Z"}, "spec": {"containers": [{}]}, "status": status});
    pod(with(json!({"phase": "Running"})), "0/1", "Terminating", "0");
    pod(with(json!({"phase": "Succeeded"})), "0/1", "Succeeded", "0");
    pod(with(json!({"phase": "Running", "reason": "NodeLost"})), "0/1", "Unknown", "0");
}

#[test]
fn workloads() {
    let template =
        json!({"spec": {"containers": [{"name": "a", "image": "x:1"}, {"name": "b", "image": "y"}]}});
    let selector = json!({"matchLabels": {"b": "1"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["z", "y"]}]});
    let spec = json!({"replicas": 3, "selector": selector, "template": template});
    let status = json!({"replicas": 3, "readyReplicas": 2, "updatedReplicas": 1, "availableReplicas": 2});
    let object = json!({"spec": spec, "status": status});
    let wide = json!(["2/3", 1, 2, "10m", "a,b", "x:1,y", "a in (y,z),b=1"]);
    check("apps", "Deployment", object.clone(), wide);
    check("apps", "ReplicaSet", object.clone(), json!([3, 3, 2, "10m", "a,b", "x:1,y", "a in (y,z),b=1"]));
    check("apps", "StatefulSet", object, json!(["2/3", "10m", "a,b", "x:1,y"]));
    let set =
        json!({"spec": {"template": {"spec": {"nodeSelector": {"d": "ssd"}}}}, "status": {"numberReady": 1}});
    check("apps", "DaemonSet", set, json!([0, 0, 1, 0, 0, "d=ssd", "10m", "", "", "<none>"]));
    let owned = json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "controller": true}]}, "revision": 2});
    check("apps", "ControllerRevision", owned, json!(["statefulset.apps/s", 2, "10m"]));
}

#[test]
fn jobs_and_cron_jobs() {
    let with = |spec: Value, status: Value| json!({"spec": spec, "status": status});
    let started = json!({"startTime": "2026-01-01T00:00:00Z", "succeeded": 1});
    check(
        "batch",
        "Job",
        with(json!({"completions": 3}), started),
        json!(["Running", "1/3", "10m", "10m", "", "", "<none>"]),
    );
    let done = json!({"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:05Z", "succeeded": 2,
        "conditions": [{"type": "Complete", "status": "True"}]});
    check(
        "batch",
        "Job",
        with(json!({"parallelism": 4}), done),
        json!(["Complete", "2/1 of 4", "5s", "10m", "", "", "<none>"]),
    );
    check("batch", "Job", with(json!({}), json!({})), json!(["Running", "0/1", "", "10m", "", "", "<none>"]));
    let cron = with(json!({"schedule": "* * * * *", "suspend": false}), json!({"active": [{}]}));
    check(
        "batch",
        "CronJob",
        cron,
        json!(["* * * * *", "<none>", "False", 1, "<none>", "10m", "", "", "<none>"]),
    );
}

#[test]
fn services() {
    let with = |spec: Value, status: Value| json!({"spec": spec, "status": status});
    let port = json!([{"port": 80, "protocol": "TCP", "nodePort": 30080}, {"port": 53, "protocol": "UDP"}]);
    let cluster =
        json!({"type": "ClusterIP", "clusterIPs": ["10.0.0.9"], "ports": port, "selector": {"a": "b"}});
    check(
        "",
        "Service",
        with(cluster, json!({})),
        json!(["ClusterIP", "10.0.0.9", "<none>", "80:30080/TCP,53/UDP", "10m", "a=b"]),
    );
    let balancer = json!({"type": "LoadBalancer", "clusterIPs": ["10.0.0.9"]});
    check(
        "",
        "Service",
        with(balancer.clone(), json!({})),
        json!(["LoadBalancer", "10.0.0.9", "<pending>", "<none>", "10m", "<none>"]),
    );
    let address = json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}, {"hostname": "h"}]}});
    check(
        "",
        "Service",
        with(balancer, address),
        json!(["LoadBalancer", "10.0.0.9", "1.2.3.4,h", "<none>", "10m", "<none>"]),
    );
    let name = json!({"type": "ExternalName", "externalName": "example.com"});
    check(
        "",
        "Service",
        with(name, json!({})),
        json!(["ExternalName", "<none>", "example.com", "<none>", "10m", "<none>"]),
    );
}

#[test]
fn endpoints_and_ingress() {
    let addresses: Vec<_> = (1..=5).map(|n| json!({"ip": format!("10.0.0.{n}")})).collect();
    let subsets = json!([{"addresses": addresses, "ports": [{"port": 80}]}]);
    check(
        "",
        "Endpoints",
        json!({"subsets": subsets}),
        json!(["10.0.0.1:80,10.0.0.2:80,10.0.0.3:80 + 2 more...", "10m"]),
    );
    check("", "Endpoints", json!({}), json!(["<none>", "10m"]));
    let slice = json!({"addressType": "IPv4", "ports": [{"port": 80}, {"name": "x"}, {}], "endpoints": [{"addresses": ["10.0.0.1"]}]});
    check("discovery.k8s.io", "EndpointSlice", slice, json!(["IPv4", "80,x,*", "10.0.0.1", "10m"]));
    check(
        "discovery.k8s.io",
        "EndpointSlice",
        json!({"addressType": "IPv4", "ports": null}),
        json!(["IPv4", "<unset>", "<unset>", "10m"]),
    );
    let ingress =
        json!({"spec": {"ingressClassName": "c", "rules": [{"host": "a"}, {}, {"host": "b"}], "tls": [{}]}});
    check("networking.k8s.io", "Ingress", ingress, json!(["c", "a,b", "", "80, 443", "10m"]));
}

#[test]
fn nodes() {
    let node = json!({"metadata": {"labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "edge"}},
        "spec": {"unschedulable": true},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1.36.0", "kernelVersion": "6.1", "architecture": "amd64"}}});
    check(
        "",
        "Node",
        node,
        json!([
            "Ready,SchedulingDisabled",
            "edge,worker",
            "10m",
            "v1.36.0",
            "10.0.0.1",
            "<none>",
            "<unknown>",
            "6.1 (amd64)",
            "<unknown>"
        ]),
    );
    check(
        "",
        "Node",
        json!({}),
        json!(["Unknown", "<none>", "10m", "", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"]),
    );
}

#[test]
fn events_of_both_faces() {
    let row = |object: Value| {
        json!(cells(of("", "Event").unwrap(), &object, "2026-01-01T00:10:00Z".parse().unwrap()))
    };
    let core = row(
        json!({"metadata": {"name": "e"}, "type": "Normal", "reason": "Pulled", "message": " done \n", "count": 3,
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:09:00Z",
        "source": {"component": "kubelet", "host": "n1"},
        "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec"}}),
    );
    assert_eq!(
        core,
        json!(["60s", "Normal", "Pulled", "pod/p", "spec", "kubelet, n1", "done", "10m", 3, "e"])
    );
    let new = row(json!({"metadata": {"name": "e"}, "type": "Normal", "reason": "R", "note": "text",
        "eventTime": "2026-01-01T00:09:50.000000Z", "reportingController": "c", "regarding": {"kind": "Pod", "name": "p"}}));
    assert_eq!(new, json!(["10s", "Normal", "R", "pod/p", "", "c", "text", "10s", 1, "e"]));
}

#[test]
fn volumes_and_claims() {
    let claim = json!({"spec": {"volumeName": "v", "storageClassName": "fast", "volumeMode": "Filesystem"},
        "status": {"phase": "Bound", "accessModes": ["ReadWriteMany", "ReadWriteOnce"], "capacity": {"storage": "1Gi"}}});
    check(
        "",
        "PersistentVolumeClaim",
        claim,
        json!(["Bound", "v", "1Gi", "RWO,RWX", "fast", "<unset>", "10m", "Filesystem"]),
    );
    let volume = json!({"spec": {"capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOncePod"], "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {"namespace": "ns", "name": "c"}}, "status": {"phase": "Bound"}});
    check(
        "",
        "PersistentVolume",
        volume,
        json!(["2Gi", "RWOP", "Retain", "Bound", "ns/c", "", "<unset>", "", "10m", "<unset>"]),
    );
    let class = json!({"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "p"});
    check("storage.k8s.io", "StorageClass", class, json!(["p", "Delete", "Immediate", false, "10m"]));
}

#[test]
fn autoscalers_and_quotas() {
    let hpa = |metrics: Value, current: Value| {
        json!({"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "maxReplicas": 5,
        "minReplicas": 2, "metrics": metrics}, "status": {"currentReplicas": 3, "currentMetrics": current}})
    };
    let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}});
    let now = json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 40}}});
    let row = |targets: &str| json!(["Deployment/d", targets, "2", 5, 3, "10m"]);
    check("autoscaling", "HorizontalPodAutoscaler", hpa(json!([cpu]), json!([now])), row("cpu: 40%/80%"));
    check(
        "autoscaling",
        "HorizontalPodAutoscaler",
        hpa(json!([cpu, cpu, cpu]), json!([])),
        row("cpu: <unknown>/80%, cpu: <unknown>/80% + 1 more..."),
    );
    check("autoscaling", "HorizontalPodAutoscaler", hpa(json!([]), json!([])), row("<none>"));
    let quota = json!({"status": {"hard": {"pods": "4", "limits.cpu": "2"}, "used": {"pods": "1"}}});
    check("", "ResourceQuota", quota, json!(["pods: 1/4", "limits.cpu: 0/2", "10m"]));
}

#[test]
fn what_governs() {
    let binding = json!({"roleRef": {"kind": "ClusterRole", "name": "view"}, "subjects": [
        {"kind": "User", "name": "u"}, {"kind": "User", "name": "v"}, {"kind": "ServiceAccount", "name": "s", "namespace": "ns"}]});
    check(
        "rbac.authorization.k8s.io",
        "RoleBinding",
        binding,
        json!(["ClusterRole/view", "10m", "u, v", "", "ns/s"]),
    );
    let service =
        json!({"status": {"conditions": [{"type": "Available", "status": "False", "reason": "Gone"}]}});
    check("apiregistration.k8s.io", "APIService", service, json!(["Local", "False (Gone)", "10m"]));
    let policy = json!({"spec": {"policyName": "p", "paramRef": {"selector": {"matchLabels": {"a": "b"}}}}});
    check(
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
        policy,
        json!([
            "p",
            "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}",
            "10m"
        ]),
    );
    let level = json!({"spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 20, "limitResponse": {"type": "Reject"}}}});
    check(
        "flowcontrol.apiserver.k8s.io",
        "PriorityLevelConfiguration",
        level,
        json!(["Limited", 20, "<none>", "<none>", "<none>", "10m"]),
    );
    let request = json!({"spec": {"expirationSeconds": 3600, "username": "u"}, "status": {"certificate": "YQ==", "conditions": [{"type": "Approved"}]}});
    check(
        "certificates.k8s.io",
        "CertificateSigningRequest",
        request,
        json!(["10m", "<none>", "u", "60m", "Approved,Issued"]),
    );
}

/// Every kind with its own columns has a row function that returns as many cells.
#[test]
fn rows_fit_the_columns_of_the_facts() {
    for resource in evenkeel_schema::api_resources::resources() {
        let plain = resource.columns.iter().any(|column| column.name == "Created At");
        if resource.columns.is_empty() || plain {
            continue;
        }
        let row = of(resource.group, resource.kind).unwrap_or_else(|| panic!("{} has no row", resource.kind));
        let cells = cells(row, &json!({}), Timestamp::UNIX_EPOCH);
        let extra = usize::from(resource.kind == "IPAddress");
        assert_eq!(cells.len(), resource.columns.len() + extra, "{}", resource.kind);
    }
}
