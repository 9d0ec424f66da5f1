//! The quota usage of pods: their requests and limits.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::number;
use crate::json::Value;
use crate::pod_resources::{self, Amounts, Part, PodResources};
use crate::read::Read;
use crate::resource_names::{
    COMPUTE, QUOTA_COMPUTE, QUOTA_CPU_AND_MEMORY, is_compute, is_extended, is_native, is_quota_huge_page,
};
use crate::time::{Precision, parse};

const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

pub(super) fn tracks(name: &str) -> bool {
    let extended = name
        .strip_prefix("requests.")
        .is_some_and(|resource| !is_native(name) || resource.starts_with(DEVICE_CLASS));
    QUOTA_COMPUTE.contains(&name) || name == "pods" || is_quota_huge_page(name) || extended
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

/// Whether a pod still uses compute resources. It does not after it has ended, or after its grace period is over, as on a lost
/// node.
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

/// Requests and limits by the names that quotas use.
fn named(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut used = Amounts::new();
    for (name, amount) in requests {
        if is_compute(name) {
            used.insert(name.clone(), amount.clone());
        }
        if is_compute(name) || is_extended(name) || name.starts_with(DEVICE_CLASS) {
            used.insert(format!("requests.{name}"), amount.clone());
        }
    }
    for name in COMPUTE {
        used.extend(limits.get(name).map(|amount| (format!("limits.{name}"), amount.clone())));
    }
    used
}

pub(super) fn unspecified<'a>(pod: &Value, limited: impl Iterator<Item = &'a str>) -> Option<String> {
    let spec = pod.at("spec");
    let own = spec.at("resources");
    let whole =
        |part: &str| pod_resources::read(own.at(part)).keys().any(|name| pod_resources::is_pod_level(name));
    if whole("requests") || whole("limits") {
        return None;
    }
    let limited: BTreeSet<&str> = limited.filter(|name| QUOTA_CPU_AND_MEMORY.contains(name)).collect();
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
