//! StatefulSets.

use super::{always_restarts, check_selector, matching, print_rolling, print_strategy};
use crate::field::{FieldError, Path};
use crate::json::Value;
use crate::object_meta;
use crate::read::Read;
use crate::selector;
use crate::validate::field_rules::{label, non_negative, supported};
use crate::validate::{persistentvolumeclaim, pod};

pub(super) fn stateful_set(path: &Path<'_>, spec: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    match spec.str("podManagementPolicy") {
        "" => errors.push(FieldError::required(path.child("podManagementPolicy"), "")),
        "OrderedReady" | "Parallel" => {}
        other => {
            let detail = "must be 'OrderedReady' or 'Parallel'";
            errors.push(FieldError::invalid(path.child("podManagementPolicy"), other, detail));
        }
    }
    stateful_strategy(
        &path.child("updateStrategy"),
        spec.at("updateStrategy").unwrap_or(&Value::Null),
        errors,
    );
    if let Some(policy) = spec.at("persistentVolumeClaimRetentionPolicy") {
        let path = path.child("persistentVolumeClaimRetentionPolicy");
        for field in ["whenDeleted", "whenScaled"] {
            supported(&path.child(field), policy.str(field), &["Retain", "Delete"], errors);
        }
    }
    let claims = path.child("volumeClaimTemplates");
    for (index, claim) in spec.list("volumeClaimTemplates").iter().enumerate().filter(|_| old.is_none()) {
        let at = claims.index(index);
        persistentvolumeclaim::spec(&at.child("spec"), claim.at("spec").unwrap_or(&Value::Null), errors);
    }
    non_negative(spec, path, "replicas", errors);
    non_negative(spec, path, "minReadySeconds", errors);
    if let Some(start) = spec.at("ordinals").int("start").filter(|start| *start < 0) {
        errors.push(FieldError::invalid(
            path.child("ordinals.start"),
            start,
            "must be greater than or equal to 0",
        ));
    }
    let service = spec.str("serviceName");
    if !service.is_empty() && old.is_none() {
        label(&path.child("serviceName"), service, errors);
    }
    check_selector(path, spec, "statefulset", errors);
    let template = with_claims(spec);
    let at = path.child("template");
    if matching(&at, spec, &template, "", errors) {
        pod::template(&at, &template, errors);
        // Kubernetes validates these twice.
        let meta = template.at("metadata").unwrap_or(&Value::Null);
        selector::validate_labels(&at.child("labels"), meta.at("labels").unwrap_or(&Value::Null), errors);
        object_meta::annotations(&at.child("annotations"), meta, errors);
    }
    always_restarts(&at, &template, "StatefulSet", errors);
}

/// The template with a volume for each of its volume claim templates.
fn with_claims(spec: &Value) -> Value {
    let mut template = spec.at("template").cloned().unwrap_or(Value::Null);
    let claims: Vec<&str> =
        spec.list("volumeClaimTemplates").iter().map(|claim| claim.at("metadata").str("name")).collect();
    let Some(Value::Object(pod)) = template.get_mut("spec") else { return template };
    pod.remove("subdomain");
    pod.remove("hostname");
    if !claims.is_empty() {
        let own = pod.get("volumes").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut volumes: Vec<Value> = claims
            .iter()
            .map(|name| crate::json::json!({"name": name, "persistentVolumeClaim": {"claimName": name}}))
            .collect();
        volumes.extend(own.into_iter().filter(|volume| !claims.contains(&volume.str("name"))));
        pod.insert("volumes".into(), Value::Array(volumes.into()));
    }
    template
}

fn stateful_strategy(path: &Path<'_>, strategy: &Value, errors: &mut Vec<FieldError>) {
    let rolling = strategy.at("rollingUpdate");
    match strategy.str("type") {
        "" => errors.push(FieldError::required(path, "")),
        "OnDelete" => {
            if let Some(rolling) = rolling {
                let detail = "only allowed for updateStrategy 'RollingUpdate'";
                let printed = print_rolling(rolling);
                errors.push(FieldError::invalid(path.child("rollingUpdate"), printed, detail));
            }
        }
        "RollingUpdate" => {
            if let Some(rolling) = rolling {
                non_negative(rolling, &path.child("rollingUpdate"), "partition", errors);
            }
        }
        _ => {
            let detail = "must be 'RollingUpdate' or 'OnDelete'";
            errors.push(FieldError::invalid(path, print_strategy(strategy), detail));
        }
    }
}

pub(super) fn stateful_set_update(path: &Path<'_>, new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    const CHANGEABLE: [&str; 7] = [
        "replicas",
        "template",
        "updateStrategy",
        "minReadySeconds",
        "ordinals",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
    ];
    let frozen = |object: &Value| {
        let mut spec = object.at("spec").cloned().unwrap_or(Value::Null);
        for field in CHANGEABLE {
            spec.as_object_mut().map(|fields| fields.remove(field));
        }
        spec
    };
    if frozen(new) != frozen(old) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        errors.push(FieldError::forbidden(path, detail));
    }
}
