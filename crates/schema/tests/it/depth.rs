//! Inputs with thousands of levels, for everything in this crate that reads user input. Each must give an
//! error or a result on a small stack in a debug build: a stack overflow would end the test's process.

use evenkeel_schema::admission::{Inputs, MutatingPolicy, Policy};
use evenkeel_schema::depth::{DEPTH_MAX, fits};
use evenkeel_schema::fieldset::FieldSet;
use evenkeel_schema::json::{Value, json};
use evenkeel_schema::patch::{PatchError, json as json_patch, merge, strategic};
use evenkeel_schema::selector::{FieldSelector, LabelSelector};
use evenkeel_schema::structural::{self, definition};
use evenkeel_schema::{managed_fields, protobuf, strict_decoding, types};

const LEVELS: [usize; 3] = [1_000, 10_000, 100_000];
/// A quarter of the stack of a server thread.
const STACK_BYTES: usize = 512 * 1024;
/// Half of the stack of a server thread: expressions may have 300 levels, and each takes some kilobytes in a
/// debug build.
const EXPRESSION_STACK_BYTES: usize = 1024 * 1024;

fn on_small_stack(test: impl FnOnce() + Send + 'static) {
    on_stack(STACK_BYTES, test);
}

fn on_stack(bytes: usize, test: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(bytes).spawn(test).unwrap().join().unwrap();
}

/// Builds nested maps with this many levels.
fn nested(levels: usize) -> Value {
    (1..levels).fold(json!({}), |inner, _| json!({ "a": inner }))
}

/// Builds a text of nested levels from its opening, middle and closing parts.
fn text(levels: usize, open: &str, middle: &str, close: &str) -> String {
    format!("{}{middle}{}", open.repeat(levels), close.repeat(levels))
}

#[test]
fn json_bodies() {
    on_small_stack(|| {
        for kind in ["ConfigMap", "Pod", "Service"] {
            let schema = types::builtin("", "v1", kind).unwrap();
            for levels in LEVELS {
                let bodies = [
                    text(levels, "{\"a\":", "1", "}"),
                    text(levels, "{\"spec\":", "1", "}"),
                    text(levels, "[", "", "]"),
                    text(levels, "[", "", ""),
                    format!("{{\"data\":{}}}", text(levels, "[{\"a\":", "1", "}]")),
                    format!(
                        "{{\"metadata\":{{\"managedFields\":[{{\"fieldsV1\":{}}}]}}}}",
                        text(levels, "{\"f:a\":", "{}", "}")
                    ),
                ];
                for body in bodies {
                    assert!(
                        strict_decoding::decode(schema, kind, body.as_bytes()).is_err(),
                        "{kind}, {levels} levels"
                    );
                }
            }
        }
    });
}

#[test]
fn json_patches() {
    on_small_stack(|| {
        let document = json!({"data": nested(100)});
        // Each copy doubles the depth: ten copies make 100,000 levels.
        let mut levels = 100;
        let mut copies = Vec::new();
        for _ in 0..10 {
            let path = format!("/data{}", "/a".repeat(levels));
            copies.push(json!({"op": "copy", "from": "/data", "path": path}));
            levels *= 2;
        }
        let refused = json_patch::apply(&document, &copies.into()).unwrap_err();
        assert!(matches!(refused, PatchError::TooDeep(_)), "{refused:?}");
        for operation in ["add", "replace"] {
            let path = format!("/data{}/b", "/a".repeat(98));
            let patch = |levels: usize| json!([{"op": operation, "path": path, "value": nested(levels)}]);
            let patched = json_patch::apply(&document, &patch(DEPTH_MAX - 100)).unwrap();
            assert!(fits(&patched, DEPTH_MAX) && !fits(&patched, DEPTH_MAX - 1));
            let refused = json_patch::apply(&document, &patch(DEPTH_MAX - 99)).unwrap_err();
            assert!(matches!(refused, PatchError::TooDeep(_)), "{operation}: {refused:?}");
        }
        let moved = json!([{"op": "add", "path": "/b", "value": nested(100)},
            {"op": "move", "from": "/b", "path": format!("/data{}/b", "/a".repeat(90))}]);
        assert!(matches!(json_patch::apply(&document, &moved).unwrap_err(), PatchError::TooDeep(_)));
        for levels in LEVELS {
            let long = json!([{"op": "add", "path": "/a".repeat(levels), "value": 1}]);
            assert!(json_patch::apply(&document, &long).is_err());
        }
    });
}

