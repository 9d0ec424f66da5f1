//! The least RBAC rules that allow what an operator declares and what its tests recorded.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::ApiResource;
use serde::Serialize;

use super::Manifests;
use super::verbs::{Target, Verbs};
use crate::declaration::{Declaration, Purpose};

impl Manifests {
    /// Returns the rules of the operator's roles, each with the suffix of the role's name: for the controllers, for the
    /// lease, and for the webhooks.
    pub(super) fn rules(&self) -> [(&'static str, ScopedRules); 3] {
        let mut lease = ScopedRules::new();
        if let Some((namespace, name)) = &self.lease {
            lease.insert(Some(namespace.clone()), Rule::lease(name).to_vec());
        }
        let mut webhooks = ScopedRules::new();
        for (namespace, rule) in self.webhook_rules() {
            webhooks.entry(namespace).or_default().push(rule);
        }
        [("", self.controller_rules()), ("-leader-election", lease), ("-webhooks", webhooks)]
    }

    fn controller_rules(&self) -> ScopedRules {
        let mut rules: ScopedRules =
            self.grants().into_iter().map(|(scope, grants)| (scope, Rule::list(grants))).collect();
        rules.retain(|_, rules| !rules.is_empty());
        rules
    }

    /// Whether the requests of tests were recorded.
    pub fn has_record(&self) -> bool {
        self.recorded.is_some()
    }

    /// What the roles of the controllers allow although no test recorded it, one line for each resource, such as
    /// `secrets: create delete`. Without a record, that is everything.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use evenkeel_runtime::{Action, Controller, Ctx, Manifests, Result};
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// # async fn reconcile(_: Arc<ConfigMap>, _: Ctx) -> Result<Action> { Ok(Action::await_change()) }
    /// let controller = Controller::new("mirror", reconcile).reads::<Secret>();
    /// let manifests = Manifests::new("mirror", "operators").controller(&controller);
    /// assert!(manifests.unrecorded().contains(&"secrets: get list watch".to_owned()));
    /// let recorded = manifests.verbs("configmaps: get list watch\nsecrets: list watch".parse()?);
    /// assert_eq!(recorded.unrecorded(), Vec::<String>::new());
    /// # Ok::<_, evenkeel_runtime::manifests::VerbsError>(())
    /// ```
    pub fn unrecorded(&self) -> Vec<String> {
        let mut seen: Grants = Grants::default();
        for (target, verbs) in self.recorded.iter().flat_map(Verbs::iter) {
            seen.entry((target.group.clone(), target.resource.clone())).or_default().extend(verbs);
        }
        let mut unseen: Grants = Grants::default();
        for (key, verbs) in self.grants().into_values().flatten() {
            let known = seen.get(&key);
            let verbs = verbs.into_iter().filter(|verb| known.is_none_or(|known| !known.contains(verb)));
            unseen.entry(key).or_default().extend(verbs);
        }
        unseen.retain(|_, verbs| !verbs.is_empty());
        let line = |((group, resource), verbs): ((String, String), BTreeSet<&'static str>)| {
            let verbs: Vec<&str> = verbs.into_iter().collect();
            format!("{}: {}", Target { group, resource, wide: false }, verbs.join(" "))
        };
        unseen.into_iter().map(line).collect()
    }

    /// What the controllers may do, by namespace.
    fn grants(&self) -> Scopes {
        let mut grants = Scopes::default();
        for declared in &self.declared {
            for scope in scopes_of(declared) {
                self.grant(grants.entry(scope).or_default(), declared);
            }
        }
        if let Some(recorded) = &self.recorded {
            self.grant_recorded(&mut grants, recorded);
        }
        without_repeats(&mut grants);
        grants
    }

    /// Grants what a declaration needs: its watch, and the usual writes if no requests were recorded.
    fn grant(&self, grants: &mut Grants, declared: &Declaration) {
        let ApiResource { group, plural, .. } = &declared.resource;
        let key = |suffix: &str| (group.clone(), format!("{plural}{suffix}"));
        grants.entry(key("")).or_default().extend(["list", "watch"]);
        if declared.purpose == Purpose::Primary {
            // A reconcile reads its object from the server if the cache does not show its own last write yet.
            grants.entry(key("")).or_default().insert("get");
            if declared.owns {
                // The admission plugin OwnerReferencesPermissionEnforcement, which OpenShift enables, requires it for
                // owner references with blockOwnerDeletion.
                grants.entry(key("/finalizers")).or_default().insert("update");
            }
        }
        if self.recorded.is_some() {
            return;
        }
        grants.entry(key("")).or_default().insert("get");
        match declared.purpose {
            Purpose::Read => {}
            Purpose::Owned => {
                grants.entry(key("")).or_default().extend(["create", "delete", "patch", "update"]);
            }
            Purpose::Primary => {
                grants.entry(key("")).or_default().extend(["patch", "update"]);
                grants.entry(key("/status")).or_default().extend(["patch", "update"]);
            }
        }
        grants.entry(events()).or_default().extend(["create", "patch"]);
    }

    /// Grants recorded requests: in the namespaces where their kind was declared, or else wherever the operator works.
    fn grant_recorded(&self, grants: &mut Scopes, recorded: &Verbs) {
        let everywhere: BTreeSet<Option<String>> = match grants.is_empty() {
            true => [None].into(),
            false => grants.keys().cloned().collect(),
        };
        for (Target { group, resource, wide }, verbs) in recorded.iter() {
            let lease = group == "coordination.k8s.io" && resource == "leases";
            if lease && self.lease.is_some() {
                continue;
            }
            let plural = resource.split('/').next().unwrap_or_default();
            let same = |declared: &&Declaration| {
                declared.resource.group == *group && declared.resource.plural == plural
            };
            let declared: BTreeSet<Option<String>> =
                self.declared.iter().filter(same).flat_map(scopes_of).collect();
            let scopes = match (wide, declared.is_empty()) {
                (true, true) => [None].into(),
                (false, true) => everywhere.clone(),
                (_, false) => declared,
            };
            let key = (group.clone(), resource.clone());
            for scope in scopes {
                let granted = grants.entry(scope).or_default().entry(key.clone()).or_default();
                granted.extend(verbs);
                if key == events() || key == counted_events() {
                    // A repeated event patches the first one, which the tests may not have recorded.
                    granted.extend(["create", "patch"]);
                }
            }
        }
    }
}

/// From (group, resource) to verbs.
type Grants = BTreeMap<(String, String), BTreeSet<&'static str>>;

/// Grants by namespace; `None` for the whole cluster.
type Scopes = BTreeMap<Option<String>, Grants>;

/// Rules by namespace, with `None` for cluster-wide rules.
pub(super) type ScopedRules = BTreeMap<Option<String>, Vec<Rule>>;

fn events() -> (String, String) {
    ("events.k8s.io".into(), "events".into())
}

fn counted_events() -> (String, String) {
    (String::new(), "events".into())
}

fn scopes_of(declared: &Declaration) -> Vec<Option<String>> {
    match declared.namespaces.is_empty() {
        true => vec![None],
        false => declared.namespaces.iter().cloned().map(Some).collect(),
    }
}

/// Removes grants of namespaces that the whole cluster has already.
fn without_repeats(grants: &mut Scopes) {
    let Some(wide) = grants.get(&None).cloned() else { return };
    for (_, narrow) in grants.iter_mut().filter(|(scope, _)| scope.is_some()) {
        for (key, verbs) in &wide {
            if let Some(narrow) = narrow.get_mut(key) {
                narrow.retain(|verb| !verbs.contains(verb));
            }
        }
        narrow.retain(|_, verbs| !verbs.is_empty());
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resource_names: Vec<String>,
    verbs: Vec<&'static str>,
}

impl Rule {
    /// One rule for each set of verbs in a group.
    fn list(grants: Grants) -> Vec<Self> {
        let mut rules: Vec<Self> = Vec::new();
        for ((group, resource), verbs) in grants {
            let verbs: Vec<&'static str> = verbs.into_iter().collect();
            match rules.iter_mut().find(|rule| rule.api_groups[0] == group && rule.verbs == verbs) {
                Some(rule) => rule.resources.push(resource),
                None => rules.push(Self::new(&group, &resource, verbs)),
            }
        }
        rules
    }

    /// The rules for a lease. A rule for `create` cannot name the object, so that there are two.
    fn lease(name: &str) -> [Self; 2] {
        let rule = |verbs| Self::new("coordination.k8s.io", "leases", verbs);
        [rule(vec!["create"]), rule(vec!["get", "update"]).named([name.to_owned()])]
    }

    /// Limits the rule to these objects.
    pub(super) fn named(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.resource_names.extend(names);
        self
    }

    pub(super) fn new(group: &str, resource: &str, verbs: Vec<&'static str>) -> Self {
        let (api_groups, resources) = (vec![group.into()], vec![resource.into()]);
        Self { api_groups, resources, resource_names: Vec::new(), verbs }
    }
}

#[cfg(test)]
mod tests;
