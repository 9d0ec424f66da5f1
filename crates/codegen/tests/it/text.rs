//! What is generated for small definitions, and what is refused.

use evenkeel_codegen::{Crates, GenerateError, generate};
use serde_json::{Value, json};

fn definition(kind: &str, spec: Value) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"kind": kind, "plural": plural},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "required": ["spec"], "properties": {"spec": spec},
            }}}],
        },
    })
}

/// The lines of the generated file from the one that begins with `from` to the end of the item.
fn item(source: &str, from: &str) -> String {
    let lines = source.lines().skip_while(|line| !line.starts_with(from));
    let mut lines: Vec<&str> = lines.take_while(|line| !line.starts_with('}')).collect();
    lines.push("}");
    lines.join("\n")
}

#[test]
fn equal_schemas_share_a_type_named_after_their_field() {
    let reference = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let spec = json!({"type": "object", "properties": {
        "a": {"type": "object", "properties": {"secretRef": reference}},
        "b": {"type": "object", "properties": {"secretRef": reference, "x": {"type": "boolean"}}},
    }});
    let source = generate(&[definition("Ship", spec)], Crates::Direct).unwrap().source;
    insta::assert_snapshot!(item(&source, "pub struct ShipSpecB"), @r#"
    pub struct ShipSpecB {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub secret_ref: Option<ShipSecretRef>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub x: Option<bool>,
    }
    "#);
    assert_eq!(source.matches("pub struct").count(), 4);
}

#[test]
fn several_definitions_are_modules() {
    let spec = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let definitions = json!({"kind": "List", "items": [
        definition("Ship", spec.clone()), definition("Type", spec), {"kind": "Secret", "metadata": {"name": "s"}},
    ]});
    let generated = generate(&[definitions], Crates::Evenkeel).unwrap();
    let expected = [("ships.example.com", "ship::definition"), ("types.example.com", "r#type::definition")];
    let found: Vec<(&str, &str)> =
        generated.definitions.iter().map(|(name, path)| (name.as_str(), path.as_str())).collect();
    assert_eq!(found, expected);
    assert_eq!(
        generated.notes[0].to_string(),
        "Secret s: skipped, because it is not a CustomResourceDefinition"
    );
    assert!(generated.source.contains("// - Secret s: skipped"));
    assert!(generated.source.contains("    #[evenkeel::api]\n    #[derive(CustomResource, "));
}

#[test]
fn a_kind_that_would_hide_a_type_of_rust_is_renamed() {
    let spec = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let source = generate(&[definition("Option", spec)], Crates::Direct).unwrap().source;
    assert!(source.contains("root = \"OptionResource\","));
    assert!(source.contains("pub a: Option<String>,"));
}

#[test]
fn a_spec_that_cannot_be_made_up_is_noted() {
    let mut definition = definition(
        "Ship",
        json!({"type": "object", "required": ["e"], "properties": {"e": {"type": "string", "enum": ["a"]}}}),
    );
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["required"] = json!([]);
    let generated = generate(&[definition], Crates::Direct).unwrap();
    assert_eq!(generated.notes.len(), 1);
    assert!(generated.source.contains("// - ships.example.com v1: spec: an object may leave it out"));
}

/// Kubernetes reads limits as floats, so that the greatest integer is not what it says.
#[test]
fn a_limit_beyond_the_exact_floats_is_a_float() {
    let spec = json!({"type": "object", "properties": {"a": {"type": "integer", "maximum": i64::MAX}}});
    let definition = definition("Ship", spec);
    let generated = generate(std::slice::from_ref(&definition), Crates::Direct).unwrap();
    assert!(generated.source.contains("range(max = 9.223372036854776e+18f64)"), "{}", generated.source);
    let mut produced = definition.clone();
    let limit = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/a/maximum";
    *produced.pointer_mut(limit).unwrap() = json!(9.223372036854776e18);
    assert_eq!(evenkeel_codegen::compare(&definition, &produced), []);
}

#[test]
fn what_is_no_definition_is_refused() {
    let refusal = |object: Value| generate(&[object], Crates::Direct).unwrap_err();
    assert!(matches!(refusal(json!({"kind": "Ship"})), GenerateError::NoDefinition));
    let mut old = definition("Ship", json!({"type": "object"}));
    old["apiVersion"] = json!("apiextensions.k8s.io/v1beta1");
    assert!(matches!(refusal(old), GenerateError::ApiVersion { .. }));
    let mut nameless = definition("Ship", json!({"type": "object"}));
    nameless["spec"]["names"] = json!({});
    assert_eq!(refusal(nameless).to_string(), "ships.example.com has no /spec/names/kind");
    let mut bare = definition("Ship", json!({"type": "object"}));
    bare["spec"]["versions"][0].as_object_mut().unwrap().remove("schema");
    let missing = "ships.example.com has no /spec/versions/*/schema/openAPIV3Schema";
    assert_eq!(refusal(bare).to_string(), missing);
    let loose = definition("Ship", json!({"properties": {"a": {}}}));
    let refused = refusal(loose).to_string();
    assert!(refused.starts_with("the schema of ships.example.com v1 is not structural: "), "{refused}");
}

/// The names of a definition are written into comments, attributes and module names. A line break in one would end a
/// comment, and what follows would be compiled, and run by `--check`.
#[test]
fn names_that_no_server_accepts_are_refused() {
    let spec = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let good = definition("Ship", spec);
    for pointer in [
        "/metadata/name",
        "/spec/group",
        "/spec/names/kind",
        "/spec/names/plural",
        "/spec/names/singular",
        "/spec/names/shortNames",
        "/spec/names/categories",
        "/spec/versions/0/name",
    ] {
        for name in ["a\npub fn planted() {}\n//", "a\r\nb", "a\"]b", "a b", "1a", "é"] {
            let mut bad = good.clone();
            bad["spec"]["names"]["singular"] = json!("ship");
            bad["spec"]["names"]["shortNames"] = json!(["s"]);
            bad["spec"]["names"]["categories"] = json!(["all"]);
            let several = pointer.ends_with("Names") || pointer.ends_with("categories");
            *bad.pointer_mut(pointer).unwrap() = if several { json!([name]) } else { json!(name) };
            let refused = generate(&[bad, good.clone()], Crates::Direct).map(|it| it.source);
            assert!(matches!(refused, Err(GenerateError::Name { .. })), "{pointer} {name:?}: {refused:?}");
        }
    }
    let skipped = json!({"kind": "Secret\r", "metadata": {"name": "s\npub fn planted() {}\n//"}});
    let source = generate(&[skipped, good], Crates::Direct).unwrap().source;
    assert!(source.contains("// - Secret  s pub fn planted() {} //: skipped"), "{source}");
    assert!(!source.lines().any(|line| line.starts_with("pub fn planted")), "{source}");
}

#[test]
fn a_definition_that_is_nested_too_deep_is_refused() {
    let nested = |levels: usize| {
        (0..levels).fold(json!({"type": "string"}), |inner, _| json!({"items": inner, "type": "array"}))
    };
    assert!(generate(&[definition("Ship", nested(80))], Crates::Direct).is_ok());
    let refused = generate(&[definition("Ship", nested(500))], Crates::Direct);
    assert!(matches!(refused, Err(GenerateError::TooDeep(_))), "{refused:?}");
}
