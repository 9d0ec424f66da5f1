//! The objects of a new cluster except for RBAC: namespaces, the service `kubernetes`, priority classes, flow
//! control and API services.

use evenkeel_schema::json::{Value, json};

use super::{NO_ADDRESS, SERVICE_CIDR, SERVICE_IP, Seed};

const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
const API_SERVICES: &str = include_str!("../../facts/apiservices.txt");
const FLOW_CONTROL: &str = include_str!("../../facts/flowcontrol.jsonl");
const FLOW_CONTROL_VERSION: &str = "flowcontrol.apiserver.k8s.io/v1";

pub(super) fn seeds(now: &str) -> Vec<Seed> {
    let mut seeds: Vec<Seed> = NAMESPACES.into_iter().map(namespace).collect();
    seeds.extend(API_SERVICES.lines().filter_map(|line| api_service(line, now)));
    seeds.extend(FLOW_CONTROL.lines().filter_map(|line| flow_control(line, now)));
    seeds.extend(priority_classes());
    seeds.extend(service_network(now));
    seeds.push(service(NO_ADDRESS.1));
    seeds.extend(endpoints(NO_ADDRESS.0, NO_ADDRESS.1));
    seeds
}

fn namespace(name: &str) -> Seed {
    let object = json!({
        "metadata": { "labels": { "kubernetes.io/metadata.name": name } },
        "spec": { "finalizers": ["kubernetes"] },
        "status": { "phase": "Active" },
    });
    Seed::new("v1", "Namespace", "namespaces", "", name, object)
}

/// Parses a line `group version group-priority version-priority`.
fn api_service(line: &str, now: &str) -> Option<Seed> {
    let mut words = line.split_whitespace().filter(|_| !line.starts_with('#'));
    let group = match words.next()? {
        "core" => "",
        group => group,
    };
    let version = words.next()?;
    let mut spec = json!({
        "version": version,
        "groupPriorityMinimum": words.next()?.parse::<i64>().ok()?,
        "versionPriority": words.next()?.parse::<i64>().ok()?,
    });
    if !group.is_empty() {
        spec["group"] = group.into();
    }
    let condition = json!({
        "type": "Available",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "Local",
        "message": "Local APIServices are always available",
    });
    let object = json!({
        "metadata": { "labels": { "kube-aggregator.kubernetes.io/automanaged": "onstart" } },
        "spec": spec,
        "status": { "conditions": [condition] },
    });
    let name = format!("{version}.{group}");
    Some(Seed::new("apiregistration.k8s.io/v1", "APIService", "apiservices", "", &name, object))
}

/// Parses a line of JSON with kind, name and spec.
fn flow_control(line: &str, now: &str) -> Option<Seed> {
    let line: Value = serde_json::from_str(line).ok()?;
    let (kind, name) = (line["kind"].as_str()?, line["name"].as_str()?);
    let mut object = json!({
        "metadata": { "annotations": { "apf.kubernetes.io/autoupdate-spec": "true" } },
        "spec": line["spec"],
        "status": {},
    });
    let plural = match kind {
        "FlowSchema" => {
            let level = line["spec"]["priorityLevelConfiguration"]["name"].as_str()?;
            let message = format!(
                "This FlowSchema references the PriorityLevelConfiguration object named {level:?} and it exists"
            );
            object["status"]["conditions"] = json!([{
                "type": "Dangling",
                "status": "False",
                "lastTransitionTime": now,
                "reason": "Found",
                "message": message,
            }]);
            "flowschemas"
        }
        _ => "prioritylevelconfigurations",
    };
    Some(Seed::new(FLOW_CONTROL_VERSION, kind, plural, "", name, object).generation())
}

fn priority_classes() -> [Seed; 2] {
    let class = |name: &str, value: i64, description: &str| {
        let object = json!({
            "metadata": {},
            "value": value,
            "description": description,
            "preemptionPolicy": "PreemptLowerPriority",
        });
        Seed::new("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", "", name, object).generation()
    };
    [
        class(
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
        class(
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
    ]
}

/// The ServiceCIDR, and the IPAddress of the service `kubernetes`.
fn service_network(now: &str) -> [Seed; 2] {
    let ready = json!({
        "type": "Ready",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "",
        "message": "Kubernetes Service CIDR is ready",
    });
    let range = json!({
        "metadata": { "finalizers": ["networking.k8s.io/service-cidr-finalizer"] },
        "spec": { "cidrs": [SERVICE_CIDR] },
        "status": { "conditions": [ready] },
    });
    let address = json!({
        "metadata": { "labels": {
            "ipaddress.kubernetes.io/ip-family": "IPv4",
            "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
        } },
        "spec": { "parentRef": { "resource": "services", "namespace": "default", "name": "kubernetes" } },
    });
    [
        Seed::new("networking.k8s.io/v1", "ServiceCIDR", "servicecidrs", "", "kubernetes", range),
        Seed::new("networking.k8s.io/v1", "IPAddress", "ipaddresses", "", SERVICE_IP, address),
    ]
}

/// The service `default/kubernetes`.
pub(super) fn service(port: u16) -> Seed {
    let object = json!({
        "metadata": { "labels": { "component": "apiserver", "provider": "kubernetes" } },
        "spec": {
            "ports": [{ "name": "https", "protocol": "TCP", "port": 443, "targetPort": port }],
            "clusterIP": SERVICE_IP,
            "clusterIPs": [SERVICE_IP],
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
        },
        "status": { "loadBalancer": {} },
    });
    Seed::new("v1", "Service", "services", "default", "kubernetes", object)
}

/// The Endpoints and the EndpointSlice of the service `kubernetes`.
pub(super) fn endpoints(address: &str, port: u16) -> [Seed; 2] {
    let old = json!({
        "metadata": { "labels": { "endpointslice.kubernetes.io/skip-mirror": "true" } },
        "subsets": [{
            "addresses": [{ "ip": address }],
            "ports": [{ "name": "https", "port": port, "protocol": "TCP" }],
        }],
    });
    let family = if address.contains(':') { "IPv6" } else { "IPv4" };
    let slice = json!({
        "metadata": { "labels": { "kubernetes.io/service-name": "kubernetes" } },
        "addressType": family,
        "endpoints": [{ "addresses": [address], "conditions": { "ready": true } }],
        "ports": [{ "name": "https", "protocol": "TCP", "port": port }],
    });
    [
        Seed::new("v1", "Endpoints", "endpoints", "default", "kubernetes", old),
        Seed::new("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", "default", "kubernetes", slice)
            .generation(),
    ]
}
