use super::*;

const HEAD: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";

/// Returns the error for a policy with these fields.
fn refusal(fields: &str) -> String {
    AuditPolicy::parse(format!("{HEAD}{fields}").as_bytes()).unwrap_err().to_string()
}

#[test]
fn a_policy_is_read_from_yaml_or_json() {
    for text in [
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nmetadata: {name: p}\nrules:\n- level: None\n",
        r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "None"}]}"#,
    ] {
        let (policy, warnings) = AuditPolicy::parse(text.as_bytes()).unwrap();
        assert_eq!((policy.rules.len(), warnings.len()), (1, 0), "{text}");
    }
}

#[test]
fn fields_with_wrong_values_are_told_as_kube_apiserver_tells_them() {
    assert_eq!(refusal("rules: [{}]"), "rules[0].level: Required value");
    assert_eq!(
        refusal("rules: [{level: All}]"),
        "rules[0].level: Unsupported value: \"All\": supported values: \"None\", \"Metadata\", \"Request\", \
         \"RequestResponse\""
    );
    assert_eq!(
        refusal("omitStages: [Begin]\nrules: [{level: None, omitStages: [End]}]"),
        "[omitStages[0]: Invalid value: \"Begin\": allowed stages are \
         RequestReceived,ResponseStarted,ResponseComplete,Panic, rules[0].omitStages[0]: Invalid value: \"End\": \
         allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic]"
    );
    assert_eq!(
        refusal("rules: [{level: None, nonResourceURLs: [api, '/a*b']}]"),
        "[rules[0].nonResourceURLs[0]: Invalid value: \"api\": non-resource URL rules must begin with a '/' \
         character, rules[0].nonResourceURLs[1]: Invalid value: \"/a*b\": non-resource URL wildcards '*' must be the \
         final character of the rule]"
    );
    assert_eq!(
        refusal("rules: [{level: None, nonResourceURLs: [/a], namespaces: [a]}]"),
        "rules[0].nonResourceURLs: Invalid value: [\"/a\"]: rules cannot apply to both regular resources and \
         non-resource URLs"
    );
    assert_eq!(
        refusal("rules: [{level: None, resources: [{resourceNames: [a]}]}]"),
        "rules[0].resources.resourceNames: Invalid value: [\"a\"]: using resourceNames requires at least one resource"
    );
    assert!(
        refusal("rules: [{level: None, resources: [{group: apps/v1}]}]").starts_with(
            "rules[0].resources.group: Invalid value: \"apps/v1\": a lowercase RFC 1123 subdomain"
        )
    );
}

#[test]
fn a_policy_that_records_nothing_is_refused() {
    assert_eq!(refusal(""), "loaded illegal policy with 0 rules");
    assert_eq!(refusal("rules: []"), "loaded illegal policy with 0 rules");
}

#[test]
fn another_document_is_no_policy() {
    let refusal = |text: &str| AuditPolicy::parse(text.as_bytes()).unwrap_err().to_string();
    assert!(refusal("rules: [").starts_with("failed decoding: yaml: "));
    assert_eq!(
        refusal("rules: []"),
        "unknown group version field audit.k8s.io/__internal, Kind=Policy in policy"
    );
    assert_eq!(
        refusal("apiVersion: audit.k8s.io/v1beta1\nkind: Policy"),
        "failed decoding: no kind \"Policy\" is registered for version \"audit.k8s.io/v1beta1\" in scheme \
         \"pkg/runtime/scheme.go:111\""
    );
    assert!(refusal("- a").starts_with("failed decoding: couldn't get version/kind"));
}

#[test]
fn values_of_a_wrong_type_are_refused() {
    assert_eq!(
        refusal("rules: x"),
        "failed decoding: json: cannot unmarshal string into Go struct field Policy.rules of type []v1.PolicyRule"
    );
    assert_eq!(
        refusal("rules: [{level: 1}]"),
        "failed decoding: json: cannot unmarshal number into Go struct field PolicyRule.rules.level of type v1.Level"
    );
    for (fields, said) in [
        ("rules: [1]", "number into Go struct field Policy.rules of type v1.PolicyRule"),
        (
            "rules: [{level: None, users: x}]",
            "string into Go struct field PolicyRule.rules.users of type []string",
        ),
        (
            "rules: [{level: None, users: [{}]}]",
            "object into Go struct field PolicyRule.rules.users of type string",
        ),
        (
            "rules: [{level: None, resources: [{group: 1}]}]",
            "number into Go struct field GroupResources.rules.resources.group of type string",
        ),
        (
            "rules: [{level: None, omitManagedFields: x}]",
            "string into Go struct field PolicyRule.rules.omitManagedFields of type bool",
        ),
        ("omitStages: x", "string into Go struct field Policy.omitStages of type []v1.Stage"),
    ] {
        assert_eq!(refusal(fields), format!("failed decoding: json: cannot unmarshal {said}"));
    }
}

#[test]
fn unknown_and_repeated_fields_are_warned_of() {
    let text = format!("{HEAD}rule: 1\nrules: [{{level: None, user: [a]}}]\n");
    let (policy, warnings) = AuditPolicy::parse(text.as_bytes()).unwrap();
    assert_eq!(policy.rules.len(), 1);
    assert_eq!(
        warnings,
        [
            "Audit policy contains errors, falling back to lenient decoding: strict decoding error: unknown field \
          \"rule\", unknown field \"rules[0].user\""
        ]
    );
    let text = format!("{HEAD}rules: [{{level: None}}]\nrules: [{{level: Metadata}}]\n");
    let (policy, warnings) = AuditPolicy::parse(text.as_bytes()).unwrap();
    assert_eq!(policy.rules[0].level, Level::Metadata);
    assert!(warnings[0].contains("key \"rules\" already set in map"), "{warnings:?}");
}
