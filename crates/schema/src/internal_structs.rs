//! Prints objects as Kubernetes' internal Go structs do in JSON.
//!
//! Messages about immutable fields show the refused value, or a diff of the two values, in the form of the internal
//! structs: Go's field names, in Go's order, with null for absent fields. The facts are in `facts/internal.txt`:
//!
//! ```text
//! =PACKAGE.STRUCT
//! NAME[:FIELD] TYPE[ FLAG]
//! ```
//!
//! NAME is the name in the printed JSON. FIELD is the name in the API, if it is not NAME with a lower-case first
//! letter. `-` is an embedded struct. TYPE is `s` string, `i` number, `b` bool, `q` quantity, `x` int or string, `t`
//! time, `y` bytes, `r` raw JSON, or a struct (`.Name` is in the same package); `*` before it is a pointer, `[` a list
//! and `{` a map. FLAG: `o` omitted if empty, `^` read from the parent, `!` never null.

mod unified;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use evenkeel_scalars::go;

use crate::field::BadValue;
use crate::json::Value;
use crate::read::Read;

static FACTS: &str = include_str!("../facts/internal.txt");

/// JSON with its fields in the order of the Go struct.
enum Node {
    Leaf(String),
    List(Vec<Node>),
    Struct(Vec<(String, Node)>),
}

/// Returns the value of a refused field in the form of the internal struct `name`, such as `core.PodSpec`.
pub(crate) fn bad_value(name: &str, value: Option<&Value>) -> BadValue {
    BadValue::Printed(print(name, value))
}

/// Prints a value whose type is given as in the facts, such as `*core.PodSpec`.
pub(crate) fn print(name: &str, value: Option<&Value>) -> String {
    let mut out = String::new();
    node("", name, value, None).write(&mut out, None);
    out
}

/// Returns the unified diff of two values of the internal struct `name`.
pub(crate) fn diff(name: &str, old: Option<&Value>, new: Option<&Value>) -> String {
    let text = |value: Option<&Value>| {
        let mut out = String::new();
        node("", name, value, None).write(&mut out, Some(0));
        out
    };
    unified::diff(&text(old), &text(new))
}

fn structs() -> &'static BTreeMap<&'static str, &'static str> {
    static INDEX: OnceLock<BTreeMap<&'static str, &'static str>> = OnceLock::new();
    INDEX.get_or_init(|| {
        let blocks = FACTS.split("\n=").map(|block| block.strip_prefix('=').unwrap_or(block));
        blocks.filter_map(|block| block.split_once('\n')).collect()
    })
}

/// Converts a value to its printed form. `package` is that of the struct with the field, and `parent` is the struct's
/// value.
fn node(package: &str, kind: &str, value: Option<&Value>, parent: Option<&Value>) -> Node {
    let value = value.filter(|value| !value.is_null());
    let leaf = |text: &str| Node::Leaf(text.to_owned());
    let mut letters = kind.chars();
    match (letters.next(), value) {
        (Some('*' | '[' | '{'), None) => leaf("null"),
        (Some('*'), Some(_)) => node(package, letters.as_str(), value, parent),
        (Some('['), Some(Value::Array(items))) => {
            Node::List(items.iter().map(|item| node(package, letters.as_str(), Some(item), None)).collect())
        }
        (Some('{'), Some(Value::Object(entries))) => {
            let entries = entries
                .iter()
                .map(|(key, it)| (key.to_string(), node(package, letters.as_str(), Some(it), None)));
            Node::Struct(entries.collect())
        }
        _ if kind.len() > 1 => structure(package, kind, value, parent),
        (_, Some(value)) => raw(value),
        (Some('s'), None) => leaf("\"\""),
        (Some('i' | 'x'), None) => leaf("0"),
        (Some('b'), None) => leaf("false"),
        (Some('q'), None) => leaf("\"0\""),
        (_, None) => leaf("null"),
    }
}

fn raw(value: &Value) -> Node {
    match value {
        Value::Array(items) => Node::List(items.iter().map(raw).collect()),
        Value::Object(entries) => {
            Node::Struct(entries.iter().map(|(key, value)| (key.to_string(), raw(value))).collect())
        }
        scalar => Node::Leaf(go::json(scalar)),
    }
}

fn structure(package: &str, kind: &str, value: Option<&Value>, parent: Option<&Value>) -> Node {
    let name = match kind.strip_prefix('.') {
        Some(name) => format!("{package}.{name}"),
        None => kind.to_owned(),
    };
    let mut fields = Vec::new();
    collect(&name, value, parent, &mut fields);
    Node::Struct(fields)
}

