//! The roles and bindings of one cluster, indexed by subject.
//!
//! A request looks only at the bindings of its user and groups. The rules of a role are parsed on first use,
//! because most roles of a cluster are never used.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use evenkeel_env::HashMap;
use evenkeel_schema::json::Value;
use serde::Deserialize;

use crate::User;
use crate::access::Rule;

/// Namespace (empty for cluster roles and cluster role bindings) and name.
type Id = (String, String);

/// All roles and bindings.
#[derive(Debug, Default)]
pub(super) struct RbacIndex {
    roles: BTreeMap<Id, Arc<Role>>,
    bindings: BTreeMap<Id, Arc<Binding>>,
    /// For each subject, the names of the bindings that list it, by namespace.
    by_subject: HashMap<Subject, BTreeMap<String, BTreeSet<String>>>,
    /// The collected rules of aggregated cluster roles; cleared whenever a role changes.
    aggregated: parking_lot::Mutex<BTreeMap<String, Arc<Vec<Rule>>>>,
}

#[derive(Debug)]
struct Role {
    bytes: Bytes,
    labels: BTreeMap<String, String>,
    parsed: OnceLock<ParsedRole>,
}

#[derive(Debug, Default)]
struct ParsedRole {
    rules: Arc<Vec<Rule>>,
    aggregation: Option<AggregationRule>,
}

/// The fields of a stored role that matter here.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredRole {
    #[serde(default)]
    rules: Option<Vec<Rule>>,
    #[serde(default)]
    aggregation_rule: Option<AggregationRule>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AggregationRule {
    #[serde(default)]
    cluster_role_selectors: Vec<Value>,
}

/// A RoleBinding or ClusterRoleBinding.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Binding {
    #[serde(skip)]
    pub(super) namespace: String,
    #[serde(skip)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) subjects: Option<Vec<Subject>>,
    #[serde(default)]
    pub(super) role_ref: RoleRef,
}

/// The role that a binding grants.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct RoleRef {
    #[serde(default)]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) name: String,
}

/// A subject of a binding: a user, group or service account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
pub(super) struct Subject {
    #[serde(default)]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) name: String,
    /// The namespace of a service account; empty for users and groups.
    #[serde(default)]
    pub(super) namespace: String,
}

impl RbacIndex {
    /// Adds or replaces a role, or removes it if `role` is `None`.
    pub(super) fn set_role(&mut self, id: Id, role: Option<(Bytes, BTreeMap<String, String>)>) {
        self.aggregated.get_mut().clear();
        match role {
            Some((bytes, labels)) => {
                self.roles.insert(id, Arc::new(Role { bytes, labels, parsed: OnceLock::new() }));
            }
            None => {
                self.roles.remove(&id);
            }
        }
    }

    /// Adds or replaces a binding, or removes it if `bytes` is `None`.
    pub(super) fn set_binding(&mut self, id: Id, bytes: Option<&Bytes>) {
        if let Some(old) = self.bindings.remove(&id) {
            for subject in old.effective_subjects() {
                self.forget(&subject, &id);
            }
        }
        let Some(bytes) = bytes else { return };
        let mut binding: Binding = serde_json::from_slice(bytes).unwrap_or_else(|error| {
            let (namespace, name) = &id;
            tracing::error!(namespace = &**namespace, name = &**name, %error, "a stored role binding cannot be parsed and has no effect");
            Binding::default()
        });
        (binding.namespace, binding.name) = id.clone();
        for subject in binding.effective_subjects() {
            self.by_subject.entry(subject).or_default().entry(id.0.clone()).or_default().insert(id.1.clone());
        }
        self.bindings.insert(id, Arc::new(binding));
    }

    fn forget(&mut self, subject: &Subject, (namespace, name): &Id) {
        let Some(by_namespace) = self.by_subject.get_mut(subject) else { return };
        if let Some(names) = by_namespace.get_mut(namespace) {
            names.remove(name);
            if names.is_empty() {
                by_namespace.remove(namespace);
            }
        }
        if by_namespace.is_empty() {
            self.by_subject.remove(subject);
        }
    }

    /// The bindings that apply to a user: cluster role bindings, then role bindings in `namespace`, each
    /// sorted by name.
    pub(super) fn bindings_of(&self, user: &User, namespace: &str) -> Vec<Arc<Binding>> {
        let subjects = subjects_of(user);
        let scopes = if namespace.is_empty() { vec![""] } else { vec!["", namespace] };
        let mut found = Vec::new();
        for scope in scopes {
            let names: BTreeSet<&String> = subjects
                .iter()
                .filter_map(|subject| self.by_subject.get(subject)?.get(scope))
                .flatten()
                .collect();
            let ids = names.into_iter().map(|name| (scope.to_owned(), name.clone()));
            found.extend(ids.filter_map(|id| self.bindings.get(&id).cloned()));
        }
        found
    }

