//! Rows of custom resources, from the `additionalPrinterColumns` of their CRD.

use evenkeel_schema::go;
use evenkeel_schema::json::Value;
use jiff::Timestamp;

use super::age;
use super::jsonpath::JsonPath;
use crate::Column;

/// The columns that a CRD shows after the name, each as a JSONPath and a type. A path that cannot be parsed
/// is `None` and gives empty cells.
#[derive(Debug)]
pub(super) struct CustomColumns(Vec<(Option<JsonPath>, String)>);

impl CustomColumns {
    pub(super) fn of(columns: &[Column]) -> Self {
        Self(
            columns
                .iter()
                .map(|column| (JsonPath::parse(&column.json_path).ok(), column.kind.clone()))
                .collect(),
        )
    }

    pub(super) fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let name = object.pointer("/metadata/name").cloned().unwrap_or_else(|| "".into());
        let cells = self.0.iter().map(|(path, kind)| cell(path.as_ref(), kind, object, now));
        std::iter::once(name).chain(cells).collect()
    }
}

fn cell(path: Option<&JsonPath>, kind: &str, object: &Value, now: Timestamp) -> Value {
    let found = path.and_then(|path| path.find(object).ok()).unwrap_or_default();
    match found.first() {
        Some(value) if kind == "string" => text(value).into(),
        Some(value) => typed(kind, value, now),
        None => Value::Null,
    }
}

/// Returns the cell of a column whose type is not `string`; a value of another type gives an empty cell.
fn typed(kind: &str, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        ("integer", Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => integer.into(),
            (None, Some(float)) => (float as i64).into(),
            (None, None) => Value::Null,
        },
        ("number", Value::Number(number)) => match number.as_i64() {
            // Go prints a float without a fraction as an integer.
            Some(integer) => integer.into(),
            None => value.clone(),
        },
        ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) => match (text.as_str(), age::parse(value)) {
            ("" | "null", _) => "<unknown>".into(),
            (_, Some(_)) => age::since(Some(value), now).into(),
            (_, None) => "<invalid>".into(),
        },
        _ => Value::Null,
    }
}

/// Prints a value in a column of type `string`: text without quotes, maps and lists as JSON.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone().to_string(),
        Value::Null => "<no value>".to_owned(),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (None, Some(float)) => go::float(float),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_schema::json::json;

    use super::*;

    fn check(kind: &str, path: &str, expected: Value) {
        let object = json!({"metadata": {"name": "n", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"s": "text", "i": 7, "f": 1.5, "whole": 2.0, "large": 1_234_567.5, "b": true, "o": {"k": [1]}, "bad": "no date"}});
        let column = Column { json_path: path.into(), kind: kind.into(), ..Column::default() };
        let now = "2026-01-01T00:05:00Z".parse().unwrap();
        assert_eq!(CustomColumns::of(&[column]).cells(&object, now)[1], expected, "{kind} {path}");
    }

    /// Numbers from a million on have an exponent in Go. Columns printed them plainly up to 1e21.
    #[test]
    fn cells_follow_the_type_of_the_column() {
        check("string", ".spec.s", json!("text"));
        check("string", ".spec.i", json!("7"));
        check("string", ".spec.f", json!("1.5"));
        check("string", ".spec.large", json!("1.2345675e+06"));
        check("string", ".spec.b", json!("true"));
        check("string", ".spec.o", json!(r#"{"k":[1]}"#));
        check("integer", ".spec.i", json!(7));
        check("integer", ".spec.f", json!(1));
        check("integer", ".spec.s", json!(null));
        check("number", ".spec.f", json!(1.5));
        check("boolean", ".spec.b", json!(true));
        check("boolean", ".spec.s", json!(null));
        check("date", ".metadata.creationTimestamp", json!("5m"));
        check("date", ".spec.bad", json!("<invalid>"));
        check("date", ".spec.missing", json!(null));
        check("string", ".spec.missing", json!(null));
    }
}
