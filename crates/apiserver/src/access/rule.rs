//! A rule of a role: the requests that it allows, the rules that it covers, and its printed form.

use std::collections::BTreeMap;

use evenkeel_schema::go::quote_list;
use serde::{Deserialize, Serialize};

use super::{Attributes, Target};

/// A rule of a Role or ClusterRole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// The verbs that are allowed; `*` matches all.
    #[serde(default, deserialize_with = "list")]
    pub verbs: Vec<String>,
    /// The API groups of the resources; empty for the core group, `*` matches all.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// The resources: `resource`, `resource/subresource`, `*/subresource` or `*`.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// The object names to which the rule is limited; an empty list matches all.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// URL paths that are not resources; a trailing `*` matches any suffix.
    #[serde(
        default,
        rename = "nonResourceURLs",
        deserialize_with = "list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub non_resource_urls: Vec<String>,
}

/// Deserializes a list; null counts as an empty list.
fn list<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Option::<Vec<String>>::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl Rule {
    /// Whether the rule allows a request.
    pub fn allows(&self, attributes: &Attributes<'_>) -> bool {
        has_or_star(&self.verbs, attributes.verb)
            && match attributes.target {
                Target::Resource { group, resource, subresource, name, .. } => {
                    has_or_star(&self.api_groups, group)
                        && self.names_resource(resource, subresource)
                        && (self.resource_names.is_empty() || has(&self.resource_names, name))
                }
                Target::Path(path) => self.non_resource_urls.iter().any(|owned| covers_path(owned, path)),
            }
    }

    fn names_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|owned| {
            let part = || owned.strip_prefix(resource)?.strip_prefix('/');
            match subresource {
                "" => owned == "*" || owned == resource,
                sub => owned == "*" || part() == Some(sub) || owned.strip_prefix("*/") == Some(sub),
            }
        })
    }

    /// Splits the rule into single permissions: one verb, one resource or path, at most one name.
    pub(crate) fn singles(&self) -> Vec<Rule> {
        let mut singles = Vec::new();
        for group in &self.api_groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    let single = |names: Vec<String>| Rule {
                        verbs: vec![verb.clone()],
                        api_groups: vec![group.clone()],
                        resources: vec![resource.clone()],
                        resource_names: names,
                        ..Rule::default()
                    };
                    match self.resource_names.as_slice() {
                        [] => singles.push(single(Vec::new())),
                        names => singles.extend(names.iter().map(|name| single(vec![name.clone()]))),
                    }
                }
            }
        }
        for url in &self.non_resource_urls {
            for verb in &self.verbs {
                let (verbs, non_resource_urls) = (vec![verb.clone()], vec![url.clone()]);
                singles.push(Rule { verbs, non_resource_urls, ..Rule::default() });
            }
        }
        singles
    }

    /// Whether this rule grants everything that a single permission grants.
    pub(crate) fn covers(&self, single: &Rule) -> bool {
        let names = match single.resource_names.is_empty() {
            true => self.resource_names.is_empty(),
            false => self.resource_names.is_empty() || has_all(&self.resource_names, &single.resource_names),
        };
        let urls = single
            .non_resource_urls
            .iter()
            .all(|path| self.non_resource_urls.iter().any(|owned| covers_path(owned, path)));
        (has(&self.verbs, "*") || has_all(&self.verbs, &single.verbs))
            && (has(&self.api_groups, "*") || has_all(&self.api_groups, &single.api_groups))
            && (has(&self.resources, "*") || single.resources.iter().all(|it| self.covers_resource(it)))
            && names
            && urls
    }

    fn covers_resource(&self, resource: &str) -> bool {
        let by_part =
            resource.split_once('/').is_some_and(|(_, part)| has(&self.resources, &format!("*/{part}")));
        has(&self.resources, resource) || by_part
    }
}

/// Prints the rule as Kubernetes' error messages do.
impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let shown = parts.iter().filter(|(_, list)| !list.is_empty());
        let shown: Vec<_> = shown.map(|(name, list)| format!("{name}:{}", quote_list(list))).collect();
        write!(f, "{{{}}}", shown.join(", "))
    }
}

/// The API groups, resources and resource names of a single permission: everything but its verb.
type Scope = (Vec<String>, Vec<String>, Vec<String>);

