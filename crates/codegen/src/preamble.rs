//! The helper functions and imports of generated code. A file contains only those that it uses.

use serde_json::{Value, json};

use crate::crates::Crates;
use crate::plan::list;

/// The keyword, and its value, that keep kube from rewriting alternatives.
///
/// kube turns the `oneOf` and `anyOf` that schemars produces for Rust enums into plain properties. With the source's
/// own alternatives it would do the same, or panic. It leaves alone any schema that it cannot parse, and `contains: 0`
/// makes a schema unparsable for it. Kubernetes does not know that keyword, so it does not reach the definition.
const GUARD: (&str, i32) = ("contains", 0);

/// Keywords of an alternative that kube moves out of it.
const MOVED: [&str; 6] = ["properties", "type", "enum", "description", "default", "additionalProperties"];

/// The helpers: a text that marks their use, and their code.
const HELPERS: [(&str, &str); 4] =
    [("without_null", WITHOUT_NULL), ("keywords(", KEYWORDS), ("parsed(", PARSED), ("root(", ROOT)];

/// Types that fields may have, and their paths.
const FIELD_TYPES: [(&str, &str); 6] = [
    ("BTreeMap", "std::collections::BTreeMap"),
    ("ByteString", "k8s_openapi::ByteString"),
    ("IntOrString", "k8s_openapi::apimachinery::pkg::util::intstr::IntOrString"),
    ("Quantity", "k8s_openapi::apimachinery::pkg::api::resource::Quantity"),
    ("Time", "k8s_openapi::apimachinery::pkg::apis::meta::v1::Time"),
    ("Value", "serde_json::Value"),
];

const WITHOUT_NULL: &str = r#"/// Lets optional fields be left out but not be `null`, which kube's schemas also allow. Fields that may be null say so.
fn without_null(schema: &mut Schema) {
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flatten().filter_map(|(_, property)| property.as_object_mut()) {
        let inner = match property.get("anyOf").and_then(Value::as_array).map(Vec::as_slice) {
            Some([inner, null]) if null["type"] == "null" => inner.as_object().cloned(),
            _ => None,
        };
        if let Some(inner) = inner {
            property.remove("anyOf");
            inner.into_iter().for_each(|(keyword, value)| {
                property.entry(keyword).or_insert(value);
            });
        }
        let types = property.get("type").and_then(Value::as_array);
        if let Some(only) = types.and_then(|types| types.iter().find(|it| *it != "null")).cloned() {
            property.insert("type".to_owned(), only);
        }
        if property.get("nullable") != Some(&Value::Bool(true)) {
            if let Some(values) = property.get_mut("enum").and_then(Value::as_array_mut) {
                values.retain(|value| !value.is_null());
            }
            if property.contains_key("x-kubernetes-int-or-string") {
                property.insert("nullable".to_owned(), Value::Bool(false));
            }
        }
    }
}
"#;

const KEYWORDS: &str = r#"/// Sets keywords in the part of a schema at a JSON pointer, where no attribute reaches.
fn keywords(pointer: &'static str, set: Value) -> impl FnMut(&mut Schema) {
    move |schema| {
        let Some(part) = schema.pointer_mut(pointer) else { return };
        if !part.is_object() {
            *part = Value::Object(Default::default());
        }
        if let (Some(part), Some(set)) = (part.as_object_mut(), set.as_object()) {
            part.extend(set.clone());
        }
    }
}
"#;

const PARSED: &str = r#"/// JSON that is too long for a macro.
fn parsed(json: &str) -> Value {
    serde_json::from_str(json).expect("the text was JSON when this file was generated")
}
"#;

const ROOT: &str = r#"/// The schema of a whole object: keywords and fields are added to `schema`.
fn root(mut schema: Schema, keywords: Value, fields: Vec<(&str, Schema, Value)>) -> Schema {
    let add = |schema: &mut Schema, keywords: Value| match keywords {
        Value::Object(keywords) => keywords.into_iter().for_each(|(keyword, value)| {
            schema.insert(keyword, value);
        }),
        _ => (),
    };
    let mut properties = schema.remove("properties").unwrap_or_else(|| Value::Object(Default::default()));
    for (name, mut field, keywords) in fields {
        add(&mut field, keywords);
        properties[name] = field.to_value();
    }
    add(&mut schema, keywords);
    schema.insert("properties".to_owned(), properties);
    schema
}
"#;

