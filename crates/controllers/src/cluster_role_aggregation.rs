//! ClusterRoles that aggregate the rules of others.

mod lazy_cluster_role;

use std::sync::Arc;

use evenkeel_runtime::{Action, Controller, Ctx, Error, Index, Result};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::ResourceExt;
use kube::core::params::Patch;
use kube::core::{Selector, SelectorExt};
pub(crate) use lazy_cluster_role::LazyClusterRole;
use serde_json::json;

/// The name of the index of aggregated roles, and its only value.
const AGGREGATED: &str = "aggregated";

/// The controller of aggregated ClusterRoles.
pub(crate) fn controller() -> Controller<LazyClusterRole> {
    let aggregated = Index::new(AGGREGATED, |role: &LazyClusterRole| {
        role.aggregation_rule.as_ref().map(|_| AGGREGATED.to_owned()).into_iter().collect()
    });
    // Any aggregated role may select a role that has changed. There are few aggregated roles.
    Controller::new("clusterrole-aggregation-controller", reconcile)
        .watches_indexed(aggregated, |_: &LazyClusterRole| vec![AGGREGATED.to_owned()])
        .field_manager("clusterrole-aggregation-controller")
}

async fn reconcile(role: Arc<LazyClusterRole>, ctx: Ctx) -> Result<Action> {
    let Some(aggregation) = role.aggregation_rule.as_ref() else { return Ok(Action::await_change()) };
    let selectors = aggregation.cluster_role_selectors.iter().flatten().cloned();
    let selectors: Vec<Selector> = selectors.filter_map(|selector| selector.try_into().ok()).collect();
    let unreadable = |error: serde_json::Error| Error::message(error.to_string());
    let rules = aggregate(&role, &selectors, &ctx.list::<LazyClusterRole>()?).map_err(unreadable)?;
    if role.rules().map_err(unreadable)? != rules {
        ctx.patch(&role, &Patch::Merge(json!({"rules": rules}))).await?;
    }
    Ok(Action::await_change())
}

/// Returns the rules of all selected roles without duplicates, in the order of the roles' names.
fn aggregate(
    role: &LazyClusterRole,
    selectors: &[Selector],
    roles: &[Arc<LazyClusterRole>],
) -> serde_json::Result<Vec<PolicyRule>> {
    let mut rules: Vec<PolicyRule> = Vec::new();
    for selector in selectors {
        let parts =
            roles.iter().filter(|part| part.name_any() != role.name_any() && selector.matches(part.labels()));
        for part in parts {
            for rule in part.rules()? {
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
        }
    }
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_summed_once_each() {
        let role = |name: &str, labels: serde_json::Value, resources: &[&str]| -> Arc<LazyClusterRole> {
            let rules: Vec<_> = resources
                .iter()
                .map(|one| json!({"apiGroups": [""], "resources": [one], "verbs": ["get"]}))
                .collect();
            Arc::new(
                serde_json::from_str(
                    &json!({"metadata": {"name": name, "labels": labels}, "rules": rules}).to_string(),
                )
                .unwrap(),
            )
        };
        let whole = role("whole", json!({"sum": "x"}), &["old"]);
        let roles = [
            role("a", json!({"sum": "x"}), &["pods", "secrets"]),
            role("b", json!({"sum": "x"}), &["secrets"]),
            role("c", json!({}), &["nodes"]),
            whole.clone(),
        ];
        let selector: Selector = serde_json::from_value::<
            k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector,
        >(json!({"matchLabels": {"sum": "x"}}))
        .unwrap()
        .try_into()
        .unwrap();
        let rules = aggregate(&whole, &[selector], &roles).unwrap();
        let resources: Vec<_> = rules.into_iter().flat_map(|rule| rule.resources.unwrap()).collect();
        assert_eq!(resources, ["pods", "secrets"]);
    }
}
