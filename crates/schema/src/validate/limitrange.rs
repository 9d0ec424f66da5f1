//! LimitRanges: the names of their resources, and the consistency of their bounds.

use std::collections::BTreeSet;

use super::field_rules::qualified;
use super::resources::{container_resource_name, resource_name};
use crate::field::{BadValue, FieldError, Path};
use crate::json::Value;
use crate::quantity::{Format, Quantity};
use crate::read::Read;
use crate::resource_names::may_overcommit;

const TYPES: [&str; 3] = ["Pod", "Container", "PersistentVolumeClaim"];

pub(super) fn check(object: &Value, errors: &mut Vec<FieldError>) {
    let spec = Path::new("spec");
    let list = spec.child("limits");
    let limits = object.at("spec").list("limits");
    for (index, limit) in limits.iter().enumerate() {
        let path = list.index(index);
        let kind = limit.str("type");
        type_name(&path.child("type"), kind, errors);
        if limits[..index].iter().any(|other| other.str("type") == kind) {
            errors.push(FieldError::duplicate(path.child("type"), kind));
        }
        let names = names(&path, limit, errors);
        for name in names {
            Bounds::of(limit, name).check(&path, name, errors);
        }
    }
}

fn type_name(path: &Path<'_>, kind: &str, errors: &mut Vec<FieldError>) {
    let before = errors.len();
    qualified(path, kind, errors);
    if errors.len() == before && !kind.contains('/') && !TYPES.contains(&kind) {
        errors.push(FieldError::invalid(path, kind, "must be a standard limit type or fully qualified"));
    }
}

/// Validates the names of all resources. Returns each name once.
fn names<'a>(path: &Path<'_>, limit: &'a Value, errors: &mut Vec<FieldError>) -> BTreeSet<&'a str> {
    let kind = limit.str("type");
    let mut all = BTreeSet::new();
    let mut add = |field: &str, errors: &mut Vec<FieldError>| {
        let list = path.child(field);
        for (name, _) in limit.map(field).into_iter().flatten() {
            match kind {
                "Pod" | "Container" => container_resource_name(&list.key(name), name, errors),
                _ => resource_name(&list.key(name), name, errors),
            }
            all.insert(name.as_str());
        }
    };
    add("max", errors);
    add("min", errors);
    for field in ["default", "defaultRequest"] {
        if kind != "Pod" {
            add(field, errors);
        } else if limit.map(field).is_some_and(|entries| !entries.is_empty()) {
            errors
                .push(FieldError::forbidden(path.child(field), "may not be specified when `type` is 'Pod'"));
        }
    }
    let stores = |field: &str| limit.at(field).has("storage");
    if kind == "PersistentVolumeClaim" && !stores("min") && !stores("max") {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        errors.push(FieldError::required(path.child("limits"), detail));
    }
    add("maxLimitRequestRatio", errors);
    all
}

/// The bounds of one resource.
struct Bounds {
    min: Option<Quantity>,
    max: Option<Quantity>,
    default: Option<Quantity>,
    default_request: Option<Quantity>,
    ratio: Option<Quantity>,
}

impl Bounds {
    fn of(limit: &Value, name: &str) -> Self {
        let get = |field: &str| limit.at(field).at(name).and_then(|value| Quantity::from_json(value).ok());
        // Limits of the type `Pod` cannot have defaults; that is an error of its own.
        let defaults = limit.str("type") != "Pod";
        Self {
            min: get("min"),
            max: get("max"),
            default: get("default").filter(|_| defaults),
            default_request: get("defaultRequest").filter(|_| defaults),
            ratio: get("maxLimitRequestRatio"),
        }
    }

