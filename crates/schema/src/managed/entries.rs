//! The entries of `metadata.managedFields`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

use crate::fieldset::FieldSet;
use crate::json::{self, Map, Value};

/// What tells one entry from another. Appliers are one manager in all versions, updaters are one in each.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManagerId {
    name: String,
    applies: bool,
    /// Empty for an applier.
    api_version: String,
    subresource: String,
}

impl ManagerId {
    pub(super) fn update(name: &str, api_version: &str, subresource: &str) -> Self {
        Self {
            name: or_unknown(name),
            applies: false,
            api_version: api_version.into(),
            subresource: subresource.into(),
        }
    }

    pub(super) fn apply(name: &str, subresource: &str) -> Self {
        Self {
            name: or_unknown(name),
            applies: true,
            api_version: String::new(),
            subresource: subresource.into(),
        }
    }

    /// The name of the manager.
    pub fn name(&self) -> &str {
        &self.name
    }
}

fn or_unknown(name: &str) -> String {
    if name.is_empty() { "unknown" } else { name }.to_owned()
}

/// As conflicts name it.
impl fmt::Display for ManagerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&json::go_quote(&self.name))?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {}", json::go_quote(&self.subresource))?;
        }
        if !self.applies {
            write!(f, " using {}", self.api_version)?;
        }
        Ok(())
    }
}

/// What a manager owns, in the version that it wrote in.
#[derive(Debug, Clone)]
pub(super) struct Owned<'v> {
    fields: Fields<'v>,
    pub(super) api_version: Cow<'v, str>,
}

/// A set of fields, read only when it must be: most writes leave most entries as they are.
#[derive(Debug, Clone)]
enum Fields<'v> {
    Stored(&'v Value),
    Read(FieldSet),
}

impl<'v> Owned<'v> {
    pub(super) fn new(set: FieldSet, api_version: impl Into<Cow<'v, str>>) -> Self {
        Self { fields: Fields::Read(set), api_version: api_version.into() }
    }

    /// The whole set.
    pub(super) fn set(&self) -> Cow<'_, FieldSet> {
        match &self.fields {
            Fields::Read(set) => Cow::Borrowed(set),
            // What is stored was written by us, or was refused when it came.
            Fields::Stored(json) => Cow::Owned(FieldSet::from_json(json).unwrap_or_default()),
        }
    }

    pub(super) fn replace(&mut self, set: FieldSet) {
        self.fields = Fields::Read(set);
    }

    /// What of a set is in this one; costs what the other set is large.
    pub(super) fn intersection(&self, other: &FieldSet) -> FieldSet {
        match &self.fields {
            Fields::Read(set) => set.intersection(other),
            Fields::Stored(json) => other.intersection_with_json(json),
        }
    }

    /// Takes fields away; nothing is read where there are none to take.
    pub(super) fn take(&mut self, other: &FieldSet) {
        if !other.is_empty() && !self.intersection(other).is_empty() {
            self.replace(self.set().difference(other));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match &self.fields {
            Fields::Read(set) => set.is_empty(),
            Fields::Stored(json) => json.as_object().is_none_or(Map::is_empty),
        }
    }

    fn to_json(&self) -> Value {
        match &self.fields {
            Fields::Read(set) => set.to_json(),
            Fields::Stored(json) => (*json).clone(),
        }
    }
}

/// The whole record of an object.
#[derive(Debug, Clone, Default)]
pub(super) struct Managed<'v> {
    pub(super) owned: BTreeMap<ManagerId, Owned<'v>>,
    times: BTreeMap<ManagerId, String>,
}

impl<'v> Managed<'v> {
    /// Reads the record of a stored object.
    pub(super) fn of(object: &'v Value) -> Result<Self, String> {
        let entries = json::get(object, &["metadata", "managedFields"]).and_then(Value::as_array);
        let mut managed = Self::default();
        for (index, entry) in entries.into_iter().flatten().enumerate() {
            let (id, owned) = read(index, entry)?;
            match entry.get("time").and_then(Value::as_str) {
                Some(time) => managed.times.insert(id.clone(), time.to_owned()),
                None => managed.times.remove(&id),
            };
            managed.owned.insert(id, owned);
        }
        Ok(managed)
    }

