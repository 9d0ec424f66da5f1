//! Checks that decisions about kinds stand in one place: the table of strategies in this crate, and the constants of
//! `kinds.rs` in the built-in controllers.

use std::path::{Path, PathBuf};

use evenkeel_schema::api_resources;

/// The only file that may name kinds to make a decision.
const TABLE: &str = "strategy/table.rs";

/// Files that compare an API field whose values are kinds, not the kind of a resource.
const FIELDS: [(&str, &str); 7] = [
    ("admission/limit_range.rs", "`type` of a limit of a LimitRange"),
    ("authorize.rs", "`subjects[].kind` of a binding of roles"),
    ("authorize/escalate.rs", "`roleRef.kind` of a binding of roles"),
    ("authorize/rbac_index.rs", "`roleRef.kind` and `subjects[].kind` of a binding of roles"),
    ("bootstrap/objects.rs", "`kind` of a line of the initial objects"),
    ("subresource/binding.rs", "`target.kind` of a Binding"),
    ("table/cells/cluster.rs", "`subjects[].kind` of a binding of roles"),
];

#[test]
fn kinds_are_named_in_the_table_of_strategies_alone() {
    let mut found = Vec::new();
    let mut excused = Vec::new();
    for (file, code) in sources() {
        let names = comparisons(&code);
        match FIELDS.iter().find(|(excused, _)| *excused == file) {
            Some((name, _)) if !names.is_empty() => excused.push(*name),
            _ if file == TABLE => {}
            _ => found.extend(names.into_iter().map(|name| format!("{file}: {name}"))),
        }
    }
    assert!(found.is_empty(), "say it in {TABLE} instead of comparing with the names of kinds: {found:#?}");
    for (file, field) in FIELDS {
        assert!(excused.contains(&file), "{file} no longer compares {field}: take it off the list");
    }
}

/// A controller compares with a constant, which has the group of the kind too: another group may have a kind of this name.
#[test]
fn controllers_compare_kinds_by_their_constants() {
    let controllers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../controllers/src");
    let found: Vec<String> = sources_in(&controllers)
        .into_iter()
        .flat_map(|(file, code)| comparisons(&code).into_iter().map(move |name| format!("{file}: {name}")))
        .collect();
    assert!(found.is_empty(), "compare with the constants of kinds.rs instead of names: {found:#?}");
}

#[test]
fn a_comparison_with_a_kind_is_seen() {
    for code in [
        r#"if info.kind == "Pod" {"#,
        r#"let is_other = "Secret" != kind;"#,
        r#"match kind { "Job" => 1, _ => 0 }"#,
        r#"match (group, kind) { ("batch", "Job" | "CronJob") if deletes => 1, _ => 0 }"#,
        r#"matches!((group, kind), ("", "Namespace"))"#,
        r#"Some("Event") => 1,"#,
        r#"if ["Role", "ClusterRole"].contains(&kind) {"#,
    ] {
        assert!(!comparisons(code).is_empty(), "{code}");
    }
    for code in [
        r#"json!({"kind": "Pod"})"#,
        r#"const ROWS: &[Row] = &[("", "Pod", pod::row), ("", "Node", node::row)];"#,
        r#"if phase == "Running" { kind("Pod") }"#,
        r#"match namespace { "" => ("ClusterRole", "clusterroles"), _ => ("Role", "roles") }"#,
    ] {
        assert_eq!(comparisons(code), Vec::<String>::new(), "{code}");
    }
}

/// The names of kinds in comparisons: next to `==` and `!=`, in patterns, and in lists that are searched.
fn comparisons(code: &str) -> Vec<String> {
    let names: Vec<&str> = api_resources::resources().iter().map(|it| it.kind).collect();
    let mut found = Vec::new();
    for (at, _) in code.match_indices('"') {
        let Some((name, after)) = code[at + 1..].split_once('"').filter(|(name, _)| names.contains(name))
        else {
            continue;
        };
        let before = &code[..at];
        if is_operand(before, after) || is_pattern(before, after) || is_matched(before) || is_searched(after)
        {
            found.push(name.to_owned());
        }
    }
    found
}

fn is_operand(before: &str, after: &str) -> bool {
    let before = before.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '&' | '*' | '('));
    let after = after.trim_start_matches(|c: char| c.is_whitespace() || c == ')');
    let operators = ["==", "!="];
    operators.iter().any(|it| before.ends_with(it) || after.starts_with(it))
}

/// Whether only the rest of a pattern is between here and its arrow or guard. The text after an arrow is the
/// value of an arm.
fn is_pattern(before: &str, after: &str) -> bool {
    if before.trim_end_matches(|c: char| c.is_whitespace() || c == '(').ends_with("=>") {
        return false;
    }
    let mut rest = after;
    loop {
        rest = rest.trim_start_matches(|c: char| {
            c.is_whitespace() || matches!(c, '|' | ',' | '(' | ')' | '_' | '.')
        });
        match rest.strip_prefix('"').and_then(|text| text.split_once('"')) {
            Some((_, after)) => rest = after,
            None => return rest.starts_with("=>") || rest.starts_with("if "),
        }
    }
}

/// Whether the end of the text is inside of `matches!(…)`.
fn is_matched(before: &str) -> bool {
    let Some(at) = before.rfind("matches!(") else { return false };
    let open = before[at..].matches('(').count();
    open > before[at..].matches(')').count()
}

/// Whether the rest of a list follows, and then a search in it.
fn is_searched(after: &str) -> bool {
    let Some((list, rest)) = after.split_once(']') else { return false };
    let is_list = list.chars().all(|c| c.is_alphanumeric() || c.is_whitespace() || matches!(c, '"' | ','));
    is_list && rest.starts_with(".contains(")
}

/// The source files of this crate, without comments and unit tests, by their path under `src`.
pub(crate) fn sources() -> Vec<(String, String)> {
    sources_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
}

fn sources_in(root: &Path) -> Vec<(String, String)> {
    let mut files = Vec::new();
    collect(root, &mut files);
    assert!(files.len() > 80, "{} has too few files", root.display());
    let read = |file: &PathBuf| {
        let text = std::fs::read_to_string(file).unwrap();
        let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        (file.strip_prefix(root).unwrap().to_string_lossy().into_owned(), code.join("\n"))
    };
    files.iter().map(read).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            collect(&path, files);
        } else if path.file_name().is_some_and(|name| name != "tests.rs") {
            files.push(path);
        }
    }
}
