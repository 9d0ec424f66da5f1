//! ClusterRoles that aggregate the rules of others.

use std::sync::Arc;

use evenkeel_runtime::{Action, Controller, Ctx, Index, Result};
use evenkeel_tree::Tree;
use kube::ResourceExt;
use kube::core::params::Patch;
use kube::core::{Selector, SelectorExt};
use serde_json::json;

use crate::kinds::{CLUSTER_ROLE, ClusterRole};
use crate::object::{Fields, Object, OfKind, selector};

/// The name of the index of aggregated roles, and its only value.
const AGGREGATED: &str = "aggregated";

/// The controller of aggregated ClusterRoles.
pub(crate) fn controller() -> Controller<Object> {
    let aggregated = Index::new(AGGREGATED, |role: &ClusterRole| {
        role.has("aggregationRule").then(|| AGGREGATED.to_owned()).into_iter().collect()
    });
    // Any aggregated role may select a role that has changed. There are few aggregated roles.
    let roles = CLUSTER_ROLE.source();
    Controller::new_with("clusterrole-aggregation-controller", roles.clone(), reconcile)
        .watches_indexed_with(roles, aggregated, |_: &ClusterRole| vec![AGGREGATED.to_owned()])
        .field_manager("clusterrole-aggregation-controller")
}

async fn reconcile(role: Arc<ClusterRole>, ctx: Ctx) -> Result<Action> {
    if !role.has("aggregationRule") {
        return Ok(Action::await_change());
    }
    let selectors = role.list("aggregationRule/clusterRoleSelectors").iter();
    let selectors: Vec<_> = selectors.filter_map(|it| selector(it.as_label_selector()?)).collect();
    let roles = ctx.kind(&CLUSTER_ROLE);
    let rules = aggregate(&role, &selectors, &roles.cache()?.list());
    if role.list("rules") != rules {
        roles.patch(ctx.request(), &Patch::Merge(json!({"rules": rules}))).await?;
    }
    Ok(Action::await_change())
}

/// Returns the rules of all selected roles without duplicates, in the order of the roles' names.
fn aggregate(role: &ClusterRole, selectors: &[Selector], roles: &[Arc<ClusterRole>]) -> Vec<Tree> {
    let mut rules: Vec<Tree> = Vec::new();
    for selector in selectors {
        let parts = roles.iter().filter(|part| part.name() != role.name() && selector.matches(part.labels()));
        for rule in parts.flat_map(|part| part.list("rules")) {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_summed_once_each() {
        let role = |name: &str, labels: serde_json::Value, resources: &[&str]| -> Arc<ClusterRole> {
            let rules: Vec<_> = resources
                .iter()
                .map(|one| json!({"apiGroups": [""], "resources": [one], "verbs": ["get"]}))
                .collect();
            Arc::new(crate::object::object(
                json!({"metadata": {"name": name, "labels": labels}, "rules": rules}),
            ))
        };
        let whole = role("whole", json!({"sum": "x"}), &["old"]);
        let roles = [
            role("a", json!({"sum": "x"}), &["pods", "secrets"]),
            role("b", json!({"sum": "x"}), &["secrets"]),
            role("c", json!({}), &["nodes"]),
            whole.clone(),
        ];
        let selector =
            selector(Tree::from(json!({"matchLabels": {"sum": "x"}})).as_label_selector().unwrap());
        let rules = aggregate(&whole, &[selector.unwrap()], &roles);
        let resources: Vec<_> = rules.iter().flat_map(|rule| rule.texts("resources")).collect();
        assert_eq!(resources, ["pods", "secrets"]);
    }
}
