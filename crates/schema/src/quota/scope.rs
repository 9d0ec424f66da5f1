//! The scopes of a quota, which select its objects.

use std::collections::BTreeSet;

use super::{GroupResource, Measured, claim};
use crate::json::Value;
use crate::prepare::qos_class;
use crate::read::Read;

/// Whether a quota counts an object. A quota without scopes counts all objects; one with scopes counts only those that match
/// every scope. Scopes match pods and claims, never other objects.
pub fn matches(quota: &Value, resource: GroupResource<'_>, object: &Value) -> bool {
    let spec = quota.at("spec");
    let scopes =
        spec.list("scopes").iter().map(|scope| (scope.as_str().unwrap_or_default(), "Exists", &[][..]));
    let selectors = spec.at("scopeSelector").list("matchExpressions").iter();
    let selectors = selectors.map(|it| (it.str("scopeName"), it.str("operator"), it.list("values")));
    scopes.chain(selectors).all(|(scope, operator, values)| match resource.measured() {
        Measured::Pod => matches_pod(scope, operator, values, object),
        Measured::Claim if scope == "VolumeAttributesClass" => {
            selects(operator, values, &claim::attribute_classes(object))
        }
        _ => false,
    })
}

fn matches_pod(scope: &str, operator: &str, values: &[Value], pod: &Value) -> bool {
    let spec = pod.at("spec");
    match scope {
        "Terminating" => has_deadline(pod),
        "NotTerminating" => !has_deadline(pod),
        "BestEffort" => is_best_effort(pod),
        "NotBestEffort" => !is_best_effort(pod),
        "PriorityClass" => {
            let class = spec.str("priorityClassName");
            selects(operator, values, &[class].into_iter().filter(|class| !class.is_empty()).collect())
        }
        "CrossNamespacePodAffinity" => crosses_namespaces(spec.at("affinity")),
        _ => false,
    }
}

/// Whether a selector's operator matches any of these classes, or their absence.
fn selects(operator: &str, values: &[Value], classes: &BTreeSet<&str>) -> bool {
    let listed = |class: &str| values.iter().any(|value| value == class);
    match operator {
        "In" => classes.iter().any(|class| listed(class)),
        "NotIn" => classes.is_empty() || classes.iter().any(|class| !listed(class)),
        "DoesNotExist" => classes.is_empty(),
        _ => !classes.is_empty(),
    }
}

/// Whether a pod has a deadline, which quotas call terminating.
pub(super) fn has_deadline(pod: &Value) -> bool {
    pod.at("spec").int("activeDeadlineSeconds").is_some_and(|seconds| seconds >= 0)
}

fn is_best_effort(pod: &Value) -> bool {
    match pod.at("status").str("qosClass") {
        "" => qos_class(pod) == "BestEffort",
        class => class == "BestEffort",
    }
}

fn crosses_namespaces(affinity: Option<&Value>) -> bool {
    let crosses = |term: Option<&Value>| !term.list("namespaces").is_empty() || term.has("namespaceSelector");
    ["podAffinity", "podAntiAffinity"].into_iter().any(|kind| {
        let terms = |field: &str| affinity.at(kind).list(field).iter();
        terms("requiredDuringSchedulingIgnoredDuringExecution").any(|term| crosses(Some(term)))
            || terms("preferredDuringSchedulingIgnoredDuringExecution")
                .any(|weighted| crosses(weighted.at("podAffinityTerm")))
    })
}