    /// Reads a record that somebody sent: nothing about it is believed.
    pub(super) fn of_request(object: &Value) -> Result<Managed<'static>, String> {
        let managed = Managed::of(object)?;
        let mut read = Managed { owned: BTreeMap::new(), times: managed.times };
        for (id, owned) in managed.owned {
            let set = match owned.fields {
                Fields::Read(set) => set,
                Fields::Stored(json) => {
                    FieldSet::from_json(json).map_err(|error| format!("error decoding set: {error}"))?
                }
            };
            read.owned.insert(id, Owned::new(set, owned.api_version.into_owned()));
        }
        Ok(read)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.owned.is_empty()
    }

    /// The entry of a manager is of now.
    pub(super) fn touch(&mut self, id: ManagerId, now: Timestamp) {
        self.times.insert(id, now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    }

    pub(super) fn time(&self, id: &ManagerId) -> Option<&String> {
        self.times.get(id)
    }

    pub(super) fn set_time(&mut self, id: ManagerId, time: Option<String>) {
        match time {
            Some(time) => self.times.insert(id, time),
            None => self.times.remove(&id),
        };
    }

    /// Writes the record into an object, or takes it out where there is nothing to record.
    pub(super) fn write_to(&self, object: &mut Value) {
        clear(object);
        if self.owned.is_empty() {
            return;
        }
        let Some(object) = object.as_object_mut() else { return };
        let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        if metadata.is_null() {
            *metadata = Value::Object(Map::new());
        }
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("managedFields".into(), self.to_json());
        }
    }

    /// The entries in their order: by operation, time, name, version and subresource.
    pub(super) fn to_json(&self) -> Value {
        let mut entries: Vec<_> = self.owned.iter().collect();
        entries.sort_by_cached_key(|(id, owned)| {
            let name = (id.name.clone(), owned.api_version.to_string(), id.subresource.clone());
            (!id.applies, self.seconds(id), name)
        });
        entries.into_iter().map(|(id, owned)| self.entry(id, owned)).collect()
    }

    fn entry(&self, id: &ManagerId, owned: &Owned<'_>) -> Value {
        let mut entry = Map::new();
        entry.insert("manager".into(), id.name.as_str().into());
        entry.insert("operation".into(), if id.applies { "Apply" } else { "Update" }.into());
        entry.insert("apiVersion".into(), owned.api_version.as_ref().into());
        if let Some(time) = self.times.get(id) {
            entry.insert("time".into(), time.as_str().into());
        }
        entry.insert("fieldsType".into(), "FieldsV1".into());
        entry.insert("fieldsV1".into(), owned.to_json());
        if !id.subresource.is_empty() {
            entry.insert("subresource".into(), id.subresource.as_str().into());
        }
        Value::Object(entry)
    }

    fn seconds(&self, id: &ManagerId) -> i64 {
        let time = self.times.get(id).and_then(|time| time.parse::<Timestamp>().ok());
        time.map_or(0, Timestamp::as_second)
    }

    /// Merges the oldest Update entries of each version into one, until no more than `max` are left.
    pub(super) fn fold_old_updates(&mut self, max: usize) {
        let mut updaters: Vec<_> = self.owned.keys().filter(|id| !id.applies).cloned().collect();
        let mut left = updaters.len();
        if left <= max {
            return;
        }
        updaters.sort_by_cached_key(|id| (self.seconds(id), id.clone()));
        let mut first_of_version: BTreeMap<String, ManagerId> = BTreeMap::new();
        for id in updaters {
            if left <= max {
                return;
            }
            let Some(owned) = self.owned.get(&id).cloned() else { continue };
            let Some(first) = first_of_version.get(owned.api_version.as_ref()) else {
                first_of_version.insert(owned.api_version.into_owned(), id);
                continue;
            };
            let bucket = ManagerId::update("ancient-changes", &owned.api_version, "");
            if !self.owned.contains_key(&bucket)
                && let Some(oldest) = self.owned.remove(first)
            {
                self.owned.insert(bucket.clone(), oldest);
            }
            let older = self.owned.get(&bucket).map(|older| older.set().into_owned()).unwrap_or_default();
            self.owned.remove(&id);
            // The younger entry's time: the bucket holds its change too.
            self.set_time(bucket.clone(), self.times.get(&id).cloned());
            self.owned.insert(bucket, Owned::new(owned.set().union(&older), owned.api_version.clone()));
            left -= 1;
        }
    }
}

