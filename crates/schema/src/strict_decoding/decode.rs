//! The errors of Go's JSON decoder.
//!
//! The decoder walks the text of the body, so that errors come in its order and duplicate keys are found. The same walk
//! builds the tree, so that a body is read once.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

use evenkeel_scalars::go;

use super::DecodingErrors;
use super::go_type::{self, Custom};
use super::literal::{RefusedFloat, Step};
use crate::json::{Map, Number, Tree, Value, float, settle_floats};
use crate::quantity::Quantity;
use crate::time::{self, Precision};
use crate::types::{Schema, Type};

/// Decodes a JSON text by the schema of a built-in kind. Returns the tree as Go's decoder would make it, and the decoding
/// errors. `root` is the name of the struct, such as `Pod`.
///
/// # Errors
/// Fails if the text is not JSON.
///
/// ```
/// use evenkeel_schema::{types, strict_decoding};
/// let schema = types::builtin("apps", "v1", "Deployment").unwrap();
/// let body = br#"{"spec": {"replica": 1, "replicas": "3"}}"#;
/// let (tree, found) = strict_decoding::decode(schema, "Deployment", body).unwrap();
/// assert_eq!(tree["spec"]["replicas"], "3");
/// assert_eq!(found.strict, [r#"unknown field "spec.replica""#]);
/// let refusal = "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32";
/// assert_eq!(found.refusal.as_deref(), Some(refusal));
/// ```
pub fn decode(schema: &Schema, root: &str, body: &[u8]) -> serde_json::Result<(Value, DecodingErrors)> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let (tree, mut findings) = check(schema, root, &mut deserializer, true);
    let tree = tree?;
    deserializer.end()?;
    // The path of a number in the text of an object equals its path in a merge patch.
    findings.spell_by_merge_patch(body);
    Ok((tree, findings))
}

/// Finds the decoding errors of a tree. Kubernetes converts a YAML body to JSON with sorted fields before decoding it.
pub fn decode_value(schema: &Schema, root: &str, value: &Value) -> DecodingErrors {
    check(schema, root, value, false).1
}

fn check<'de, D: Deserializer<'de>>(
    schema: &Schema,
    root: &str,
    deserializer: D,
    builds: bool,
) -> (Result<Value, D::Error>, DecodingErrors) {
    let mut walk = Walk { builds, ..Walk::default() };
    let gvk = schema.resolve().gvks.first();
    let full = gvk.map(|gvk| crate::types::builtin_type_name(&gvk.group, &gvk.version, &gvk.kind));
    walk.structs.push(full.map_or_else(|| root.to_owned().into(), Cow::Owned));
    let tree = Seed { schema, steps: 0, walk: &mut walk }.deserialize(deserializer);
    if let Some(Refusal { text, float }) = walk.fatal.or(walk.saved) {
        (walk.findings.refusal, walk.findings.float) = (Some(text), float);
    }
    (tree, walk.findings)
}

/// Why an object cannot be decoded.
struct Refusal {
    text: String,
    /// The float that the message is about, if it is about one.
    float: Option<RefusedFloat>,
}

/// Returns how a message quotes a float: in its shortest form, followed by a space.
pub(super) fn refused_number(number: &Number) -> String {
    format!("number {} ", go::float(number.as_f64().unwrap_or_default()))
}

#[derive(Default)]
struct Walk<'s> {
    findings: DecodingErrors,
    /// The first value of a wrong type, after which Go's decoder goes on.
    saved: Option<Refusal>,
    /// The error of a type with its own decoder, at which Go's decoder stops.
    fatal: Option<Refusal>,
    /// The path from the root to the current value.
    path: Vec<Step>,
    /// For each field of the path, the full name of the struct that has it.
    structs: Vec<Cow<'s, str>>,
    /// Whether to build the tree; otherwise only the errors are wanted.
    builds: bool,
    /// Whether the current value is read by a decoder of its own, which is not strict.
    lax: bool,
}

