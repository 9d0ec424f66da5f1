//! The scheduling constraints of a pod: affinity, tolerations, topology spread and scheduling gates.

use super::field_rules::{Seen, label, named, qualified, supported};
use crate::field::{BadValue, FieldError, Path};
use crate::json::Value;
use crate::read::Read;
use crate::{names, selector};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Validates `spec.affinity`.
pub(super) fn affinity(path: &Path<'_>, affinity: Option<&Value>, errors: &mut Vec<FieldError>) {
    let Some(affinity) = affinity else { return };
    if let Some(node) = affinity.at("nodeAffinity") {
        let path = path.child("nodeAffinity");
        if let Some(required) = node.at(REQUIRED) {
            node_selector(&path.child(REQUIRED), required, errors);
        }
        let terms = path.child(PREFERRED);
        for (index, term) in node.list(PREFERRED).iter().enumerate() {
            let path = terms.index(index);
            weight(&path, term, errors);
            let preference = term.at("preference").unwrap_or(&Value::Null);
            node_term(&path.child("preference"), preference, false, errors);
        }
    }
    for side in ["podAffinity", "podAntiAffinity"] {
        let Some(terms) = affinity.at(side) else { continue };
        let path = path.child(side);
        let list = path.child(REQUIRED);
        for (index, term) in terms.list(REQUIRED).iter().enumerate() {
            pod_term(&list.index(index), term, errors);
        }
        let list = path.child(PREFERRED);
        for (index, term) in terms.list(PREFERRED).iter().enumerate() {
            let path = list.index(index);
            weight(&path, term, errors);
            let inner = term.at("podAffinityTerm").unwrap_or(&Value::Null);
            pod_term(&path.child("podAffinityTerm"), inner, errors);
        }
    }
}

fn weight(path: &Path<'_>, term: &Value, errors: &mut Vec<FieldError>) {
    let weight = term.int("weight").unwrap_or_default();
    if !(1..=100).contains(&weight) {
        errors.push(FieldError::invalid(path.child("weight"), weight, "must be in the range 1-100"));
    }
}

/// Validates a node selector of a pod or a volume.
pub(super) fn node_selector(path: &Path<'_>, selector: &Value, errors: &mut Vec<FieldError>) {
    let terms = path.child("nodeSelectorTerms");
    if selector.list("nodeSelectorTerms").is_empty() {
        errors.push(FieldError::required(terms, "must have at least one node selector term"));
    }
    for (index, term) in selector.list("nodeSelectorTerms").iter().enumerate() {
        node_term(&terms.index(index), term, true, errors);
    }
}

fn node_term(path: &Path<'_>, term: &Value, check_values: bool, errors: &mut Vec<FieldError>) {
    let list = path.child("matchExpressions");
    for (index, requirement) in term.list("matchExpressions").iter().enumerate() {
        node_requirement(&list.index(index), requirement, check_values, errors);
    }
    let list = path.child("matchFields");
    for (index, requirement) in term.list("matchFields").iter().enumerate() {
        field_requirement(&list.index(index), requirement, errors);
    }
}