/// The single permissions of `wanted` that no rule of `held` covers. Permissions that differ only in the verb
/// are merged.
pub(crate) fn missing(held: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    let uncovered =
        wanted.iter().flat_map(Rule::singles).filter(|single| !held.iter().any(|rule| rule.covers(single)));
    let mut by_resource: BTreeMap<Scope, Rule> = BTreeMap::new();
    let mut missing = Vec::new();
    for single in uncovered {
        if !single.non_resource_urls.is_empty() {
            missing.push(single);
            continue;
        }
        let key = (single.api_groups.clone(), single.resources.clone(), single.resource_names.clone());
        match by_resource.get_mut(&key) {
            Some(rule) => rule.verbs.extend(single.verbs),
            None => {
                by_resource.insert(key, single);
            }
        }
    }
    missing.extend(by_resource.into_values());
    missing
}

fn has(list: &[String], item: &str) -> bool {
    list.iter().any(|it| it == item)
}

fn has_or_star(list: &[String], item: &str) -> bool {
    list.iter().any(|it| it == "*" || it == item)
}

fn has_all(list: &[String], items: &[String]) -> bool {
    items.iter().all(|item| has(list, item))
}

fn covers_path(owned: &str, path: &str) -> bool {
    owned == path || owned.ends_with('*') && path.starts_with(owned.trim_end_matches('*'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::User;

    fn strings(text: &str) -> Vec<String> {
        text.split(' ')
            .filter(|it| !it.is_empty())
            .map(|it| if it == "core" { String::new() } else { it.to_owned() })
            .collect()
    }

    fn rule(groups: &str, resources: &str, verbs: &str, names: &str) -> Rule {
        Rule {
            verbs: strings(verbs),
            api_groups: strings(groups),
            resources: strings(resources),
            resource_names: strings(names),
            non_resource_urls: Vec::new(),
        }
    }

    fn allows(rule: &Rule, verb: &str, group: &str, resource: &str, name: &str) -> bool {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let target = Target::Resource { group, version: "v1", resource, subresource, namespace: "ns", name };
        rule.allows(&Attributes { user: &User::default(), verb, target })
    }

    #[test]
    fn resources_and_subresources_are_granted_apart() {
        let pods = rule("core", "pods", "get", "");
        assert!(allows(&pods, "get", "", "pods", "p"));
        assert!(!allows(&pods, "get", "", "pods/log", "p"));
        assert!(!allows(&pods, "list", "", "pods", ""));
        assert!(!allows(&pods, "get", "apps", "pods", "p"));
        let part = rule("apps", "*/scale", "get", "");
        assert!(allows(&part, "get", "apps", "deployments/scale", "d"));
        assert!(!allows(&part, "get", "apps", "deployments", "d"));
        assert!(!allows(&part, "get", "apps", "deployments/status", "d"));
        let all = rule("*", "*", "*", "");
        assert!(allows(&all, "patch", "x", "things/status", "t"));
    }

    #[test]
    fn names_limit_to_those_names() {
        let one = rule("core", "configmaps", "get create list", "one");
        assert!(allows(&one, "get", "", "configmaps", "one"));
        assert!(!allows(&one, "get", "", "configmaps", "two"));
        assert!(!allows(&one, "create", "", "configmaps", ""));
    }

    #[test]
    fn a_star_at_the_end_of_a_path_is_a_prefix() {
        let rule = Rule {
            verbs: strings("get"),
            non_resource_urls: strings("/readyz/* /healthz"),
            ..Rule::default()
        };
        let allows = |verb, path| {
            rule.allows(&Attributes { user: &User::default(), verb, target: Target::Path(path) })
        };
        assert!(allows("get", "/readyz/ping"));
        assert!(allows("get", "/healthz"));
        assert!(!allows("get", "/healthz/ping"));
        assert!(!allows("get", "/readyz"));
        assert!(!allows("post", "/healthz"));
    }

    #[test]
    fn missing_permissions_are_named_by_resource() {
        let held = [rule("core", "configmaps", "get", ""), rule("apps", "*/scale", "*", "")];
        let wanted = [
            rule("core", "configmaps secrets", "get list", ""),
            rule("apps", "deployments/scale", "get", ""),
        ];
        let lines: Vec<_> = missing(&held, &wanted).iter().map(Rule::to_string).collect();
        assert_eq!(
            lines,
            [
                r#"{APIGroups:[""], Resources:["configmaps"], Verbs:["list"]}"#,
                r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}"#,
            ]
        );
    }
}