impl Walk<'_> {
    /// The path with map keys and indexes, for strict errors.
    fn whole_path(&self) -> String {
        let mut path = String::new();
        for step in &self.path {
            match step {
                Step::Index(index) => path.push_str(&format!("[{index}]")),
                Step::Field(key) | Step::Key(key) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(key);
                }
            }
        }
        path
    }

    /// The path of struct fields only, for type errors.
    fn fields(&self) -> Vec<&str> {
        let field = |step: &'_ Step| matches!(step, Step::Field(_));
        let fields = self.path.iter().filter(|step| field(step));
        fields.map(|step| if let Step::Field(key) = step { key.as_str() } else { "" }).collect()
    }

    /// The path of struct fields with the names of embedded structs, which Go puts before their fields.
    fn fields_with_parts(&self) -> String {
        let mut path = String::new();
        for (at, field) in self.fields().into_iter().enumerate() {
            let within = self.structs.get(at).map_or("", |within| go_type::struct_name(within));
            // Go omits embedded structs at the top level, because it has decoded the type of the object before.
            let parts = if at == 0 { &[][..] } else { go_type::parts(within, field) };
            for name in parts.iter().copied().chain([field]) {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
            }
        }
        path
    }

    fn strict(&mut self, what: &str, key: &str) {
        if self.lax {
            return;
        }
        let path = self.whole_path();
        let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        self.findings.add(format!("{what} field {}", go::quote(&path)));
    }

    /// The message `cannot unmarshal … into …`, with the field if there is one.
    fn type_error(&self, found: &str, wanted: &str) -> String {
        let fields = self.fields();
        match (self.structs.last(), fields.is_empty()) {
            (Some(within), false) => format!(
                "json: cannot unmarshal {found} into Go struct field {}.{} of type {wanted}",
                go_type::struct_name(within),
                self.fields_with_parts()
            ),
            _ => format!("json: cannot unmarshal {found} into Go value of type {wanted}"),
        }
    }

    fn save(&mut self, text: String) {
        self.saved.get_or_insert(Refusal { text, float: None });
    }

    fn refuse(&mut self, text: String) {
        self.fatal.get_or_insert(Refusal { text, float: None });
    }

    /// Returns the float at the current path.
    fn float(&self, number: &Number) -> RefusedFloat {
        RefusedFloat { path: self.path.clone(), number: number.clone(), spelling: None }
    }

    /// A leaf of the tree.
    fn leaf(&self, value: impl Into<Value>) -> Value {
        if self.builds { value.into() } else { Value::Null }
    }
}

/// Decodes a value without a schema.
struct Free(bool);

impl<'de> DeserializeSeed<'de> for Free {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.0 {
            Tree(&Cell::new(false)).deserialize(deserializer)
        } else {
            IgnoredAny::deserialize(deserializer).map(|_| Value::Null)
        }
    }
}

struct Seed<'s, 'w> {
    schema: &'s Schema,
    /// The number of lists and maps between the last named field and the current value.
    steps: usize,
    walk: &'w mut Walk<'s>,
}

/// The struct that describes a schema of a definition.
pub(super) const SCHEMA: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

impl Seed<'_, '_> {
    /// Decodes a value by another schema as a type with its own decoder does: not strictly, and an error ends everything.
    fn nested<T>(self, schema: &'static Schema, decode: impl FnOnce(Seed<'_, '_>) -> T) -> T {
        let Self { steps, walk, .. } = self;
        let (was_lax, saved) = (std::mem::replace(&mut walk.lax, true), walk.saved.take());
        let decoded = decode(Seed { schema, steps, walk: &mut *walk });
        if let Some(Refusal { text, float }) = walk.saved.take() {
            walk.fatal.get_or_insert(Refusal { text, float });
        }
        (walk.lax, walk.saved) = (was_lax, saved);
        decoded
    }
}

/// Decodes a schema, or a boolean or a list of schemas instead of it.
struct SchemaOr<'s, 'w> {
    seed: Seed<'s, 'w>,
    /// Whether a boolean may stand for the schema; otherwise a list may, and Kubernetes ignores everything else.
    or_bool: bool,
}

impl SchemaOr<'_, '_> {
    /// A value that is neither a schema nor a list of them.
    fn other(self, value: impl Into<Value>) -> Value {
        let value = value.into();
        match (self.or_bool, &value) {
            (true, Value::Bool(_)) => self.seed.walk.leaf(value),
            (true, _) => {
                self.seed.walk.refuse("boolean or JSON schema expected".to_owned());
                self.seed.walk.leaf(value)
            }
            (false, _) => Value::Null,
        }
    }
}

