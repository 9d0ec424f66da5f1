//! How the capacity of a device may be shared: the request policies of devices that allow several allocations.

use super::{each, unique};
use crate::field::{FieldError, Path};
use crate::json::Value;
use crate::quantity::Quantity;
use crate::read::Read;

const VALUES_MAX: usize = 10;

/// Validates a capacity. `is_shared` says whether the device allows several allocations.
pub(super) fn check(path: &Path<'_>, capacity: &Value, is_shared: bool, errors: &mut Vec<FieldError>) {
    let Some(policy) = capacity.at("requestPolicy") else { return };
    let path = path.child("requestPolicy");
    if !is_shared {
        errors.push(FieldError::forbidden(path, "allowMultipleAllocations must be true"));
        return;
    }
    let (values, range) = (policy.list("validValues"), policy.at("validRange"));
    let field = match (values.is_empty(), range) {
        (false, Some(_)) => {
            let detail = r#"exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time"#;
            errors.push(FieldError::forbidden(path, detail));
            return;
        }
        (false, None) => "validValues",
        (true, Some(_)) => "validRange",
        (true, None) => return,
    };
    let Some(default) = quantity(policy, "default") else {
        let detail = format!("required when {field} is defined");
        errors.push(FieldError::required(path.child("default"), detail));
        return;
    };
    let max = quantity(capacity, "value").unwrap_or_default();
    match range {
        None => valid_values(&path.child(field), values, &default, &max, errors),
        Some(range) => valid_range(&path.child(field), range, &default, &max, errors),
    }
}

fn quantity(object: &Value, field: &str) -> Option<Quantity> {
    object.at(field).map(|value| Quantity::from_json(value).unwrap_or_default())
}

fn valid_values(
    path: &Path<'_>,
    values: &[Value],
    default: &Quantity,
    max: &Quantity,
    errors: &mut Vec<FieldError>,
) {
    let read = |value: &Value| Quantity::from_json(value).unwrap_or_default();
    let amounts: Vec<Quantity> = values.iter().map(read).collect();
    for (index, pair) in amounts.windows(2).enumerate() {
        if pair[0] > pair[1] {
            let detail = "values must be sorted in ascending order";
            errors.push(FieldError::invalid(path.index(index + 1), pair[1].to_string(), detail));
        }
    }
    let fits = each(path, values, VALUES_MAX, errors, |at, value, errors| {
        let amount = read(value);
        if amount > *max {
            let detail = format!("option is larger than capacity value: {max}");
            errors.push(FieldError::invalid(at, amount.to_string(), detail));
        }
    });
    if fits {
        unique(path, values, |value| read(value).value().to_string(), errors);
    }
    if !fits || !amounts.contains(default) {
        let detail = "default value is not valid according to the requestPolicy";
        errors.push(FieldError::invalid(path, default.to_string(), detail));
    }
}

fn valid_range(
    path: &Path<'_>,
    range: &Value,
    default: &Quantity,
    max: &Quantity,
    errors: &mut Vec<FieldError>,
) {
    let [low, high, step] = ["min", "max", "step"].map(|field| quantity(range, field));
    let Some(low) = low else {
        errors.push(FieldError::required(path.child("min"), "required when validRange is defined"));
        return;
    };
    let mut refuse = |wrong: bool, field: &str, value: &Quantity, detail: String| {
        if wrong {
            errors.push(FieldError::invalid(path.child(field), value.to_string(), detail));
        }
    };
    refuse(low > *max, "min", &low, format!("min is larger than capacity value: {max}"));
    refuse(*default < low, "min", default, format!("default is less than min: {low}"));
    if let Some(high) = &high {
        refuse(low > *high, "max", &low, format!("min is larger than max: {high}"));
        refuse(high > max, "max", high, format!("max is larger than capacity value: {max}"));
        refuse(default > high, "max", default, format!("default is more than max: {high}"));
    }
    let Some(step) = step else { return };
    let first = low.clone() + step.clone();
    let detail = format!("one step {first} is larger than capacity value: {max}");
    refuse(first > *max, "step", &step, detail);
    for value in [Some(default), high.as_ref()].into_iter().flatten() {
        let distance = value.value().wrapping_sub(low.value());
        let detail = format!("value is not a multiple of a given step ({step}) from ({low})");
        refuse(distance.checked_rem(step.value()).is_none_or(|rest| rest != 0), "step", value, detail);
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    fn told(policy: Value, is_shared: bool) -> Vec<String> {
        let mut errors = Vec::new();
        let capacity = json!({"value": "10Gi", "requestPolicy": policy});
        check(&Path::new("memory"), &capacity, is_shared, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn only_shared_devices_have_a_policy() {
        let policy = json!({"default": "1Gi", "validValues": ["1Gi", "2Gi"]});
        assert_eq!(told(policy.clone(), true), [""; 0]);
        assert_eq!(
            told(policy, false),
            ["memory.requestPolicy: Forbidden: allowMultipleAllocations must be true"]
        );
        assert_eq!(
            told(json!({"validValues": ["1Gi"], "validRange": {"min": "1Gi"}}), true),
            [
                r#"memory.requestPolicy: Forbidden: exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time"#
            ]
        );
        assert_eq!(
            told(json!({"validRange": {"min": "1Gi"}}), true),
            ["memory.requestPolicy.default: Required value: required when validRange is defined"]
        );
    }

    #[test]
    fn valid_values_are_sorted_different_and_within_the_capacity() {
        assert_eq!(
            told(json!({"default": "3Gi", "validValues": ["2Gi", "1Gi", "1Gi", "11Gi"]}), true),
            [
                r#"memory.requestPolicy.validValues[1]: Invalid value: "1Gi": values must be sorted in ascending order"#,
                r#"memory.requestPolicy.validValues[3]: Invalid value: "11Gi": option is larger than capacity value: 10Gi"#,
                r#"memory.requestPolicy.validValues[2]: Duplicate value: "1073741824""#,
                r#"memory.requestPolicy.validValues: Invalid value: "3Gi": default value is not valid according to the requestPolicy"#
            ]
        );
    }

    #[test]
    fn a_range_holds_the_default_and_whole_steps() {
        assert_eq!(
            told(json!({"default": "3", "validRange": {"min": "1", "max": "5", "step": "2"}}), true),
            [""; 0]
        );
        assert_eq!(
            told(json!({"default": "6", "validRange": {"min": "1", "max": "4", "step": "2"}}), true),
            [
                r#"memory.requestPolicy.validRange.max: Invalid value: "6": default is more than max: 4"#,
                r#"memory.requestPolicy.validRange.step: Invalid value: "6": value is not a multiple of a given step (2) from (1)"#,
                r#"memory.requestPolicy.validRange.step: Invalid value: "4": value is not a multiple of a given step (2) from (1)"#
            ]
        );
    }
}
