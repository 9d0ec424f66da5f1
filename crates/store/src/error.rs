//! How operations fail.

use std::sync::Arc;

use crate::Entry;

/// A write was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError<H> {
    /// What was expected does not hold. Nothing was written; the key's value now is given.
    #[error("the key is not as expected")]
    Conflict {
        /// The current entry, if the key exists.
        current: Option<Arc<Entry<H>>>,
    },
    /// The key or the value is longer than the journal takes.
    #[error("the write is larger than {limit} bytes")]
    TooLarge {
        /// The most bytes of a key or value.
        limit: usize,
    },
    /// The key lies in more folders than the store takes.
    #[error("the key lies in more than {limit} folders")]
    TooDeep {
        /// The most folders of a key.
        limit: usize,
    },
    /// The disk is full. Nothing was written; a write succeeds again when there is room.
    #[error("there is no room for the write: {0}")]
    NoRoom(String),
    /// The journal failed; whether the write was made shows when the store is opened again. The store takes no
    /// further writes: what is in memory must not run ahead of the disk.
    #[error("the journal failed: {0}")]
    Journal(String),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

/// A read could not be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The revision is no longer kept.
    #[error("revision {asked} has been compacted, the oldest kept is {oldest}")]
    Compacted {
        /// What was asked for.
        asked: u64,
        /// The oldest revision that can be read.
        oldest: u64,
    },
    /// The revision has not been written yet.
    #[error("revision {asked} is in the future, the newest is {newest}")]
    Future {
        /// What was asked for.
        asked: u64,
        /// The newest revision.
        newest: u64,
    },
}

/// A watch ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The revision to go on from is no longer kept.
    #[error("revision {asked} has been compacted, the oldest kept is {oldest}")]
    Compacted {
        /// What was asked for.
        asked: u64,
        /// The oldest revision that can be followed.
        oldest: u64,
    },
    /// The watcher did not read for so long that its buffer was full, and it was cut off.
    #[error("the watcher fell behind and was cut off after revision {last}")]
    Overrun {
        /// The last revision that the watcher was given.
        last: u64,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

/// A directory could not be opened. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process uses it.
    #[error("{0} is in use by another process")]
    Locked(String),
    /// It holds something that is not ours, or of another format version.
    #[error("{path} is not a data directory that this version can use: {why}")]
    Foreign {
        /// The directory.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// A backup was to be restored into it, and it holds a store already.
    #[error("{0} holds a store already")]
    Occupied(String),
    /// It is ours but damaged.
    #[error("{path} is damaged: {why}")]
    Damaged {
        /// The directory.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// Reading or writing failed.
    #[error("cannot use {path}: {source}")]
    Io {
        /// The directory.
        path: String,
        /// Why.
        source: std::io::Error,
    },
}
