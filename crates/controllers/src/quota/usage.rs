//! What a namespace uses, by the names that quotas know.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, Pod, ResourceQuota, ResourceQuotaStatus, ScopedResourceSelectorRequirement,
    Service,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::pod;
use crate::quantity::{Form, Milli};

/// What is counted by its spec and not by its number alone.
pub(super) struct Content {
    pub(super) pods: Vec<Arc<Pod>>,
    pub(super) services: Vec<Arc<Service>>,
    pub(super) claims: Vec<Arc<PersistentVolumeClaim>>,
}

/// Counts the objects of a kind, by group and plural.
type Count<'a> = &'a dyn Fn(&str, &str) -> Option<usize>;

/// The status: what is allowed, and how much of it is used.
pub(super) fn status(quota: &ResourceQuota, content: &Content, count: Count<'_>) -> ResourceQuotaStatus {
    let spec = quota.spec.clone().unwrap_or_default();
    let hard = spec.hard.clone().unwrap_or_default();
    let pods: Vec<_> =
        content.pods.iter().filter(|pod| !pod::is_finished(pod) && in_scope(quota, pod)).collect();
    let used: BTreeMap<_, _> = hard
        .iter()
        .filter_map(|(name, limit)| Some((name.clone(), used(name, limit, &pods, content, count)?)))
        .collect();
    ResourceQuotaStatus { hard: Some(hard), used: Some(used) }
}

fn used(
    name: &str,
    limit: &Quantity,
    pods: &[&Arc<Pod>],
    content: &Content,
    count: Count<'_>,
) -> Option<Quantity> {
    let number = |count: usize| Some(Quantity(count.to_string()));
    if let Some(kind) = name.strip_prefix("count/") {
        let (plural, group) = kind.split_once('.').unwrap_or((kind, ""));
        return number(count(group, plural).unwrap_or(0));
    }
    match name {
        "pods" => number(pods.len()),
        "configmaps"
        | "secrets"
        | "replicationcontrollers"
        | "resourcequotas"
        | "persistentvolumeclaims"
        | "services" => number(count("", name).unwrap_or(0)),
        "services.nodeports" => number(content.services.iter().map(|service| node_ports(service)).sum()),
        "services.loadbalancers" => {
            number(content.services.iter().filter(|service| kind(service) == "LoadBalancer").count())
        }
        "requests.storage" => Some(sum(content.claims.iter().filter_map(|claim| storage(claim)), limit)),
        "cpu" | "memory" | "ephemeral-storage" => Some(requested(pods, name, limit)),
        _ => match name.split_once('.')? {
            ("requests", resource) => Some(requested(pods, resource, limit)),
            ("limits", resource) => Some(sum(pods.iter().flat_map(|pod| limits(pod, resource)), limit)),
            _ => None,
        },
    }
}

fn kind(service: &Service) -> &str {
    service.spec.as_ref().and_then(|spec| spec.type_.as_deref()).unwrap_or("ClusterIP")
}

fn node_ports(service: &Service) -> usize {
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_ref()).map_or(0, Vec::len);
    if matches!(kind(service), "NodePort" | "LoadBalancer") { ports } else { 0 }
}

fn storage(claim: &PersistentVolumeClaim) -> Option<Quantity> {
    claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?.get("storage").cloned()
}

fn requested(pods: &[&Arc<Pod>], resource: &str, limit: &Quantity) -> Quantity {
    let total: i128 = pods
        .iter()
        .map(|pod| {
            crate::scheduler::resources::Demand::of(pod).requests.get(resource).map_or(0, |amount| amount.0)
        })
        .sum();
    Milli(total).write(Form::of(limit))
}

fn limits(pod: &Pod, resource: &str) -> Vec<Quantity> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers
        .filter_map(|container| container.resources.as_ref()?.limits.as_ref()?.get(resource).cloned())
        .collect()
}

fn sum(amounts: impl Iterator<Item = Quantity>, limit: &Quantity) -> Quantity {
    let total = amounts.filter_map(|amount| Milli::parse(&amount)).map(|amount| amount.0).sum();
    Milli(total).write(Form::of(limit))
}

/// Whether the quota is about this pod.
fn in_scope(quota: &ResourceQuota, pod: &Pod) -> bool {
    let spec = quota.spec.clone().unwrap_or_default();
    let plain = spec.scopes.iter().flatten().all(|scope| holds(scope, pod));
    let selected =
        spec.scope_selector.iter().flat_map(|selector| selector.match_expressions.iter().flatten());
    plain && selected.into_iter().all(|requirement| selects(requirement, pod))
}

fn holds(scope: &str, pod: &Pod) -> bool {
    let spec = pod.spec.as_ref();
    let deadline = spec.is_some_and(|spec| spec.active_deadline_seconds.is_some());
    let best_effort =
        pod.status.as_ref().and_then(|status| status.qos_class.as_deref()) == Some("BestEffort");
    match scope {
        "Terminating" => deadline,
        "NotTerminating" => !deadline,
        "BestEffort" => best_effort,
        "NotBestEffort" => !best_effort,
        "PriorityClass" => spec.is_some_and(|spec| spec.priority_class_name.is_some()),
        _ => true,
    }
}

fn selects(requirement: &ScopedResourceSelectorRequirement, pod: &Pod) -> bool {
    if requirement.scope_name != "PriorityClass" {
        return holds(&requirement.scope_name, pod);
    }
    let class = pod.spec.as_ref().and_then(|spec| spec.priority_class_name.clone());
    let listed =
        class.as_ref().is_some_and(|class| requirement.values.iter().flatten().any(|value| value == class));
    match requirement.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => class.is_some(),
        _ => class.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pods_and_counts_are_used() {
        let quota: ResourceQuota = serde_json::from_value(json!({"spec": {"hard": {
            "pods": "2", "requests.cpu": "1", "limits.memory": "1Gi", "count/deployments.apps": "1", "secrets": "3"}}})).unwrap();
        let pod = crate::pod::tests::pod(json!({"spec": {"containers": [{"name": "c", "resources": {
            "requests": {"cpu": "250m"}, "limits": {"memory": "256Mi"}}}]}}));
        let done = crate::pod::tests::pod(json!({"status": {"phase": "Succeeded"}}));
        let content =
            Content { pods: vec![Arc::new(pod), Arc::new(done)], services: Vec::new(), claims: Vec::new() };
        let count = |group: &str, plural: &str| {
            Some(usize::from(group == "apps") + usize::from(plural == "secrets") * 2)
        };
        let status = serde_json::to_value(status(&quota, &content, &count).used).unwrap();
        assert_eq!(
            status,
            json!({"pods": "1", "requests.cpu": "250m", "limits.memory": "256Mi", "count/deployments.apps": "1", "secrets": "2"})
        );
    }
}
