//! The Go structs of the built-in kinds: their fields in order, with protobuf numbers, and which fields JSON omits when they
//! are empty.
//!
//! The facts come from `facts/messages.txt` (`facts/compact_messages.py` describes the format). The index of names is built
//! on first use, and each message is parsed on first use.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::api_resources::PerKind;

static FACTS: &str = include_str!("../facts/messages.txt");
const META: &str = "k8s.io.apimachinery.pkg.apis.meta.v1.";
const CORE: &str = "k8s.io.api.core.v1.";

/// A Go struct, and its protobuf message.
#[derive(Debug)]
pub(crate) struct Message {
    /// The Go package, such as `k8s.io.api.core.v1`.
    pub(crate) package: &'static str,
    /// The name in its package, such as `Pod`.
    pub(crate) name: &'static str,
    /// The fields in the order of the struct. An inlined struct is one field, as in protobuf.
    pub(crate) fields: Vec<Field>,
    /// The fields of the JSON form, which include those of inlined structs.
    flat: OnceLock<Vec<&'static Field>>,
    /// The fields of the JSON form, sorted by name.
    sorted: OnceLock<Vec<&'static Field>>,
    /// The fields of the JSON form, sorted by name, with their places in the struct.
    ranked: OnceLock<Vec<Ranked>>,
    /// The fields, sorted by their protobuf numbers.
    by_number: OnceLock<Vec<&'static Field>>,
    /// Whether one of its fields holds arbitrary JSON, which may be large and is never inspected.
    pub(crate) holds_raw: bool,
}

/// A field of a Go struct, with its place among the fields of the JSON form.
#[derive(Debug)]
pub(crate) struct Ranked {
    pub(crate) rank: u32,
    pub(crate) field: &'static Field,
}

/// A field of a Go struct.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) number: u32,
    /// The name in JSON; empty if the field is inlined.
    pub(crate) name: &'static str,
    pub(crate) cardinality: Cardinality,
    pub(crate) kind: FieldType,
    /// Whether JSON omits the field when it is empty.
    pub(crate) omit_empty: bool,
    /// Whether the field is a pointer, so that an absent value differs from zero.
    pub(crate) pointer: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cardinality {
    One,
    List,
    Map,
}

/// The type of a field, or of its items.
#[derive(Debug)]
pub(crate) enum FieldType {
    Bool,
    Int32,
    Int64,
    Double,
    String,
    Bytes,
    Quantity,
    IntOrString,
    Time,
    MicroTime,
    Duration,
    /// Arbitrary JSON.
    Raw,
    /// A message whose JSON form is its only field, a list (`ExtraValue`, `Verbs`).
    Wrapped,
    /// A schema or a boolean (`additionalProperties`).
    SchemaOrBool,
    /// A schema or a list of them (`items`).
    SchemaOrList,
    /// A schema or a list of strings (`dependencies`).
    SchemaOrStrings,
    Message(Link),
}

/// A reference to a message, resolved on first use, because some messages refer to themselves.
#[derive(Debug)]
pub(crate) struct Link {
    name: String,
    target: OnceLock<Option<&'static Message>>,
}

impl Link {
    /// Whether this is a reference to the message with this full name.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.name == name
    }

    pub(crate) fn message(&self) -> Option<&'static Message> {
        *self.target.get_or_init(|| find(&self.name))
    }
}