fn node_requirement(path: &Path<'_>, requirement: &Value, check_values: bool, errors: &mut Vec<FieldError>) {
    let values = requirement.strs("values");
    let at = path.child("values");
    match requirement.str("operator") {
        "In" | "NotIn" if values.is_empty() => {
            errors.push(FieldError::required(at, "must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(at, detail));
        }
        "Gt" | "Lt" if values.len() != 1 => {
            let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.push(FieldError::required(at, detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => {
            errors.push(FieldError::invalid(path.child("operator"), other, "not a valid selector operator"))
        }
    }
    qualified(&path.child("key"), requirement.str("key"), errors);
    if check_values {
        for (index, value) in values.into_iter().enumerate() {
            named(&at.index(index), value, names::label_value(value), errors);
        }
    }
}

fn field_requirement(path: &Path<'_>, requirement: &Value, errors: &mut Vec<FieldError>) {
    let values = requirement.strs("values");
    match requirement.str("operator") {
        "In" | "NotIn" if values.len() != 1 => {
            let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.push(FieldError::required(path.child("values"), detail));
        }
        "In" | "NotIn" => {}
        other => {
            errors.push(FieldError::invalid(path.child("operator"), other, "not a valid selector operator"))
        }
    }
    match requirement.str("key") {
        "metadata.name" => {
            let list = path.child("values");
            for (index, value) in values.into_iter().enumerate() {
                named(&list.index(index), value, names::dns1123_subdomain(value), errors);
            }
        }
        key => errors.push(FieldError::invalid(path.child("key"), key, "not a valid field selector key")),
    }
}

fn pod_term(path: &Path<'_>, term: &Value, errors: &mut Vec<FieldError>) {
    for field in ["labelSelector", "namespaceSelector"] {
        if let Some(value) = term.at(field) {
            errors.extend(selector::validate(&path.child(field), value));
        }
    }
    for name in term.strs("namespaces") {
        label(&path.child("namespace"), name, errors);
    }
    label_keys(path, term, errors);
    let key = term.str("topologyKey");
    if key.is_empty() {
        errors.push(FieldError::required(path.child("topologyKey"), "can not be empty"));
    }
    qualified(&path.child("topologyKey"), key, errors);
}

/// Refuses keys of `matchLabelKeys` that the selector has, too. The selector has got an expression for each of the keys
/// before, so such a key occurs twice in it. As in Kubernetes, the errors name neither list.
fn selected_keys(path: &Path<'_>, term: &Value, errors: &mut Vec<FieldError>) {
    let (keys, selector) = (term.strs("matchLabelKeys"), term.at("labelSelector"));
    let mut seen: Vec<&str> = selector.pairs("matchLabels").into_iter().map(|(key, _)| key).collect();
    for expression in selector.list("matchExpressions") {
        let key = expression.str("key");
        if let Some(index) = keys.iter().rposition(|it| *it == key).filter(|_| seen.contains(&key)) {
            let detail = "exists in both matchLabelKeys and labelSelector";
            errors.push(FieldError::invalid(path.index(index), key, detail));
        }
        seen.push(key);
    }
}

fn label_keys(path: &Path<'_>, term: &Value, errors: &mut Vec<FieldError>) {
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        let keys = term.strs(field);
        let list = path.child(field);
        if !keys.is_empty() && !term.has("labelSelector") {
            errors.push(FieldError::forbidden(list, "must not be specified when labelSelector is not set"));
        }
        for (index, key) in keys.into_iter().enumerate() {
            qualified(&list.index(index), key, errors);
        }
    }
    selected_keys(path, term, errors);
    let other = term.strs("mismatchLabelKeys");
    let list = path.child("matchLabelKeys");
    for (index, key) in term.strs("matchLabelKeys").into_iter().enumerate() {
        if other.contains(&key) {
            let detail = "exists in both matchLabelKeys and mismatchLabelKeys";
            errors.push(FieldError::invalid(list.index(index), key, detail));
        }
    }
}

/// Validates `spec.tolerations`.
pub(super) fn tolerations(path: &Path<'_>, tolerations: &[Value], errors: &mut Vec<FieldError>) {
    for (index, toleration) in tolerations.iter().enumerate() {
        let path = path.index(index);
        let (key, operator, value) =
            (toleration.str("key"), toleration.str("operator"), toleration.str("value"));
        let at = path.child("operator");
        if !key.is_empty() {
            qualified(&path.child("key"), key, errors);
        } else if operator != "Exists" {
            let detail =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(FieldError::invalid(at, operator, detail));
        }
        let effect = toleration.str("effect");
        if toleration.has("tolerationSeconds") && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(FieldError::invalid(path.child("effect"), effect, detail));
        }
        match operator {
            "" | "Equal" => {
                let wrong = names::label_value(value);
                if !wrong.is_empty() {
                    errors.push(FieldError::invalid(at, value, wrong.join(";")));
                }
            }
            "Exists" if !value.is_empty() => {
                errors.push(FieldError::invalid(
                    at,
                    value,
                    "value must be empty when `operator` is 'Exists'",
                ));
            }
            "Exists" => {}
            "Lt" | "Gt" => {
                errors.push(FieldError::not_supported(at, operator, &["Equal", "Exists", "Lt", "Gt"]));
            }
            other => errors.push(FieldError::not_supported(at, other, &["Equal", "Exists"])),
        }
        if !effect.is_empty() {
            supported(&path.child("effect"), effect, &EFFECTS, errors);
        }
    }
}

/// Validates `spec.taints` of a node.
pub(super) fn taints(path: &Path<'_>, taints: &[Value], errors: &mut Vec<FieldError>) {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (index, taint) in taints.iter().enumerate() {
        let path = path.index(index);
        let (key, value, effect) = (taint.str("key"), taint.str("value"), taint.str("effect"));
        qualified(&path.child("key"), key, errors);
        let wrong = names::label_value(value);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(path.child("value"), value, wrong.join(";")));
        }
        match effect {
            "" => errors.push(FieldError::required(path.child("effect"), "")),
            effect => supported(&path.child("effect"), effect, &EFFECTS, errors),
        }
        if seen.contains(&(effect, key)) {
            let added = taint.at("timeAdded").map_or("null".to_owned(), Value::to_string);
            let [key, value, effect] = [key, value, effect].map(Value::from);
            let printed =
                format!("{{\"Key\":{key},\"Value\":{value},\"Effect\":{effect},\"TimeAdded\":{added}}}");
            let duplicated = FieldError::duplicate(path, BadValue::Printed(printed));
            let detail = "taints must be unique by key and effect pair".to_owned();
            errors.push(FieldError { detail, ..duplicated });
        }
        seen.push((effect, key));
    }
}

