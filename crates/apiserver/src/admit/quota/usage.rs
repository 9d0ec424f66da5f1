//! What an object uses of a quota, by the names that quotas know.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_schema::quantity::{Format, Quantity};
use serde_json::Value;

use crate::ResourceInfo;
use crate::admit::amounts::{self, Amounts};

/// Kinds of the core group that are counted by their plain name, too.
const PLAIN: [&str; 6] = [
    "configmaps",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];
/// What every container must say where a quota limits it.
const MUST_BE_SAID: [&str; 6] =
    ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];

/// What is counted by amount, under its own name as well as under that of requests.
fn is_computed(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
}

fn count_name(info: &ResourceInfo) -> String {
    format!("count/{}", crate::status::qualified(&info.plural, &info.group))
}

/// Whether objects of this resource use what a quota limits under this name.
pub(super) fn is_counted(info: &ResourceInfo, name: &str) -> bool {
    if name == count_name(info)
        || info.group.is_empty() && PLAIN.contains(&info.plural.as_str()) && name == info.plural
    {
        return true;
    }
    match (info.group.as_str(), info.kind.as_str()) {
        ("", "Pod") => {
            let extended =
                name.strip_prefix("requests.").is_some_and(|it| it != "storage" && !it.ends_with(".storage"));
            name == "pods" || is_computed(name) || name.starts_with("limits.") || extended
        }
        ("", "Service") => matches!(name, "services.nodeports" | "services.loadbalancers"),
        ("", "PersistentVolumeClaim") => {
            name == "requests.storage" || name.contains(".storageclass.storage.k8s.io/")
        }
        _ => false,
    }
}

/// What an object uses.
pub(super) fn of(info: &ResourceInfo, object: &Value) -> Amounts {
    let one = || Quantity::new(1, Format::DecimalSi);
    let mut used = Amounts::from([(count_name(info), one())]);
    if !info.group.is_empty() {
        return used;
    }
    if PLAIN.contains(&info.plural.as_str()) {
        used.insert(info.plural.clone(), one());
    }
    match info.kind.as_str() {
        "Pod" => used.extend(of_pod(object)),
        "Service" => used.extend(of_service(object)),
        "PersistentVolumeClaim" => used.extend(of_claim(object)),
        _ => {}
    }
    used
}

fn of_pod(pod: &Value) -> Amounts {
    let finished = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if finished {
        return Amounts::new();
    }
    let mut requests = amounts::of_pod(pod, "requests");
    let mut limits = amounts::of_pod(pod, "limits");
    for (name, amount) in amounts::read(&pod["spec"]["overhead"]) {
        let had = requests.remove(&name).unwrap_or_else(Quantity::zero);
        requests.insert(name.clone(), had + amount.clone());
        if let Some(had) = limits.remove(&name).filter(|it| !it.is_zero()) {
            limits.insert(name, had + amount);
        }
    }
    let mut used = named(&requests, &limits);
    used.insert("pods".to_owned(), Quantity::new(1, Format::DecimalSi));
    used
}

/// Requests and limits by the names that quotas have for them.
fn named(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut used = Amounts::new();
    for (name, amount) in requests {
        used.insert(format!("requests.{name}"), amount.clone());
        if is_computed(name) {
            used.insert(name.clone(), amount.clone());
        }
    }
    let limits = limits.iter().filter(|(name, _)| is_computed(name) && !name.starts_with("hugepages-"));
    used.extend(limits.map(|(name, amount)| (format!("limits.{name}"), amount.clone())));
    used
}

fn of_service(service: &Value) -> Amounts {
    let spec = &service["spec"];
    let kind = spec["type"].as_str().unwrap_or("ClusterIP");
    let ports = spec["ports"].as_array().map_or(0, Vec::len);
    let allocated = spec["allocateLoadBalancerNodePorts"] != false;
    let node_ports = match kind {
        "NodePort" => ports,
        "LoadBalancer" if allocated => ports,
        "LoadBalancer" => spec["ports"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|it| it["nodePort"].as_i64().unwrap_or(0) != 0)
            .count(),
        _ => 0,
    };
    let number = |count: usize| Quantity::new(i64::try_from(count).unwrap_or(i64::MAX), Format::DecimalSi);
    Amounts::from([
        ("services.nodeports".to_owned(), number(node_ports)),
        ("services.loadbalancers".to_owned(), number(usize::from(kind == "LoadBalancer"))),
    ])
}

fn of_claim(claim: &Value) -> Amounts {
    let spec = &claim["spec"];
    let class = spec["storageClassName"].as_str().filter(|it| !it.is_empty());
    let prefix = class.map(|class| format!("{class}.storageclass.storage.k8s.io/"));
    let mut used = Amounts::new();
    if let Some(prefix) = &prefix {
        used.insert(format!("{prefix}persistentvolumeclaims"), Quantity::new(1, Format::DecimalSi));
    }
    if let Some(storage) = amounts::read(&spec["resources"]["requests"]).remove("storage") {
        used.extend(prefix.map(|prefix| (format!("{prefix}requests.storage"), storage.clone())));
        used.insert("requests.storage".to_owned(), storage);
    }
    used
}

/// What the containers of a pod must say because a quota limits it, and do not.
pub(super) fn unsaid<'a>(
    info: &ResourceInfo,
    pod: &Value,
    limited: impl Iterator<Item = &'a String>,
) -> Option<String> {
    if info.kind != "Pod" || !info.group.is_empty() {
        return None;
    }
    let own = &pod["spec"]["resources"];
    let whole = named(&amounts::read(&own["requests"]), &amounts::read(&own["limits"]));
    let wanted: Vec<&String> =
        limited.filter(|name| MUST_BE_SAID.contains(&name.as_str()) && !whole.contains_key(*name)).collect();
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array().into_iter().flatten() {
            let resources = &container["resources"];
            let said = named(&amounts::read(&resources["requests"]), &amounts::read(&resources["limits"]));
            for name in wanted.iter().filter(|name| !said.contains_key(**name)) {
                missing
                    .entry(name.as_str())
                    .or_default()
                    .insert(container["name"].as_str().unwrap_or_default());
            }
        }
    }
    let line = |(name, containers): (&str, BTreeSet<&str>)| {
        format!("{name} for: {}", containers.into_iter().collect::<Vec<_>>().join(","))
    };
    let lines: Vec<String> = missing.into_iter().map(line).collect();
    (!lines.is_empty()).then(|| format!("must specify {}", lines.join("; ")))
}