impl Message {
    /// The fields of the JSON form, which include those of inlined structs.
    pub(crate) fn flat(&'static self) -> &'static [&'static Field] {
        self.flat.get_or_init(|| {
            let mut flat = Vec::with_capacity(self.fields.len());
            for field in &self.fields {
                match (&field.kind, field.name) {
                    (FieldType::Message(link), "") => {
                        flat.extend(link.message().into_iter().flat_map(Message::flat))
                    }
                    _ => flat.push(field),
                }
            }
            flat
        })
    }

    /// The fields of the JSON form, sorted by name as in a JSON tree.
    pub(crate) fn sorted(&'static self) -> &'static [&'static Field] {
        self.sorted.get_or_init(|| {
            let mut sorted = self.flat().to_vec();
            sorted.sort_by_key(|field| field.name);
            sorted
        })
    }

    /// The fields of the JSON form, sorted by name, with their places in the struct.
    pub(crate) fn ranked(&'static self) -> &'static [Ranked] {
        self.ranked.get_or_init(|| {
            let mut ranked: Vec<Ranked> =
                (0..).zip(self.flat()).map(|(rank, field)| Ranked { rank, field }).collect();
            ranked.sort_by_key(|it| it.field.name);
            ranked
        })
    }

    /// Returns the fields in the order of their protobuf numbers, in which Kubernetes writes them.
    pub(crate) fn by_number(&'static self) -> &'static [&'static Field] {
        self.by_number.get_or_init(|| {
            let mut fields: Vec<&'static Field> = self.fields.iter().collect();
            fields.sort_by_key(|field| field.number);
            fields
        })
    }
}

struct Slot {
    block: &'static str,
    message: OnceLock<Message>,
}

fn index() -> &'static BTreeMap<&'static str, Slot> {
    static INDEX: OnceLock<BTreeMap<&'static str, Slot>> = OnceLock::new();
    INDEX.get_or_init(|| {
        let blocks = FACTS.split("\n=").map(|block| block.strip_prefix('=').unwrap_or(block));
        let split = blocks.map(|block| block.split_once('\n').unwrap_or((block, "")));
        split.map(|(name, block)| (name, Slot { block, message: OnceLock::new() })).collect()
    })
}

/// The message with this full name.
pub(crate) fn find(name: &str) -> Option<&'static Message> {
    let (name, slot) = index().get_key_value(name)?;
    Some(slot.message.get_or_init(|| parse(name, slot.block)))
}

/// The message of a built-in kind.
pub(crate) fn of_kind(group: &str, version: &str, kind: &str) -> Option<&'static Message> {
    static FOUND: PerKind<Message> = PerKind::new();
    FOUND.get((group, version, kind), || {
        find(&from_type_name(&crate::types::builtin_type_name(group, version, kind)))
    })
}

/// Converts the name of an OpenAPI type, such as `io.k8s.api.core.v1.Pod`, to that of its message, `k8s.io.api.core.v1.Pod`.
fn from_type_name(name: &str) -> String {
    let rest = name.strip_prefix("io.k8s.").unwrap_or(name);
    let (package, rest) = rest.split_once('.').unwrap_or((rest, ""));
    format!("k8s.io.{}.{rest}", package.replace('-', "_"))
}

fn parse(name: &'static str, block: &'static str) -> Message {
    let (package, name) = name.rsplit_once('.').unwrap_or(("", name));
    let fields: Vec<Field> =
        block.lines().filter(|line| !line.is_empty()).map(|line| parse_field(package, line)).collect();
    let holds_raw = fields.iter().any(|field| matches!(field.kind, FieldType::Raw));
    Message {
        package,
        name,
        fields,
        flat: OnceLock::new(),
        sorted: OnceLock::new(),
        ranked: OnceLock::new(),
        by_number: OnceLock::new(),
        holds_raw,
    }
}

fn parse_field(package: &str, line: &'static str) -> Field {
    let mut words = line.split(' ');
    let mut word = || words.next().unwrap_or_default();
    let (number, name, kind, flags) = (word(), word(), word(), word());
    let (cardinality, kind) = match (kind.strip_prefix("[]"), kind.strip_prefix("{}")) {
        (Some(item), _) => (Cardinality::List, item),
        (_, Some(value)) => (Cardinality::Map, value),
        _ => (Cardinality::One, kind),
    };
    Field {
        number: number.parse().unwrap_or_default(),
        name: if flags.contains('i') { "" } else { name },
        cardinality,
        kind: parse_kind(package, kind),
        omit_empty: flags.contains('o'),
        pointer: flags.contains('p'),
    }
}

fn parse_kind(package: &str, text: &str) -> FieldType {
    let Some(name) = text.strip_prefix('@') else {
        return match text {
            "bool" => FieldType::Bool,
            "int32" => FieldType::Int32,
            "int64" => FieldType::Int64,
            "double" => FieldType::Double,
            "bytes" => FieldType::Bytes,
            _ => FieldType::String,
        };
    };
    let name = match (name.strip_prefix('.'), name.strip_prefix("meta."), name.strip_prefix("core.")) {
        (Some(own), ..) => format!("{package}.{own}"),
        (_, Some(meta), _) => format!("{META}{meta}"),
        (.., Some(core)) => format!("{CORE}{core}"),
        _ => name.to_owned(),
    };
    let last = name.rsplit('.').next().unwrap_or_default();
    match last {
        "Quantity" => FieldType::Quantity,
        "IntOrString" => FieldType::IntOrString,
        "Time" => FieldType::Time,
        "MicroTime" => FieldType::MicroTime,
        "Duration" => FieldType::Duration,
        "RawExtension" | "FieldsV1" | "JSON" => FieldType::Raw,
        "ExtraValue" | "Verbs" => FieldType::Wrapped,
        "JSONSchemaPropsOrBool" => FieldType::SchemaOrBool,
        "JSONSchemaPropsOrArray" => FieldType::SchemaOrList,
        "JSONSchemaPropsOrStringArray" => FieldType::SchemaOrStrings,
        _ => FieldType::Message(Link { name, target: OnceLock::new() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_parses_and_every_link_leads_somewhere() {
        let mut count = 0;
        for name in index().keys() {
            let message = find(name).expect(name);
            for field in &message.fields {
                assert_ne!(field.number, 0, "{name}");
                if let FieldType::Message(link) = &field.kind {
                    // A message without fields has no lines in the facts.
                    count += usize::from(link.message().is_some());
                }
            }
        }
        assert!(count > 500, "{count}");
    }

    #[test]
    fn inlined_fields_stand_among_the_others() {
        let volume = find("k8s.io.api.core.v1.Volume").expect("known");
        let names: Vec<&str> = volume.flat().iter().map(|field| field.name).collect();
        assert_eq!(names[..2], ["name", "hostPath"]);
    }

    #[test]
    fn most_kinds_have_a_message() {
        let without: Vec<&str> = crate::api_resources::resources()
            .iter()
            .filter(|resource| of_kind(resource.group, resource.version, resource.kind).is_none())
            .map(|resource| resource.kind)
            .collect();
        assert_eq!(without, Vec::<&str>::new());
    }
}