/// The deepest objects that the parser accepts, on both sides of a merge.
#[test]
fn merges_of_the_deepest_trees_that_are_parsed() {
    on_small_stack(|| {
        let deep = || json!({"apiVersion": "v1", "kind": "ConfigMap", "data": nested(126)});
        let mut object = deep();
        merge::apply(&mut object, deep()).unwrap();
        let schema = types::builtin("", "v1", "ConfigMap").unwrap();
        strategic::apply(schema, &mut object, &mut deep()).ok();
        let _ = managed_fields::merge_configuration(schema, &object, &deep());
        let set = FieldSet::from_json(&nested(126)).map(|set| set.to_text());
        assert!(set.is_err());
        let fields = (1..126).fold(json!({}), |inner, _| json!({ "f:a": inner }));
        let set = FieldSet::from_json(&fields).unwrap();
        assert_eq!(set.paths().len(), 1);
        assert_eq!(set.to_json(), fields);
    });
}

#[test]
fn field_sets() {
    on_small_stack(|| {
        for levels in LEVELS {
            assert!(text(levels, "{\"f:a\":", "{}", "}").parse::<FieldSet>().is_err(), "{levels} levels");
            let key = format!("{{\"k:{{\\\"a\\\":{}}}\":{{}}}}", text(levels, "[", "", "]"));
            assert!(key.parse::<FieldSet>().is_err(), "{levels} levels");
            let value = format!("{{\"v:{}\":{{}}}}", text(levels, "[", "", "]"));
            assert!(value.parse::<FieldSet>().is_err(), "{levels} levels");
        }
    });
}

#[test]
fn selectors() {
    on_small_stack(|| {
        for levels in LEVELS {
            for text in [
                text(levels, "a in (", "b", ")"),
                text(levels, "(", "", ")"),
                "!".repeat(levels),
                "a=".repeat(levels),
                "a,".repeat(levels),
                "a in (b),".repeat(levels),
            ] {
                let _ = LabelSelector::parse(&text);
                let _ = FieldSelector::parse(&text);
            }
        }
    });
}

/// A protobuf body of a CRD whose schema nests by `not` or by `items`.
fn protobuf_schema(levels: usize, field: u64) -> Vec<u8> {
    fn varint(mut number: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while number >= 0x80 {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
        bytes
    }
    // Built backwards from the innermost level: each level is a tag and the length of its content.
    let mut backwards: Vec<u8> = Vec::new();
    let mut wrap = |field: u64| {
        let mut head = varint(field << 3 | 2);
        head.extend(varint(backwards.len() as u64));
        backwards.extend(head.iter().rev());
    };
    (0..levels).for_each(|_| wrap(field));
    // The path of the schema within the CRD: spec, versions, schema, openAPIV3Schema.
    [1, 4, 7, 2].into_iter().for_each(&mut wrap);
    let mut raw = backwards;
    raw.reverse();
    let kind = b"\x0a\x17apiextensions.k8s.io/v1\x12\x18CustomResourceDefinition";
    let mut body = b"k8s\0\x0a".to_vec();
    body.extend(varint(kind.len() as u64));
    body.extend(kind);
    body.push(0x12);
    body.extend(varint(raw.len() as u64));
    body.extend(raw);
    body
}

#[test]
fn protobuf_bodies() {
    on_small_stack(|| {
        for levels in LEVELS {
            for field in 1..45 {
                let _ = protobuf::decode(&protobuf_schema(levels, field));
            }
        }
    });
}

/// The deepest schemas that a stored CRD can contain, by every keyword that nests.
#[test]
fn schemas_of_definitions() {
    on_small_stack(|| {
        for keyword in ["items", "not", "additionalProperties", "properties", "allOf", "anyOf", "oneOf"] {
            for levels in [10, 40, DEPTH_MAX - 6] {
                let mut schema = json!({"type": "string"});
                for _ in 0..levels {
                    schema = match keyword {
                        "properties" => json!({"type": "object", "properties": {"a": schema}}),
                        "items" => json!({"type": "array", "items": schema}),
                        "additionalProperties" => json!({"type": "object", "additionalProperties": schema}),
                        "not" => json!({"type": "object", "not": schema}),
                        several => json!({"type": "object", several: [schema]}),
                    };
                    schema["x-kubernetes-validations"] = json!([{"rule": "self == self"}]);
                }
                let schema = json!({"type": "object", "properties": {"spec": schema}});
                let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
                let object = json!({"metadata": {"name": "xs.x.io"}, "spec": {"group": "x.io", "scope": "Namespaced",
                    "names": {"plural": "xs", "singular": "x", "kind": "X", "listKind": "XList"},
                    "conversion": {"strategy": "None"}, "versions": [version]}, "status": {"storedVersions": ["v1"]}});
                let _ = definition::validate(&object, None);
                let Ok(compiled) = structural::compile(&schema) else { continue };
                let mut instance = json!({"spec": nested(100)});
                structural::default(&compiled, &mut instance);
                let _ = structural::validate(&compiled, &instance, None);
                structural::prune(&compiled, &mut instance);
            }
        }
    });
}

/// Runs an expression as a policy's variable, and as a mutation.
fn run(expression: &str, levels: usize) {
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}});
    let null = Value::Null;
    let inputs = Inputs {
        object: &object,
        old: &null,
        request: &null,
        params: &null,
        namespace: &null,
        authorizer: None,
    };
    let spec = json!({"variables": [{"name": "v", "expression": expression}],
        "validations": [{"expression": "variables.v != variables.v"}]});
    let verdict = Policy::compile(&spec).decide(&inputs);
    assert!(!verdict.denials.is_empty(), "{levels} levels of {}", &expression[..20.min(expression.len())]);
    let mutations =
        json!([{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}]);
    let schema = types::builtin("", "v1", "ConfigMap").unwrap();
    let mut changed = object.clone();
    MutatingPolicy::compile(&json!({ "mutations": mutations })).mutate(
        &inputs,
        schema,
        &mut changed,
        &|_| {},
    );
}

