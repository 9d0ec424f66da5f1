//! Reads fields of a JSON tree as fields of a Go struct: an absent field, null or a value of another type is the zero value.

use evenkeel_scalars::go;

use crate::json::{Map, Value};

/// Accessors that return zero values for absent fields.
pub(crate) trait Read<'v>: Copy {
    /// The value at a field; null counts as absent.
    fn at(self, field: &str) -> Option<&'v Value>;
    /// Whether the field is present.
    fn has(self, field: &str) -> bool {
        self.at(field).is_some()
    }
    /// The string at a field, or `""`.
    fn str(self, field: &str) -> &'v str {
        self.at(field).and_then(Value::as_str).unwrap_or_default()
    }
    /// The list at a field, or an empty one.
    fn list(self, field: &str) -> &'v [Value] {
        self.at(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }
    /// The strings of the list at a field.
    fn strs(self, field: &str) -> Vec<&'v str> {
        self.list(field).iter().map(|item| item.as_str().unwrap_or_default()).collect()
    }
    /// The integer at a field; `None` if there is none.
    fn int(self, field: &str) -> Option<i64> {
        self.at(field).and_then(Value::as_i64)
    }
    /// Whether the field is true.
    fn bool(self, field: &str) -> bool {
        self.at(field).and_then(Value::as_bool).unwrap_or_default()
    }
    /// The object at a field; `None` if there is none.
    fn map(self, field: &str) -> Option<&'v Map> {
        self.at(field).and_then(Value::as_object)
    }
    /// The entries of the object at a field, as strings.
    fn pairs(self, field: &str) -> Vec<(&'v str, &'v str)> {
        let entries = self.map(field).into_iter().flatten();
        entries.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default())).collect()
    }
}

impl<'v> Read<'v> for &'v Value {
    fn at(self, field: &str) -> Option<&'v Value> {
        self.get(field).filter(|value| !value.is_null())
    }
}

impl<'v> Read<'v> for Option<&'v Value> {
    fn at(self, field: &str) -> Option<&'v Value> {
        self.and_then(|value| value.at(field))
    }
}

/// Prints an object as JSON, with its fields in the order of the Go struct, as Kubernetes' messages do.
pub(crate) fn print_struct(value: &Value, order: &[&str]) -> String {
    let mut out = String::from("{");
    let fields = order.iter().filter_map(|name| Some((name, value.at(name)?)));
    for (index, (name, field)) in fields.enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(&format!("\"{name}\":{}", go::json(field)));
    }
    out.push('}');
    out
}

/// A list of structs, each printed by [`print_struct`].
pub(crate) fn print_structs(values: &[Value], order: &[&str]) -> String {
    let items: Vec<String> = values.iter().map(|value| print_struct(value, order)).collect();
    format!("[{}]", items.join(","))
}
