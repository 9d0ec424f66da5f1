//! Writes objects as JSON with their keys in Kubernetes' order.
//!
//! Kubernetes encodes a built-in object from its Go struct: first `kind` and `apiVersion`, then the fields in the order of
//! the struct. Keys of maps, and those of custom resources, are sorted.

use serde::Serialize;

use crate::go_structs::{self, Cardinality, Field, FieldType, Message, Ranked};
use crate::json::{Map, Value};

const SCHEMA: &str = "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

/// The order in which the fields of an object are written.
#[derive(Clone, Copy, Debug)]
pub struct KeyOrder(Option<&'static Message>);

impl KeyOrder {
    /// The order of an object's own fields. An object of an unknown kind is a custom resource, whose keys are sorted.
    pub fn of_kind(group: &str, version: &str, kind: &str) -> Self {
        Self(go_structs::of_kind(group, version, kind))
    }

    /// Whether the order is that of a Go struct. Otherwise the keys are sorted.
    pub fn is_struct(self) -> bool {
        self.0.is_some()
    }

    /// The order of the fields of an object in a field of this one.
    pub fn member(self, name: &str) -> Self {
        let field = self.0.and_then(|message| message.flat().iter().find(|field| field.name == name));
        Self(match field.map(|field| (&field.kind, field.cardinality)) {
            Some((FieldType::Message(link), Cardinality::One)) => link.message(),
            _ => None,
        })
    }

    /// Calls `write` with each field of an object, in order, and with the position of the field's name: fields without a
    /// position, which the struct does not have, come last.
    ///
    /// ```
    /// use evenkeel_schema::json_order::KeyOrder;
    /// let pod = evenkeel_schema::json::json!({"metadata": {"uid": "u", "name": "p"}, "spec": {}, "status": {}});
    /// let mut names = Vec::new();
    /// let order = KeyOrder::of_kind("", "v1", "Pod");
    /// order.member("metadata").visit(pod["metadata"].as_object().unwrap(), &mut |name, _, _| names.push(name.to_owned()));
    /// assert_eq!(names, ["name", "uid"]);
    /// ```
    pub fn visit<'v>(self, object: &'v Map, write: &mut dyn FnMut(&'v str, &'v Value, Written)) {
        let Some(message) = self.0 else {
            object.iter().for_each(|(name, value)| write(name, value, Written(None)));
            return;
        };
        let mut entries = Vec::with_capacity(object.len());
        rank(message, object, &mut entries);
        for entry in entries {
            write(entry.name, entry.value, Written(entry.field));
        }
    }
}

/// How the value of a field is written.
#[derive(Clone, Copy, Debug)]
pub struct Written(Option<&'static Field>);

impl Written {
    /// Appends the value.
    pub fn append(self, out: &mut Vec<u8>, value: &Value) {
        let mut writer = Writer { out, stack: Vec::new() };
        match self.0 {
            Some(field) => writer.field(field, value),
            None => writer.plain(value),
        }
    }
}

/// A field of an object, with its place in the order.
struct Entry<'v> {
    rank: u32,
    name: &'v str,
    value: &'v Value,
    field: Option<&'static Field>,
}

/// How many fields come before those of the struct: the type of the object.
const TYPE_FIELDS: u32 = 2;

/// Appends the fields of an object in the order of its struct.
fn rank<'v>(message: &'static Message, object: &'v Map, entries: &mut Vec<Entry<'v>>) {
    let begin = entries.len();
    // Both are sorted by name.
    let mut known = message.ranked().iter().peekable();
    for (name, value) in object {
        while known.next_if(|it| it.field.name < name.as_str()).is_some() {}
        let (rank, field) = match known.next_if(|it| it.field.name == name.as_str()) {
            Some(Ranked { rank, field }) => (TYPE_FIELDS + rank, Some(*field)),
            // The facts leave out the embedded Go struct that contains the type of an object.
            None if name == "kind" => (0, None),
            None if name == "apiVersion" => (1, None),
            None => (u32::MAX, None),
        };
        entries.push(Entry { rank, name, value, field });
    }
    entries[begin..].sort_by_key(|entry| entry.rank);
}

struct Writer<'o, 'v> {
    out: &'o mut Vec<u8>,
    /// The fields of all objects that are being written, so that none of them needs memory of its own.
    stack: Vec<Entry<'v>>,
}

impl<'v> Writer<'_, 'v> {
    fn plain<T: Serialize + ?Sized>(&mut self, value: &T) {
        serde_json::to_writer(&mut *self.out, value).expect("writing JSON to memory cannot fail");
    }

    fn field(&mut self, field: &'static Field, value: &'v Value) {
        match (field.cardinality, value) {
            (Cardinality::One, value) => self.value(&field.kind, value),
            (Cardinality::List, Value::Array(items)) => self.items(&field.kind, items),
            (Cardinality::Map, Value::Object(entries)) => {
                self.out.push(b'{');
                for (index, (key, value)) in entries.iter().enumerate() {
                    self.key(index, key);
                    self.value(&field.kind, value);
                }
                self.out.push(b'}');
            }
            (_, value) => self.plain(value),
        }
    }

    fn value(&mut self, kind: &'static FieldType, value: &'v Value) {
        let message = match kind {
            FieldType::Message(link) => link.message(),
            FieldType::SchemaOrBool | FieldType::SchemaOrList | FieldType::SchemaOrStrings => {
                go_structs::find(SCHEMA)
            }
            _ => None,
        };
        match (message, value) {
            (Some(message), Value::Object(object)) => self.object(message, object),
            (Some(_), Value::Array(items)) => self.items(kind, items),
            (_, value) => self.plain(value),
        }
    }

    fn items(&mut self, kind: &'static FieldType, items: &'v [Value]) {
        self.out.push(b'[');
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            self.value(kind, item);
        }
        self.out.push(b']');
    }

    fn object(&mut self, message: &'static Message, object: &'v Map) {
        self.out.push(b'{');
        let begin = self.stack.len();
        rank(message, object, &mut self.stack);
        for index in begin..self.stack.len() {
            let Entry { name, value, field, .. } = self.stack[index];
            self.key(index - begin, name);
            match field {
                Some(field) => self.field(field, value),
                None => self.plain(value),
            }
        }
        self.stack.truncate(begin);
        self.out.push(b'}');
    }

    fn key(&mut self, index: usize, name: &str) {
        if index > 0 {
            self.out.push(b',');
        }
        self.plain(name);
        self.out.push(b':');
    }
}

