//! FlowSchemas and PriorityLevelConfigurations.

use evenkeel_scalars::go;

use super::field_rules::{named, one_of, required, subdomain};
use crate::field::{BadValue, FieldError, Path};
use crate::json::Value;
use crate::names;
use crate::object_meta::{self, NameRule};
use crate::read::Read;

const PRECEDENCE_MAX: i64 = 10_000;
const QUEUES_MAX: i64 = 10_000_000;
const VERBS: [&str; 9] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

pub(super) fn create(kind: &str, object: &Value) -> Vec<FieldError> {
    let mut errors = object_meta::create_builtin(object, false, NameRule::Subdomain);
    rules(kind, object, &mut errors);
    errors
}

pub(super) fn update(kind: &str, new: &Value, subresource: &str) -> Vec<FieldError> {
    if subresource.is_empty() {
        return create(kind, new);
    }
    let mut errors = Vec::new();
    let path = Path::new("status");
    let list = path.child("conditions");
    let conditions = new.at("status").list("conditions");
    for (index, condition) in conditions.iter().enumerate() {
        let at = list.index(index);
        let kind = condition.str("type");
        if conditions[..index].iter().any(|it| it.str("type") == kind) {
            errors.push(FieldError::duplicate(at.child("type"), kind));
        }
        if kind.is_empty() {
            errors.push(FieldError::required(at.child("type"), ""));
        }
    }
    errors
}

fn rules(kind: &str, object: &Value, errors: &mut Vec<FieldError>) {
    let name = object.at("metadata").str("name");
    let spec = object.at("spec").unwrap_or(&Value::Null);
    match kind {
        "FlowSchema" => flow_schema(name, spec, errors),
        _ => priority_level(name, spec, errors),
    }
}

