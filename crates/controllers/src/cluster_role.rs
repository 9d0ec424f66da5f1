//! ClusterRoles that are the sum of others.

mod role;

use std::sync::Arc;

use evenkeel_runtime::{Action, Controller, Ctx, Error, Index, Result};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::ResourceExt;
use kube::core::params::Patch;
use kube::core::{Selector, SelectorExt};
pub(crate) use role::Role;
use serde_json::json;

/// The index of the roles that are sums, all under one value.
const SUMS: &str = "sums";

/// The controller.
pub(crate) fn controller() -> Controller<Role> {
    let sums = Index::new(SUMS, |role: &Role| {
        role.aggregation_rule.as_ref().map(|_| SUMS.to_owned()).into_iter().collect()
    });
    // A role with other labels or rules may be a part of any sum; there are few sums.
    Controller::new("clusterrole-aggregation-controller", reconcile)
        .watches_indexed(sums, |_: &Role| vec![SUMS.to_owned()])
        .field_manager("clusterrole-aggregation-controller")
}

async fn reconcile(role: Arc<Role>, ctx: Ctx) -> Result<Action> {
    let Some(aggregation) = role.aggregation_rule.as_ref() else { return Ok(Action::await_change()) };
    let selectors = aggregation.cluster_role_selectors.iter().flatten().cloned();
    let selectors: Vec<Selector> = selectors.filter_map(|selector| selector.try_into().ok()).collect();
    let unreadable = |error: serde_json::Error| Error::message(error.to_string());
    let rules = sum(&role, &selectors, &ctx.list::<Role>()?).map_err(unreadable)?;
    if role.rules().map_err(unreadable)? != rules {
        ctx.patch(&role, &Patch::Merge(json!({"rules": rules}))).await?;
    }
    Ok(Action::await_change())
}

/// The rules of all selected roles, each once, in the order of the roles' names.
fn sum(role: &Role, selectors: &[Selector], roles: &[Arc<Role>]) -> serde_json::Result<Vec<PolicyRule>> {
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
        let role = |name: &str, labels: serde_json::Value, resources: &[&str]| -> Arc<Role> {
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
        let rules = sum(&whole, &[selector], &roles).unwrap();
        let resources: Vec<_> = rules.into_iter().flat_map(|rule| rule.resources.unwrap()).collect();
        assert_eq!(resources, ["pods", "secrets"]);
    }
}