#[test]
fn expressions() {
    on_stack(EXPRESSION_STACK_BYTES, || {
        for levels in [30, 1_000, 10_000] {
            for expression in [
                text(levels, "(", "1", ")"),
                text(levels, "[", "1", "]"),
                text(levels, "{1:", "1", "}"),
                text(levels, "f(", "1", ")"),
                text(levels, "Object{a:", "1", "}"),
                text(levels, "optional.of(", "1", ")"),
                text(levels, "!", "true", ""),
                text(levels, "-", "1", ""),
                text(levels, "true?1:", "1", ""),
                text(levels, "1+", "1", ""),
                text(levels, "1 in ", "[1]", ""),
                text(levels, "1e1in ", "[1]", ""),
                text(levels, "a.", "b", ""),
                text(levels, "", "a", "[0]"),
                text(levels, "", "[1]", ".map(a,[a])"),
                text(levels.min(1_000), "1&&", "1", ""),
                text(levels.min(1_000), "1||", "1", ""),
                format!("r'\\' == {}", text(levels, "(", "1", ")")),
                format!("b\"\"\"\\\"\"\"\"\"\" == {}", text(levels, "(", "1", ")")),
                "(".repeat(levels),
                "[".repeat(levels),
                "'".repeat(levels),
                "{".repeat(levels),
            ] {
                run(&expression, levels);
            }
        }
    });
}

/// Loops that wrap their item in many lists: the value would have 320 levels, and its type as well.
#[test]
fn values_that_are_deeper_than_their_expressions() {
    on_stack(EXPRESSION_STACK_BYTES, || {
        for around in [10, 40] {
            for loops in [2, 8] {
                let step = format!(".map(a, {})", text(around, "[", "a", "]"));
                run(&format!("[1]{}", step.repeat(loops)), around * loops);
            }
        }
    });
}

/// Variables that wrap each other in lists, or contain each other twice: their values would have 1,200
/// levels, or 2^60 parts.
#[test]
fn variables_that_nest_each_other() {
    on_stack(EXPRESSION_STACK_BYTES, || {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        let null = Value::Null;
        let inputs = Inputs {
            object: &object,
            old: &null,
            request: &null,
            params: &null,
            namespace: &null,
            authorizer: None,
        };
        let wrapped = |n: usize| text(20, "[", &format!("variables.v{n}"), "]");
        let twice = |n: usize| format!("[variables.v{n}, variables.v{n}]");
        for wrap in [&wrapped as &dyn Fn(usize) -> String, &twice] {
            let mut variables = vec![json!({"name": "v0", "expression": "[1]"})];
            variables.extend((0..60).map(|n| json!({"name": format!("v{}", n + 1), "expression": wrap(n)})));
            let spec = json!({"variables": variables, "validations": [{"expression": "variables.v60 == variables.v60"}]});
            assert_eq!(Policy::compile(&spec).decide(&inputs).denials.len(), 1);
            let patch = "[JSONPatch{op: 'add', path: '/data', value: variables.v20}]";
            let spec = json!({"variables": variables,
                "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}]});
            let schema = types::builtin("", "v1", "ConfigMap").unwrap();
            let problems =
                MutatingPolicy::compile(&spec).mutate(&inputs, schema, &mut object.clone(), &|_| {});
            assert_eq!(problems.len(), 1, "{problems:?}");
        }
    });
}
