//! What Go's JSON decoder says about a body.
//!
//! The body is walked by its text, so that findings come in its order and repeated keys are seen.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::Findings;
use super::go_type::{self, Custom};
use crate::json::{Value, go_float, go_quote};
use crate::quantity::Quantity;
use crate::time::{self, Precision};
use crate::types::{Schema, Type};

/// Checks a JSON text against the schema of a built-in kind. `root` is the name of the struct, such as `Pod`.
///
/// A text that is no JSON finds nothing: the parser says so better.
///
/// ```
/// use evenkeel_schema::{types, unknown};
/// let schema = types::builtin("apps", "v1", "Deployment").unwrap();
/// let found = unknown::decode(schema, "Deployment", br#"{"spec": {"replica": 1, "replicas": "3"}}"#);
/// assert_eq!(found.strict, [r#"unknown field "spec.replica""#]);
/// let refusal = "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32";
/// assert_eq!(found.refusal.as_deref(), Some(refusal));
/// ```
pub fn decode(schema: &Schema, root: &str, body: &[u8]) -> Findings {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    check(schema, root, &mut deserializer)
}

/// Checks a value, whose fields come sorted: what a YAML body becomes before Kubernetes decodes it.
pub fn decode_value(schema: &Schema, root: &str, value: &Value) -> Findings {
    check(schema, root, value)
}

fn check<'de>(schema: &Schema, root: &str, deserializer: impl Deserializer<'de>) -> Findings {
    let mut walk = Walk::default();
    let gvk = schema.resolve().gvks.first();
    let full = gvk.map(|gvk| crate::types::builtin_type_name(&gvk.group, &gvk.version, &gvk.kind));
    walk.structs.push(full.unwrap_or_else(|| root.to_owned()));
    let seed = Seed { schema, steps: 0, walk: &mut walk };
    // An error is the parser's to tell.
    let _ = seed.deserialize(deserializer);
    walk.findings.refusal = walk.fatal.or(walk.saved);
    walk.findings
}

#[derive(Default)]
struct Walk {
    findings: Findings,
    /// Go goes on after a value of a wrong type, and tells the first.
    saved: Option<String>,
    /// Go stops where a type that decodes itself refuses.
    fatal: Option<String>,
    /// The path with keys of maps and indexes, for strict errors.
    path: Vec<String>,
    /// The path of struct fields alone, for type errors.
    fields: Vec<String>,
    /// The struct that each of the fields is in, by its full name.
    structs: Vec<String>,
}

impl Walk {
    fn strict(&mut self, what: &str, key: &str) {
        let path = self.path.concat();
        let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        self.findings.add(format!("{what} field {}", go_quote(&path)));
    }

    fn push_key(&mut self, key: &str) {
        let key = if self.path.is_empty() { key.to_owned() } else { format!(".{key}") };
        self.path.push(key);
    }

    /// `cannot unmarshal … into …`, with the field where there is one.
    fn type_error(&self, found: &str, wanted: &str) -> String {
        match (self.structs.last(), self.fields.is_empty()) {
            (Some(within), false) => format!(
                "json: cannot unmarshal {found} into Go struct field {}.{} of type {wanted}",
                go_type::struct_name(within),
                self.fields.join(".")
            ),
            _ => format!("json: cannot unmarshal {found} into Go value of type {wanted}"),
        }
    }

    fn save(&mut self, error: String) {
        self.saved.get_or_insert(error);
    }

    fn refuse(&mut self, error: String) {
        self.fatal.get_or_insert(error);
    }
}

struct Seed<'s, 'w> {
    schema: &'s Schema,
    /// How many lists and maps lie between the last named field and here.
    steps: usize,
    walk: &'w mut Walk,
}

