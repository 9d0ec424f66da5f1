//! Compares the meaning of two CustomResourceDefinitions.

use evenkeel_schema::structural;
use serde_json::{Map, Number, Value, json};

use crate::meaning::normalize;
use crate::plan::{list, text};

/// A place at which two definitions differ.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Difference {
    /// The version and the JSON pointer of the place.
    pub place: String,
    /// What the source has there.
    pub source: Option<Value>,
    /// What the types produce there.
    pub produced: Option<Value>,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let show = |value: &Option<Value>| value.as_ref().map_or("nothing".to_owned(), Value::to_string);
        write!(
            f,
            "{}: the source has {}, the types have {}",
            self.place,
            show(&self.source),
            show(&self.produced)
        )
    }
}

/// Returns every difference in meaning between a definition and the one that the types generated from it describe.
///
/// Compared are names, scope and conversion, and for each version its schema, subresources, columns, selectable fields,
/// and whether it is served, stored and deprecated. Metadata is not compared, except for the approval of a protected
/// group.
///
/// ```
/// use serde_json::json;
/// let one = json!({"spec": {"group": "a.example.com", "versions": []}});
/// let other = json!({"spec": {"group": "b.example.com", "versions": []}});
/// assert!(evenkeel_codegen::compare(&one, &one).is_empty());
/// assert_eq!(evenkeel_codegen::compare(&one, &other)[0].place, "/group");
/// ```
pub fn compare(source: &Value, produced: &Value) -> Vec<Difference> {
    let mut differences = Vec::new();
    diff("", Some(&outline(source)), Some(&outline(produced)), &mut differences);
    let produced_versions = versions(produced);
    for version in versions(source) {
        let name = text(version, "name");
        let other = produced_versions.iter().find(|other| text(other, "name") == name);
        let schema = |version: &Value| version.pointer("/schema/openAPIV3Schema").map(normalize);
        let (before, after) = (schema(version), other.and_then(schema));
        diff(name, before.as_ref(), after.as_ref(), &mut differences);
        // Two schemas of the same meaning are of no use if an API server refuses them.
        if let Some(Err(errors)) = after.as_ref().map(|schema| structural::compile(&schema.into())) {
            let problem = errors.first().map(ToString::to_string).map(Value::from);
            let place = format!("{name} is not structural");
            differences.push(Difference { place, source: None, produced: problem });
        }
    }
    differences
}

fn versions(definition: &Value) -> &[Value] {
    definition.get("spec").map_or(&[], |spec| list(spec, "versions"))
}

/// Returns a definition without its schemas, after applying the API server's defaults.
fn outline(definition: &Value) -> Value {
    let spec = definition.get("spec").unwrap_or(&Value::Null);
    let names = spec.get("names").unwrap_or(&Value::Null);
    let kind = text(names, "kind");
    let or = |keyword: &str, other: String| {
        Some(text(names, keyword)).filter(|it| !it.is_empty()).map_or(other, str::to_owned)
    };
    let approved =
        definition.pointer("/metadata/annotations").and_then(|it| it.get("api-approved.kubernetes.io"));
    let conversion = spec.get("conversion").filter(|it| text(it, "strategy") != "None");
    let mut outlines = Map::new();
    for version in versions(definition) {
        let mut outline = without_nothing(version);
        if let Some(outline) = outline.as_object_mut() {
            outline.remove("schema");
            for flag in ["deprecated", "served", "storage"] {
                outline.entry(flag).or_insert(Value::Bool(false));
            }
        }
        outlines.insert(text(version, "name").to_owned(), outline);
    }
    without_nothing(&json!({
        "group": spec.get("group"),
        "scope": spec.get("scope"),
        "names": {
            "kind": kind,
            "plural": names.get("plural"),
            "singular": or("singular", kind.to_ascii_lowercase()),
            "listKind": or("listKind", format!("{kind}List")),
            "shortNames": names.get("shortNames"),
            "categories": names.get("categories"),
        },
        "approved": approved,
        "conversion": conversion,
        "versions": outlines,
    }))
}

