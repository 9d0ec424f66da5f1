//! The built-in types, parsed one by one from `facts/types.txt` (`facts/compact.py` describes the format).

use std::collections::BTreeMap;
use std::sync::RwLock;

use super::{Additional, Gvk, ListType, Logic, MapType, PatchStrategy, Reference, Schema, Text, Type};
use crate::api_resources::PerKind;
use crate::json::Value;

static FACTS: &str = include_str!("../../facts/types.txt");

/// The types parsed so far. They are leaked on purpose: their number is fixed, each is parsed at most once, and schemas can
/// hold plain references to them.
static PARSED: RwLock<BTreeMap<&'static str, &'static Schema>> = RwLock::new(BTreeMap::new());

/// The schema of a built-in kind.
///
/// ```
/// assert!(evenkeel_schema::types::builtin("apps", "v1", "Deployment").is_some());
/// assert!(evenkeel_schema::types::builtin("apps", "v1", "Database").is_none());
/// ```
pub fn builtin(group: &str, version: &str, kind: &str) -> Option<&'static Schema> {
    static FOUND: PerKind<Schema> = PerKind::new();
    FOUND.get((group, version, kind), || builtin_type(&builtin_type_name(group, version, kind)))
}

/// The full name of a kind's type (`io.k8s.api.apps.v1.Deployment`), whether or not that type exists.
pub fn builtin_type_name(group: &str, version: &str, kind: &str) -> String {
    let meta = [
        "APIGroup",
        "APIGroupList",
        "APIResourceList",
        "APIVersions",
        "DeleteOptions",
        "Status",
        "WatchEvent",
    ];
    if meta.contains(&kind) {
        return format!("io.k8s.apimachinery.pkg.apis.meta.v1.{kind}");
    }
    let package = match group {
        "" => "api.core",
        "apiextensions.k8s.io" => "apiextensions-apiserver.pkg.apis.apiextensions",
        "apiregistration.k8s.io" => "kube-aggregator.pkg.apis.apiregistration",
        "internal.apiserver.k8s.io" => "api.apiserverinternal",
        _ => return format!("io.k8s.api.{}.{version}.{kind}", group.split('.').next().unwrap_or_default()),
    };
    format!("io.k8s.{package}.{version}.{kind}")
}

/// The built-in type with this full name.
pub fn builtin_type(name: &str) -> Option<&'static Schema> {
    if let Some(schema) = read().get(name) {
        return Some(schema);
    }
    let block = block(name)?;
    let (header, _) = block.split_once('\n').unwrap_or((block, ""));
    let name = header.split(' ').next().unwrap_or(header);
    let schema: &'static Schema = Box::leak(Box::new(parse(name, block)));
    let mut parsed = PARSED.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    Some(parsed.entry(name).or_insert(schema))
}

/// The full names of all built-in types, sorted.
pub fn type_names() -> impl Iterator<Item = &'static str> {
    FACTS.lines().filter_map(|line| line.strip_prefix('=')).map(|line| line.split(' ').next().unwrap_or(line))
}

fn read() -> std::sync::RwLockReadGuard<'static, BTreeMap<&'static str, &'static Schema>> {
    PARSED.read().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The text of one type without the leading `=`. A binary search finds it, so that no index of all types is needed.
