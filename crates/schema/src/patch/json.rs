//! JSON patch (RFC 6902), as lenient as the library that Kubernetes uses.
//!
//! `replace` on a missing key of an object adds it, `copy` from a missing key copies null, a negative index counts from the
//! end, and `test` for null passes if the value is absent.

use evenkeel_scalars::go;

use super::PatchError;
use crate::depth::{self, TooDeep};
use crate::json::{Value, go_kind};

/// The most operations in a patch. The number is that of Kubernetes.
const OPERATIONS_MAX: usize = 10_000;

/// The most bytes that the `copy` operations of a patch may add: the limit of a request body, as in Kubernetes.
const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// The operations of a patch, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPatch {
    operations: Vec<Operation>,
    unknown: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
struct Operation {
    op: String,
    path: Option<String>,
    from: Option<String>,
    /// The value; `None` if the operation has none, which mostly means null.
    value: Option<Value>,
}

impl JsonPatch {
    /// Parses the document of a patch.
    pub fn parse(document: &Value) -> Result<Self, PatchError> {
        let wrong = |message: String| PatchError::BadRequest(format!("error decoding patch: {message}"));
        let items = match document {
            Value::Null => &[],
            Value::Array(items) => items.as_slice(),
            other => {
                return Err(wrong(format!(
                    "json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
                    go_kind(other)
                )));
            }
        };
        let mut patch = Self { operations: Vec::with_capacity(items.len()), unknown: Vec::new() };
        for (index, item) in items.iter().enumerate() {
            patch.read(index, item).map_err(wrong)?;
        }
        if items.len() > OPERATIONS_MAX {
            return Err(PatchError::TooLarge(format!(
                "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
                items.len()
            )));
        }
        Ok(patch)
    }

    /// The warnings for unknown fields of operations, such as `json patch unknown field "[0].x"`.
    pub fn unknown_fields(&self) -> &[String] {
        &self.unknown
    }

    fn read(&mut self, index: usize, item: &Value) -> Result<(), String> {
        let none = crate::json::Map::new();
        let fields = match item {
            Value::Null => &none,
            Value::Object(fields) => fields,
            other => {
                return Err(format!(
                    "json: cannot unmarshal {} into Go value of type handlers.jsonPatchOp",
                    go_kind(other)
                ));
            }
        };
        let text = |name: &str| match fields.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.to_string())),
            Some(other) => Err(format!(
                "json: cannot unmarshal {} into Go struct field jsonPatchOp.{name} of type string",
                go_kind(other)
            )),
        };
        let op = text("op")?.unwrap_or_else(|| "unknown".into());
        let (path, from) = (text("path")?, text("from")?);
        self.operations.push(Operation { op, path, from, value: fields.get("value").cloned() });
        for name in fields.keys().filter(|name| !["op", "path", "from", "value"].contains(&name.as_str())) {
            self.unknown
                .push(format!("json patch unknown field {}", go::quote(&format!("[{index}].{name}"))));
        }
        Ok(())
    }

    /// Applies all operations, or none if one fails.
    pub fn apply(&self, object: &Value) -> Result<Value, PatchError> {
        let mut document = object.clone();
        let mut copied = 0;
        for operation in &self.operations {
            operation.apply(&mut document, &mut copied)?;
        }
        Ok(document)
    }
}

/// Parses a patch and applies it.
///
/// ```
/// use evenkeel_schema::patch::json;
/// use evenkeel_schema::json::json;
/// let patch = json!([{"op": "add", "path": "/data/b", "value": "2"}, {"op": "remove", "path": "/data/a"}]);
/// assert_eq!(json::apply(&json!({"data": {"a": "1"}}), &patch).unwrap(), json!({"data": {"b": "2"}}));
/// ```
pub fn apply(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    JsonPatch::parse(patch)?.apply(object)
}

/// Why one operation was refused.
enum Refusal {
    /// The operation cannot be applied to the document.
    Misfit(String),
    /// The operation would nest the document too deep.
    TooDeep(TooDeep),
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self::Misfit(why)
    }
}

impl From<Refusal> for PatchError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Misfit(why) => Self::Unprocessable(why),
            Refusal::TooDeep(too_deep) => Self::TooDeep(too_deep),
        }
    }
}

