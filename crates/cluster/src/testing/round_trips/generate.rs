//! Generates objects from the schema of a custom resource.

use std::collections::BTreeSet;

use evenkeel_env::Env;
use serde_json::{Map, Value, json};

use super::pattern;

/// The largest absolute value of numbers without limits: they fit into every number type except the smallest, whose
/// schemas have limits.
const NUMBER_MAX: i64 = 1000;
/// How many items above its minimum a list has at most, and how many entries a map.
const MORE_ITEMS: u64 = 2;
/// How many texts are generated for a pattern until one has the right length.
const TRIES: usize = 50;

/// Which optional fields an object has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// No optional fields.
    Required,
    /// All optional fields.
    All,
    /// Each optional field with a chance of one half.
    Random,
}

/// Generates objects. All texts differ, so that swapped fields are noticed.
pub(super) struct Generator {
    env: Env,
    words: u64,
    presence: Presence,
}

impl Generator {
    pub(super) fn new(env: Env) -> Self {
        Self { env, words: 0, presence: Presence::Random }
    }

    /// Generates an object for this schema, without type and metadata.
    pub(super) fn object(&mut self, schema: &Value, presence: Presence) -> Value {
        self.presence = presence;
        let mut object = self.fields(schema);
        for given in ["apiVersion", "kind", "metadata"] {
            object.remove(given);
        }
        object.into()
    }

    /// Generates the metadata of an object.
    pub(super) fn metadata(&mut self, presence: Presence) -> Value {
        self.presence = presence;
        let mut metadata = json!({ "name": "example", "namespace": "default" });
        for field in ["annotations", "labels"] {
            if self.is_wanted() {
                metadata[field] = json!({ self.word(): self.word() });
            }
        }
        metadata
    }

    fn below(&self, bound: u64) -> u64 {
        self.env.random_below(bound.max(1))
    }

    fn is_wanted(&self) -> bool {
        match self.presence {
            Presence::Required => false,
            Presence::All => true,
            Presence::Random => self.below(2) == 1,
        }
    }

    /// Returns a text that no other field has.
    fn word(&mut self) -> String {
        self.words += 1;
        format!("w{}", self.words)
    }

    fn value(&mut self, schema: &Value) -> Value {
        if let Some(chosen) = self.one_of(&schema["enum"]) {
            return chosen;
        }
        if schema["x-kubernetes-int-or-string"] == true {
            let number = self.below(100);
            return if self.below(2) == 1 { number.into() } else { format!("{number}%").into() };
        }
        match schema["type"].as_str() {
            Some("array") => self.items(schema).into(),
            Some("boolean") => (self.below(2) == 1).into(),
            Some("integer") => self.integer(schema).into(),
            Some("number") => self.number(schema).into(),
            Some("string") => self.text(schema).into(),
            Some(_) => self.fields(schema).into(),
            None if preserves(schema) => self.anything(),
            None => self.fields(schema).into(),
        }
    }

    /// Returns a value of an enum other than null.
    fn one_of(&self, values: &Value) -> Option<Value> {
        let values: Vec<&Value> = values.as_array()?.iter().filter(|value| !value.is_null()).collect();
        let at = usize::try_from(self.below(values.len() as u64)).ok()?;
        values.get(at).map(|value| (*value).clone())
    }