/// Validates `spec.schedulingGates`.
pub(super) fn gates(path: &Path<'_>, gates: &[Value], errors: &mut Vec<FieldError>) {
    let mut seen = Seen::default();
    for (index, gate) in gates.iter().enumerate() {
        let name = gate.str("name");
        qualified(&path.index(index), name, errors);
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(path.index(index), name));
        }
    }
}

/// Validates `spec.topologySpreadConstraints`.
pub(super) fn spread(path: &Path<'_>, constraints: &[Value], errors: &mut Vec<FieldError>) {
    for (index, constraint) in constraints.iter().enumerate() {
        let path = path.index(index);
        positive(&path, constraint, "maxSkew", errors);
        let key = constraint.str("topologyKey");
        if key.is_empty() {
            errors.push(FieldError::required(path.child("topologyKey"), "can not be empty"));
        }
        let action = constraint.str("whenUnsatisfiable");
        supported(&path.child("whenUnsatisfiable"), action, &["DoNotSchedule", "ScheduleAnyway"], errors);
        let repeats =
            |other: &Value| other.str("topologyKey") == key && other.str("whenUnsatisfiable") == action;
        if constraints[index + 1..].iter().any(repeats) {
            let at = path.child("{topologyKey, whenUnsatisfiable}");
            errors.push(FieldError::duplicate(at, format!("{{{key}, {action}}}")));
        }
        if let Some(domains) = constraint.int("minDomains") {
            positive(&path, constraint, "minDomains", errors);
            if action != "DoNotSchedule" {
                let detail =
                    format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                errors.push(FieldError::invalid(path.child("minDomains"), domains, detail));
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            super::field_rules::optional_one_of(constraint, &path, field, &["Honor", "Ignore"], errors);
        }
        label_keys(&path, constraint, errors);
        if let Some(value) = constraint.at("labelSelector") {
            errors.extend(selector::validate(&path.child("labelSelector"), value));
        }
    }
}

fn positive(path: &Path<'_>, object: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let value = object.int(field).unwrap_or_default();
    if value <= 0 {
        errors.push(FieldError::invalid(path.child(field), value, "must be greater than zero"));
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn a_selector_lacks_the_keys_that_are_matched() {
        let term = |selector: Value| json!({"matchLabelKeys": ["a", "b"], "labelSelector": selector});
        let told = |selector: Value| {
            let mut errors = Vec::new();
            selected_keys(&Path::new("term"), &term(selector), &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let expression = json!({"key": "b", "operator": "In", "values": ["x"]});
        assert_eq!(told(json!({"matchExpressions": [expression]})), [""; 0]);
        assert_eq!(
            told(json!({"matchLabels": {"b": "x"}, "matchExpressions": [expression]})),
            [r#"term[1]: Invalid value: "b": exists in both matchLabelKeys and labelSelector"#]
        );
    }
}