/// Removes what means the same as absence: nulls, empty lists, empty subresources, and a column's priority 0.
fn without_nothing(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, field)| (name, without_nothing(field)));
            let nothing = |name: &str, field: &Value| {
                field.is_null()
                    || field == &json!([])
                    || field == ""
                    || (name == "priority" && field == &json!(0))
                    || (name == "subresources" && field == &json!({}))
            };
            let fields = fields.filter(|(name, field)| !nothing(name, field));
            Value::Object(fields.map(|(name, field)| (name.clone(), field)).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nothing).collect()),
        value => value.clone(),
    }
}

fn diff(place: &str, source: Option<&Value>, produced: Option<&Value>, differences: &mut Vec<Difference>) {
    match (source, produced) {
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
            for name in names {
                diff(&format!("{place}/{name}"), before.get(name), after.get(name), differences);
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) if before.len() == after.len() => {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                diff(&format!("{place}/{index}"), Some(before), Some(after), differences);
            }
        }
        (Some(Value::Number(before)), Some(Value::Number(after))) if are_same(before, after) => {}
        (before, after) if before == after => {}
        (before, after) => differences.push(Difference {
            place: place.to_owned(),
            source: before.cloned(),
            produced: after.cloned(),
        }),
    }
}

/// Whether two floats are the same but for the last binary digit: `serde_json` may read another one than it has written.
fn are_same(before: &Number, after: &Number) -> bool {
    match (before.as_f64(), after.as_f64()) {
        (Some(one), Some(other)) if before.is_f64() && after.is_f64() => {
            (one - other).abs() <= f64::EPSILON * one.abs()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(schema: Value) -> Value {
        json!({"spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Ship", "plural": "ships"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        }})
    }

    fn places(source: Value, produced: Value) -> Vec<String> {
        compare(&definition(source), &definition(produced)).into_iter().map(|it| it.place).collect()
    }

    #[test]
    fn every_change_of_a_schema_is_found() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["a"], "properties": {
            "a": {"type": "string", "maxLength": 5, "default": "x", "description": "A."},
        }}}});
        assert!(places(schema.clone(), schema.clone()).is_empty());
        for (pointer, value) in [
            ("/properties/spec/properties/a/maxLength", json!(6)),
            ("/properties/spec/properties/a/default", json!("y")),
            ("/properties/spec/properties/a/description", json!("B.")),
            ("/properties/spec/required", json!([])),
            ("/properties/spec/properties/a/type", json!("integer")),
            ("/properties/spec/properties", json!({"b": {"type": "string"}})),
        ] {
            let mut other = schema.clone();
            *other.pointer_mut(pointer).unwrap() = value;
            let found = places(schema.clone(), other);
            assert!(
                found.iter().any(|place| place.starts_with(&format!("v1{pointer}"))),
                "{pointer}: {found:?}"
            );
        }
    }

    #[test]
    fn the_last_digit_of_a_float_is_no_difference() {
        let limited = |maximum: Value| json!({"type": "object", "properties": {"a": {"type": "number", "maximum": maximum}}});
        let found = |one: Value, other: Value| places(limited(one), limited(other)).len();
        assert_eq!(found(json!(9_223_372_036_854_775_000_i64), json!(9.223372036854776e18)), 0);
        assert_eq!(found(json!(0.1), json!(0.1 + f64::EPSILON / 16.0)), 0);
        assert_eq!(found(json!(0.1), json!(0.100_000_000_000_001)), 1);
        assert_eq!(found(json!(9_007_199_254_740_991_i64), json!(9_007_199_254_740_990_i64)), 1);
    }

    #[test]
    fn a_schema_that_no_server_takes_is_a_difference() {
        let loose = json!({"type": "object", "properties": {"a": {"default": 1}}});
        assert_eq!(places(loose.clone(), loose), ["v1 is not structural"]);
    }

    #[test]
    fn what_the_server_fills_in_is_no_difference() {
        let one = definition(json!({"type": "object"}));
        let mut other = one.clone();
        other["spec"]["names"]["listKind"] = json!("ShipList");
        other["spec"]["names"]["singular"] = json!("ship");
        other["spec"]["conversion"] = json!({"strategy": "None"});
        other["spec"]["versions"][0]["subresources"] = json!({});
        assert_eq!(compare(&one, &other), []);
        other["spec"]["names"]["listKind"] = json!("Ships");
        assert_eq!(compare(&one, &other)[0].place, "/names/listKind");
        other["spec"]["versions"][0]["served"] = json!(false);
        assert_eq!(compare(&one, &other).len(), 2);
    }
}
