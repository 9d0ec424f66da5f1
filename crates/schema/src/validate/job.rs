//! Jobs.

mod status;
mod success_policy;

use super::field_rules::{IMMUTABLE, domain_prefixed_path, immutable, non_negative, qualified, supported};
use super::pod;
use crate::field::{BadValue, FieldError, Path};
use crate::internal_structs;
use crate::json::Value;
use crate::names;
use crate::object_meta::{self, NameRule};
use crate::read::Read;
use crate::selector::{self, LabelSelector};

const INDEXED_PARALLELISM_MAX: i64 = 100_000;
const FAILED_INDEXES_MAX: i64 = 100_000;
/// The number of completions above which further limits apply.
const COMPLETIONS_MANY: i64 = 100_000;
/// The limit on parallelism and failed indexes with many completions.
const MANY_COMPLETIONS_MAX: i64 = 10_000;
const MANAGED_BY_MAX: usize = 63;
const RULES_MAX: usize = 20;
const COUNTS: [&str; 6] = [
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
];

pub(super) fn create(job: &Value) -> Vec<FieldError> {
    let mut errors = object_meta::create_builtin(job, true, NameRule::Subdomain);
    let path = Path::new("spec");
    let spec = job.at("spec").unwrap_or(&Value::Null);
    generated_selector(job, spec, &mut errors);
    self::spec(&path, spec, &mut errors);
    let name = job.at("metadata").str("name");
    let completions = spec.int("completions").unwrap_or_default();
    if spec.str("completionMode") == "Indexed" && completions > 0 {
        let hostname = format!("{name}-{}", completions - 1);
        if !names::dns1123_label(&hostname).is_empty() {
            let detail = format!("will not able to create pod with invalid DNS label: {hostname}");
            errors.push(FieldError::invalid("metadata.name", name, detail));
        }
    }
    errors
}

pub(super) fn update(new: &Value, old: &Value, subresource: &str) -> Vec<FieldError> {
    if subresource == "status" {
        let mut errors = object_meta::update_builtin(new, old);
        status::update(new, old, &mut errors);
        return errors;
    }
    // Kubernetes validates an update by the rules of creation as well, so that common errors occur twice.
    let mut errors = create(new);
    errors.extend(object_meta::update_builtin(new, old));
    let path = Path::new("spec");
    let (new, old) = (new.at("spec").unwrap_or(&Value::Null), old.at("spec").unwrap_or(&Value::Null));
    spec(&path, new, &mut errors);
    completions(&path.child("completions"), new, old, &mut errors);
    let frozen = |field: &str, kind: &str, errors: &mut Vec<FieldError>| {
        if new.at(field) != old.at(field) {
            let shown = internal_structs::bad_value(kind, new.at(field));
            errors.push(FieldError::invalid(path.child(field), shown, IMMUTABLE));
        }
    };
    frozen("selector", "*meta.LabelSelector", &mut errors);
    if !old.bool("suspend") {
        frozen("template", "core.PodTemplateSpec", &mut errors);
    } else if without_scheduling(new) != without_scheduling(old) {
        let pod = internal_structs::bad_value("core.PodSpec", new.at("template").at("spec"));
        errors.push(FieldError::invalid(path.child("template.spec"), pod, IMMUTABLE));
    }
    for (field, kind) in [
        ("completionMode", "*s"),
        ("podFailurePolicy", "*batch.PodFailurePolicy"),
        ("backoffLimitPerIndex", "*i"),
        ("managedBy", "*s"),
        ("successPolicy", "*batch.SuccessPolicy"),
    ] {
        frozen(field, kind, &mut errors);
    }
    errors
}