/// Returns a schema whose alternatives kube leaves alone.
pub(crate) fn guarded(schema: &Value) -> Value {
    let Value::Object(fields) = schema else { return schema.clone() };
    let mut guarded: serde_json::Map<String, Value> = fields
        .iter()
        .map(|(keyword, value)| {
            let value = match (keyword.as_str(), value) {
                ("properties", Value::Object(fields)) => Value::Object(
                    fields.iter().map(|(name, field)| (name.clone(), self::guarded(field))).collect(),
                ),
                ("items" | "additionalProperties" | "not", value) => self::guarded(value),
                ("anyOf" | "oneOf" | "allOf", Value::Array(schemas)) => {
                    Value::Array(schemas.iter().map(self::guarded).collect())
                }
                (_, value) => value.clone(),
            };
            (keyword.clone(), value)
        })
        .collect();
    let alternatives = list(schema, "anyOf").iter().chain(list(schema, "oneOf"));
    if alternatives.flat_map(|schema| MOVED.map(|keyword| schema.get(keyword))).any(|found| found.is_some()) {
        guarded.insert(GUARD.0.to_owned(), json!(GUARD.1));
    }
    Value::Object(guarded)
}

/// Returns the module with the helpers that `body` uses, or `None` if it uses none.
pub(crate) fn module(body: &str, crates: Crates) -> Option<String> {
    let used: Vec<&str> =
        HELPERS.iter().filter(|(mark, _)| uses(body, mark)).map(|(_, text)| *text).collect();
    if used.is_empty() {
        return None;
    }
    let text = used.join("\n").replace("\nfn ", "\npub(super) fn ");
    let prefix = crates.prefix();
    let schema =
        if text.contains("Schema") { format!("use {prefix}schemars::Schema;\n") } else { String::new() };
    let json = if crates == Crates::Evenkeel { "use evenkeel::serde_json;\n" } else { "" };
    let json = if text.contains("serde_json::from_str") { json } else { "" };
    let text = format!("{schema}{json}use {prefix}serde_json::Value;\n\n{text}");
    Some(format!("/// What the attributes above refer to.\nmod support {{\n{}}}\n", indented(&text)))
}

/// Returns the `use` lines for `body`. `above` is the path to the module with the helpers.
pub(crate) fn imports(body: &str, above: &str, crates: Crates) -> String {
    let prefix = crates.prefix();
    let in_fields = |word: &str| {
        let fields = body.lines().map(str::trim).filter(|line| {
            ["pub ", "status = ", "#[schemars(with = "].iter().any(|start| line.starts_with(start))
        });
        fields
            .flat_map(|line| line.split(|letter: char| !letter.is_ascii_alphanumeric()))
            .any(|found| found == word)
    };
    let types = FIELD_TYPES.iter().filter(|(word, _)| in_fields(word)).map(|(_, path)| {
        let prefix = if path.starts_with("std::") { "" } else { prefix };
        format!("use {prefix}{path};")
    });
    let schemars = if uses(body, "json_schema!(") {
        "schemars::{JsonSchema, Schema, SchemaGenerator, json_schema}"
    } else {
        "schemars::{JsonSchema, Schema, SchemaGenerator}"
    };
    let mut lines: Vec<String> = types.collect();
    lines.extend(
        ["kube::CustomResource", schemars, "serde::{Deserialize, Serialize}"]
            .map(|path| format!("use {prefix}{path};")),
    );
    if uses(body, "json!(") {
        lines.push(format!("use {prefix}serde_json::json;"));
    }
    let helpers: Vec<&str> = HELPERS
        .iter()
        .filter(|(mark, _)| uses(body, mark))
        .map(|(mark, _)| mark.trim_end_matches('('))
        .collect();
    if !helpers.is_empty() {
        lines.push(format!("use {above}support::{{{}}};", helpers.join(", ")));
    }
    lines.join("\n") + "\n"
}

/// Whether `mark` occurs in code, not only in comments.
fn uses(body: &str, mark: &str) -> bool {
    body.lines().filter(|line| !line.trim_start().starts_with("///")).any(|line| line.contains(mark))
}

/// Indents the text by one level.
pub(crate) fn indented(text: &str) -> String {
    let indent = |line: &str| if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") };
    text.lines().map(indent).collect()
}