impl<'de> DeserializeSeed<'de> for Seed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match go_type::custom(self.schema) {
            Some(Custom::Raw) => IgnoredAny::deserialize(deserializer).map(drop),
            Some(custom) => {
                let value = Value::deserialize(deserializer)?;
                check_custom(custom, &value, self.walk);
                Ok(())
            }
            None => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Seed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        self.scalar(Type::Boolean, "bool");
        Ok(())
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.number(&number.to_string(), i32::try_from(number).is_ok(), true);
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.number(&number.to_string(), i32::try_from(number).is_ok(), i64::try_from(number).is_ok());
        Ok(())
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        self.number(&go_float(number), false, false);
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        if self.schema.kind() == Some(Type::String) && self.schema.format == "byte" {
            if let Some(at) = first_bad_base64(text) {
                self.walk.save(format!("illegal base64 data at input byte {at}"));
            }
            return Ok(());
        }
        self.scalar(Type::String, "string");
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Some(schema) = self.schema.items() else {
            if self.schema.kind().is_some() {
                self.mismatch("array");
            }
            return IgnoredAny.visit_seq(items).map(drop);
        };
        let mut index = 0;
        loop {
            self.walk.path.push(format!("[{index}]"));
            let more = items.next_element_seed(Seed { schema, steps: self.steps + 1, walk: self.walk })?;
            self.walk.path.pop();
            if more.is_none() {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<(), A::Error> {
        match self.schema.kind() {
            None => IgnoredAny.visit_map(fields).map(drop),
            Some(Type::Object) if self.schema.values().is_some() => self.map(fields),
            Some(Type::Object) => self.object(fields),
            Some(_) => {
                self.mismatch("object");
                IgnoredAny.visit_map(fields).map(drop)
            }
        }
    }
}

impl Seed<'_, '_> {
    fn mismatch(self, found: &str) {
        let place = self.walk.structs.last().zip(self.walk.fields.last());
        let named = place.and_then(|(within, field)| go_type::named(within, field, self.steps));
        let wanted = named.map_or_else(|| go_type::go_type(self.schema), str::to_owned);
        let error = self.walk.type_error(found, &wanted);
        self.walk.save(error);
    }

    fn scalar(self, kind: Type, found: &str) {
        if self.schema.kind().is_some_and(|wanted| wanted != kind) {
            self.mismatch(found);
        }
    }

    fn number(self, text: &str, fits_32: bool, fits_64: bool) {
        let fits = match (self.schema.kind(), go_type::scalar_type(self.schema)) {
            (None | Some(Type::Number), _) => true,
            (Some(Type::Integer), "int64") => fits_64,
            (Some(Type::Integer), _) => fits_32,
            _ => return self.mismatch("number"),
        };
        if !fits {
            self.mismatch(&format!("number {text}"));
        }
    }

    fn map<'de, A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let Some(schema) = self.schema.values() else { return Ok(()) };
        let mut seen = BTreeSet::new();
        while let Some(key) = fields.next_key::<String>()? {
            if seen.contains(&key) {
                self.walk.strict("duplicate", &key);
            }
            self.walk.push_key(&key);
            fields.next_value_seed(Seed { schema, steps: self.steps + 1, walk: self.walk })?;
            self.walk.path.pop();
            seen.insert(key);
        }
        Ok(())
    }

    fn object<'de, A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let nested = self.schema.type_name().map(|name| self.walk.structs.push(name.to_owned())).is_some();
        let properties = self.schema.fields();
        let mut seen = BTreeSet::new();
        while let Some(key) = fields.next_key::<String>()? {
            let Some(schema) = properties.get(&key) else {
                self.walk.strict("unknown", &key);
                fields.next_value::<IgnoredAny>()?;
                continue;
            };
            if seen.contains(&key) {
                self.walk.strict("duplicate", &key);
            }
            self.walk.push_key(&key);
            self.walk.fields.push(key.clone());
            fields.next_value_seed(Seed { schema, steps: 0, walk: self.walk })?;
            self.walk.fields.pop();
            self.walk.path.pop();
            seen.insert(key);
        }
        if nested {
            self.walk.structs.pop();
        }
        Ok(())
    }
}

fn check_custom(custom: Custom, value: &Value, walk: &mut Walk) {
    if value.is_null() {
        return;
    }
    match custom {
        Custom::Quantity => {
            let parsed = match value {
                Value::Bool(_) | Value::Array(_) | Value::Object(_) => Quantity::parse(&value.to_string()),
                _ => Quantity::from_json(value),
            };
            if let Err(error) = parsed {
                walk.refuse(error.to_string());
            }
        }
        Custom::IntOrString => match value {
            Value::String(_) => {}
            Value::Number(number) if number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()) => {}
            Value::Number(number) => walk.refuse(walk.type_error(&format!("number {number}"), "int32")),
            other => walk.refuse(walk.type_error(crate::json::go_kind(other), "int32")),
        },
        Custom::Time | Custom::MicroTime => {
            let precision = if custom == Custom::Time { Precision::Seconds } else { Precision::Micros };
            match value {
                Value::String(text) => {
                    if let Err(error) = time::parse(text, precision) {
                        walk.refuse(error);
                    }
                }
                other => walk.refuse(walk.type_error(crate::json::go_kind(other), "string")),
            }
        }
        Custom::Raw => {}
    }
}

/// Where a text stops being base64, as Go counts.
pub(super) fn first_bad_base64(text: &str) -> Option<usize> {
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    let bytes: Vec<(usize, u8)> =
        text.bytes().enumerate().filter(|(_, byte)| !b"\r\n".contains(byte)).collect();
    for group in bytes.chunks(4) {
        let padding = group.iter().position(|(_, byte)| !is_digit(*byte));
        match (padding, group.len()) {
            (None, 4) => {}
            // Go names the beginning of the group that is not whole.
            (None, _) => return Some(group[0].0),
            (Some(at), _) if group[at].1 != b'=' || at < 2 => return Some(group[at].0),
            (Some(2), 4) if group[3].1 != b'=' => return Some(group[3].0),
            (Some(2), 3) => return Some(text.len()),
            (Some(_), _) => {
                let after = bytes.iter().find(|(at, _)| *at > group[group.len() - 1].0);
                return after.map(|(at, _)| *at);
            }
        }
    }
    None
}