/// The template without the fields that may change while the job is suspended.
fn without_scheduling(spec: &Value) -> Value {
    let mut template = spec.at("template").cloned().unwrap_or(Value::Null);
    if let Some(meta) = template.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.remove("labels");
        meta.remove("annotations");
    }
    if let Some(pod) = template.get_mut("spec").and_then(Value::as_object_mut) {
        for field in ["nodeSelector", "tolerations", "schedulingGates", "affinity"] {
            pod.remove(field);
        }
        for list in ["containers", "initContainers"] {
            let containers = pod.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
            containers
                .filter_map(Value::as_object_mut)
                .for_each(|container| drop(container.remove("resources")));
        }
    }
    template
}

fn completions(path: &Path<'_>, new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    if new.str("completionMode") != "Indexed" {
        immutable(path, new.at("completions"), old.at("completions"), errors);
        return;
    }
    let (count, before) = (new.int("completions"), old.int("completions"));
    if let Some(count) = count.filter(|count| Some(*count) != before)
        && Some(count) != new.int("parallelism")
    {
        errors.push(FieldError::invalid(path, count, "can only be modified in tandem with spec.parallelism"));
    }
}

/// Validates the generated labels and the selector that consists of them.
fn generated_selector(job: &Value, spec: &Value, errors: &mut Vec<FieldError>) {
    if spec.bool("manualSelector") {
        return;
    }
    let (uid, name) = (job.at("metadata").str("uid"), job.at("metadata").str("name"));
    let labels = spec.at("template").at("metadata").at("labels");
    let path = Path::new("spec.template.metadata.labels");
    let Some(selected) = spec.at("selector") else { return };
    let expected = [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ];
    for (key, value) in expected {
        match labels.at(key).and_then(Value::as_str) {
            Some(found) if found == value => {}
            Some(_) => {
                let shown = labels.cloned().unwrap_or(Value::Null);
                errors.push(FieldError::invalid(path.key(key), shown, format!("must be '{value}'")));
            }
            None => errors.push(FieldError::required(path.key(key), format!("must be '{value}'"))),
        }
    }
    let chosen = |key: &str| expected.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
    if LabelSelector::from_object(selected).is_ok_and(|selector| !selector.matches(chosen)) {
        errors.push(FieldError::invalid("spec.selector", selected, "`selector` not auto-generated"));
    }
}

fn spec(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    without_selector(path, spec, errors);
    let at = path.child("selector");
    match spec.at("selector") {
        None => errors.push(FieldError::required(at, "")),
        Some(value) => errors.extend(selector::validate(&at, value)),
    }
    if let Ok(selector) = LabelSelector::from_object(spec.at("selector").unwrap_or(&Value::Null)) {
        let labels = spec.at("template").at("metadata").at("labels");
        if !selector.matches(|key| labels.at(key).and_then(Value::as_str)) {
            let shown = labels.cloned().unwrap_or(Value::Null);
            let detail = "`selector` does not match template `labels`";
            errors.push(FieldError::invalid(path.child("template.metadata.labels"), shown, detail));
        }
    }
}

/// Validates the spec of a job, or of a job template, which has no selector.
pub(super) fn without_selector(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    for field in COUNTS {
        non_negative(spec, path, field, errors);
    }
    if spec.has("maxFailedIndexes") {
        non_negative(spec, path, "maxFailedIndexes", errors);
        if !spec.has("backoffLimitPerIndex") {
            let detail = "when maxFailedIndexes is specified";
            errors.push(FieldError::required(path.child("backoffLimitPerIndex"), detail));
        }
    }
    if let Some(manager) = spec.at("managedBy").and_then(Value::as_str) {
        managed_by(&path.child("managedBy"), manager, errors);
    }
    completion_mode(path, spec, errors);
    if let Some(policy) = spec.at("podFailurePolicy") {
        failure_policy(&path.child("podFailurePolicy"), spec, policy, errors);
    }
    if let Some(policy) = spec.at("successPolicy") {
        success_policy::check(&path.child("successPolicy"), spec, policy, errors);
    }
    replacement_policy(&path.child("podReplacementPolicy"), spec, errors);
    let template = spec.at("template").unwrap_or(&Value::Null);
    let at = path.child("template");
    pod::template(&at, template, errors);
    restart_policy(&at.child("spec.restartPolicy"), spec, template, errors);
}