fn flow_schema(name: &str, spec: &Value, errors: &mut Vec<FieldError>) {
    let path = Path::new("spec");
    let precedence = spec.int("matchingPrecedence").unwrap_or_default();
    let at = path.child("matchingPrecedence");
    if precedence <= 0 {
        errors.push(FieldError::invalid(at, precedence, "must be a positive value"));
    }
    if precedence > PRECEDENCE_MAX {
        let detail = format!("must not be greater than {PRECEDENCE_MAX}");
        errors.push(FieldError::invalid(at, precedence, detail));
    }
    if precedence == 1 && name != "exempt" {
        let detail = "only the schema named 'exempt' may have matchingPrecedence 1";
        errors.push(FieldError::invalid(at, precedence, detail));
    }
    if let Some(method) = spec.at("distinguisherMethod") {
        let methods = ["ByNamespace", "ByUser"];
        if !methods.contains(&method.str("type")) {
            let path = path.child("distinguisherMethod");
            let shown = format!(r#"{{"Type":{}}}"#, go::json(&Value::from(method.str("type"))));
            errors.push(FieldError::not_supported(path.child("type"), BadValue::Printed(shown), &methods));
        }
    }
    let level = path.child("priorityLevelConfiguration");
    match spec.at("priorityLevelConfiguration").str("name") {
        "" => errors.push(FieldError::required(level.child("name"), "must reference a priority level")),
        name => subdomain(&level.child("name"), name, errors),
    }
    let list = path.child("rules");
    for (index, rule) in spec.list("rules").iter().enumerate() {
        policy_rule(&list.index(index), rule, errors);
    }
}

fn policy_rule(path: &Path<'_>, rule: &Value, errors: &mut Vec<FieldError>) {
    let subjects = path.child("subjects");
    if rule.list("subjects").is_empty() {
        errors.push(FieldError::required(subjects, "subjects must contain at least one value"));
    }
    for (index, subject) in rule.list("subjects").iter().enumerate() {
        check_subject(&subjects.index(index), subject, errors);
    }
    let (resources, others) = (rule.list("resourceRules"), rule.list("nonResourceRules"));
    if resources.is_empty() && others.is_empty() {
        let detail = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.push(FieldError::required(path, detail));
    }
    let list = path.child("resourceRules");
    for (index, rule) in resources.iter().enumerate() {
        resource_rule(&list.index(index), rule, errors);
    }
    let list = path.child("nonResourceRules");
    for (index, rule) in others.iter().enumerate() {
        let path = list.index(index);
        verbs(&path, rule, errors);
        let detail = "nonResourceURLs must contain at least one value";
        texts(&path, rule, "nonResourceURLs", detail, "non-resource URLs", errors);
        let (list, urls) = (path.child("nonResourceURLs"), rule.strs("nonResourceURLs"));
        if !urls.contains(&"*") {
            for (index, url) in urls.iter().enumerate() {
                non_resource_url(&list.index(index), url, errors);
            }
        }
    }
}

/// Validates a path, whose last segment may be `*`.
fn non_resource_url(path: &Path<'_>, url: &str, errors: &mut Vec<FieldError>) {
    let is_pattern = url.contains('*');
    let detail = match url {
        "" => "must not be empty",
        "/" => return,
        _ if !url.starts_with('/') => "must start with slash",
        _ if url.contains(' ') => "must not contain white-space",
        _ if url.contains("//") => "must not contain double slash",
        _ if is_pattern && (url.matches('*').count() > 1 || !url.ends_with("/*")) => {
            "wildcard can only do suffix matching"
        }
        _ => return,
    };
    errors.push(FieldError::invalid(path, url, detail));
}

const SUBJECTS: [(&str, &str); 3] =
    [("Group", "group"), ("ServiceAccount", "serviceAccount"), ("User", "user")];

fn check_subject(path: &Path<'_>, subject: &Value, errors: &mut Vec<FieldError>) {
    let kind = subject.str("kind");
    let Some((_, field)) = SUBJECTS.iter().find(|(name, _)| *name == kind) else {
        let kinds = SUBJECTS.map(|(name, _)| name);
        errors.push(FieldError::not_supported(path.child("kind"), kind, &kinds));
        return;
    };
    let at = path.child(field);
    match subject.at(field) {
        None => {
            let detail = format!("{field} is required when subject kind is '{kind}'");
            errors.push(FieldError::required(at, detail));
        }
        Some(about) => {
            required(about, &at, "name", errors);
            if kind == "ServiceAccount" {
                service_account(&at, about, errors);
            }
        }
    }
    // Kubernetes checks the other subjects in the order of its struct.
    for name in ["ServiceAccount", "User", "Group"].into_iter().filter(|name| *name != kind) {
        let field = SUBJECTS.iter().find(|(known, _)| *known == name).map_or("", |(_, field)| field);
        if subject.has(field) {
            let detail = format!("{field} is forbidden when subject kind is not '{name}'");
            errors.push(FieldError::forbidden(path.child(field), detail));
        }
    }
}

fn service_account(path: &Path<'_>, account: &Value, errors: &mut Vec<FieldError>) {
    let name = account.str("name");
    if !matches!(name, "" | "*") {
        subdomain(&path.child("name"), name, errors);
    }
    let at = path.child("namespace");
    match account.str("namespace") {
        "" => errors.push(FieldError::required(at, "must specify namespace for service account")),
        namespace => named(&at, namespace, names::dns1123_label(namespace), errors),
    }
}

fn verbs(path: &Path<'_>, rule: &Value, errors: &mut Vec<FieldError>) {
    let given = rule.strs("verbs");
    let at = path.child("verbs");
    let shown = || Value::from(given.clone());
    if given.is_empty() {
        errors.push(FieldError::required(at, "verbs must contain at least one value"));
    } else if given.contains(&"*") {
        if given.len() > 1 {
            errors.push(FieldError::invalid(at, shown(), "if '*' is present, must not specify other verbs"));
        }
    } else if !given.iter().all(|verb| VERBS.contains(verb)) {
        errors.push(FieldError::not_supported(at, shown(), &VERBS));
    }
}

/// Validates a list that must not be empty, and that has no other item beside `*`.
fn texts(
    path: &Path<'_>,
    rule: &Value,
    field: &str,
    missing: &str,
    others: &str,
    errors: &mut Vec<FieldError>,
) {
    let given = rule.strs(field);
    let at = path.child(field);
    if given.is_empty() {
        errors.push(FieldError::required(at, missing));
    } else if given.len() > 1 && given.contains(&"*") {
        let detail = format!("if '*' is present, must not specify other {others}");
        errors.push(FieldError::invalid(at, Value::from(given), detail));
    }
}

fn resource_rule(path: &Path<'_>, rule: &Value, errors: &mut Vec<FieldError>) {
    verbs(path, rule, errors);
    let detail = "resource rules must supply at least one api group";
    texts(path, rule, "apiGroups", detail, "api groups", errors);
    let detail = "resource rules must supply at least one resource";
    texts(path, rule, "resources", detail, "resources", errors);
    let namespaces = rule.strs("namespaces");
    let at = path.child("namespaces");
    if namespaces.is_empty() {
        if !rule.bool("clusterScope") {
            let detail = "resource rules that are not cluster scoped must supply at least one namespace";
            errors.push(FieldError::required(at, detail));
        }
    } else if namespaces.contains(&"*") {
        texts(path, rule, "namespaces", "", "namespaces", errors);
    } else {
        for (index, namespace) in namespaces.iter().enumerate() {
            for message in names::dns1123_label(namespace) {
                let detail = format!("each member of this list must be '*' or a DNS-1123 label; {message}");
                errors.push(FieldError::invalid(at.index(index), *namespace, detail));
            }
        }
    }
}

fn priority_level(name: &str, spec: &Value, errors: &mut Vec<FieldError>) {
    let path = Path::new("spec");
    let kind = spec.str("type");
    if (name == "exempt") != (kind == "Exempt") {
        let detail = "must be 'Exempt' if and only if `name` is 'exempt'";
        errors.push(FieldError::invalid(path.child("type"), kind, detail));
    }
    match kind {
        "Exempt" => {
            if spec.has("limited") {
                let detail = "must be nil if the type is not Limited";
                errors.push(FieldError::forbidden(path.child("limited"), detail));
            }
            if let Some(exempt) = spec.at("exempt") {
                shares(&path.child("exempt"), exempt, errors);
                percent(&path.child("exempt"), exempt, errors);
            }
        }
        "Limited" => {
            if spec.has("exempt") {
                errors
                    .push(FieldError::forbidden(path.child("exempt"), "must be nil if the type is Limited"));
            }
            match spec.at("limited") {
                Some(limited) => check_limited(&path.child("limited"), limited, errors),
                None => {
                    let detail = "must not be empty when type is Limited";
                    errors.push(FieldError::required(path.child("limited"), detail));
                }
            }
        }
        kind => one_of(&path.child("type"), kind, &["Exempt", "Limited"], errors),
    }
}

fn shares(path: &Path<'_>, level: &Value, errors: &mut Vec<FieldError>) {
    if let Some(shares) = level.int("nominalConcurrencyShares").filter(|shares| *shares < 0) {
        let at = path.child("nominalConcurrencyShares");
        errors.push(FieldError::invalid(at, shares, "must be a non-negative integer"));
    }
}

fn percent(path: &Path<'_>, level: &Value, errors: &mut Vec<FieldError>) {
    if let Some(percent) = level.int("lendablePercent").filter(|percent| !(0..=100).contains(percent)) {
        let at = path.child("lendablePercent");
        errors.push(FieldError::invalid(at, percent, "must be between 0 and 100, inclusive"));
    }
}

fn check_limited(path: &Path<'_>, limited: &Value, errors: &mut Vec<FieldError>) {
    shares(path, limited, errors);
    let response = limited.at("limitResponse").unwrap_or(&Value::Null);
    let at = path.child("limitResponse");
    let queuing = at.child("queuing");
    match response.str("type") {
        "Reject" => {
            if response.has("queuing") {
                let detail = "must be nil if limited.limitResponse.type is not Limited";
                errors.push(FieldError::forbidden(queuing, detail));
            }
        }
        "Queue" => match response.at("queuing") {
            Some(config) => check_queuing(&queuing, config, errors),
            None => {
                let detail = "must not be empty if limited.limitResponse.type is Limited";
                errors.push(FieldError::required(queuing, detail));
            }
        },
        kind => one_of(&at.child("type"), kind, &["Queue", "Reject"], errors),
    }
    percent(path, limited, errors);
    if let Some(limit) = limited.int("borrowingLimitPercent").filter(|limit| *limit < 0) {
        let at = path.child("borrowingLimitPercent");
        errors.push(FieldError::invalid(at, limit, "if specified, must be a non-negative integer"));
    }
}

fn check_queuing(path: &Path<'_>, config: &Value, errors: &mut Vec<FieldError>) {
    let number = |name: &str| config.int(name).unwrap_or_default();
    let (queues, hand) = (number("queues"), number("handSize"));
    for (name, value) in [("queueLengthLimit", number("queueLengthLimit")), ("queues", queues)] {
        if value <= 0 {
            errors.push(FieldError::invalid(path.child(name), value, "must be positive"));
        }
    }
    if queues > QUEUES_MAX {
        let detail = format!("must not be greater than {QUEUES_MAX}");
        errors.push(FieldError::invalid(path.child("queues"), queues, detail));
    }
    if hand <= 0 {
        errors.push(FieldError::invalid(path.child("handSize"), hand, "must be positive"));
    } else if hand > queues {
        let detail = format!("should not be greater than queues ({queues})");
        errors.push(FieldError::invalid(path.child("handSize"), hand, detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn a_schema_names_its_level_and_subjects() {
        let object = json!({"metadata": {"name": "f"}, "spec": {"matchingPrecedence": 5, "rules": [{"subjects": [
            {"kind": "User", "user": {"name": "u"}, "group": {"name": "g"}}], "nonResourceRules": [{"verbs": ["get"],
            "nonResourceURLs": ["*"]}]}]}});
        let texts: Vec<String> = create("FlowSchema", &object).iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "spec.priorityLevelConfiguration.name: Required value: must reference a priority level",
                "spec.rules[0].subjects[0].group: Forbidden: group is forbidden when subject kind is not 'Group'",
            ]
        );
    }
}