impl Operation {
    fn apply(&self, document: &mut Value, copied: &mut usize) -> Result<(), Refusal> {
        match self.op.as_str() {
            "add" => add(document, self.path("add")?, self.value()),
            "remove" => Ok(remove(document, self.path("remove")?).map(drop)?),
            "replace" => replace(document, self.path("replace")?, self.value()),
            "test" => Ok(test(document, self.path("test")?, self.value.as_ref())?),
            "move" => {
                let value = remove(document, self.from("move")?)?;
                add(document, self.path("move")?, value)
            }
            "copy" => {
                let found = get(document, self.from("copy")?)?.unwrap_or(&Value::Null);
                refuse_too_deep(self.path("copy")?, found)?;
                let value = found.clone();
                *copied += value.to_string().len();
                if *copied > COPIED_BYTES_MAX {
                    return Err(Refusal::Misfit(format!(
                        "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding \
                         the limit {COPIED_BYTES_MAX}"
                    )));
                }
                add(document, self.path("copy")?, value)
            }
            other => Err(Refusal::Misfit(format!("Unexpected kind: {other}"))),
        }
    }

    fn path(&self, what: &str) -> Result<&str, String> {
        self.path.as_deref().ok_or_else(|| format!("{what} operation failed to decode path: missing value"))
    }

    fn from(&self, what: &str) -> Result<&str, String> {
        self.from.as_deref().ok_or_else(|| format!("{what} operation failed to decode from: missing value"))
    }

    fn value(&self) -> Value {
        self.value.clone().unwrap_or(Value::Null)
    }
}

/// Refuses a value that would be nested too deep at a path: each step of the path is a level above it.
///
/// Every value is checked before an operation inserts it. So no sequence of operations makes a document that cannot be
/// copied, printed or dropped within a thread's stack.
fn refuse_too_deep(path: &str, value: &Value) -> Result<(), Refusal> {
    let steps = path.matches('/').count();
    let fits = steps <= depth::DEPTH_MAX && depth::fits(value, depth::DEPTH_MAX - steps);
    if fits { Ok(()) } else { Err(Refusal::TooDeep(TooDeep)) }
}

/// The parent of the value at a path, and the last step of the path. Text before the first `/` is ignored.
fn parent<'d>(document: &'d mut Value, path: &str) -> Result<(&'d mut Value, String), String> {
    let missing = || format!("doc is missing path: {}: missing value", go::quote(path));
    let mut steps: Vec<String> = path.split('/').skip(1).map(unescape).collect();
    let last = steps.pop().ok_or_else(missing)?;
    let mut at = document;
    for step in steps {
        at = match at {
            Value::Object(map) => map.get_mut(&step),
            Value::Array(items) => position(&step, items.len()).ok().and_then(|index| items.get_mut(index)),
            _ => None,
        }
        .ok_or_else(missing)?;
    }
    if at.is_object() || at.is_array() { Ok((at, last)) } else { Err(missing()) }
}

fn unescape(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

/// Parses an index below a length. A negative index counts from the end.
fn position(step: &str, length: usize) -> Result<usize, String> {
    let index: i64 =
        step.parse().map_err(|_| format!("strconv.Atoi: parsing {}: invalid syntax", go::quote(step)))?;
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let absolute = if index < 0 { index.saturating_add(length) } else { index };
    if (0..length).contains(&absolute) {
        Ok(absolute as usize)
    } else {
        Err(format!("Unable to access invalid index: {index}: invalid index referenced"))
    }
}

fn get<'d>(document: &'d mut Value, path: &str) -> Result<Option<&'d Value>, String> {
    let (parent, key) = parent(document, path)?;
    match parent {
        Value::Array(items) => position(&key, items.len()).map(|index| Some(&items[index])),
        parent => Ok(parent.get(&key)),
    }
}

fn add(document: &mut Value, path: &str, value: Value) -> Result<(), Refusal> {
    let (parent, key) = parent(document, path)?;
    refuse_too_deep(path, &value)?;
    match parent {
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            let index = position(&key, items.len() + 1)?;
            items.insert(index, value);
        }
        Value::Object(map) => {
            map.insert(key.into(), value);
        }
        _ => {}
    }
    Ok(())
}

fn remove(document: &mut Value, path: &str) -> Result<Value, String> {
    let (parent, key) = parent(document, path)?;
    match parent {
        Value::Array(items) => position(&key, items.len()).map(|index| items.remove(index)),
        Value::Object(map) => {
            map.remove(&key).ok_or_else(|| format!("Unable to remove nonexistent key: {key}: missing value"))
        }
        _ => Ok(Value::Null),
    }
}

