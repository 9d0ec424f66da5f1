//! The entries of `metadata.managedFields`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

use evenkeel_scalars::go;

use crate::fieldset::{Cursor, FieldSet, has_children};
use crate::json::{self, Map, Value};

/// Identifies an entry. A manager that applies has one entry for all versions, a manager that updates has one for each.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManagerId {
    name: String,
    applies: bool,
    /// The version of an Update entry; empty for Apply.
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

/// Prints the manager as conflicts do.
impl fmt::Display for ManagerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&go::quote(&self.name))?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {}", go::quote(&self.subresource))?;
        }
        if !self.applies {
            write!(f, " using {}", self.api_version)?;
        }
        Ok(())
    }
}

/// The fields that a manager owns, in the version that it wrote in.
#[derive(Debug, Clone)]
pub(super) struct Owned {
    fields: Fields,
    pub(super) api_version: String,
}

/// A set of fields, parsed or as the JSON of `fieldsV1`. Most writes leave most entries unchanged, and need not parse them.
#[derive(Debug, Clone)]
enum Fields {
    Stored(Value),
    Read(FieldSet),
}

impl Owned {
    pub(super) fn new(set: FieldSet, api_version: &str) -> Self {
        Self { fields: Fields::Read(set), api_version: api_version.to_owned() }
    }

    /// The parsed set.
    pub(super) fn set(&self) -> Cow<'_, FieldSet> {
        match &self.fields {
            Fields::Read(set) => Cow::Borrowed(set),
            // Stored entries are valid: the server made them, or validated them in a request.
            Fields::Stored(json) => Cow::Owned(FieldSet::from_json(json).unwrap_or_default()),
        }
    }

    /// The JSON of `fieldsV1`, if it was not changed since it was stored.
    pub(super) fn stored(&self) -> Option<&Value> {
        match &self.fields {
            Fields::Stored(json) => Some(json),
            Fields::Read(_) => None,
        }
    }

    /// The root node of the set.
    pub(super) fn cursor(&self) -> Cursor<'_> {
        match &self.fields {
            Fields::Read(set) => Cursor::Set(set),
            Fields::Stored(json) => Cursor::Json(json),
        }
    }

    pub(super) fn replace(&mut self, set: FieldSet) {
        self.fields = Fields::Read(set);
    }

    /// Whether all fields are in the given set.
    pub(super) fn is_subset(&self, of: &FieldSet) -> bool {
        match &self.fields {
            Fields::Read(set) => set.is_subset(of),
            Fields::Stored(json) => of.covers_json(json),
        }
    }

    /// The fields of `other` that are in this set. The cost depends on the size of `other`.
    pub(super) fn intersection(&self, other: &FieldSet) -> FieldSet {
        match &self.fields {
            Fields::Read(set) => set.intersection(other),
            Fields::Stored(json) => other.intersection_with_json(json),
        }
    }

    /// Removes fields. The cost depends on the size of `other`.
    pub(super) fn take(&mut self, other: &FieldSet) {
        match &mut self.fields {
            _ if other.is_empty() => {}
            Fields::Read(set) => *set = set.difference(other),
            Fields::Stored(json) => {
                other.take_from_json(json);
            }
        }
    }

    /// Adds fields. The cost depends on the size of `other`.
    pub(super) fn add(&mut self, other: &FieldSet) {
        match &mut self.fields {
            Fields::Read(set) => *set = set.union(other),
            Fields::Stored(json) => other.add_to_json(json),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match &self.fields {
            Fields::Read(set) => set.is_empty(),
            Fields::Stored(json) => !has_children(json),
        }
    }

    fn into_json(self) -> Value {
        match self.fields {
            Fields::Read(set) => set.to_json(),
            Fields::Stored(json) => json,
        }
    }
}

/// The managed fields of an object.
#[derive(Debug, Clone, Default)]
pub(super) struct Managed {
    pub(super) owned: BTreeMap<ManagerId, Owned>,
    times: BTreeMap<ManagerId, String>,
}

impl Managed {
    /// Reads the managed fields of a stored object.
    pub(super) fn of(object: &Value) -> Result<Self, String> {
        Self::of_entries(json::get(object, &["metadata", "managedFields"]).cloned())
    }

    /// Reads stored `managedFields`, which are trusted.
    pub(super) fn of_entries(entries: Option<Value>) -> Result<Self, String> {
        let mut managed = Self::default();
        let Some(Value::Array(entries)) = entries else { return Ok(managed) };
        for (index, entry) in entries.iter().enumerate() {
            let (id, owned, time) = read(index, entry)?;
            match time {
                Some(time) => managed.times.insert(id.clone(), time),
                None => managed.times.remove(&id),
            };
            managed.owned.insert(id, owned);
        }
        Ok(managed)
    }

    /// Reads the `managedFields` of a request, and validates them.
    pub(super) fn of_request(entries: Value) -> Result<Self, String> {
        let mut managed = Self::of_entries(Some(entries))?;
        for owned in managed.owned.values_mut() {
            if let Fields::Stored(json) = &owned.fields {
                let set =
                    FieldSet::from_json(json).map_err(|error| format!("error decoding set: {error}"))?;
                owned.replace(set);
            }
        }
        Ok(managed)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.owned.is_empty()
    }

    /// Sets the time of a manager's entry.
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

