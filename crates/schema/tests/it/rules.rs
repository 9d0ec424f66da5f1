//! CEL validation rules, from the schema that contains them to their error messages.

use evenkeel_schema::field::FieldError;
use evenkeel_schema::json::{Value, json};
use evenkeel_schema::structural::{self, Rules};
use proptest::prelude::*;

fn definition(spec: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "conversion": {"strategy": "None"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
        "status": {"storedVersions": ["v1"]},
    })
}

fn with_rule(rule: &str) -> Value {
    json!({
        "type": "object",
        "properties": {
            "n": {"type": "integer"},
            "s": {"type": "string", "maxLength": 20},
            "l": {"type": "array", "maxItems": 10, "items": {"type": "integer"}},
            "unbounded": {"type": "array", "items": {"type": "string"}},
        },
        "x-kubernetes-validations": [{"rule": rule}],
    })
}

fn printed(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// The errors of an object, given the schema of its spec.
fn errors_of(spec: &Value, new: &Value, old: Option<&Value>) -> Vec<String> {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let compiled = structural::compile(&schema).unwrap();
    let rules = Rules::compile(&compiled).unwrap();
    let object = |spec: &Value| json!({"metadata": {"name": "a"}, "spec": spec});
    let findings = rules.validate(&object(new), old.map(object).as_ref());
    printed(&findings.errors)
}

fn check(rule: &str, spec: Value, wanted: &str) {
    assert_eq!(errors_of(&with_rule(rule), &spec, None).join("\n"), wanted, "{rule}");
}

/// Why a CRD with this rule is refused.
fn refused(rule: &str) -> String {
    let errors = structural::definition::validate(&definition(&with_rule(rule)), None);
    let details: Vec<String> = errors.iter().map(|error| error.detail.clone()).collect();
    details.join("\n")
}

#[test]
fn rules_hold_or_say_why_not() {
    check("self.n > 3", json!({"n": 4}), "");
    check("self.n > 3", json!({"n": 3}), "spec: Invalid value: failed rule: self.n > 3");
    check("self.l.all(x, x > 0)", json!({"l": [1, 2]}), "");
    let missing = r#"spec: Invalid value: "object": no such key: s evaluating rule: self.s == 'a'"#;
    check("self.s == 'a'", json!({"n": 1}), missing);
    check("self.s == 'a' || self.n == 1", json!({"n": 1}), "");
    check("self.l[5] == 1 || true", json!({"l": []}), "");
    check("self.l.exists(x, 10 / x == 5)", json!({"l": [0, 2]}), "");
    let zero =
        r#"spec: Invalid value: "object": division by zero evaluating rule: self.l.exists(x, 10 / x == 3)"#;
    check("self.l.exists(x, 10 / x == 3)", json!({"l": [0, 2]}), zero);
}

#[test]
fn transitions_are_checked_where_values_belong_together() {
    let spec = json!({
        "type": "object",
        "properties": {
            "id": {"type": "string", "maxLength": 9, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]},
            "items": {
                "type": "array", "maxItems": 9, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "required": ["k"], "properties": {
                    "k": {"type": "string", "maxLength": 9},
                    "v": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "shrinks"}]},
                }},
            },
        },
    });
    let old = json!({"id": "a", "items": [{"k": "x", "v": 1}, {"k": "y", "v": 5}]});
    let new = json!({"id": "b", "items": [{"k": "y", "v": 4}, {"k": "z", "v": 0}, {"k": "x", "v": 1}]});
    assert_eq!(errors_of(&spec, &new, None), [""; 0]);
    assert_eq!(
        errors_of(&spec, &new, Some(&old)),
        [
            r#"spec.id: Invalid value: "b": failed rule: self == oldSelf"#,
            "spec.items[0].v: Invalid value: 4: shrinks",
        ]
    );
}

#[test]
fn an_old_error_is_told_but_not_held_against_an_update() {
    let schema = json!({"type": "object", "properties": {"spec": with_rule("self.n > 3")}});
    let rules = Rules::compile(&structural::compile(&schema).unwrap()).unwrap();
    let before = json!({"spec": {"n": 1}, "other": 1});
    let after = json!({"spec": {"n": 1}, "other": 2});
    let findings = rules.validate(&after, Some(&before));
    assert!(findings.errors.is_empty());
    assert_eq!(printed(&findings.warnings), ["spec: Invalid value: failed rule: self.n > 3"]);
    let changed = json!({"spec": {"n": 2}});
    assert_eq!(rules.validate(&changed, Some(&before)).errors.len(), 1);
}

