//! What a history is made of: requests, lists and watches, stamped by one counter.

use std::collections::BTreeMap;

use serde::Serialize;

/// A point in real time: every stamp is taken from one counter, so that no two are equal.
pub type Tick = u64;

/// A `resourceVersion`, as a number.
pub type Revision = u64;

/// Which of the contended objects a request is about.
pub type Key = usize;

/// The two values of an object. Every write brings a value that no other write brings, so that a value tells its write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Content {
    /// Written by creates and updates.
    pub set: u64,
    /// Written by merge patches, which leave `set` alone; carried along by updates.
    pub merged: Option<u64>,
}

/// An object as an answer or an event shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Object {
    /// Its `resourceVersion`.
    pub revision: Revision,
    /// Its `uid`.
    pub uid: String,
    /// Its values.
    pub content: Content,
}

/// What a request asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Call {
    /// POST.
    Create {
        /// The value of [`Content::set`].
        set: u64,
    },
    /// PUT of an object with a resourceVersion.
    Update {
        /// The resourceVersion that it carries.
        expected: Revision,
        /// The values that it carries.
        content: Content,
    },
    /// A merge patch of [`Content::merged`].
    Patch {
        /// The new value.
        merged: u64,
        /// The resourceVersion that it carries, where it carries one.
        expected: Option<Revision>,
    },
    /// DELETE.
    Delete {
        /// The resourceVersion in its preconditions, where it has any.
        expected: Option<Revision>,
    },
    /// GET.
    Get,
}

impl Call {
    /// The value that no other write brings, if this is a write that brings one.
    pub fn token(&self) -> Option<u64> {
        match self {
            Self::Create { set } => Some(*set),
            Self::Update { content, .. } => Some(content.set),
            Self::Patch { merged, .. } => Some(*merged),
            Self::Delete { .. } | Self::Get => None,
        }
    }
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Answer {
    /// The object: as it was written, or as it was read.
    Object(Object),
    /// The object of this uid was deleted; at which revision, where a watch told.
    Deleted {
        /// The uid in the details of the answer.
        uid: String,
        /// When it was deleted.
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

/// One request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Operation {
    /// The object.
    pub key: Key,
    /// What was asked.
    pub call: Call,
    /// Before the request was sent.
    pub called: Tick,
    /// What came back.
    pub answer: Answer,
    /// After the answer was read; for a request that was lost, after its server had died.
    pub returned: Tick,
}

/// A whole list, in one page or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listing {
    /// Before the first page was asked for.
    pub called: Tick,
    /// After the first page was read: later pages show the same revision.
    pub returned: Tick,
    /// The revision of the list.
    pub revision: Revision,
    /// What was in it.
    pub items: BTreeMap<Key, Object>,
}

/// What an event of a watch says has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum ChangeKind {
    /// `ADDED`.
    Added,
    /// `MODIFIED`.
    Modified,
    /// `DELETED`: the values are the last ones.
    Deleted,
}

/// An event of a watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The object.
    pub key: Key,
    /// What happened.
    pub kind: ChangeKind,
    /// The object, with the revision of the change.
    pub object: Object,
    /// After the event was read.
    pub seen: Tick,
}

/// One answer to a watch request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stream {
    /// Which watcher asked.
    pub watcher: usize,
    /// The resourceVersion that the watch began at: that of a list, or the last one that this watcher had seen.
    pub from: Revision,
    /// The events, in the order in which they came.
    pub changes: Vec<Change>,
    /// The revision of what came last, where that was a bookmark or an event of an object that is not recorded.
    pub reached: Revision,
}

impl Stream {
    /// The last revision that the stream has shown, or began at.
    pub fn until(&self) -> Revision {
        let last = self.changes.last().map_or(self.from, |change| change.object.revision);
        last.max(self.reached)
    }
}

/// What all clients did and saw, from when there was none of the objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct History {
    /// How many objects there are.
    pub keys: usize,
    /// Requests.
    pub operations: Vec<Operation>,
    /// Lists.
    pub listings: Vec<Listing>,
    /// Watches, those of one watcher in their order.
    pub streams: Vec<Stream>,
    /// The revision that every watcher was to see before it ended.
    pub end: Option<Revision>,
    /// Answers that a correct server does not give at all.
    pub surprises: Vec<String>,
}
