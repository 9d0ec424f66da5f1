//! Tests that evaluate policies for requests. Each case is a request in one line:
//!
//! ```text
//! user(group,group) verb group:resource/subresource namespace name
//! user(group,group) verb /path
//! ```
//!
//! The core group is empty before the colon, and `-` stands for an empty word.

use super::*;

fn read(rules: &str) -> AuditPolicy {
    let text = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\n{rules}");
    let (policy, warnings) = AuditPolicy::parse(text.as_bytes()).unwrap();
    assert_eq!(warnings, Vec::<String>::new());
    policy
}

fn evaluate(policy: &AuditPolicy, request: &str) -> Option<Recording> {
    let mut words = request.split(' ').map(|word| if word == "-" { "" } else { word });
    let mut next = || words.next().unwrap_or_default();
    let (who, verb, what) = (next(), next(), next());
    let (name, groups) = who.split_once('(').unwrap_or((who, ""));
    let user = User::new(name, groups.trim_end_matches(')').split(','));
    let target = match what.split_once(':') {
        None => Target::Path(what),
        Some((group, resource)) => {
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            let (namespace, name) = (next(), next());
            Target::Resource { group, version: "v1", resource, subresource, namespace, name }
        }
    };
    policy.evaluate((!name.is_empty()).then_some(&user), verb, &target)
}

/// Checks that the policy records each request at the level before it.
fn check(rules: &str, cases: &[(&str, &str)]) {
    let policy = read(rules);
    for (level, request) in cases {
        let found = evaluate(&policy, request).map_or("None", |it| it.level.name());
        assert_eq!(found, *level, "{request} by {rules}");
    }
}

#[test]
fn the_first_rule_that_matches_decides_and_without_one_nothing_is_recorded() {
    check(
        "rules: [{level: None, verbs: [get]}, {level: Request, verbs: [get, list]}]",
        &[("None", "u get :pods a p"), ("Request", "u list :pods a"), ("None", "u create :pods a")],
    );
}

#[test]
fn a_rule_without_conditions_matches_everything() {
    check(
        "rules: [{level: Metadata}]",
        &[("Metadata", "u get :pods/log a p"), ("Metadata", "u get /healthz"), ("Metadata", "- get :pods")],
    );
}

#[test]
fn users_and_groups_match_by_name_and_nobody_matches_neither() {
    let rules = "rules: [{level: Request, users: [alice, bob]}, {level: Metadata, userGroups: [devs, ops]}]";
    check(
        rules,
        &[
            ("Request", "alice(devs) get :pods"),
            ("Metadata", "carol(x,ops) get :pods"),
            ("None", "carol(x) get :pods"),
            ("None", "- get :pods"),
        ],
    );
    check(
        "rules: [{level: Request, users: [alice], userGroups: [devs]}]",
        &[
            ("Request", "alice(devs) get :pods"),
            ("None", "alice(x) get :pods"),
            ("None", "bob(devs) get :pods"),
        ],
    );
}

#[test]
fn resources_match_by_group_and_name_and_a_part_only_where_the_rule_names_it() {
    check(
        "rules: [{level: Request, resources: [{group: '', resources: [pods]}]}]",
        &[
            ("Request", "u get :pods a p"),
            ("None", "u get :pods/log a p"),
            ("None", "u get apps:pods a p"),
            ("None", "u get :secrets a p"),
            ("None", "u get /pods"),
        ],
    );
    check(
        "rules: [{level: Request, resources: [{resources: [pods/log, pods/status]}]}]",
        &[("None", "u get :pods a p"), ("Request", "u get :pods/log a p"), ("None", "u get :pods/exec a p")],
    );
}

#[test]
fn wildcards_stand_for_all_resources_all_parts_of_one_or_one_part_of_all() {
    check(
        "rules: [{level: Request, resources: [{resources: ['*']}]}]",
        &[
            ("Request", "u get :pods a"),
            ("Request", "u get :pods/log a"),
            ("None", "u get apps:deployments a"),
        ],
    );
    check(
        "rules: [{level: Request, resources: [{resources: ['*/status']}]}]",
        &[("Request", "u get :pods/status a"), ("None", "u get :pods a"), ("None", "u get :pods/log a")],
    );
    check(
        "rules: [{level: Request, resources: [{resources: ['pods/*']}]}]",
        &[("Request", "u get :pods/log a"), ("Request", "u get :pods a"), ("None", "u get :nodes/proxy")],
    );
    check(
        "rules: [{level: Request, resources: [{group: '*', resources: ['*/scale']}]}]",
        &[("Request", "u get apps:deployments/scale a"), ("None", "u get apps:deployments a")],
    );
    check(
        "rules: [{level: Request, resources: [{group: apps}]}]",
        &[("Request", "u get apps:deployments/scale a"), ("None", "u get :pods a")],
    );
}

#[test]
fn names_narrow_a_resource_and_a_list_has_none() {
    check(
        "rules: [{level: Request, resources: [{resources: [configmaps], resourceNames: [one, two]}]}]",
        &[
            ("Request", "u get :configmaps a two"),
            ("None", "u get :configmaps a z"),
            ("None", "u list :configmaps a"),
        ],
    );
    check(
        "rules: [{level: Request, resources: [{resources: [configmaps], resourceNames: ['']}]}]",
        &[("Request", "u list :configmaps a"), ("None", "u get :configmaps a z")],
    );
}

#[test]
fn namespaces_match_exactly_and_the_empty_one_is_that_of_resources_without_any() {
    check(
        "rules: [{level: Request, namespaces: [kube-system]}, {level: Metadata, namespaces: ['']}]",
        &[
            ("Request", "u get :pods kube-system p"),
            ("None", "u get :pods a p"),
            ("Metadata", "u get :nodes - n"),
            ("None", "u get /healthz"),
        ],
    );
}

#[test]
fn paths_match_whole_or_by_what_stands_before_the_star() {
    check(
        "rules: [{level: Metadata, nonResourceURLs: ['/api*', /version]}]",
        &[
            ("Metadata", "u get /api"),
            ("Metadata", "u get /apis/apps"),
            ("Metadata", "u get /version"),
            ("None", "u get /version/x"),
            ("None", "u get :pods a p"),
        ],
    );
    check(
        "rules: [{level: Metadata, nonResourceURLs: ['*']}]",
        &[("Metadata", "u get /x"), ("None", "u get :pods")],
    );
}

#[test]
fn stages_of_the_policy_and_of_the_rule_are_left_out_together() {
    let policy = read("omitStages: [RequestReceived]\nrules: [{level: Metadata, omitStages: [Panic]}]");
    let omitted = evaluate(&policy, "u get :pods").unwrap().omit_stages;
    let left: Vec<_> = Stage::ALL.into_iter().filter(|stage| !omitted.contains(*stage)).collect();
    assert_eq!(left, [Stage::ResponseStarted, Stage::ResponseComplete]);
}

#[test]
fn a_rule_decides_about_managed_fields_before_the_policy() {
    let rules = "rules: [{level: Request, users: [a], omitManagedFields: false}, {level: Request}]";
    let policy = read(&format!("omitManagedFields: true\n{rules}"));
    assert!(!evaluate(&policy, "a get :pods").unwrap().omit_managed_fields);
    assert!(evaluate(&policy, "b get :pods").unwrap().omit_managed_fields);
    assert!(!evaluate(&read(rules), "b get :pods").unwrap().omit_managed_fields);
}