/// Validates the name of another controller that manages the job: a domain and a path.
fn managed_by(path: &Path<'_>, manager: &str, errors: &mut Vec<FieldError>) {
    domain_prefixed_path(path, manager, errors);
    if manager.len() > MANAGED_BY_MAX {
        errors.push(FieldError::too_long(path, MANAGED_BY_MAX));
    }
}

fn completion_mode(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    if let Some(mode) = spec.at("completionMode").and_then(Value::as_str)
        && !matches!(mode, "NonIndexed" | "Indexed")
    {
        let printed = BadValue::Printed(Value::from(mode).to_string());
        errors.push(FieldError::not_supported(
            path.child("completionMode"),
            printed,
            &["NonIndexed", "Indexed"],
        ));
    }
    match spec.at("completionMode").and_then(Value::as_str) {
        Some("Indexed") => {
            if !spec.has("completions") {
                let detail = "when completion mode is Indexed";
                errors.push(FieldError::required(path.child("completions"), detail));
            }
            if let Some(count) = spec.int("parallelism").filter(|count| *count > INDEXED_PARALLELISM_MAX) {
                let detail = format!(
                    "must be less than or equal to {INDEXED_PARALLELISM_MAX} when completion mode is Indexed"
                );
                errors.push(FieldError::invalid(path.child("parallelism"), count, detail));
            }
            let (failed, completions) = (spec.int("maxFailedIndexes"), spec.int("completions"));
            if let (Some(failed), Some(completions)) = (failed, completions)
                && failed > completions
            {
                let detail = "must be less than or equal to completions";
                errors.push(FieldError::invalid(path.child("maxFailedIndexes"), failed, detail));
            }
            if let Some(failed) = failed.filter(|failed| *failed > FAILED_INDEXES_MAX) {
                let detail = format!("must be less than or equal to {FAILED_INDEXES_MAX}");
                errors.push(FieldError::invalid(path.child("maxFailedIndexes"), failed, detail));
            }
            if spec.has("backoffLimitPerIndex")
                && completions.is_some_and(|completions| completions > COMPLETIONS_MANY)
            {
                many_completions(path, spec, errors);
            }
        }
        None | Some("NonIndexed") => {
            for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if let Some(value) = spec.int(field) {
                    errors.push(FieldError::invalid(
                        path.child(field),
                        value,
                        "requires indexed completion mode",
                    ));
                }
            }
        }
        _ => {}
    }
}

/// Validates an indexed Job with a back-off limit per index and very many completions, whose status could become too
/// large.
fn many_completions(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    if !spec.has("maxFailedIndexes") {
        let detail = format!("must be specified when completions is above {COMPLETIONS_MANY}");
        errors.push(FieldError::required(path.child("maxFailedIndexes"), detail));
    }
    for field in ["parallelism", "maxFailedIndexes"] {
        if let Some(value) = spec.int(field).filter(|value| *value > MANY_COMPLETIONS_MAX) {
            let detail = format!(
                "must be less than or equal to {MANY_COMPLETIONS_MAX} when completions are above {COMPLETIONS_MANY} and used with backoff limit per index"
            );
            errors.push(FieldError::invalid(path.child(field), value, detail));
        }
    }
}

