use super::*;
use crate::json::json;
use crate::types::builtin;

fn found(kind: (&str, &str), body: &str) -> DecodingErrors {
    decode(builtin(kind.0, "v1", kind.1).unwrap(), kind.1, body.as_bytes()).unwrap().1
}

fn refusal(kind: (&str, &str), body: &str) -> String {
    found(kind, body).refusal.unwrap()
}

#[test]
fn strict_errors_come_in_the_order_of_the_text() {
    let body = r#"{"spec": {"zebra": 1, "paused": true, "paused": false,
        "template": {"spec": {"containers": [{"name": "a", "Ports": []}]}}}, "apple": 1, "apple": 2}"#;
    assert_eq!(
        found(("apps", "Deployment"), body).strict,
        [
            r#"unknown field "spec.zebra""#,
            r#"duplicate field "spec.paused""#,
            r#"unknown field "spec.template.spec.containers[0].Ports""#,
            r#"unknown field "apple""#,
        ]
    );
}

#[test]
fn keys_of_maps_are_free_but_not_twice() {
    let body = r#"{"data": {"any": "1", "any": "2"}}"#;
    assert_eq!(found(("", "ConfigMap"), body).strict, [r#"duplicate field "data.any""#]);
}

#[test]
fn wrong_types_are_worded_as_go_words_them() {
    let cases = [
        (
            ("apps", "Deployment"),
            r#"{"spec": {"replicas": "3"}}"#,
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            ("", "Pod"),
            r#"{"spec": {"containers": {}}}"#,
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            ("", "Pod"),
            r#"{"metadata": {"labels": {"a": 1}}}"#,
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            ("", "Service"),
            r#"{"spec": {"ports": [{"port": 3000000000}]}}"#,
            "json: cannot unmarshal number 3000000000 into Go struct field ServicePort.spec.ports.port of type int32",
        ),
        (
            ("", "Service"),
            r#"{"spec": {"ports": [{"port": 1.5}]}}"#,
            "json: cannot unmarshal number 1.5 into Go struct field ServicePort.spec.ports.port of type int32",
        ),
        (
            ("apps", "Deployment"),
            r#"{"spec": {"replicas": 3, "replicas": 3.0e0, "replicas": 3.0}}"#,
            "json: cannot unmarshal number 3.0e0 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            ("", "Service"),
            r#"{"spec": {"ports": [{"port": 80}, {"port": 1E2, "targetPort": 100.0}]}}"#,
            "json: cannot unmarshal number 100.0 into Go struct field ServicePort.spec.ports.targetPort of type int32",
        ),
        (
            ("", "Pod"),
            r#"{"spec": {"activeDeadlineSeconds": 99999999999999999999}}"#,
            "json: cannot unmarshal number 99999999999999999999 into Go struct field PodSpec.spec.activeDeadlineSeconds of type int64",
        ),
        (
            ("", "Service"),
            r#"{"spec": {"ports": [{"targetPort": true}]}}"#,
            "json: cannot unmarshal bool into Go struct field ServicePort.spec.ports.targetPort of type int32",
        ),
        (
            ("", "ConfigMap"),
            r#"{"data": {"a": true}}"#,
            "json: cannot unmarshal bool into Go struct field ConfigMap.data of type string",
        ),
        (("", "Secret"), r#"{"data": {"a": "not base64!"}}"#, "illegal base64 data at input byte 3"),
    ];
    for (kind, body, expected) in cases {
        assert_eq!(refusal(kind, body), expected);
    }
}

#[test]
fn types_with_names_of_their_own_are_named() {
    let container = |field: &str| format!(r#"{{"spec": {{"containers": [{{{field}}}]}}}}"#);
    let wanted = |field: &str| refusal(("", "Pod"), &container(field)).rsplit(' ').next().unwrap().to_owned();
    assert_eq!(wanted(r#""imagePullPolicy": 5"#), "v1.PullPolicy");
    assert_eq!(wanted(r#""resources": {"limits": []}"#), "v1.ResourceList");
    assert_eq!(wanted(r#""securityContext": {"capabilities": {"add": {}}}"#), "[]v1.Capability");
    assert_eq!(wanted(r#""securityContext": {"capabilities": {"add": [5]}}"#), "v1.Capability");
}

#[test]
fn base64_is_refused_where_go_refuses_it() {
    let cases = [
        ("", None),
        ("YQ==", None),
        ("YWI=", None),
        ("YWJj", None),
        ("abc", Some(0)),
        ("abcd=", Some(4)),
        ("abcde", Some(4)),
        ("not base64!", Some(3)),
        ("YQ=a", Some(3)),
        ("Y===", Some(1)),
        ("YQ==YQ==", Some(4)),
    ];
    for (text, expected) in cases {
        assert_eq!(decode::first_bad_base64(text), expected, "{text}");
    }
}

#[test]
fn a_type_that_decodes_itself_ends_the_decoding() {
    let body = r#"{"spec": {"hostname": 1, "containers": [{"resources": {"limits": {"cpu": "much"}}}]}}"#;
    assert!(refusal(("", "Pod"), body).starts_with("quantities must match the regular expression"));
}

#[test]
fn raw_values_are_not_looked_into() {
    let body = r#"{"data": {"a": {"b": 1, "b": 2}}, "revision": 1}"#;
    assert_eq!(found(("apps", "ControllerRevision"), body), DecodingErrors::default());
}

#[test]
fn the_converter_has_its_own_words() {
    let schema = builtin("apps", "v1", "Deployment").unwrap();
    let refused = |spec: crate::json::Value| convert(schema, &json!({"spec": spec})).refusal.unwrap();
    let pod = |spec: crate::json::Value| json!({"template": {"spec": spec}});
    assert_eq!(refused(pod(json!({"containers": {"name": "a"}}))), "cannot restore slice from map");
    assert_eq!(refused(pod(json!({"hostname": 1}))), "cannot convert int64 to string");
    assert_eq!(refused(json!({"replicas": "3"})), "unrecognized type: int32");
    assert_eq!(refused(json!({"template": "x"})), "cannot restore struct from: string");
    let strict = convert(schema, &json!({"spec": {"foo": 1, "bar": {"deep": 1}}})).strict;
    assert_eq!(strict, [r#"unknown field "spec.bar""#, r#"unknown field "spec.foo""#]);
}

#[test]
fn what_fits_has_nothing_to_be_told() {
    let schema = builtin("", "v1", "Pod").unwrap();
    let good = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"},
        "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"hostNetwork": true, "priority": 7,
        "containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}, "ports": [{"containerPort": 80}]}]}});
    assert!(fits(schema, &good, None));
    let wrong: [(&str, crate::json::Value); 7] = [
        ("/spec/hostNetwork", json!("true")),
        ("/spec/priority", json!(4_000_000_000_i64)),
        ("/spec/containers/0/resources/limits/cpu", json!("one")),
        ("/spec/containers/0/ports", json!({})),
        ("/spec/containers/0", json!({"nmae": "c"})),
        ("/metadata/labels/a", json!(1)),
        ("/metadata/creationTimestamp", json!("yesterday")),
    ];
    for (pointer, value) in wrong {
        let mut object = good.clone();
        *object.pointer_mut(pointer).unwrap() = value;
        assert!(!fits(schema, &object, Some(&good)), "{pointer}");
        assert_ne!(decode_value(schema, "Pod", &object), DecodingErrors::default(), "{pointer}");
    }
}

/// Kubernetes applies patches to the text of an object, so an error quotes a number as the patch spells it.
#[test]
fn a_number_is_spelled_as_in_its_patch() {
    let schema = builtin("", "v1", "Service").unwrap();
    let tree = json!({"spec": {"ports": [{"port": 80}, {"port": 100.0}]}});
    let spelled = |spell: fn(&mut DecodingErrors, &[u8]), patch: &str| {
        let mut found = decode_value(schema, "Service", &tree);
        spell(&mut found, patch.as_bytes());
        let shown = found.print(&tree);
        let refusal = found.refusal.unwrap();
        let number =
            refusal.strip_prefix("json: cannot unmarshal number ").unwrap().split(' ').next().unwrap();
        let port = |number: &str| format!(r#""port":{number}}}"#);
        assert_eq!(shown.replace(&port(number), &port("100.0")), tree.to_string());
        number.to_owned()
    };
    let merge = DecodingErrors::spell_by_merge_patch;
    assert_eq!(spelled(merge, r#"{"spec": {"ports": [{"port": 80}, {"port": 1e2}]}}"#), "1e2");
    assert_eq!(spelled(merge, "not JSON"), "100");
    let json = DecodingErrors::spell_by_json_patch;
    for (path, value) in [
        ("/spec", r#"{"ports": [0, {"port": 1E+2}]}"#),
        ("/spec/ports/1", r#"{"port": 1E+2}"#),
        ("/spec/ports/-", r#"{"port": 1E+2}"#),
        ("/spec/ports/1/port", "1E+2"),
    ] {
        let earlier = r#"{"op": "add", "path": "/spec/ports/1/port", "value": 1e2}"#;
        let patch = format!(r#"[{earlier}, {{"op": "add", "path": "{path}", "value": {value}}}]"#);
        assert_eq!(spelled(json, &patch), "1E+2", "{path}");
    }
    assert_eq!(spelled(json, r#"[{"op": "copy", "from": "/a", "path": "/spec/ports/1/port"}]"#), "100");
}

/// Kubernetes stores this quota as `{"cpu": "1500e-3", "memory": "1k", "pods": "1e3"}` (recorded).
#[test]
fn a_quantity_keeps_the_format_of_its_number() {
    let schema = builtin("", "v1", "ResourceQuota").unwrap();
    let body = br#"{"spec": {"hard": {"pods": 1e3, "cpu": 1.5e0, "memory": 1000}}}"#;
    let (tree, found) = decode(schema, "ResourceQuota", body).unwrap();
    assert_eq!(found, DecodingErrors::default());
    let hard = &tree["spec"]["hard"];
    assert_eq!(*hard, json!({"pods": "1e3", "cpu": "1.5e0", "memory": 1000}));
    let printed = ["pods", "cpu", "memory"]
        .map(|name| crate::quantity::Quantity::from_json(&hard[name]).unwrap().to_string());
    assert_eq!(printed, ["1e3", "1500e-3", "1k"]);
}

/// Schemas in `items` and `additionalProperties` have a decoder of their own: it checks types, ends at the first error, and
/// is not strict.
#[test]
fn schemas_within_schemas_are_decoded_by_their_own_decoder() {
    let schema = builtin("apiextensions.k8s.io", "v1", "CustomResourceDefinition").unwrap();
    let of = |field: &str| {
        let text = format!(
            r#"{{"spec": {{"group": 5, "versions": [{{"schema": {{"openAPIV3Schema": {{"properties": {{"a": {field}}}}}}}}}]}}}}"#
        );
        let (tree, found) = decode(schema, "CustomResourceDefinition", text.as_bytes()).unwrap();
        (tree.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/a").unwrap().clone(), found)
    };
    for (field, end) in [
        (r#"{"items": {"items": {"type": 5}}}"#, "items.items.type of type string"),
        (r#"{"items": [{"maxLength": "x"}]}"#, "items.maxLength of type int64"),
        (r#"{"additionalProperties": {"type": {}}}"#, "additionalProperties.type of type string"),
    ] {
        let refusal = of(field).1.refusal.unwrap();
        let start = "json: cannot unmarshal ";
        let place = "into Go struct field JSONSchemaProps.spec.versions.schema.openAPIV3Schema.properties.";
        assert!(refusal.starts_with(start) && refusal.contains(place) && refusal.ends_with(end), "{refusal}");
    }
    let lax = r#"{"items": {"bogus": 1, "type": "string"}, "additionalProperties": true}"#;
    let (tree, found) = of(lax);
    assert_eq!(tree["items"]["type"], "string");
    assert_eq!(tree["additionalProperties"], true);
    assert_eq!(found.strict, Vec::<String>::new());
    assert_eq!(of(r#"{"bogus": 1}"#).1.strict.len(), 1);
}
