//! Finds the smallest object that still shows a problem.

use serde_json::Value;

use super::generate::may_require;

/// A step from an object to one of its fields or items.
#[derive(Clone, Debug)]
enum Step {
    Field(String),
    Item(usize),
}

/// A way to make an object smaller.
#[derive(Clone, Debug)]
struct Cut {
    path: Vec<Step>,
    /// The default that replaces the value. Without one, the value is removed.
    default: Option<Value>,
}

/// Removes optional fields, items and entries, and sets others to their defaults, as long as `shows` holds. Tries the
/// outermost first.
pub(super) fn smallest(object: &Value, schema: &Value, shows: impl Fn(&Value) -> bool) -> Value {
    let mut smallest = object.clone();
    loop {
        let mut candidates = cuts(&smallest, schema).into_iter().map(|cut| cut.applied(&smallest));
        match candidates.find(|candidate| shows(candidate)) {
            Some(smaller) => smallest = smaller,
            None => return smallest,
        }
    }
}

/// Returns all ways to make an object smaller, the outermost first.
fn cuts(object: &Value, schema: &Value) -> Vec<Cut> {
    let mut found = Vec::new();
    collect(object, schema, &mut Vec::new(), &mut found);
    found.sort_by_key(|cut| cut.path.len());
    found
}

fn collect(value: &Value, schema: &Value, path: &mut Vec<Step>, found: &mut Vec<Cut>) {
    let at_root = path.is_empty();
    let in_metadata = matches!(path.as_slice(), [Step::Field(name)] if name == "metadata");
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let given = (at_root && matches!(name.as_str(), "apiVersion" | "kind" | "metadata"))
                    || (in_metadata && matches!(name.as_str(), "name" | "namespace"));
                let property = schema["properties"].get(name).unwrap_or(&schema["additionalProperties"]);
                path.push(Step::Field(name.clone()));
                if !given && !may_require(schema, name) {
                    let default = property.get("default").cloned();
                    if default.as_ref() != Some(value) {
                        found.push(Cut { path: path.clone(), default });
                    }
                }
                collect(value, property, path, found);
                path.pop();
            }
        }
        Value::Array(items) => {
            let least = usize::try_from(schema["minItems"].as_u64().unwrap_or(0)).unwrap_or(usize::MAX);
            for (at, item) in items.iter().enumerate() {
                path.push(Step::Item(at));
                if items.len() > least {
                    found.push(Cut { path: path.clone(), default: None });
                }
                collect(item, &schema["items"], path, found);
                path.pop();
            }
        }
        _ => {}
    }
}

impl Cut {
    fn applied(&self, object: &Value) -> Value {
        let mut changed = object.clone();
        if let Some((last, before)) = self.path.split_last()
            && let Some(parent) = before.iter().try_fold(&mut changed, |value, step| step.into(value))
        {
            match (last, parent, &self.default) {
                (Step::Field(name), Value::Object(fields), Some(default)) => {
                    fields.insert(name.clone(), default.clone());
                }
                (Step::Field(name), Value::Object(fields), None) => drop(fields.remove(name)),
                (Step::Item(at), Value::Array(items), _) => drop(items.remove(*at)),
                _ => {}
            }
        }
        changed
    }
}

impl Step {
    fn into<'a>(&self, value: &'a mut Value) -> Option<&'a mut Value> {
        match self {
            Self::Field(name) => value.get_mut(name),
            Self::Item(at) => value.get_mut(*at),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_shows_it_and_what_is_required_is_left() {
        let schema = json!({"properties": {"spec": {
            "required": ["needed"],
            "properties": {
                "needed": {"type": "string"},
                "size": {"type": "integer", "default": 1},
                "ports": {"type": "array", "items": {"properties": {"name": {}, "number": {}}}},
                "labels": {"additionalProperties": {"type": "string"}},
            },
        }}});
        let object = json!({
            "apiVersion": "v1", "kind": "A", "metadata": {"name": "a", "labels": {"x": "y"}},
            "spec": {
                "needed": "n", "size": 7, "labels": {"l": "1"},
                "ports": [{"name": "a", "number": 1}, {"name": "b", "number": 2}],
            },
        });
        let found = smallest(&object, &schema, |object| object.to_string().contains("\"b\""));
        let expected = json!({
            "apiVersion": "v1", "kind": "A", "metadata": {"name": "a"},
            "spec": {"needed": "n", "size": 1, "ports": [{"name": "b"}]},
        });
        assert_eq!(found, expected);
    }
}