/// Adds the fields of a struct, including those of embedded structs.
fn collect(name: &str, value: Option<&Value>, parent: Option<&Value>, fields: &mut Vec<(String, Node)>) {
    let package = name.split('.').next().unwrap_or_default();
    for line in structs().get(name).copied().unwrap_or_default().lines() {
        let mut words = line.split(' ');
        let (label, kind, flag) =
            (words.next().unwrap_or_default(), words.next().unwrap_or_default(), words.next());
        let (label, field) = match label.split_once(':') {
            Some((label, field)) => (label, field.to_owned()),
            None => (label, first_lower(label)),
        };
        if label == "-" {
            let inner = if field == "-" { value } else { value.at(&field) };
            let name = match kind.strip_prefix('.') {
                Some(name) => format!("{package}.{name}"),
                None => kind.to_owned(),
            };
            collect(&name, inner, None, fields);
            continue;
        }
        let found = if flag == Some("^") { parent.at(&field) } else { value.at(&field) };
        let kind = if flag == Some("!") { kind.trim_start_matches('*') } else { kind };
        if flag == Some("o") && found.is_none_or(is_empty) {
            continue;
        }
        fields.push((label.to_owned(), node(package, kind, found, value)));
    }
}

/// Whether Go's JSON encoder omits the value with `omitempty`.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

fn first_lower(name: &str) -> String {
    let mut letters = name.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => String::new(),
    }
}

impl Node {
    /// Writes JSON: with one space for each level if `depth` is given, otherwise without spaces.
    fn write(&self, out: &mut String, depth: Option<usize>) {
        let inner = depth.map(|depth| depth + 1);
        match self {
            Node::Leaf(text) => out.push_str(text),
            Node::List(items) => {
                let write = |item: &Node, out: &mut String| item.write(out, inner);
                enclosed(out, depth, ['[', ']'], items, write);
            }
            Node::Struct(fields) => {
                enclosed(out, depth, ['{', '}'], fields, |(name, value), out| {
                    out.push_str(&go::json(&Value::from(name.as_str())));
                    out.push_str(if depth.is_some() { ": " } else { ":" });
                    value.write(out, inner);
                });
            }
        }
    }
}

fn enclosed<T>(
    out: &mut String,
    depth: Option<usize>,
    [open, close]: [char; 2],
    items: &[T],
    write: impl Fn(&T, &mut String),
) {
    let line = |out: &mut String, extra: usize| {
        if let Some(depth) = depth.filter(|_| !items.is_empty()) {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', depth + extra));
        }
    };
    out.push(open);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        line(out, 1);
        write(item, out);
    }
    line(out, 0);
    out.push(close);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn every_struct_that_the_facts_name_is_described() {
        for (name, block) in structs() {
            let package = name.split('.').next().unwrap_or_default();
            for line in block.lines() {
                let kind = line.split(' ').nth(1).unwrap_or_default().trim_start_matches(['*', '[', '{']);
                let full = match kind.strip_prefix('.') {
                    Some(kind) => format!("{package}.{kind}"),
                    None => kind.to_owned(),
                };
                assert!(kind.len() == 1 || structs().contains_key(full.as_str()), "{name}: {line}");
            }
        }
    }

    #[test]
    fn a_struct_has_all_its_fields_in_their_order() {
        let term = json!({"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]}});
        assert_eq!(
            print("*core.VolumeNodeAffinity", Some(&term)),
            r#"{"Required":{"NodeSelectorTerms":[{"MatchExpressions":[{"Key":"zone","Operator":"In","Values":["b"]}],"MatchFields":null}]}}"#
        );
        assert_eq!(print("*core.VolumeNodeAffinity", None), "null");
    }

    #[test]
    fn the_host_namespaces_of_a_pod_are_in_its_security_context() {
        let spec = json!({"hostNetwork": true, "containers": []});
        let text = print("core.PodSpec", Some(&spec));
        assert!(text.contains(r#""SecurityContext":{"HostNetwork":true,"HostPID":false,"#), "{text}");
        assert!(text.starts_with(r#"{"Volumes":null,"InitContainers":null,"Containers":[],"#), "{text}");
    }

    #[test]
    fn a_diff_shows_what_changed_between_three_lines() {
        let spec = |name: &str| json!({"accessModes": ["ReadWriteOnce"], "volumeName": name});
        assert_eq!(
            diff("core.PersistentVolumeClaimSpec", Some(&spec("a")), Some(&spec("b"))),
            concat!(
                "@@ -7,7 +7,7 @@\n   \"Limits\": null,\n   \"Requests\": null\n  },\n",
                "- \"VolumeName\": \"a\",\n+ \"VolumeName\": \"b\",\n",
                "  \"StorageClassName\": null,\n  \"VolumeMode\": null,\n  \"DataSource\": null,\n"
            )
        );
    }
}
