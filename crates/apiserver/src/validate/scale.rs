//! Validates the fields that the subresource `scale` of a custom resource reads. Every write must leave them readable.

use evenkeel_schema::field::FieldError;
use evenkeel_schema::go;
use evenkeel_schema::json::Value;

/// Validates the fields that `scale`, the declaration of the subresource, names. A write of the status cannot change
/// the spec, so it checks only the others.
pub(super) fn check(scale: &Value, object: &Value, subresource: &str, errors: &mut Vec<FieldError>) {
    if !scale.is_object() {
        return;
    }
    let path = |name: &str| scale[name].as_str().unwrap_or_default();
    if subresource != "status" {
        count(path("specReplicasPath"), object, errors);
    }
    count(path("statusReplicasPath"), object, errors);
    let selector = path("labelSelectorPath");
    if let Err(why) = find(object, selector).and_then(|found| text(selector, found)) {
        errors.push(FieldError::invalid(selector, "", why));
    }
}

/// Validates a number of replicas.
fn count(path: &str, object: &Value, errors: &mut Vec<FieldError>) {
    match find(object, path).and_then(|found| number(path, found)) {
        Err(why) => errors.push(FieldError::invalid(path, 0, why)),
        Ok(count) if count < 0 => {
            errors.push(FieldError::invalid(path, count, "should be a non-negative integer"));
        }
        Ok(count) if count > i64::from(i32::MAX) => {
            let why = format!("should be less than or equal to {}", i32::MAX);
            errors.push(FieldError::invalid(path, count, why));
        }
        Ok(_) => {}
    }
}

/// Returns the value at a path such as `.spec.replicas`, or `None` if a part of the path is absent.
fn find<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, String> {
    let mut found = object;
    let mut walked = String::new();
    for part in path.split('.').filter(|part| !part.is_empty()) {
        walked.push('.');
        walked.push_str(part);
        match found {
            Value::Null => return Ok(None),
            Value::Object(fields) => match fields.get(part) {
                Some(value) => found = value,
                None => return Ok(None),
            },
            other => return Err(mistyped(&walked, other, "map[string]interface{}")),
        }
    }
    Ok(Some(found).filter(|_| !walked.is_empty()))
}

fn number(path: &str, found: Option<&Value>) -> Result<i64, String> {
    let Some(found) = found else { return Ok(0) };
    found.as_i64().filter(|_| !found.is_f64()).ok_or_else(|| mistyped(path, found, "int64"))
}

fn text(path: &str, found: Option<&Value>) -> Result<(), String> {
    match found {
        None | Some(Value::String(_)) => Ok(()),
        Some(found) => Err(mistyped(path, found, "string")),
    }
}

/// Returns the error of Go's accessors for a value of another type.
fn mistyped(path: &str, found: &Value, expected: &str) -> String {
    let (shown, kind) = match found {
        Value::Null => ("<nil>".to_owned(), "<nil>"),
        Value::Bool(value) => (value.to_string(), "bool"),
        Value::Number(number) if number.is_f64() => (go::number(number), "float64"),
        Value::Number(number) => (number.to_string(), "int64"),
        Value::String(text) => (text.to_string(), "string"),
        Value::Array(_) => (go::text(found), "[]interface {}"),
        Value::Object(_) => (go::text(found), "map[string]interface {}"),
    };
    format!("{path} accessor error: {shown} is of the type {kind}, expected {expected}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_schema::json::json;

    fn told(object: Value, subresource: &str) -> Vec<String> {
        let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector"});
        let mut errors = Vec::new();
        check(&scale, &object, subresource, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn replicas_are_counts_and_the_selector_is_text() {
        assert_eq!(told(json!({"spec": {"replicas": 3}}), ""), [""; 0]);
        assert_eq!(
            told(json!({"spec": {"replicas": -1}, "status": {"replicas": "x", "selector": 5}}), ""),
            [
                ".spec.replicas: Invalid value: -1: should be a non-negative integer",
                ".status.replicas: Invalid value: 0: .status.replicas accessor error: x is of the type string, expected int64",
                ".status.selector: Invalid value: \"\": .status.selector accessor error: 5 is of the type int64, expected string"
            ]
        );
        assert_eq!(told(json!({"spec": {"replicas": -1}}), "status"), [""; 0]);
        assert_eq!(
            told(json!({"spec": 1}), ""),
            [
                ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: 1 is of the type int64, expected map[string]interface{}"
            ]
        );
    }
}