#[test]
fn a_definition_with_a_wrong_rule_is_refused() {
    assert_eq!(refused("self.n > 3"), "");
    assert_eq!(
        refused("self.nosuch > 3"),
        "compilation failed: ERROR: <input>:1:5: undefined field 'nosuch'\n | self.nosuch > 3\n | ....^"
    );
    assert_eq!(
        refused("self.n == 'a'"),
        "compilation failed: ERROR: <input>:1:8: found no matching overload for '_==_' applied to '(int, string)'\n | self.n == 'a'\n | .......^"
    );
    assert_eq!(refused("self.n"), "cel expression must evaluate to a bool");
    assert!(refused("self.unbounded.all(x, self.unbounded.all(y, x == y))").starts_with(
        "estimated rule cost exceeds budget by factor of more than 100x (try simplifying the rule"
    ));
}

/// A triple loop over a long list would run for minutes; the cost limit stops it.
#[test]
fn a_rule_that_costs_too_much_is_cut_off() {
    let items: Vec<i64> = (0..2000).collect();
    let rule = "self.l.all(x, self.l.all(y, self.l.all(z, x + y + z >= 0)))";
    let wanted = format!(
        "spec: Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: {rule}"
    );
    check(rule, json!({ "l": items }), &wanted);
}

/// Values that contain the same part many times are compared and printed in bounded time.
#[test]
fn values_that_share_their_parts_are_no_trap() {
    let doubled = "[[1]]".to_owned() + &".map(x, [x, x])".repeat(40);
    for rule in [format!("{doubled} == {doubled}"), format!("'%s'.format([{doubled}]) == ''")] {
        let errors = errors_of(&with_rule(&rule), &json!({"n": 1}), None);
        assert!(errors.len() <= 1, "{errors:?}");
    }
}

#[test]
fn expressions_that_are_too_deep_are_refused() {
    let deep = [
        "(".repeat(2000) + &")".repeat(2000),
        "1+".repeat(20_000) + "1 == 1",
        "self".to_owned() + &".a".repeat(20_000),
        "[".repeat(200) + &"]".repeat(200),
        "!".repeat(50_000) + "true",
        "self.n == 1 && ".repeat(3000) + "true",
        "true ? ".repeat(400) + "true" + &": true".repeat(400),
    ];
    for rule in deep {
        let _ = refused(&rule);
    }
}

fn fragment() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "self",
        "self.n",
        "self.s",
        "self.l",
        "1",
        "'a'",
        "[1, 2]",
        "{'a': 1}",
        "null",
        "1.5",
        "2u",
        "b'x'",
        "true",
        "duration('1h')",
        "timestamp('2020-01-01T00:00:00Z')",
        "optional.none()",
        "oldSelf",
        "int",
        "x",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(4, 24, 3, |inner| {
        let binary = prop::sample::select(vec![" + ", " == ", " && ", " in ", " < ", " - ", " % ", " || "]);
        let call = prop::sample::select(vec![
            "all(x, ",
            "map(x, ",
            "filter(x, ",
            "exists_one(x, ",
            "format(",
            "split(",
            "indexOf(",
            "matches(",
            "sortBy(x, ",
            "optMap(x, ",
            "transformMap(k, v, ",
            "join(",
            "slice(1, ",
            "replace('a', ",
        ]);
        prop_oneof![
            (inner.clone(), binary, inner.clone()).prop_map(|(a, op, b)| format!("({a}{op}{b})")),
            (inner.clone(), call, inner.clone()).prop_map(|(a, call, b)| format!("{a}.{call}{b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}[{b}]")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            inner.clone().prop_map(|a| format!("dyn({a})")),
            inner.prop_map(|a| format!("[{a}].flatten().first().orValue({a})")),
        ]
    })
}

/// Only a few cases: the parser is slow in a debug build, and `fuzz/` runs more of them.
fn cases() -> ProptestConfig {
    ProptestConfig { cases: 24, ..super::cases() }
}

proptest! {
    #![proptest_config(cases())]

    /// Any expression is either refused or evaluated; nothing panics.
    #[test]
    fn no_expression_panics(rule in fragment(), n in any::<i64>(), s in ".{0,8}", l in prop::collection::vec(any::<i64>(), 0..5)) {
        let spec = json!({"n": n, "s": s, "l": l});
        for rule in [rule.clone(), format!("{rule} == {rule}")] {
            let _ = refused(&rule);
            let _ = errors_of(&with_rule(&rule), &spec, Some(&spec));
        }
    }

    #[test]
    fn no_text_panics(rule in "\\PC{0,40}") {
        let _ = refused(&rule);
    }
}
