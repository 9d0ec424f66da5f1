//! Queries about a pod: whether it is active, ready or available, and since when.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_runtime::Index;
use evenkeel_tree::Tree;
use jiff::Timestamp;

use crate::kinds::Pod;
use crate::object::{Fields, Object};

/// Returns the phase, `Pending` if there is none yet.
pub(crate) fn phase(pod: &Pod) -> &str {
    pod.str("status/phase").unwrap_or("Pending")
}

/// Whether the pod has succeeded or failed.
pub(crate) fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Whether the pod counts as a replica: it is neither finished nor being deleted.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && !pod.is_deleting()
}

/// Whether the pod is being deleted and has not finished.
pub(crate) fn is_terminating(pod: &Pod) -> bool {
    !is_finished(pod) && pod.is_deleting()
}

/// Returns the condition of a type.
pub(crate) fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a Tree> {
    pod.at("status").condition(kind)
}

/// Whether the condition `Ready` is true.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready.is("status", "True"))
}

/// Returns since when the pod has been ready.
pub(crate) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    condition(pod, "Ready").filter(|ready| ready.is("status", "True"))?.time("lastTransitionTime")
}

/// Whether the pod has been ready for `min_ready_seconds`.
pub(crate) fn is_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    is_ready(pod)
        && (min_ready_seconds <= 0
            || available_in(pod, min_ready_seconds, now).is_some_and(|left| left.is_zero()))
}

/// Returns how long it is until a ready pod is available; `None` if the pod is not ready.
pub(crate) fn available_in(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> Option<Duration> {
    let since = ready_since(pod)?;
    let need = Duration::from_secs(u64::try_from(min_ready_seconds).unwrap_or(0));
    let passed = Duration::try_from(now.duration_since(since)).unwrap_or(Duration::ZERO);
    Some(need.saturating_sub(passed))
}

/// Returns when the next of these pods of a workload becomes available, if some wait for `minReadySeconds`.
pub(crate) fn next_available<'a>(
    workload: &Object,
    pods: impl IntoIterator<Item = &'a Arc<Pod>>,
    now: Timestamp,
) -> Option<Duration> {
    let min_ready_seconds = workload.i32("spec/minReadySeconds").filter(|seconds| *seconds > 0)?;
    let waits = pods.into_iter().filter_map(|pod| available_in(pod, min_ready_seconds, now));
    waits.filter(|wait| !wait.is_zero()).min()
}

/// Whether an exit code meets a requirement with an `operator` and `values`, as restart rules and the failure policies of
/// Jobs have it.
pub(crate) fn exit_code_matches(requirement: &Tree, code: i32) -> bool {
    let listed = requirement.list("values").iter().any(|value| value.as_i64() == Some(code.into()));
    match requirement.str("operator") {
        Some("In") => listed,
        Some("NotIn") => !listed,
        _ => false,
    }
}

/// Returns the node that the pod is bound to.
pub(crate) fn node_name(pod: &Pod) -> Option<&str> {
    pod.str("spec/nodeName").filter(|name| !name.is_empty())
}

/// The name of the index of the pods by their node.
pub(crate) const BY_NODE: &str = "node";

/// The index of the pods by their node.
pub(crate) fn by_node() -> Index<Pod> {
    Index::new(BY_NODE, |pod: &Pod| node_name(pod).map(str::to_owned).into_iter().collect())
}

/// A host port that a pod uses: address, protocol and number.
pub(crate) type HostPort = (String, String, i32);

/// Returns the host ports that a pod uses.
pub(crate) fn host_ports(pod: &Pod) -> BTreeSet<HostPort> {
    let ports = pod.list("spec/containers").iter().flat_map(|container| container.list("ports"));
    let taken = ports.filter_map(|port| {
        let number = port.i32("hostPort").filter(|number| *number > 0)?;
        let address = port.str("hostIP").filter(|address| !address.is_empty()).unwrap_or("0.0.0.0");
        Some((address.to_owned(), port.str("protocol").unwrap_or("TCP").to_owned(), number))
    });
    taken.collect()
}

/// Whether two pods use the same host port.
pub(crate) fn ports_conflict(one: &BTreeSet<HostPort>, other: &BTreeSet<HostPort>) -> bool {
    let clash = |a: &HostPort, b: &HostPort| {
        a.1 == b.1 && a.2 == b.2 && (a.0 == b.0 || a.0 == "0.0.0.0" || b.0 == "0.0.0.0")
    };
    one.iter().any(|a| other.iter().any(|b| clash(a, b)))
}

/// Returns the highest restart count of the containers.
pub(crate) fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.list("status/containerStatuses").iter();
    statuses.filter_map(|status| status.i32("restartCount")).max().unwrap_or(0)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    pub(crate) use crate::object::object as pod;
    use serde_json::json;

    pub(crate) fn ready_pod(name: &str, since: &str) -> Pod {
        pod(json!({
            "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "n", "containers": []},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}]},
        }))
    }

    #[test]
    fn a_pod_is_available_after_min_ready_seconds() {
        let ready = ready_pod("a", "2026-01-01T00:00:10Z");
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert!(is_available(&ready, 0, at("2026-01-01T00:00:10Z")));
        assert!(!is_available(&ready, 5, at("2026-01-01T00:00:14Z")));
        assert!(is_available(&ready, 5, at("2026-01-01T00:00:15Z")));
        assert_eq!(available_in(&ready, 5, at("2026-01-01T00:00:12Z")), Some(Duration::from_secs(3)));
    }

    #[test]
    fn a_finished_or_deleting_pod_is_not_active() {
        assert!(is_active(&pod(json!({}))));
        assert!(!is_active(&pod(json!({"status": {"phase": "Failed"}}))));
        let leaving = pod(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        assert!(!is_active(&leaving) && is_terminating(&leaving));
    }
}