impl<'de> Visitor<'de> for SchemaOr<'_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(self.other(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(self.other(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(self.other(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(self.other(float(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(self.other(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let or_bool = self.or_bool;
        let Seed { schema, steps, walk } = self.seed;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Seed { schema, steps, walk: &mut *walk })? {
            list.push(item);
        }
        if or_bool {
            walk.refuse("boolean or JSON schema expected".to_owned());
        }
        Ok(walk.leaf(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Value, A::Error> {
        self.seed.visit_map(members)
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match go_type::custom(self.schema) {
            Some(Custom::Raw) => Free(self.walk.builds).deserialize(deserializer),
            Some(Custom::SchemaOr { or_bool }) => match crate::types::builtin_type(SCHEMA) {
                Some(schema) => {
                    self.nested(schema, |seed| deserializer.deserialize_any(SchemaOr { seed, or_bool }))
                }
                None => Free(self.walk.builds).deserialize(deserializer),
            },
            Some(Custom::Quantity) => {
                let text = Box::<RawValue>::deserialize(deserializer)?;
                let value = quantity(text.get()).map_err(D::Error::custom)?;
                check_custom(Custom::Quantity, &value, self.walk);
                Ok(value)
            }
            Some(custom) => {
                // Floats are kept, because an integer does not accept `1e2`.
                let mut value = Value::deserialize(deserializer)?;
                check_custom(custom, &value, self.walk);
                settle_floats(&mut value);
                Ok(value)
            }
            None => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Seed<'_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        let leaf = self.walk.leaf(value);
        self.scalar(Type::Boolean, "bool");
        Ok(leaf)
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        let leaf = self.walk.leaf(number);
        self.number(|| number.to_string(), i32::try_from(number).is_ok(), true);
        Ok(leaf)
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        let leaf = self.walk.leaf(number);
        let (fits_32, fits_64) = (i32::try_from(number).is_ok(), i64::try_from(number).is_ok());
        self.number(|| number.to_string(), fits_32, fits_64);
        Ok(leaf)
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        let Self { schema, steps, walk } = self;
        let is_first = walk.saved.is_none();
        Seed { schema, steps, walk: &mut *walk }.number(|| go::float(number), false, false);
        let found = Number::from_f64(number).filter(|_| is_first).map(|number| walk.float(&number));
        if let (Some(saved), Some(found)) = (&mut walk.saved, found) {
            saved.float = Some(found);
        }
        Ok(float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        let leaf = self.walk.leaf(text);
        self.text(text);
        Ok(leaf)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let Some(schema) = self.schema.items() else {
            let builds = self.walk.builds;
            if self.schema.value_type().is_some() {
                self.mismatch("array");
            }
            return free_list(items, builds);
        };
        let mut list = Vec::new();
        for index in 0.. {
            self.walk.path.push(Step::Index(index));
            let item = items.next_element_seed(Seed { schema, steps: self.steps + 1, walk: self.walk })?;
            self.walk.path.pop();
            match item {
                Some(item) if self.walk.builds => list.push(item),
                Some(_) => {}
                None => break,
            }
        }
        Ok(Value::Array(list.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Value, A::Error> {
        let builds = self.walk.builds;
        match self.schema.value_type() {
            None => free_map(fields, builds),
            Some(Type::Object) if self.schema.values().is_some() => self.map(fields),
            Some(Type::Object) => self.object(fields),
            Some(_) => {
                self.mismatch("object");
                free_map(fields, builds)
            }
        }
    }
}

fn free_list<'de, A: SeqAccess<'de>>(mut items: A, builds: bool) -> Result<Value, A::Error> {
    let mut list = Vec::new();
    while let Some(item) = items.next_element_seed(Free(builds))? {
        if builds {
            list.push(item);
        }
    }
    Ok(Value::Array(list.into()))
}

fn free_map<'de, A: MapAccess<'de>>(mut fields: A, builds: bool) -> Result<Value, A::Error> {
    let mut map = Map::new();
    while let Some(key) = fields.next_key::<String>()? {
        let value = fields.next_value_seed(Free(builds))?;
        if builds {
            map.insert(key.into(), value);
        }
    }
    Ok(Value::Object(map))
}

impl<'s> Seed<'s, '_> {
    fn mismatch(self, found: &str) {
        let fields = self.walk.fields();
        let place = self.walk.structs.last().zip(fields.last());
        let named = place.and_then(|(within, field)| go_type::named(within, field, self.steps));
        let wanted = named.map_or_else(|| go_type::go_type(self.schema), str::to_owned);
        let error = self.walk.type_error(found, &wanted);
        self.walk.save(error);
    }

    fn scalar(self, kind: Type, found: &str) {
        if self.schema.value_type().is_some_and(|wanted| wanted != kind) {
            self.mismatch(found);
        }
    }

    fn text(self, text: &str) {
        if self.schema.value_type() == Some(Type::String) && self.schema.format == "byte" {
            if let Some(at) = first_bad_base64(text) {
                self.walk.save(format!("illegal base64 data at input byte {at}"));
            }
        } else {
            self.scalar(Type::String, "string");
        }
    }

    fn number(self, text: impl Fn() -> String, fits_32: bool, fits_64: bool) {
        let fits = match (self.schema.value_type(), go_type::scalar_type(self.schema)) {
            (None | Some(Type::Number), _) => true,
            (Some(Type::Integer), "int64") => fits_64,
            (Some(Type::Integer), _) => fits_32,
            _ => return self.mismatch("number"),
        };
        if !fits {
            self.mismatch(&format!("number {}", text()));
        }
    }

    fn map<'de, A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        let Some(schema) = self.schema.values() else { return Ok(Value::Null) };
        while let Some(key) = fields.next_key::<String>()? {
            if map.contains_key(&key) {
                self.walk.strict("duplicate", &key);
            }
            self.walk.path.push(Step::Key(key));
            let value = fields.next_value_seed(Seed { schema, steps: self.steps + 1, walk: self.walk })?;
            map.extend(self.walk.path.pop().map(|step| (step.into_key(), value)));
        }
        Ok(Value::Object(map))
    }

    fn object<'de, A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let name = self.schema.type_name();
        self.walk.structs.extend(name.map(Cow::Borrowed));
        let properties = self.schema.fields();
        let mut map = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            let Some(schema) = properties.get(&key) else {
                self.walk.strict("unknown", &key);
                // The value is decoded rather than skipped, because `serde_json` does not bound the depth of skipped values.
                fields.next_value_seed(Free(self.walk.builds))?;
                continue;
            };
            if map.contains_key(&key) {
                self.walk.strict("duplicate", &key);
            }
            self.walk.path.push(Step::Field(key));
            let value = fields.next_value_seed(Seed { schema, steps: 0, walk: self.walk })?;
            map.extend(self.walk.path.pop().map(|step| (step.into_key(), value)));
        }
        if name.is_some() {
            self.walk.structs.pop();
        }
        Ok(Value::Object(map))
    }
}

/// Reads a quantity. A number with a fraction or an exponent is kept as text, because its spelling decides how the
/// quantity is printed: `1e3` stays `1e3`, whereas `1000` becomes `1k`.
fn quantity(text: &str) -> serde_json::Result<Value> {
    let is_number = text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    match is_number && text.contains(['.', 'e', 'E']) {
        true => Ok(Value::from(text)),
        false => serde_json::from_str(text),
    }
}

fn check_custom(custom: Custom, value: &Value, walk: &mut Walk<'_>) {
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
            Value::Number(number) if number.is_f64() => {
                let text = go::float(number.as_f64().unwrap_or_default());
                let text = walk.type_error(&format!("number {text}"), "int32");
                let float = Some(walk.float(number));
                walk.fatal.get_or_insert(Refusal { text, float });
            }
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
        Custom::Raw | Custom::SchemaOr { .. } => {}
    }
}

/// The offset at which Go finds invalid base64; `None` if the text is valid.
pub(super) fn first_bad_base64(text: &str) -> Option<usize> {
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    let bytes: Vec<(usize, u8)> =
        text.bytes().enumerate().filter(|(_, byte)| !b"\r\n".contains(byte)).collect();
    for group in bytes.chunks(4) {
        let padding = group.iter().position(|(_, byte)| !is_digit(*byte));
        match (padding, group.len()) {
            (None, 4) => {}
            // Go reports the beginning of an incomplete group.
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
