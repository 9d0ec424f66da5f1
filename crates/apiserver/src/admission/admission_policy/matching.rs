//! Which requests a policy, binding or webhook matches.

use std::sync::Arc;

use evenkeel_schema::json::Value;
use evenkeel_schema::selector::LabelSelector;

use super::namespace;
use crate::ResourceInfo;
use crate::admission::plugin::{Admission, Operation};
use crate::registry::{GroupResource, built_in, storage_prefix};

/// How a request was matched.
pub(in crate::admission) struct Matched {
    /// The resource of the matching rule, which may be another version of the requested resource.
    pub(in crate::admission) info: Arc<ResourceInfo>,
}

/// Matches a request against constraints; `None` if they do not match.
pub(in crate::admission) fn matches(
    admission: &Admission<'_>,
    object: &Value,
    constraints: &Value,
) -> Option<Matched> {
    let exact = constraints["matchPolicy"] == "Exact";
    let find = |list: &str| find(admission, rules(constraints, list), exact);
    let own = || Matched { info: admission.ctx.info.clone() };
    if find("excludeResourceRules").is_some() {
        return None;
    }
    let matched = match rules(constraints, "resourceRules") {
        [] => own(),
        _ => find("resourceRules")?,
    };
    let selected = in_namespace(admission, object, &constraints["namespaceSelector"])
        && has_labels(admission, object, &constraints["objectSelector"]);
    selected.then_some(matched)
}

fn rules<'a>(constraints: &'a Value, list: &str) -> &'a [Value] {
    constraints[list].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn find(admission: &Admission<'_>, rules: &[Value], exact: bool) -> Option<Matched> {
    let info = admission.ctx.info;
    let about: Vec<&Value> = rules.iter().filter(|rule| is_about(admission, rule)).collect();
    let fits = |rule: &Value, info: &ResourceInfo| {
        lists(rule, "apiGroups", &info.group)
            && lists(rule, "apiVersions", &info.version)
            && names_resource(rule, &info.plural, &admission.ctx.path.subresource)
    };
    if about.iter().any(|rule| fits(rule, info)) {
        return Some(Matched { info: Arc::clone(info) });
    }
    if exact || about.is_empty() {
        return None;
    }
    // Searched last, because other versions of the same objects are rare.
    let custom = admission.ctx.services.registry.custom();
    let mut others = built_in().iter().chain(&custom).filter(|other| {
        other.prefix == info.prefix && (other.group != info.group || other.version != info.version)
    });
    others.find(|other| about.iter().any(|rule| fits(rule, other))).map(|info| Matched { info: info.clone() })
}

/// Whether a rule matches the operation, scope and name of a request, whatever its resource.
fn is_about(admission: &Admission<'_>, rule: &Value) -> bool {
    let operation = admission.operation.name();
    let part = &admission.ctx.path.subresource;
    let info = admission.ctx.info;
    let same_name = |rule: &Value| {
        let resources = rule["resources"].as_array().into_iter().flatten().filter_map(Value::as_str);
        resources.map(|it| it.split('/').next().unwrap_or(it)).any(|it| it == "*" || it == info.plural)
    };
    let cluster = admission.is_about(GroupResource::NAMESPACES) || namespace(admission).is_empty();
    let scope = match rule["scope"].as_str() {
        Some("Namespaced") => !cluster,
        Some("Cluster") => cluster,
        _ => true,
    };
    let names = rule["resourceNames"].as_array();
    let named = names.is_none_or(|it| it.is_empty() || it.iter().any(|it| it == admission.name));
    scope && named && lists(rule, "operations", operation) && same_name(rule) && names_part(rule, part)
}

fn lists(rule: &Value, field: &str, wanted: &str) -> bool {
    rule[field].as_array().is_some_and(|it| it.iter().any(|it| it == "*" || it == wanted))
}

fn names_part(rule: &Value, part: &str) -> bool {
    let resources = rule["resources"].as_array().into_iter().flatten().filter_map(Value::as_str);
    resources.map(|it| it.split_once('/').map_or("", |(_, part)| part)).any(|it| it == "*" || it == part)
}

fn names_resource(rule: &Value, plural: &str, part: &str) -> bool {
    let resources = rule["resources"].as_array().into_iter().flatten().filter_map(Value::as_str);
    resources
        .map(|it| it.split_once('/').unwrap_or((it, "")))
        .any(|(resource, sub)| (resource == "*" || resource == plural) && (sub == "*" || sub == part))
}

/// Whether the selector matches the namespace. Cluster-scoped objects always match.
fn in_namespace(admission: &Admission<'_>, object: &Value, selector: &Value) -> bool {
    let ctx = admission.ctx;
    let is_namespace = admission.is_about(GroupResource::NAMESPACES);
    if selector.is_null() || ctx.path.namespace.is_empty() && !is_namespace {
        return true;
    }
    let Ok(selector) = LabelSelector::from_object(selector) else { return false };
    if is_namespace && admission.operation != Operation::Delete {
        return selector.matches(|key| object["metadata"]["labels"][key].as_str());
    }
    let key = format!("{}{}", storage_prefix("", "namespaces"), namespace(admission));
    let entry = ctx.services.store.get(&key);
    entry.is_some_and(|entry| selector.matches(|key| entry.header.label(key)))
}

/// Whether the selector matches the object before or after the write.
fn has_labels(admission: &Admission<'_>, object: &Value, selector: &Value) -> bool {
    if selector.as_object().is_none_or(|it| it.is_empty()) {
        return true;
    }
    let Ok(selector) = LabelSelector::from_object(selector) else { return false };
    let takes = |object: &Value| {
        object.is_object() && selector.matches(|key| object["metadata"]["labels"][key].as_str())
    };
    takes(object) || admission.old.is_some_and(takes)
}
