//! Fields of JSON objects.

use evenkeel_schema::json::Value;

/// Sets a field of an object, or removes it if the value is null.
pub(crate) fn set_or_remove(object: &mut Value, field: &str, value: Value) {
    let Some(map) = object.as_object_mut() else { return };
    if value.is_null() {
        map.remove(field);
    } else {
        map.insert(field.into(), value);
    }
}