fn failure_policy(path: &Path<'_>, spec: &Value, policy: &Value, errors: &mut Vec<FieldError>) {
    let rules = path.child("rules");
    if policy.list("rules").len() > RULES_MAX {
        errors.push(FieldError::too_many(rules, policy.list("rules").len(), RULES_MAX));
    }
    for (index, rule) in policy.list("rules").iter().enumerate() {
        let path = rules.index(index);
        let at = path.child("action");
        match rule.str("action") {
            "" => {
                let detail = "valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]";
                errors.push(FieldError::required(at, detail));
            }
            "FailIndex" if !spec.has("backoffLimitPerIndex") => {
                errors.push(FieldError::invalid(
                    at,
                    "FailIndex",
                    "requires the backoffLimitPerIndex to be set",
                ));
            }
            action => supported(&at, action, &["Count", "FailIndex", "FailJob", "Ignore"], errors),
        }
        let (codes, conditions) = (rule.at("onExitCodes"), rule.list("onPodConditions"));
        if let Some(codes) = codes {
            exit_codes(&path.child("onExitCodes"), spec, codes, errors);
        }
        let list = path.child("onPodConditions");
        for (index, condition) in conditions.iter().enumerate() {
            let at = list.index(index);
            qualified(&at.child("type"), condition.str("type"), errors);
            match condition.str("status") {
                "" => {
                    let detail = "valid values: [\"False\" \"True\" \"Unknown\"]";
                    errors.push(FieldError::required(at.child("status"), detail));
                }
                status => supported(&at.child("status"), status, &["False", "True", "Unknown"], errors),
            }
        }
        let detail = match (codes.is_some(), conditions.is_empty()) {
            (true, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
            (false, true) => "specifying one of OnExitCodes and OnPodConditions is required",
            _ => continue,
        };
        errors.push(FieldError::invalid(path, BadValue::Omitted, detail));
    }
}

fn exit_codes(path: &Path<'_>, spec: &Value, codes: &Value, errors: &mut Vec<FieldError>) {
    let operator = codes.str("operator");
    if operator.is_empty() {
        errors.push(FieldError::required(path.child("operator"), "valid values: [\"In\" \"NotIn\"]"));
    } else {
        supported(&path.child("operator"), operator, &["In", "NotIn"], errors);
    }
    let pod = spec.at("template").at("spec");
    let container = codes.at("containerName").and_then(Value::as_str);
    let known = || pod.list("containers").iter().chain(pod.list("initContainers"));
    if let Some(container) = container.filter(|name| !known().any(|known| known.str("name") == *name)) {
        let printed = BadValue::Printed(Value::from(container).to_string());
        let detail = "must be one of the container or initContainer names in the pod template";
        errors.push(FieldError::invalid(path.child("containerName"), printed, detail));
    }
    let list = path.child("values");
    let values: Vec<i64> = codes.list("values").iter().filter_map(Value::as_i64).collect();
    if values.is_empty() {
        let shown = codes.at("values").cloned().unwrap_or(Value::Null);
        errors.push(FieldError::invalid(list, shown, "at least one value is required"));
    }
    for (index, value) in values.iter().enumerate() {
        if *value == 0 && operator == "In" {
            errors.push(FieldError::invalid(list.index(index), *value, "must not be 0 for the In operator"));
        }
        if values[..index].contains(value) {
            errors.push(FieldError::duplicate(list.index(index), *value));
        }
    }
    if values.windows(2).any(|pair| pair[0] > pair[1]) {
        errors.push(FieldError::invalid(list, Value::from(values), "must be ordered"));
    }
}

fn replacement_policy(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    let Some(policy) = spec.at("podReplacementPolicy").and_then(Value::as_str) else { return };
    let allowed: &[&str] =
        if spec.has("podFailurePolicy") { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    supported(path, policy, allowed, errors);
}

fn restart_policy(path: &Path<'_>, spec: &Value, template: &Value, errors: &mut Vec<FieldError>) {
    match template.at("spec").str("restartPolicy") {
        "" | "Always" => errors.push(FieldError::required(path, "valid values: \"OnFailure\", \"Never\"")),
        policy @ ("OnFailure" | "Never") => {
            if policy == "OnFailure" && spec.has("podFailurePolicy") {
                let detail = "only \"Never\" is supported when podFailurePolicy is specified";
                errors.push(FieldError::invalid(path, policy, detail));
            }
        }
        other => errors.push(FieldError::not_supported(path, other, &["OnFailure", "Never"])),
    }
}
