//! Roles, ClusterRoles and their bindings.

use super::field_rules::{named, subdomain};
use crate::field::{BadValue, FieldError, Path};
use crate::json::Value;
use crate::names;
use crate::object_meta::{self, NameRule};
use crate::read::{Read, print_struct};
use crate::selector::{self, LabelSelector};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn create(kind: &str, object: &Value, namespaced: bool) -> Vec<FieldError> {
    let mut errors = object_meta::create_builtin(object, namespaced, NameRule::PathSegment);
    match kind {
        "RoleBinding" | "ClusterRoleBinding" => binding(kind, object, &mut errors),
        _ => role(kind, object, &mut errors),
    }
    errors
}

pub(super) fn update(kind: &str, new: &Value, old: &Value, namespaced: bool) -> Vec<FieldError> {
    let mut errors = create(kind, new, namespaced);
    errors.extend(object_meta::update_builtin(new, old));
    if new.at("roleRef") != old.at("roleRef") {
        let reference = new.at("roleRef").unwrap_or(&Value::Null);
        let printed = print_struct(reference, &["apiGroup", "kind", "name"]);
        let printed = printed.replace("\"apiGroup\"", "\"APIGroup\"").replace("\"kind\"", "\"Kind\"");
        let printed = BadValue::Printed(printed.replace("\"name\"", "\"Name\""));
        errors.push(FieldError::invalid("roleRef", printed, "cannot change roleRef"));
    }
    errors
}

fn role(kind: &str, object: &Value, errors: &mut Vec<FieldError>) {
    let rules = Path::new("rules");
    for (index, rule) in object.list("rules").iter().enumerate() {
        policy_rule(&rules.index(index), rule, kind == "Role", errors);
    }
    let Some(aggregation) = object.at("aggregationRule") else { return };
    let path = Path::new("aggregationRule");
    let path = path.child("clusterRoleSelectors");
    let selectors = aggregation.list("clusterRoleSelectors");
    if selectors.is_empty() {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(FieldError::required(path, detail));
    }
    for (index, value) in selectors.iter().enumerate() {
        errors.extend(selector::validate(&path.index(index), value));
        if LabelSelector::from_object(value).is_err() {
            errors.push(FieldError::invalid(path.index(index), Value::Null, "invalid label selector."));
        }
    }
}

fn policy_rule(path: &Path<'_>, rule: &Value, namespaced: bool, errors: &mut Vec<FieldError>) {
    if rule.list("verbs").is_empty() {
        errors.push(FieldError::required(path.child("verbs"), "verbs must contain at least one value"));
    }
    let urls = rule.list("nonResourceURLs");
    if !urls.is_empty() {
        let at = path.child("nonResourceURLs");
        let shown = Value::from(urls.to_vec());
        if namespaced {
            let detail = "namespaced rules cannot apply to non-resource URLs";
            errors.push(FieldError::invalid(at, shown.clone(), detail));
        }
        if ["apiGroups", "resources", "resourceNames"].iter().any(|field| !rule.list(field).is_empty()) {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(FieldError::invalid(at, shown, detail));
        }
        return;
    }
    if rule.list("apiGroups").is_empty() {
        let detail = "resource rules must supply at least one api group";
        errors.push(FieldError::required(path.child("apiGroups"), detail));
    }
    if rule.list("resources").is_empty() {
        let detail = "resource rules must supply at least one resource";
        errors.push(FieldError::required(path.child("resources"), detail));
    }
}

fn binding(kind: &str, object: &Value, errors: &mut Vec<FieldError>) {
    let reference = object.at("roleRef");
    let path = Path::new("roleRef");
    if reference.str("apiGroup") != GROUP {
        errors.push(FieldError::not_supported(path.child("apiGroup"), reference.str("apiGroup"), &[GROUP]));
    }
    let kinds: &[&str] = if kind == "RoleBinding" { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&reference.str("kind")) {
        errors.push(FieldError::not_supported(path.child("kind"), reference.str("kind"), kinds));
    }
    match reference.str("name") {
        "" => errors.push(FieldError::required(path.child("name"), "")),
        name => named(&path.child("name"), name, names::path_segment(name), errors),
    }
    let subjects = Path::new("subjects");
    for (index, value) in object.list("subjects").iter().enumerate() {
        subject(&subjects.index(index), value, kind == "RoleBinding", errors);
    }
}

fn subject(path: &Path<'_>, subject: &Value, namespaced: bool, errors: &mut Vec<FieldError>) {
    let (name, group) = (subject.str("name"), subject.str("apiGroup"));
    if name.is_empty() {
        errors.push(FieldError::required(path.child("name"), ""));
    }
    match subject.str("kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                subdomain(&path.child("name"), name, errors);
            }
            if !group.is_empty() {
                errors.push(FieldError::not_supported(path.child("apiGroup"), group, &[""]));
            }
            if !namespaced && subject.str("namespace").is_empty() {
                errors.push(FieldError::required(path.child("namespace"), ""));
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                errors.push(FieldError::not_supported(path.child("apiGroup"), group, &[GROUP]));
            }
        }
        other => {
            let kinds = ["ServiceAccount", "User", "Group"];
            errors.push(FieldError::not_supported(path.child("kind"), other, &kinds));
        }
    }
}
