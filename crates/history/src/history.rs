//! The parts of a history: requests, lists and watches, with ticks of one counter.

use std::collections::BTreeMap;

use serde::Serialize;

/// A point in real time. All ticks come from one counter, so that no two are equal.
pub type Tick = u64;

/// A resource version, as a number.
pub type Revision = u64;

/// The number of an object.
pub type Key = usize;

/// The two values of an object. No two writes use the same value, so that a value identifies the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Content {
    /// Written by creates and updates.
    pub set: u64,
    /// Written by merge patches, which do not change `set`. Updates keep it.
    pub merged: Option<u64>,
}

/// An object in an answer or in an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Object {
    /// The resource version.
    pub revision: Revision,
    /// The uid.
    pub uid: String,
    /// The values.
    pub content: Content,
}

/// A request about one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Call {
    /// POST.
    Create {
        /// The value of [`Content::set`].
        set: u64,
    },
    /// PUT of an object with a resource version.
    Update {
        /// The resource version in the body.
        expected: Revision,
        /// The values in the body.
        content: Content,
    },
    /// A merge patch of [`Content::merged`].
    Patch {
        /// The new value.
        merged: u64,
        /// The resource version in the body, if there is one.
        expected: Option<Revision>,
    },
    /// DELETE.
    Delete {
        /// The resource version in the preconditions, if there is one.
        expected: Option<Revision>,
    },
    /// GET.
    Get,
}

impl Call {
    /// Returns the value that identifies the write; `None` for deletes and reads.
    pub fn token(&self) -> Option<u64> {
        match self {
            Self::Create { set } => Some(*set),
            Self::Update { content, .. } => Some(content.set),
            Self::Patch { merged, .. } => Some(*merged),
            Self::Delete { .. } | Self::Get => None,
        }
    }
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Answer {
    /// The object that was written or read.
    Object(Object),
    /// The object was deleted.
    Deleted {
        /// The uid in the details of the answer.
        uid: String,
        /// The revision of the deletion, if a watch has shown it.
        revision: Option<Revision>,
    },
    /// 409 AlreadyExists.
    Exists,
    /// 409 Conflict.
    Conflict,
    /// 404.
    NotFound,
    /// No answer, or one that does not say whether the write happened.
    Lost,
}

/// A request with its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Operation {
    /// The object.
    pub key: Key,
    /// The request.
    pub call: Call,
    /// A tick before the request was sent.
    pub called: Tick,
    /// The answer to a request.
    pub answer: Answer,
    /// A tick after the answer was read. For a request without an answer, a tick after its server had died.
    pub returned: Tick,
}

/// A list, read to its end in one page or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listing {
    /// A tick before the first page was requested.
    pub called: Tick,
    /// A tick after the first page was read. Later pages show the same revision.
    pub returned: Tick,
    /// The revision of the list.
    pub revision: Revision,
    /// The objects in the list.
    pub items: BTreeMap<Key, Object>,
}

/// The type of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum ChangeKind {
    /// `ADDED`.
    Added,
    /// `MODIFIED`.
    Modified,
    /// `DELETED`. The object has its last values.
    Deleted,
}

/// An event of a watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The object.
    pub key: Key,
    /// The type of the event.
    pub kind: ChangeKind,
    /// The object, with the revision of the change.
    pub object: Object,
    /// A tick after the event was read.
    pub seen: Tick,
}

/// The events of one watch request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stream {
    /// The number of the watcher.
    pub watcher: usize,
    /// The resource version that the watch began at: that of a list, or the last one that this watcher had seen.
    pub from: Revision,
    /// The events, in the order in which they arrived.
    pub changes: Vec<Change>,
    /// The revision of the last bookmark or event of an object that is not recorded.
    pub reached: Revision,
}

impl Stream {
    /// Returns the last revision that the watch has shown, or the one that it began at.
    pub fn until(&self) -> Revision {
        let last = self.changes.last().map_or(self.from, |change| change.object.revision);
        last.max(self.reached)
    }
}

/// Everything that the clients did and saw, beginning before any of the objects existed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct History {
    /// How many objects there are.
    pub keys: usize,
    /// Requests about single objects.
    pub operations: Vec<Operation>,
    /// Lists.
    pub listings: Vec<Listing>,
    /// Watches; those of one watcher are in the order in which they were opened.
    pub streams: Vec<Stream>,
    /// The revision that every watcher must have seen.
    pub end: Option<Revision>,
    /// Answers that a correct server never gives.
    pub surprises: Vec<String>,
}
