//! The roles and bindings of `facts/rbac.txt`; its first lines say how it is written.

use serde_json::{Value, json};

use super::Seed;

const FACTS: &str = include_str!("../../facts/rbac.txt");
const API_VERSION: &str = "rbac.authorization.k8s.io/v1";
const GROUP: &str = "rbac.authorization.k8s.io";

/// A role while its lines are read.
struct Role {
    name: &'static str,
    namespace: &'static str,
    /// The role that gathers this one.
    to: Option<&'static str>,
    gathers: bool,
    rules: Vec<Value>,
}

pub(super) fn seeds() -> Vec<Seed> {
    let mut roles: Vec<Role> = Vec::new();
    let mut seeds = Vec::new();
    for line in FACTS.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&'static str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["role", name, rest @ ..] => roles.push(Role::new(name, rest, false)),
            ["gather", name, rest @ ..] => roles.push(Role::new(name, rest, true)),
            ["bind", name, role, rest @ ..] => seeds.push(binding(name, role, rest)),
            rule => {
                if let Some(role) = roles.last_mut() {
                    role.rules.extend(parse_rule(rule));
                }
            }
        }
    }
    gather(&mut roles);
    seeds.extend(roles.into_iter().map(Role::seed));
    seeds
}

impl Role {
    fn new(name: &'static str, rest: &[&'static str], gathers: bool) -> Self {
        let after =
            |word: &str| rest.iter().position(|it| *it == word).and_then(|at| rest.get(at + 1)).copied();
        Self { name, namespace: after("in").unwrap_or_default(), to: after("to"), gathers, rules: Vec::new() }
    }

    fn seed(self) -> Seed {
        let mut object = json!({ "metadata": metadata(), "rules": self.rules });
        if let Some(to) = self.to {
            object["metadata"]["labels"][aggregation_label(to)] = "true".into();
        }
        if self.gathers {
            let labels = json!({ aggregation_label(self.name): "true" });
            object["aggregationRule"] = json!({ "clusterRoleSelectors": [{ "matchLabels": labels }] });
        }
        let (kind, plural) = match self.namespace {
            "" => ("ClusterRole", "clusterroles"),
            _ => ("Role", "roles"),
        };
        Seed::new(API_VERSION, kind, plural, self.namespace, self.name, object)
    }
}

/// Fills the roles that gather others, as the aggregation controller would, until nothing is added.
fn gather(roles: &mut [Role]) {
    let mut order: Vec<usize> = (0..roles.len()).collect();
    order.sort_by_key(|at| roles[*at].name);
    loop {
        let mut changed = false;
        for at in order.iter().copied().filter(|at| roles[*at].gathers).collect::<Vec<_>>() {
            let mut rules: Vec<Value> = Vec::new();
            for from in order.iter().filter(|from| roles[**from].to == Some(roles[at].name)) {
                let new = roles[*from].rules.iter().filter(|rule| !rules.contains(rule)).cloned();
                rules.extend(new.collect::<Vec<_>>());
            }
            changed |= rules != roles[at].rules;
            roles[at].rules = rules;
        }
        if !changed {
            return;
        }
    }
}

fn parse_rule(words: &[&'static str]) -> Option<Value> {
    let list = |word: &str| {
        word.split(',').map(|it| if it == "core" { "" } else { it }.to_owned()).collect::<Vec<_>>()
    };
    match words {
        [verbs, "url", paths] => Some(json!({ "verbs": list(verbs), "nonResourceURLs": list(paths) })),
        [verbs, groups, resources, names @ ..] => {
            let mut rule =
                json!({ "verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources) });
            if let Some(names) = names.first() {
                rule["resourceNames"] = list(names).into();
            }
            Some(rule)
        }
        _ => None,
    }
}

fn binding(name: &'static str, role: &str, rest: &[&'static str]) -> Seed {
    let (namespace, subjects) = match rest {
        ["in", namespace, subjects @ ..] => (*namespace, subjects),
        subjects => ("", subjects),
    };
    let (kind, plural, role_kind) = match namespace {
        "" => ("ClusterRoleBinding", "clusterrolebindings", "ClusterRole"),
        _ => ("RoleBinding", "rolebindings", "Role"),
    };
    let mut object = json!({
        "metadata": metadata(),
        "roleRef": { "apiGroup": GROUP, "kind": role_kind, "name": role },
    });
    let subjects: Vec<Value> = subjects.iter().filter_map(|it| subject(it)).collect();
    if !subjects.is_empty() {
        object["subjects"] = subjects.into();
    }
    Seed::new(API_VERSION, kind, plural, namespace, name, object)
}

fn subject(text: &str) -> Option<Value> {
    let (kind, name) = text.split_once(':')?;
    Some(match kind {
        "user" => json!({ "kind": "User", "apiGroup": GROUP, "name": name }),
        "group" => json!({ "kind": "Group", "apiGroup": GROUP, "name": name }),
        _ => json!({ "kind": "ServiceAccount", "name": name, "namespace": "kube-system" }),
    })
}

fn aggregation_label(role: &str) -> String {
    format!("rbac.authorization.k8s.io/aggregate-to-{role}")
}

fn metadata() -> Value {
    json!({
        "labels": { "kubernetes.io/bootstrapping": "rbac-defaults" },
        "annotations": { "rbac.authorization.kubernetes.io/autoupdate": "true" },
    })
}
