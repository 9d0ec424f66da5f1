//! The record as a document, and its encoding in JSON.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::entry::{Entry, Reconcile};

/// The version of the format. A reader refuses another version, and ignores unknown fields and entries of this one.
pub const VERSION: &str = "evenkeel.dev/record/v1";

/// A record: what one process, or several, did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The version of the format, [`VERSION`].
    pub version: String,
    /// The name of the operator, cluster or test.
    #[serde(default)]
    pub name: String,
    /// What kind of process recorded it.
    #[serde(default)]
    pub origin: Origin,
    /// The wall-clock time at which the record begins, in RFC 3339 format.
    #[serde(default)]
    pub started: String,
    /// When this document was made, in microseconds since the start.
    #[serde(default)]
    pub taken: u64,
    /// How many bytes the recorder uses.
    #[serde(default)]
    pub bytes: u64,
    /// How many bytes the recorder may use.
    #[serde(default)]
    pub bytes_max: u64,
    /// How many old entries were dropped to stay within `bytes_max`.
    #[serde(default)]
    pub dropped: u64,
    /// The controllers.
    #[serde(default)]
    pub controllers: Vec<Controller>,
    /// The watches.
    #[serde(default)]
    pub watches: Vec<Watch>,
    /// What happened, in order of time.
    #[serde(default)]
    pub entries: Vec<Entry>,
}

impl Default for Record {
    fn default() -> Self {
        Self {
            version: VERSION.to_owned(),
            name: String::new(),
            origin: Origin::default(),
            started: String::new(),
            taken: 0,
            bytes: 0,
            bytes_max: 0,
            dropped: 0,
            controllers: Vec::new(),
            watches: Vec::new(),
            entries: Vec::new(),
        }
    }
}

/// What kind of process made a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Origin {
    /// The flight recorder of an operator.
    #[default]
    Operator,
    /// An embedded cluster.
    Cluster,
    /// A test.
    Test,
    /// An exploration of a scenario.
    Exploration,
}

/// A controller and its queue, as they were when the record was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Controller {
    /// The name.
    pub name: String,
    /// The operator that runs the controller, if the record covers several operators.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub operator: String,
    /// The kind that the controller reconciles, or an empty string for a controller without a kind of its own.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// How many keys the controller reconciles at the same time.
    pub workers: usize,
    /// How many keys are ready to be reconciled.
    pub ready: usize,
    /// How many keys wait until a later time.
    pub delayed: usize,
    /// How many keys are being reconciled.
    pub in_flight: usize,
}

/// A watch and its cache, as they were when the record was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Watch {
    /// The resource that the watch follows.
    pub source: String,
    /// The operator that the watch belongs to, if the record covers several operators.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub operator: String,
    /// Whether the cache is filled and the watch is open.
    pub state: WatchState,
    /// The number of objects in the cache.
    pub objects: usize,
    /// How many times the watch was reopened.
    pub restarts: u64,
    /// How many times the resource was listed.
    pub lists: u64,
    /// The newest revision that the watch has seen.
    #[serde(skip_serializing_if = "is_zero")]
    pub revision: u64,
    /// How long ago the watch last received something from the server, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent: Option<u64>,
    /// The error of the last attempt, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The state of a watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum WatchState {
    /// The first list is not complete.
    #[default]
    Starting,
    /// The cache is filled, and the last attempt succeeded.
    Synced,
    /// The last attempt failed.
    Failing,
}

/// An object by its kind and name.
///
/// ```
/// use evenkeel_record::Key;
///
/// let key = Key::parse("pod/web", Some("prod")).unwrap();
/// assert_eq!(key.to_string(), "pod prod/web");
/// assert!(Key::parse("web", None).is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The kind, in any case.
    pub kind: String,
    /// The namespace, or `None` for cluster-scoped objects.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

impl Key {
    /// Reads `KIND/NAME`.
    pub fn parse(text: &str, namespace: Option<&str>) -> Option<Self> {
        let (kind, name) = text.split_once('/')?;
        let whole = !kind.is_empty() && !name.is_empty() && !name.contains('/');
        let namespace = namespace.map(str::to_owned);
        whole.then(|| Self { kind: kind.to_owned(), namespace, name: name.to_owned() })
    }

    /// Whether a reconcile was of this object.
    pub fn is_of(&self, reconcile: &Reconcile) -> bool {
        let same = reconcile.namespace == self.namespace && reconcile.name == self.name;
        same && (reconcile.kind.eq_ignore_ascii_case(&self.kind) || reconcile.kind.is_empty())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// Why a text cannot be read as a record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The text is not JSON, or its fields have other types.
    #[error("this is not a record")]
    Json(#[from] serde_json::Error),
    /// The record has a version that this program cannot read.
    #[error(
        "the record has version {found}, and this program reads {VERSION}; use the program that wrote it"
    )]
    Version {
        /// The version of the record.
        found: String,
    },
}

impl Record {
    /// Reads a record from JSON.
    ///
    /// ```
    /// use evenkeel_record::Record;
    ///
    /// let record = Record { name: "database".into(), ..Record::default() };
    /// assert_eq!(Record::read(record.to_json().as_bytes()).unwrap(), record);
    /// let newer = r#"{"version": "evenkeel.dev/record/v2"}"#;
    /// assert!(Record::read(newer.as_bytes()).unwrap_err().to_string().contains("v2"));
    /// ```
    pub fn read(json: &[u8]) -> Result<Self, ReadError> {
        #[derive(Deserialize)]
        struct Versioned {
            version: String,
        }
        let Versioned { version } = serde_json::from_slice(json)?;
        if version != VERSION {
            return Err(ReadError::Version { found: version });
        }
        Ok(serde_json::from_slice(json)?)
    }

    /// The record as JSON.
    pub fn to_json(&self) -> String {
        // Encoding fails only for maps whose keys are not strings, and a record has no maps.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The record as a server-sent event, whose data is the record as JSON.
    ///
    /// ```
    /// use evenkeel_record::Record;
    ///
    /// let record = Record { name: "database".into(), ..Record::default() };
    /// assert_eq!(record.to_event(), format!("data: {}\n\n", record.to_json()).into_bytes());
    /// ```
    pub fn to_event(&self) -> Vec<u8> {
        let mut event = b"data: ".to_vec();
        if serde_json::to_writer(&mut event, self).is_err() {
            // Only maps with keys that are no strings cannot be encoded; a record has no maps.
            return Vec::new();
        }
        event.extend_from_slice(b"\n\n");
        event
    }

    /// The reconciles, in order of time.
    pub fn reconciles(&self) -> impl DoubleEndedIterator<Item = &Reconcile> {
        self.entries.iter().filter_map(Entry::reconcile)
    }

    /// Shifts all times by this many microseconds, for instance to align them with the start of another record.
    pub fn shift(&mut self, micros: i64) {
        self.taken = self.taken.saturating_add_signed(micros);
        self.entries.iter_mut().for_each(|entry| entry.shift(micros));
    }

    /// Adds what another process recorded. Its times must count from the start of this record.
    pub fn merge(&mut self, other: Record) {
        self.taken = self.taken.max(other.taken);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.bytes_max = self.bytes_max.saturating_add(other.bytes_max);
        self.dropped = self.dropped.saturating_add(other.dropped);
        self.controllers.extend(other.controllers);
        self.watches.extend(other.watches);
        if !other.entries.is_empty() {
            self.entries.extend(other.entries);
            self.entries.sort_by_key(Entry::at);
        }
    }
}
