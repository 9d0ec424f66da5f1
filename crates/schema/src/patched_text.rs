//! The text in which error messages quote a patched object of a built-in kind.
//!
//! Kubernetes merges JSON patches and merge patches into the text of the object. The keys of objects that the merge
//! parsed are sorted afterwards; all other objects keep the field order of their Go struct.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::go_structs::{self, Cardinality, Field, FieldType, Message};
use crate::json::Value;

/// Which objects and lists the merge has parsed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Touched {
    /// The value is still the original text.
    #[default]
    No,
    /// The value was parsed. Members that are not listed are still the original text.
    Members(BTreeMap<String, Touched>),
    /// The value comes from the patch.
    New,
}

impl Touched {
    /// Returns which values a merge patch parses.
    pub fn by_merge_patch(old: &Value, patch: &Value) -> Self {
        let Value::Object(patch) = patch else { return Touched::New };
        let Value::Object(old) = old else { return Touched::New };
        let set = patch.iter().filter(|(_, value)| !value.is_null());
        Touched::Members(
            set.map(|(key, value)| {
                let before = old.get(key).unwrap_or(&Value::Null);
                (key.to_string(), Self::by_merge_patch(before, value))
            })
            .collect(),
        )
    }

    /// Returns which values the operations of a JSON patch parse.
    pub fn by_json_patch(patch: &Value) -> Self {
        let mut touched = Touched::Members(BTreeMap::new());
        for operation in patch.as_array().into_iter().flatten() {
            let sets = matches!(operation["op"].as_str(), Some("add" | "replace"));
            for (field, is_new) in [("path", sets), ("from", false)] {
                if let Some(pointer) = operation[field].as_str() {
                    touched.visit(pointer, is_new);
                }
            }
        }
        touched
    }

    /// Marks the values on the way to a place, and the place itself if a new value is set there.
    fn visit(&mut self, pointer: &str, is_new: bool) {
        let mut parts = pointer.split('/').skip(1).peekable();
        let mut at = self;
        while let Some(part) = parts.next() {
            let Touched::Members(members) = at else { return };
            let key = part.replace("~1", "/").replace("~0", "~");
            let is_last = parts.peek().is_none();
            if is_last && !is_new {
                return;
            }
            at = members.entry(key).or_default();
            match at {
                _ if is_last => *at = Touched::New,
                Touched::No => *at = Touched::Members(BTreeMap::new()),
                _ => {}
            }
        }
    }

    fn member(&self, key: &str) -> &Touched {
        match self {
            Touched::Members(members) => members.get(key).unwrap_or(&Touched::No),
            other => other,
        }
    }
}

/// The Go type of a value.
#[derive(Clone, Copy)]
enum Shape {
    Struct(&'static Message),
    /// A list or map with items of the field's type.
    Items(&'static Field),
    Unknown,
}

impl Shape {
    fn of(kind: &'static FieldType) -> Self {
        match kind {
            FieldType::Message(link) => link.message().map_or(Shape::Unknown, Shape::Struct),
            _ => Shape::Unknown,
        }
    }

    fn member(self, name: &str) -> Self {
        match self {
            Shape::Struct(message) => match message.flat().iter().find(|field| field.name == name) {
                Some(field) if field.cardinality == Cardinality::One => Shape::of(&field.kind),
                Some(field) => Shape::Items(field),
                None => Shape::Unknown,
            },
            Shape::Items(field) => Shape::of(&field.kind),
            Shape::Unknown => Shape::Unknown,
        }
    }

    /// Returns the position of a member in the text that Go writes.
    fn place(self, name: &str) -> usize {
        let Shape::Struct(message) = self else { return 0 };
        match (message.flat().iter().position(|field| field.name == name), name) {
            (Some(place), _) => place + 2,
            // The type of an object comes first. The facts leave out the embedded Go struct that contains it.
            (None, "kind") => 0,
            (None, "apiVersion") => 1,
            (None, _) => usize::MAX,
        }
    }
}

/// Reorders the members of a JSON text, which are sorted, as the API server writes them.
pub fn order(group: &str, version: &str, kind: &str, text: &str, touched: &Touched) -> String {
    let shape = go_structs::of_kind(group, version, kind).map_or(Shape::Unknown, Shape::Struct);
    let mut out = String::with_capacity(text.len());
    write(text, shape, touched, &mut out);
    // Go escapes the characters that could end a script element in HTML.
    out.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

fn write(text: &str, shape: Shape, touched: &Touched, out: &mut String) {
    if let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(text) {
        out.push('[');
        for (index, item) in items.into_iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            write(item.get(), shape.member(""), touched.member(&index.to_string()), out);
        }
        out.push(']');
    } else if let Ok(members) = serde_json::from_str::<BTreeMap<String, &RawValue>>(text) {
        let mut members: Vec<(String, &RawValue)> = members.into_iter().collect();
        if *touched == Touched::No {
            members.sort_by_key(|(name, _)| shape.place(name));
        }
        out.push('{');
        for (index, (name, value)) in members.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            out.push_str(&Value::from(name.as_str()).to_string());
            out.push(':');
            write(value.get(), shape.member(name), touched.member(name), out);
        }
        out.push('}');
    } else {
        out.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn what_a_merge_patch_touches_is_sorted() {
        let old = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"uid": "u", "name": "p", "labels": {"b": "1"}},
            "spec": {"dnsPolicy": "None", "containers": [{"image": "i", "name": "c"}]}});
        let mut new = old.clone();
        new["metadata"]["generation"] = json!("x<");
        let touched = Touched::by_merge_patch(&old, &json!({"metadata": {"generation": "x<"}}));
        assert_eq!(
            order("", "v1", "Pod", &new.to_string(), &touched),
            concat!(
                r#"{"apiVersion":"v1","kind":"Pod","metadata":{"generation":"x\u003c","labels":{"b":"1"},"name":"p","uid":"u"},"#,
                r#""spec":{"containers":[{"name":"c","image":"i"}],"dnsPolicy":"None"}}"#
            )
        );
        assert_eq!(
            order("", "v1", "Pod", &old["metadata"].to_string(), &Touched::No),
            r#"{"labels":{"b":"1"},"name":"p","uid":"u"}"#,
            "metadata is no Pod"
        );
    }

    #[test]
    fn what_a_json_patch_passes_is_sorted() {
        let patch = json!([{"op": "add", "path": "/spec/containers/0/env", "value": []}, {"op": "remove", "path": "/a~1b"}]);
        let Touched::Members(root) = Touched::by_json_patch(&patch) else {
            panic!("the object was taken apart")
        };
        assert_eq!(root.keys().collect::<Vec<_>>(), ["spec"]);
        let spec = root["spec"].member("containers");
        assert_eq!(spec.member("0").member("env"), &Touched::New);
        assert_eq!(spec.member("1"), &Touched::No);
        assert_eq!(spec.member("0").member("name"), &Touched::No);
    }
}