/// Prints an object with its keys in Kubernetes' order, by its own `apiVersion` and `kind`.
///
/// ```
/// let review = evenkeel_schema::json::json!({"status": {"allowed": true}, "spec": {"user": "u"}, "kind": "SubjectAccessReview",
///     "apiVersion": "authorization.k8s.io/v1", "metadata": {}});
/// assert_eq!(
///     evenkeel_schema::json_order::print(&review),
///     br#"{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{},"spec":{"user":"u"},"status":{"allowed":true}}"#
/// );
/// ```
pub fn print(object: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let (group, version) = crate::api_resources::split_api_version(text("apiVersion"));
    let order = KeyOrder::of_kind(group, version, text("kind"));
    let mut writer = Writer { out: &mut out, stack: Vec::new() };
    let Value::Object(fields) = object else {
        writer.plain(object);
        return out;
    };
    writer.out.push(b'{');
    let mut index = 0;
    // The facts leave out the embedded Go struct that contains the type of an object.
    let first = if order.is_struct() { ["kind", "apiVersion"] } else { ["apiVersion", "kind"] };
    for name in first {
        if let Some(value) = fields.get(name) {
            writer.key(index, name);
            writer.plain(value);
            index += 1;
        }
    }
    order.visit(fields, &mut |name, value, written| {
        if !first.contains(&name) {
            writer.key(index, name);
            written.append(writer.out, value);
            index += 1;
        }
    });
    writer.out.push(b'}');
    out
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    fn printed(object: Value) -> String {
        let text = String::from_utf8(print(&object)).expect("JSON is UTF-8");
        assert_eq!(serde_json::from_str::<Value>(&text).expect("valid JSON"), object);
        text
    }

    #[test]
    fn built_in_objects_have_the_order_of_their_structs() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"labels": {"b": "1", "a": "2"}, "uid": "u", "name": "p", "creationTimestamp": "t"},
            "spec": {"containers": [{"image": "i", "name": "c", "resources": {"limits": {"memory": "1", "cpu": "1"}}}],
                "volumes": [{"emptyDir": {}, "name": "v"}], "nodeName": "n"},
            "status": {"phase": "Running", "conditions": [{"status": "True", "type": "Ready"}]}});
        assert_eq!(
            printed(pod),
            concat!(
                r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","uid":"u","creationTimestamp":"t","#,
                r#""labels":{"a":"2","b":"1"}},"spec":{"volumes":[{"name":"v","emptyDir":{}}],"#,
                r#""containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"1","memory":"1"}}}],"#,
                r#""nodeName":"n"},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}"#
            )
        );
    }

    #[test]
    fn the_type_of_an_object_within_another_comes_first() {
        let claim = json!({"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": {"name": "c"}, "spec": {}});
        let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {},
            "spec": {"volumeClaimTemplates": [claim]}});
        assert!(printed(set).contains(
            r#""volumeClaimTemplates":[{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"name":"c"},"spec":{}}]"#
        ));
    }

    #[test]
    fn schemas_in_definitions_have_the_order_of_their_struct_at_every_depth() {
        let schema = json!({"type": "object", "description": "d",
            "additionalProperties": {"type": "array", "items": {"type": "string", "maxLength": 1, "format": "x"}}});
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {}, "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}], "group": "g"}});
        assert!(printed(definition).ends_with(concat!(
            r#""spec":{"group":"g","versions":[{"name":"v1","schema":{"openAPIV3Schema":{"description":"d","#,
            r#""type":"object","additionalProperties":{"type":"array","#,
            r#""items":{"type":"string","format":"x","maxLength":1}}}}}]}}"#
        )));
    }

    #[test]
    fn custom_resources_and_unknown_fields_are_sorted() {
        assert_eq!(
            printed(json!({"kind": "X", "apiVersion": "g/v1", "spec": {"b": 1, "a": 2}, "metadata": {}})),
            r#"{"apiVersion":"g/v1","kind":"X","metadata":{},"spec":{"a":2,"b":1}}"#
        );
        assert_eq!(
            printed(
                json!({"kind": "ConfigMap", "apiVersion": "v1", "aaa": {"b": 1, "a": 2}, "data": {"k": "v"}})
            ),
            r#"{"kind":"ConfigMap","apiVersion":"v1","data":{"k":"v"},"aaa":{"a":2,"b":1}}"#
        );
    }
}
