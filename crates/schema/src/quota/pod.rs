//! Pods: what they request and are limited to.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::number;
use crate::json::Value;
use crate::names;
use crate::pod_resources::{self, Amounts, Part, PodResources};
use crate::read::Read;
use crate::time::{Precision, parse};

/// The names of compute resources and of pods themselves.
const TRACKED: [&str; 10] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
];
/// The names that every container must specify where a quota limits them.
const MUST_BE_SPECIFIED: [&str; 6] =
    ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];
const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

pub(super) fn tracks(name: &str) -> bool {
    let extended = name.strip_prefix("requests.").is_some_and(|resource| {
        name.contains('/') && !name.contains("kubernetes.io/") || resource.starts_with(DEVICE_CLASS)
    });
    TRACKED.contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
        || extended
}

pub(super) fn usage(pod: &Value, now: Timestamp) -> Amounts {
    if !is_charged(pod, now) {
        return Amounts::new();
    }
    let total = |part| PodResources::of_pod(pod, part).total();
    let mut used = named(&total(Part::Requests), &total(Part::Limits));
    used.insert("pods".to_owned(), number(1));
    used
}

/// Whether a pod still uses compute resources: it has not ended, and does not outlive its grace period on a node that
/// was lost.
fn is_charged(pod: &Value, now: Timestamp) -> bool {
    if matches!(pod.at("status").str("phase"), "Succeeded" | "Failed") {
        return false;
    }
    let metadata = pod.at("metadata");
    let deletion = parse(metadata.str("deletionTimestamp"), Precision::Seconds).ok();
    let grace = metadata.int("deletionGracePeriodSeconds").map(SignedDuration::from_secs);
    match (deletion, grace) {
        (Some(deletion), Some(grace)) => deletion.checked_add(grace).is_ok_and(|end| now <= end),
        _ => true,
    }
}

/// Requests and limits by the names that quotas have for them.
fn named(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut used = Amounts::new();
    for (name, amount) in requests {
        let compute =
            matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
        if compute {
            used.insert(name.clone(), amount.clone());
        }
        if compute || is_extended(name) {
            used.insert(format!("requests.{name}"), amount.clone());
        }
    }
    for name in ["cpu", "memory", "ephemeral-storage"] {
        used.extend(limits.get(name).map(|amount| (format!("limits.{name}"), amount.clone())));
    }
    used
}

/// Whether a resource of a container is an extended one, which quotas limit as `requests.NAME` alone.
fn is_extended(name: &str) -> bool {
    let qualified = || names::qualified_name(&format!("requests.{name}")).is_empty();
    let own = name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.");
    own && qualified() || name.starts_with(DEVICE_CLASS)
}

pub(super) fn unspecified<'a>(pod: &Value, limited: impl Iterator<Item = &'a str>) -> Option<String> {
    let spec = pod.at("spec");
    let own = spec.at("resources");
    let whole =
        |part: &str| pod_resources::read(own.at(part)).keys().any(|name| pod_resources::is_pod_level(name));
    if whole("requests") || whole("limits") {
        return None;
    }
    let limited: BTreeSet<&str> = limited.filter(|name| MUST_BE_SPECIFIED.contains(name)).collect();
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in spec.list("containers").iter().chain(spec.list("initContainers")) {
        let amounts = |part: &str| pod_resources::read(container.at("resources").at(part));
        let said = named(&amounts("requests"), &amounts("limits"));
        for name in limited.iter().filter(|name| !said.contains_key(**name)) {
            missing.entry(name).or_default().insert(container.str("name"));
        }
    }
    let line = |(name, containers): (&str, BTreeSet<&str>)| {
        format!("{name} for: {}", containers.into_iter().collect::<Vec<_>>().join(","))
    };
    let lines: Vec<String> = missing.into_iter().map(line).collect();
    (!lines.is_empty()).then(|| format!("must specify {}", lines.join("; ")))
}