    /// The rules of the role to which a binding in `namespace` refers; `None` if the role does not exist.
    pub(super) fn rules_of(&self, reference: &RoleRef, namespace: &str) -> Option<Arc<Vec<Rule>>> {
        let scope = if reference.kind == "Role" { namespace } else { "" };
        let role = self.roles.get(&(scope.to_owned(), reference.name.clone()))?;
        let parsed = role.parsed();
        match &parsed.aggregation {
            Some(aggregation) => Some(self.gather(&reference.name, aggregation)),
            None => Some(parsed.rules.clone()),
        }
    }

    /// Collects the rules of all cluster roles that an aggregation rule selects, in the order of their names.
    fn gather<'a>(&'a self, name: &'a str, aggregation: &AggregationRule) -> Arc<Vec<Rule>> {
        if let Some(rules) = self.aggregated.lock().get(name) {
            return rules.clone();
        }
        let mut rules = Vec::new();
        self.gather_into(&mut rules, aggregation, &mut vec![name]);
        let rules = Arc::new(rules);
        self.aggregated.lock().insert(name.to_owned(), rules.clone());
        rules
    }

    /// Collects rules recursively, since a selected role may be aggregated too. `path` holds the roles being
    /// visited and breaks cycles.
    fn gather_into<'a>(
        &'a self,
        rules: &mut Vec<Rule>,
        aggregation: &AggregationRule,
        path: &mut Vec<&'a str>,
    ) {
        for selector in &aggregation.cluster_role_selectors {
            let cluster_roles = self.roles.iter().filter(|((namespace, _), _)| namespace.is_empty());
            for ((_, name), role) in cluster_roles.filter(|(_, role)| selects(selector, &role.labels)) {
                if path.contains(&name.as_str()) {
                    continue;
                }
                let parsed = role.parsed();
                if let Some(further) = &parsed.aggregation {
                    path.push(name);
                    self.gather_into(rules, further, path);
                    path.pop();
                    continue;
                }
                let new: Vec<Rule> =
                    parsed.rules.iter().filter(|rule| !rules.contains(rule)).cloned().collect();
                rules.extend(new);
            }
        }
    }
}

impl Role {
    fn parsed(&self) -> &ParsedRole {
        self.parsed.get_or_init(|| {
            let stored: StoredRole = serde_json::from_slice(&self.bytes).unwrap_or_else(|error| {
                tracing::error!(%error, "a stored role cannot be parsed and grants nothing");
                StoredRole::default()
            });
            let rules = Arc::new(stored.rules.unwrap_or_default());
            ParsedRole { rules, aggregation: stored.aggregation_rule }
        })
    }
}

impl Binding {
    /// The first subject of the binding that matches a user.
    pub(super) fn subject_of(&self, user: &User) -> Option<&Subject> {
        let subjects = subjects_of(user);
        self.subjects.iter().flatten().find(|it| subjects.contains(&it.within(&self.namespace)))
    }

    fn effective_subjects(&self) -> Vec<Subject> {
        self.subjects.iter().flatten().map(|subject| subject.within(&self.namespace)).collect()
    }
}

impl Subject {
    fn new(kind: &str, name: &str, namespace: &str) -> Self {
        Self { kind: kind.into(), name: name.into(), namespace: namespace.into() }
    }

    /// The subject with its effective namespace: a service account without a namespace belongs to the
    /// binding's namespace; users and groups have none.
    fn within(&self, namespace: &str) -> Self {
        match self.kind.as_str() {
            "ServiceAccount" if self.namespace.is_empty() => Self::new(&self.kind, &self.name, namespace),
            "ServiceAccount" => self.clone(),
            _ => Self::new(&self.kind, &self.name, ""),
        }
    }
}

/// All subjects that match a user.
fn subjects_of(user: &User) -> Vec<Subject> {
    let account = service_account(&user.name);
    let account = account.map(|(namespace, name)| Subject::new("ServiceAccount", name, namespace));
    let groups = user.groups.iter().map(|group| Subject::new("Group", group, ""));
    std::iter::once(Subject::new("User", &user.name, "")).chain(groups).chain(account).collect()
}

/// The namespace and name of the service account behind a user name; `None` if the user is not a service
/// account.
pub(super) fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let valid = !namespace.is_empty() && !name.is_empty() && !name.contains(':');
    valid.then_some((namespace, name))
}

/// Whether a label selector of an aggregation rule matches these labels; an empty selector matches all.
fn selects(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    let mut equal = equal.map(|(key, value)| labels.get(key.as_str()).map(String::as_str) == value.as_str());
    let expressions = selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten();
    equal.all(|it| it) && expressions.into_iter().all(|expression| expression_holds(expression, labels))
}

fn expression_holds(expression: &Value, labels: &BTreeMap<String, String>) -> bool {
    let text = |key: &str| expression.get(key).and_then(Value::as_str).unwrap_or_default();
    let label = labels.get(text("key"));
    let values = expression.get("values").and_then(Value::as_array);
    let listed =
        label.is_some_and(|label| values.into_iter().flatten().any(|value| value.as_str() == Some(label)));
    match text("operator") {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        _ => false,
    }
}
