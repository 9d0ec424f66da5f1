//! The failure policy of a Job: how the failure of a pod affects the Job.

use evenkeel_tree::Tree;

use crate::kinds::{Job, Pod};
use crate::pod;

/// How a failed pod affects its Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The failure counts towards the back-off limit.
    Count,
    /// The failure does not count.
    Ignore,
    /// The index of the pod fails, whatever its back-off limit.
    FailIndex,
    /// The Job fails, for the given reason.
    FailJob(String),
}

/// Whether the Job replaces a pod only after the pod has terminated.
pub(super) fn only_replaces_failed(job: &Job) -> bool {
    job.is("spec/podReplacementPolicy", "Failed")
}

/// Whether a pod of the Job counts as failed: it has failed, or was deleted before it terminated.
pub(super) fn is_failed(job: &Job, pod: &Pod) -> bool {
    match pod::phase(pod) {
        "Failed" => true,
        "Succeeded" => false,
        _ => pod.is_deleting() && !only_replaces_failed(job),
    }
}

/// Evaluates the failure policy for a failed pod. The first matching rule decides.
pub(super) fn judge(job: &Job, pod: &Pod) -> Verdict {
    for (number, rule) in job.list("spec/podFailurePolicy/rules").iter().enumerate() {
        let Some(cause) = cause(rule, pod) else { continue };
        let action = rule.str("action").unwrap_or_default();
        return match action {
            "Ignore" => Verdict::Ignore,
            "FailIndex" => Verdict::FailIndex,
            "FailJob" => Verdict::FailJob(format!("{cause} matching {action} rule at index {number}")),
            _ => Verdict::Count,
        };
    }
    Verdict::Count
}

/// Returns why a rule matches a pod, in Kubernetes' words, or `None` if it does not match.
fn cause(rule: &Tree, pod: &Pod) -> Option<String> {
    let (namespace, name) = (pod.in_namespace(), pod.name());
    if rule.has("onExitCodes") {
        let requirement = rule.at("onExitCodes");
        let lists = ["status/containerStatuses", "status/initContainerStatuses"];
        let mut ended = lists.iter().flat_map(|list| pod.list(list)).filter_map(|container| {
            Some((container.str("name")?, container.i32("state/terminated/exitCode")?))
        });
        let (container, code) = ended.find(|(container, code)| {
            let named = requirement.str("containerName").is_none_or(|name| name == *container);
            named && *code != 0 && pod::exit_code_matches(requirement, *code)
        })?;
        return Some(format!(
            "Container {container} for pod {namespace}/{name} failed with exit code {code}"
        ));
    }
    let patterns = rule.list("onPodConditions");
    let condition = pod.list("status/conditions").iter().find(|condition| {
        patterns.iter().any(|pattern| {
            let status = pattern.str("status").unwrap_or("True");
            condition.str("type") == pattern.str("type") && condition.is("status", status)
        })
    })?;
    Some(format!("Pod {namespace}/{name} has condition {}", condition.str("type").unwrap_or_default()))
}