    /// Writes the managed fields into an object, or removes them if there are none.
    pub(super) fn write_to(self, object: &mut Value) {
        take(object);
        if self.owned.is_empty() {
            return;
        }
        let Some(object) = object.as_object_mut() else { return };
        let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        if metadata.is_null() {
            *metadata = Value::Object(Map::new());
        }
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("managedFields".into(), self.into_json());
        }
    }

    /// The sorted entries: by operation, time, name, version and subresource.
    pub(super) fn into_json(self) -> Value {
        let mut order: Vec<_> = self
            .owned
            .iter()
            .map(|(id, owned)| {
                (!id.applies, self.seconds(id), &id.name, &owned.api_version, &id.subresource, id)
            })
            .collect();
        order.sort();
        let ids: Vec<ManagerId> = order.into_iter().map(|(.., id)| id.clone()).collect();
        let Self { mut owned, mut times } = self;
        let entries = ids.into_iter().filter_map(|id| {
            let owned = owned.remove(&id)?;
            Some(entry(times.remove(&id), id, owned))
        });
        entries.collect()
    }

    fn seconds(&self, id: &ManagerId) -> i64 {
        let time = self.times.get(id).and_then(|time| time.parse::<Timestamp>().ok());
        time.map_or(0, Timestamp::as_second)
    }

    /// Whether all managers wrote in this version.
    pub(super) fn is_all_in(&self, api_version: &str) -> bool {
        self.owned.values().all(|owned| owned.api_version == api_version)
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
            let Some(api_version) = self.owned.get(&id).map(|owned| owned.api_version.clone()) else {
                continue;
            };
            let Some(first) = first_of_version.get(&api_version) else {
                first_of_version.insert(api_version, id);
                continue;
            };
            let bucket = ManagerId::update("ancient-changes", &api_version, "");
            if !self.owned.contains_key(&bucket)
                && let Some(oldest) = self.owned.remove(first)
            {
                self.owned.insert(bucket.clone(), oldest);
            }
            let younger = self.owned.remove(&id);
            // The merged entry has the time of the younger one, whose changes it contains.
            self.set_time(bucket.clone(), self.times.get(&id).cloned());
            let older = self.owned.entry(bucket).or_insert_with(|| Owned::new(FieldSet::new(), &api_version));
            if let Some(younger) = younger {
                older.add(&younger.set());
            }
            left -= 1;
        }
    }
}

fn entry(time: Option<String>, id: ManagerId, owned: Owned) -> Value {
    let mut entry = Map::new();
    entry.insert("apiVersion".into(), owned.api_version.as_str().into());
    entry.insert("fieldsType".into(), "FieldsV1".into());
    entry.insert("fieldsV1".into(), owned.into_json());
    entry.insert("manager".into(), id.name.into());
    entry.insert("operation".into(), if id.applies { "Apply" } else { "Update" }.into());
    if !id.subresource.is_empty() {
        entry.insert("subresource".into(), id.subresource.into());
    }
    if let Some(time) = time {
        entry.insert("time".into(), time.into());
    }
    Value::Object(entry)
}

fn read(index: usize, entry: &Value) -> Result<(ManagerId, Owned, Option<String>), String> {
    let fields = match entry.get("fieldsV1") {
        None => Fields::Read(FieldSet::new()),
        Some(fields) => Fields::Stored(fields.clone()),
    };
    let text = |key: &str| json::text(entry, &[key]);
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
            return Err(format!("invalid fieldsType {} in managed fields entry {index}", go::quote(other)));
        }
    }
    let id = ManagerId {
        name: text("manager").into(),
        applies,
        api_version: if applies { String::new() } else { text("apiVersion").into() },
        subresource: text("subresource").into(),
    };
    let time = entry.get("time").and_then(Value::as_str).map(str::to_owned);
    Ok((id, Owned { fields, api_version: text("apiVersion").into() }, time))
}

/// Removes `managedFields` from an object and returns them.
pub(super) fn take(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata").and_then(Value::as_object_mut)?.remove("managedFields")
}

/// Whether the entries in a request are `[]` or `[{}]`, which clears the managed fields.
pub(super) fn asks_for_reset(entries: &Value) -> bool {
    match entries.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([one]) => one.as_object().is_some_and(|entry| entry.values().all(Value::is_null)),
        _ => false,
    }
}

/// Restores the stored times of entries in a write that changes nothing else, so that it is equal to the stored object.
pub fn keep_times(live: &Value, new: &mut Value) {
    let (Some(old), Some(now)) = (entries_of(live), entries_of(new)) else { return };
    let same_but_time = |(old, now): (&Value, &Value)| match (old.as_object(), now.as_object()) {
        (Some(old), Some(now)) => json::same_but(old, now, |name| name == "time", |_, a, b| a == b),
        _ => false,
    };
    // The managed fields are compared last: they are long, and mostly equal even if the rest differs.
    let may_be = old.len() == now.len() && same_but_record(live, new);
    if !may_be || !old.iter().zip(now).all(same_but_time) {
        return;
    }
    let times: Vec<Option<Value>> = old.iter().map(|entry| entry.get("time").cloned()).collect();
    let now = new.get_mut("metadata").and_then(|metadata| metadata.get_mut("managedFields"));
    for (entry, time) in now.and_then(Value::as_array_mut).into_iter().flatten().zip(times) {
        let Some(entry) = entry.as_object_mut() else { continue };
        match time {
            Some(time) => entry.insert("time".into(), time),
            None => entry.remove("time"),
        };
    }
}

fn entries_of(object: &Value) -> Option<&Vec<Value>> {
    json::get(object, &["metadata", "managedFields"]).and_then(Value::as_array)
}

/// Whether two objects are equal apart from their managed fields.
fn same_but_record(a: &Value, b: &Value) -> bool {
    let empty = Map::new();
    let (Some(a_fields), Some(b_fields)) = (a.as_object(), b.as_object()) else { return false };
    let [a, b] = [a, b].map(|object| object.get("metadata").and_then(Value::as_object).unwrap_or(&empty));
    json::same_but(a_fields, b_fields, |name| name == "metadata", |_, a, b| json::same(a, b))
        && json::same_but(a, b, |name| name == "managedFields", |_, a, b| json::same(a, b))
}