fn read<'v>(index: usize, entry: &'v Value) -> Result<(ManagerId, Owned<'v>), String> {
    let text = |key: &str| -> &'v str { json::text(entry, &[key]) };
    let applies = match text("operation") {
        "Apply" => true,
        "Update" => false,
        _ => return Err("operation must be `Apply` or `Update`".into()),
    };
    if text("apiVersion").is_empty() {
        return Err("apiVersion must not be empty".into());
    }
    match text("fieldsType") {
        "FieldsV1" => {}
        "" => return Err(format!("missing fieldsType in managed fields entry {index}")),
        other => {
            return Err(format!(
                "invalid fieldsType {} in managed fields entry {index}",
                json::go_quote(other)
            ));
        }
    }
    let fields = match entry.get("fieldsV1") {
        None => Fields::Read(FieldSet::new()),
        Some(fields) => Fields::Stored(fields),
    };
    let id = ManagerId {
        name: text("manager").into(),
        applies,
        api_version: if applies { String::new() } else { text("apiVersion").into() },
        subresource: text("subresource").into(),
    };
    Ok((id, Owned { fields, api_version: text("apiVersion").into() }))
}

/// Takes the record out of an object.
pub(super) fn clear(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// Whether a written object asks for its record to be forgotten: `[]` or `[{}]`.
pub(super) fn asks_for_reset(object: &Value) -> bool {
    match json::get(object, &["metadata", "managedFields"]).and_then(Value::as_array).map(Vec::as_slice) {
        Some([]) => true,
        Some([one]) => one.as_object().is_some_and(|entry| entry.values().all(Value::is_null)),
        _ => false,
    }
}

/// Gives a write that changed nothing but times the times that are stored, so that it is seen to change nothing.
pub fn keep_times(live: &Value, new: &mut Value) {
    let entries = |object: &Value| json::get(object, &["metadata", "managedFields"]).cloned();
    let (Some(Value::Array(old)), Some(Value::Array(mut entries_now))) = (entries(live), entries(new)) else {
        return;
    };
    if old.len() != entries_now.len() || old == entries_now {
        return;
    }
    for (old, now) in old.iter().zip(&mut entries_now) {
        let Some(now) = now.as_object_mut() else { return };
        match old.get("time") {
            Some(time) => now.insert("time".into(), time.clone()),
            None => now.remove("time"),
        };
    }
    if entries_now != old || !same_but_record(live, new) {
        return;
    }
    if let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("managedFields".into(), Value::Array(entries_now));
    }
}

/// Whether two objects are equal but for their records.
pub(super) fn same_but_record(a: &Value, b: &Value) -> bool {
    let equal_but = |a: &Map<String, Value>, b: &Map<String, Value>, but: &str| {
        let (mut a, mut b) =
            (a.iter().filter(|(key, _)| *key != but), b.iter().filter(|(key, _)| *key != but));
        loop {
            match (a.next(), b.next()) {
                (None, None) => return true,
                (Some((a_key, a)), Some((b_key, b))) if a_key == b_key && json::same(a, b) => {}
                _ => return false,
            }
        }
    };
    let metadata =
        |object: &Value| object.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    let (Some(a_fields), Some(b_fields)) = (a.as_object(), b.as_object()) else { return false };
    equal_but(a_fields, b_fields, "metadata") && equal_but(&metadata(a), &metadata(b), "managedFields")
}