fn block(name: &str) -> Option<&'static str> {
    let (mut low, mut high) = (0, FACTS.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let Some(start) = header_after(middle).filter(|start| *start < high) else {
            // There is no header in the upper half, so only the lower half is left.
            if low == middle {
                break;
            }
            high = middle;
            continue;
        };
        let rest = &FACTS[start + 1..];
        let end = rest.find("\n=").map_or(rest.len(), |end| end + 1);
        let found = rest[..end].split([' ', '\n']).next().unwrap_or_default();
        match found.cmp(name) {
            std::cmp::Ordering::Equal => return Some(&rest[..end]),
            std::cmp::Ordering::Less => low = start + 1 + end,
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    None
}

/// The offset of the first header at or after an offset. The text is ASCII, so any offset is a valid one.
fn header_after(offset: usize) -> Option<usize> {
    if offset == 0 {
        return Some(0);
    }
    FACTS[offset - 1..].find("\n=").map(|found| offset + found)
}

fn parse(name: &'static str, block: &'static str) -> Schema {
    let package = name.rsplit_once('.').map_or("", |(package, _)| package);
    let mut lines = block.lines();
    let header = lines.next().unwrap_or_default();
    let mut schema = node(package, header.split(' ').skip(1));
    if let Some(derived) = schema.gvks.iter_mut().find(|gvk| gvk.kind.is_empty()) {
        *derived = derive_gvk(name);
    }
    schema.properties = lines.map(|line| field(package, line)).collect();
    schema
}

fn field(package: &'static str, line: &'static str) -> (Text, Schema) {
    let mut words = line.trim_start().split(' ');
    let name = words.next().unwrap_or_default();
    (Text::Borrowed(name), node(package, words))
}

fn node(package: &'static str, mut words: impl Iterator<Item = &'static str>) -> Schema {
    let mut schema = Schema::default();
    while let Some(word) = words.next() {
        match word {
            "[]" => {
                schema.value_type = Some(Type::Array);
                schema.items = Some(Box::new(node(package, Box::new(words) as Box<dyn Iterator<Item = _>>)));
                break;
            }
            "{}" => {
                schema.value_type = Some(Type::Object);
                let values = node(package, Box::new(words) as Box<dyn Iterator<Item = _>>);
                schema.additional = Additional::Schema(Box::new(values));
                break;
            }
            _ => token(&mut schema, package, word),
        }
    }
    schema
}

fn token(schema: &mut Schema, package: &'static str, word: &'static str) {
    if let Some(name) = word.strip_prefix('@') {
        let full = if name.starts_with('.') { Text::Owned(format!("{package}{name}")) } else { name.into() };
        schema.reference = Some(Reference::new(full));
        return;
    }
    if let Some(value_type) = Type::parse(word) {
        schema.value_type = Some(value_type);
        return;
    }
    match word.split_once(':') {
        Some((attribute, value)) => set(schema, attribute, value),
        None if word == "gvk" => {
            schema.gvks = vec![Gvk { group: "".into(), version: "".into(), kind: "".into() }];
        }
        None => {
            schema.value_type = Some(type_of_format(word));
            schema.format = word.into();
        }
    }
}

fn type_of_format(format: &str) -> Type {
    match format {
        "int32" | "int64" => Type::Integer,
        "double" => Type::Number,
        _ => Type::String,
    }
}

fn set(schema: &mut Schema, attribute: &str, value: &'static str) {
    match attribute {
        "default" => schema.default = Some(facts_json(value)),
        "enum" => schema.enumeration = value.split(',').map(|item| item.replace('~', " ").into()).collect(),
        "required" => schema.required = names(value),
        "list" => {
            let (kind, keys) = value.split_once(':').unwrap_or((value, ""));
            schema.list_type = Some(match kind {
                "map" => ListType::Map,
                "set" => ListType::Set,
                _ => ListType::Atomic,
            });
            schema.list_map_keys = names(keys);
        }
        "map" => {
            schema.map_type = Some(if value == "atomic" { MapType::Atomic } else { MapType::Granular });
        }
        "patch" => {
            let (strategy, key) = value.split_once(':').unwrap_or((value, ""));
            schema.patch_strategy = patch_strategy(strategy);
            schema.patch_merge_key = (!key.is_empty()).then_some(Text::Borrowed(key));
        }
        "format" => {
            schema.format = value.into();
            schema.int_or_string = value == "int-or-string";
        }
        "oneof" => {
            let one_of = value.split(',').filter_map(Type::parse).map(Schema::of).collect();
            schema.logic = Some(Box::new(Logic { one_of, ..Logic::default() }));
        }
        "gvk" => schema.gvks = value.split(',').map(gvk).collect(),
        "union" => schema.unions = Some(facts_json(value)),
        _ => {}
    }
}

pub(super) fn patch_strategy(text: &str) -> PatchStrategy {
    let has = |name| text.split(',').any(|strategy| strategy == name);
    PatchStrategy { merge: has("merge"), replace: has("replace"), retain_keys: has("retainKeys") }
}

fn names(list: &'static str) -> Vec<Text> {
    list.split(',').filter(|name| !name.is_empty()).map(Text::Borrowed).collect()
}

fn facts_json(text: &'static str) -> Value {
    serde_json::from_str(text).expect("the facts hold valid JSON: a test parses every type")
}

fn gvk(text: &'static str) -> Gvk {
    let mut parts = text.split('/').map(Text::Borrowed);
    let mut next = || parts.next().unwrap_or_default();
    Gvk { group: next(), version: next(), kind: next() }
}

/// Derives the kind from the name of a type: its last part, in the group whose package the name contains.
fn derive_gvk(name: &'static str) -> Gvk {
    let mut parts = name.rsplitn(3, '.');
    let (kind, version) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let group = crate::api_resources::resources()
        .iter()
        .map(|resource| resource.group)
        .find(|group| builtin_type_name(group, version, kind) == name)
        .unwrap_or_default();
    Gvk { group: group.into(), version: version.into(), kind: kind.into() }
}
