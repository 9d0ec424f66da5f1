//! Compares two objects that should be equal.

use std::fmt;

use serde_json::Value;

/// What happened to a field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Change {
    /// The field is gone.
    Lost,
    /// The field has another value.
    Changed,
    /// The field was not there before.
    Added,
    /// A conversion failed with this error.
    Failed(String),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost => f.write_str("loses"),
            Self::Changed => f.write_str("changes"),
            Self::Added => f.write_str("adds"),
            Self::Failed(why) => write!(f, "fails: {why}"),
        }
    }
}

/// A field that differs between two objects.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Difference {
    /// The path of the field.
    pub(crate) field: String,
    pub(crate) change: Change,
}

impl Difference {
    /// Identifies equivalent differences: those in other items of a list, and those with other texts of an error.
    pub(super) fn kind(&self) -> (String, u8) {
        let mut field = String::new();
        let mut in_index = false;
        for c in self.field.chars() {
            match c {
                '[' => in_index = true,
                ']' => in_index = false,
                _ if in_index => continue,
                _ => {}
            }
            field.push(c);
        }
        let change = match self.change {
            Change::Lost => 0,
            Change::Changed => 1,
            Change::Added => 2,
            Change::Failed(_) => 3,
        };
        (field, change)
    }
}

/// Returns the outermost fields that differ between two objects. Null and empty lists or maps mean the same as absence,
/// as in Kubernetes. Of the metadata only labels and annotations are compared, and new ones may be added.
pub(crate) fn differences(before: &Value, after: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    walk(before, after, String::new(), &mut found);
    found.retain(|difference| match difference.field.strip_prefix("metadata.") {
        Some(rest) => {
            let compared = rest.starts_with("labels") || rest.starts_with("annotations");
            compared && difference.change != Change::Added
        }
        None => true,
    });
    found
}

fn walk(before: &Value, after: &Value, field: String, found: &mut Vec<Difference>) {
    match (before, after) {
        (before, after) if is_blank(before) && is_blank(after) => {}
        (before, _) if is_blank(before) => found.push(Difference { field, change: Change::Added }),
        (_, after) if is_blank(after) && field != "metadata" => {
            found.push(Difference { field, change: Change::Lost });
        }
        (Value::Object(before), Value::Object(after)) => {
            let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let path = if field.is_empty() { name.clone() } else { format!("{field}.{name}") };
                let of =
                    |fields: &serde_json::Map<String, Value>| fields.get(name).cloned().unwrap_or_default();
                walk(&of(before), &of(after), path, found);
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (at, (before, after)) in before.iter().zip(after).enumerate() {
                walk(before, after, format!("{field}[{at}]"), found);
            }
        }
        (Value::Number(before), Value::Number(after)) if before.as_f64() == after.as_f64() => {}
        (before, after) if before == after => {}
        _ => found.push(Difference { field, change: Change::Changed }),
    }
}

fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_outermost_fields_are_named() {
        let before = json!({
            "metadata": {"name": "a", "labels": {"l": "1"}},
            "spec": {"a": {"b": 1}, "list": [{"x": 1}, {"x": 2}], "same": 1, "none": null},
        });
        let after = json!({
            "metadata": {"name": "a", "annotations": {"kept": "x"}},
            "spec": {"list": [{"x": 1}, {"x": 3}], "same": 1.0, "new": true, "empty": {}},
        });
        let found: Vec<String> = differences(&before, &after)
            .iter()
            .map(|difference| format!("{} {}", difference.change, difference.field))
            .collect();
        assert_eq!(
            found,
            ["loses metadata.labels", "loses spec.a", "changes spec.list[1].x", "adds spec.new"]
        );
        let item = |field: &str| Difference { field: field.into(), change: Change::Lost };
        assert_eq!(item("spec.list[1].x").kind(), item("spec.list[20].x").kind());
    }
}