    fn fields(&mut self, schema: &Value) -> Map<String, Value> {
        let branch = Branch::choose(schema, |count| self.below(count));
        let mut fields = Map::new();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            if branch.excluded.contains(name.as_str()) {
                continue;
            }
            let is_required = requires(schema, name) || branch.required.contains(name.as_str());
            if is_required || self.is_wanted() {
                let narrowed = branch.narrowed.get(name).filter(|narrowed| !narrowed["enum"].is_null());
                let value = self.value(narrowed.unwrap_or(property));
                fields.insert(name.clone(), value);
            } else if let Some(default) = property.get("default") {
                fields.insert(name.clone(), default.clone());
            }
        }
        self.add_entries(schema, &mut fields);
        if schema["x-kubernetes-embedded-resource"] == true {
            fields.insert("apiVersion".into(), "v1".into());
            fields.insert("kind".into(), "Example".into());
            fields.insert("metadata".into(), json!({ "name": self.word() }));
        }
        fields
    }

    /// Adds entries to a map, and unknown fields where the schema preserves them.
    fn add_entries(&mut self, schema: &Value, fields: &mut Map<String, Value>) {
        let least = schema["minProperties"].as_u64().unwrap_or(0);
        let of_map = &schema["additionalProperties"];
        if of_map.is_object() || *of_map == true {
            let more = if self.presence == Presence::Required { 0 } else { 1 + self.below(MORE_ITEMS) };
            let most = schema["maxProperties"].as_u64().unwrap_or(u64::MAX);
            for _ in 0..more.max(least).min(most) {
                let value = if of_map.is_object() { self.value(of_map) } else { self.anything() };
                fields.insert(self.word(), value);
            }
        } else if preserves(schema) && self.is_wanted() {
            let value = self.anything();
            fields.insert(self.word(), value);
        }
    }

    fn items(&mut self, schema: &Value) -> Vec<Value> {
        let least = schema["minItems"].as_u64().unwrap_or(0);
        let most = schema["maxItems"].as_u64().unwrap_or(u64::MAX);
        let more = if self.presence == Presence::Required { 0 } else { 1 + self.below(MORE_ITEMS) };
        let items: Vec<Value> =
            (0..least.max(more).min(most)).map(|_| self.value(&schema["items"])).collect();
        without_twins(items, schema)
    }

    fn integer(&self, schema: &Value) -> i64 {
        let limit = |name: &str, exclusive: &str, step: i64| {
            let limit = schema[name].as_f64()? as i64;
            Some(if schema[exclusive] == true { limit + step } else { limit })
        };
        let (least, most) =
            (limit("minimum", "exclusiveMinimum", 1), limit("maximum", "exclusiveMaximum", -1));
        let least = least.unwrap_or_else(|| most.map_or(-NUMBER_MAX, |most| most.saturating_sub(NUMBER_MAX)));
        let most = most.unwrap_or(i64::MAX).min(least.saturating_add(2 * NUMBER_MAX));
        let span = u64::try_from(most.saturating_sub(least)).unwrap_or(0);
        let number = least + i64::try_from(self.below(span + 1)).unwrap_or(0);
        match schema["multipleOf"].as_f64().map(|step| step as i64) {
            Some(step) if step > 1 => {
                let below = number - number.rem_euclid(step);
                if below < least { below + step } else { below }
            }
            _ => number,
        }
    }

    /// Returns a number with a fraction that every floating-point type represents exactly, if the limits allow one.
    fn number(&self, schema: &Value) -> f64 {
        let number = self.integer(schema) as f64;
        let with_fraction = number + 0.5;
        let fits = schema["maximum"].as_f64().is_none_or(|most| with_fraction < most);
        if fits && schema["multipleOf"].is_null() { with_fraction } else { number }
    }

    fn text(&mut self, schema: &Value) -> String {
        let least = usize::try_from(schema["minLength"].as_u64().unwrap_or(0)).unwrap_or(0);
        let most = usize::try_from(schema["maxLength"].as_u64().unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
        if let Some(pattern) = schema["pattern"].as_str() {
            let fits = |text: &String| (least..=most).contains(&text.chars().count());
            let mut below = |bound| self.env.random_below(bound);
            let sample = (0..TRIES).filter_map(|_| pattern::sample(pattern, &mut below)).find(fits);
            if let Some(sample) = sample {
                return sample;
            }
        }
        let word = self.word();
        let text = schema["format"].as_str().and_then(|format| self.formatted(format, &word)).unwrap_or(word);
        let padding = "x".repeat(least.saturating_sub(text.chars().count()));
        (text + &padding).chars().take(most).collect()
    }

    /// Returns a text in one of Kubernetes' formats.
    fn formatted(&self, format: &str, word: &str) -> Option<String> {
        let small = self.below(60);
        Some(match format {
            "byte" => format!("d29y{small:02}A="),
            "cidr" => format!("10.0.{small}.0/24"),
            "date" => format!("2026-01-{:02}", 1 + small % 28),
            "date-time" | "datetime" => format!("2026-01-02T03:04:{small:02}Z"),
            "duration" => format!("{}s", 1 + small),
            "email" => format!("{word}@example.com"),
            "hostname" => format!("{word}.example.com"),
            "ip" | "ipv4" => format!("10.0.0.{small}"),
            "ipv6" => format!("fd00::{}", 1 + small),
            "mac" => format!("02:00:00:00:00:{small:02}"),
            "uri" => format!("https://example.com/{word}"),
            "uuid" | "uuid4" => self.env.uid(),
            _ => return None,
        })
    }

    /// Returns a value of any type.
    fn anything(&mut self) -> Value {
        match self.below(3) {
            0 => self.below(100).into(),
            1 => self.word().into(),
            _ => json!({ self.word(): self.word() }),
        }
    }
}