fn replace(document: &mut Value, path: &str, value: Value) -> Result<(), Refusal> {
    if path.is_empty() {
        if !value.is_object() && !value.is_array() {
            return Err(Refusal::Misfit("replace operation value must be object or array".into()));
        }
        refuse_too_deep(path, &value)?;
        *document = value;
        return Ok(());
    }
    let (parent, key) = parent(document, path)?;
    refuse_too_deep(path, &value)?;
    match parent {
        Value::Array(items) => {
            let index = position(&key, items.len()).map_err(|_| {
                format!("replace operation does not apply: doc is missing key: {path}: missing value")
            })?;
            items[index] = value;
        }
        Value::Object(map) => {
            map.insert(key.into(), value);
        }
        _ => {}
    }
    Ok(())
}

fn test(document: &mut Value, path: &str, value: Option<&Value>) -> Result<(), String> {
    let failed = || Err(format!("testing value {path} failed: test failed"));
    let found = if path.is_empty() { Some(&*document) } else { get(document, path)? };
    match (found.filter(|found| !found.is_null()), value.filter(|value| !value.is_null())) {
        (None, None) => Ok(()),
        (Some(found), Some(value)) if found == value => Ok(()),
        _ => failed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn check(object: Value, patch: Value, expected: Value) {
        assert_eq!(apply(&object, &patch).unwrap(), expected);
    }

    fn refused(object: Value, patch: Value) -> PatchError {
        apply(&object, &patch).unwrap_err()
    }

    #[test]
    fn every_operation() {
        check(
            json!({"a": [1, 3]}),
            json!([{"op": "add", "path": "/a/1", "value": 2}]),
            json!({"a": [1, 2, 3]}),
        );
        check(json!({"a": [1]}), json!([{"op": "add", "path": "/a/-", "value": 2}]), json!({"a": [1, 2]}));
        check(
            json!({"a": 1, "b": 2}),
            json!([{"op": "move", "from": "/a", "path": "/c"}]),
            json!({"b": 2, "c": 1}),
        );
        check(json!({"a": 1}), json!([{"op": "copy", "from": "/a", "path": "/b"}]), json!({"a": 1, "b": 1}));
        check(json!({"a/b": 1}), json!([{"op": "replace", "path": "/a~1b", "value": 2}]), json!({"a/b": 2}));
        check(json!({"a": 1}), json!([{"op": "test", "path": "/a", "value": 1}]), json!({"a": 1}));
    }

    #[test]
    fn what_the_library_forgives() {
        check(json!({}), json!([{"op": "replace", "path": "/a", "value": 1}]), json!({"a": 1}));
        check(json!({}), json!([{"op": "copy", "from": "/a", "path": "/b"}]), json!({"b": null}));
        check(json!({"a": [1, 2]}), json!([{"op": "remove", "path": "/a/-1"}]), json!({"a": [1]}));
        check(json!({"a": [1]}), json!([{"op": "add", "path": "/a/-1", "value": 2}]), json!({"a": [1, 2]}));
        check(json!({}), json!([{"op": "test", "path": "/a", "value": null}]), json!({}));
        check(json!({}), json!([{"op": "add", "path": "/a"}]), json!({"a": null}));
    }

    #[test]
    fn what_it_does_not() {
        for patch in [
            json!([{"op": "remove", "path": "/b"}]),
            json!([{"op": "add", "path": "/b/c", "value": 1}]),
            json!([{"op": "add", "path": "", "value": {}}]),
            json!([{"op": "test", "path": "/a", "value": 2}]),
            json!([{"op": "frob", "path": "/a"}]),
            json!([{"path": "/a"}]),
            json!([{"op": "remove"}]),
        ] {
            assert!(matches!(refused(json!({"a": 1}), patch), PatchError::Unprocessable(_)));
        }
        let many = vec![json!({"op": "test", "path": "/a", "value": 1}); OPERATIONS_MAX + 1];
        assert!(matches!(refused(json!({"a": 1}), many.into()), PatchError::TooLarge(_)));
        assert_eq!(
            refused(json!({}), json!({})).to_string(),
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        );
    }

    #[test]
    fn copies_cannot_grow_an_object_without_bound() {
        let big = json!({"a": "x".repeat(1024 * 1024), "b": {}});
        let copy = |n: usize| json!({"op": "copy", "from": "/a", "path": format!("/b/{n}")});
        let patch: Vec<_> = (0..4).map(copy).collect();
        assert!(matches!(refused(big, patch.into()), PatchError::Unprocessable(_)));
    }
}