    fn check(&self, path: &Path<'_>, name: &str, errors: &mut Vec<FieldError>) {
        let mut refuse = |field: &str, value: &Quantity, detail: String| {
            let at = path.child(field);
            let printed = BadValue::Printed(Value::from(value.to_string()).to_string());
            errors.push(FieldError::invalid(at.key(name), printed, detail));
        };
        let Self { min, max, default, default_request: request, ratio } = self;
        if let Some((min, max)) = exceeds(min, max) {
            refuse("min", min, format!("min value {min} is greater than max value {max}"));
        }
        if let Some((min, request)) = exceeds(min, request) {
            let detail = format!("min value {min} is greater than default request value {request}");
            refuse("defaultRequest", request, detail);
        }
        if let Some((request, max)) = exceeds(request, max) {
            let detail = format!("default request value {request} is greater than max value {max}");
            refuse("defaultRequest", request, detail);
        }
        if let Some((request, default)) = exceeds(request, default) {
            let detail =
                format!("default request value {request} is greater than default limit value {default}");
            refuse("defaultRequest", request, detail);
        }
        if let Some((min, default)) = exceeds(min, default) {
            refuse("default", min, format!("min value {min} is greater than default value {default}"));
        }
        if let Some((default, max)) = exceeds(default, max) {
            refuse("default", max, format!("default value {default} is greater than max value {max}"));
        }
        if let Some(ratio) = ratio.as_ref().filter(|ratio| **ratio < one()) {
            refuse("maxLimitRequestRatio", ratio, format!("ratio {ratio} is less than 1"));
        }
        if let (Some(ratio), Some(min), Some(max)) = (ratio, min, max) {
            // Large amounts are compared in whole units.
            let is_large = [ratio, min, max].iter().any(|it| it.value_in_64_bits() >= i64::MAX / 1000);
            let (given, limit) = match is_large {
                true => {
                    let limit = max.value_in_64_bits() as f64 / min.value_in_64_bits() as f64;
                    (ratio.value_in_64_bits() as f64, limit)
                }
                false => {
                    let limit = max.milli_in_64_bits() as f64 / min.milli_in_64_bits() as f64;
                    (ratio.milli_in_64_bits() as f64 / 1000.0, limit)
                }
            };
            if given > limit {
                let detail = format!("ratio {ratio} is greater than max/min = {limit:.6}");
                refuse("maxLimitRequestRatio", ratio, detail);
            }
        }
        if let (Some(default), Some(request), false) = (default, request, may_overcommit(name))
            && default != request
        {
            let detail =
                format!("default value {default} must equal to defaultRequest value {request} in {name}");
            refuse("defaultRequest", request, detail);
        }
    }
}

/// Both quantities, if the first exceeds the second.
fn exceeds<'a>(a: &'a Option<Quantity>, b: &'a Option<Quantity>) -> Option<(&'a Quantity, &'a Quantity)> {
    a.as_ref().zip(b.as_ref()).filter(|(a, b)| a > b)
}

fn one() -> Quantity {
    Quantity::new(1, Format::DecimalSi)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn errors(limits: Value) -> Vec<String> {
        let mut errors = Vec::new();
        check(&json!({"spec": {"limits": limits}}), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn bounds_agree() {
        let limit = json!({"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"},
            "default": {"cpu": "500m"}, "maxLimitRequestRatio": {"cpu": "2"}});
        assert_eq!(
            errors(json!([limit])),
            [
                "spec.limits[0].min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1",
                "spec.limits[0].default[cpu]: Invalid value: \"2\": min value 2 is greater than default value 500m",
                "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"2\": ratio 2 is greater than max/min = 0.500000"
            ]
        );
    }

    #[test]
    fn types_are_known_and_come_once() {
        assert_eq!(
            errors(json!([{"type": "Foo"}, {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}},
                {"type": "PersistentVolumeClaim"}, {"type": "Pod", "default": {"cpu": "1"}}])),
            [
                "spec.limits[0].type: Invalid value: \"Foo\": must be a standard limit type or fully qualified",
                "spec.limits[2].type: Duplicate value: \"PersistentVolumeClaim\"",
                "spec.limits[2].limits: Required value: either minimum or maximum storage value is required, but neither was provided",
                "spec.limits[3].default: Forbidden: may not be specified when `type` is 'Pod'"
            ]
        );
    }
}