/// The alternative of `oneOf` or `anyOf` that a generated object satisfies.
#[derive(Default)]
struct Branch<'a> {
    required: BTreeSet<&'a str>,
    /// The fields that only other alternatives have.
    excluded: BTreeSet<&'a str>,
    narrowed: Map<String, Value>,
}

impl<'a> Branch<'a> {
    fn choose(schema: &'a Value, below: impl FnOnce(u64) -> u64) -> Self {
        let alternatives = |name: &str| schema[name].as_array().filter(|branches| !branches.is_empty());
        let (branches, exclusive) = match (alternatives("oneOf"), alternatives("anyOf")) {
            (Some(branches), _) => (branches, true),
            (None, Some(branches)) => (branches, false),
            (None, None) => return Self::default(),
        };
        let chosen = usize::try_from(below(branches.len() as u64)).unwrap_or(0);
        let Some(branch) = branches.get(chosen) else { return Self::default() };
        let required: BTreeSet<&str> = required(branch).collect();
        let others = branches.iter().filter(|_| exclusive).flat_map(self::required);
        let excluded = others.filter(|name| !required.contains(name)).collect();
        let narrowed = branch["properties"].as_object().cloned().unwrap_or_default();
        Self { required, excluded, narrowed }
    }
}

/// Returns the fields that a schema requires.
fn required(schema: &Value) -> impl Iterator<Item = &str> {
    schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn requires(schema: &Value, field: &str) -> bool {
    required(schema).any(|required| required == field)
}

/// Whether an alternative of the schema requires a field.
pub(super) fn may_require(schema: &Value, field: &str) -> bool {
    let alternatives = ["oneOf", "anyOf", "allOf"].into_iter();
    let mut branches = alternatives.flat_map(|name| schema[name].as_array().into_iter().flatten());
    requires(schema, field) || branches.any(|branch| requires(branch, field))
}

fn preserves(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
}

/// Removes duplicate items of a set, or of a list with keys.
fn without_twins(items: Vec<Value>, schema: &Value) -> Vec<Value> {
    let keys = schema["x-kubernetes-list-map-keys"].as_array();
    let is_set = schema["x-kubernetes-list-type"] == "set";
    let key = |item: &Value| match keys {
        Some(keys) => keys.iter().filter_map(|key| item.get(key.as_str()?)).cloned().collect(),
        None => item.clone(),
    };
    let mut known: Vec<Value> = Vec::new();
    let mut kept = Vec::new();
    for item in items {
        let key = key(&item);
        if (keys.is_none() && !is_set) || !known.contains(&key) {
            known.push(key);
            kept.push(item);
        }
    }
    kept
}

#[cfg(test)]
mod tests;
