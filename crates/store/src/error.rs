//! The errors of the store.

use std::sync::Arc;

use crate::Entry;

/// A write was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError<H> {
    /// The expectation does not hold. Nothing was written.
    #[error("the key is not in the expected state")]
    Conflict {
        /// The current entry, if the key exists.
        current: Option<Arc<Entry<H>>>,
    },
    /// The key or the value is too long for the journal.
    #[error("the write is larger than {limit} bytes")]
    TooLarge {
        /// The longest key or value, in bytes.
        limit: usize,
    },
    /// The key has too many folders.
    #[error("the key has more than {limit} folders")]
    TooDeep {
        /// The largest number of folders.
        limit: usize,
    },
    /// The disk is full. Nothing was written. Writes succeed again when there is room.
    #[error("there is no room for the write: {0}")]
    NoRoom(String),
    /// The journal failed. Whether the write was made is known only when the store is opened again. Until then the store
    /// takes no more writes, because memory must not run ahead of the disk.
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
    /// The revision is compacted.
    #[error("revision {asked} has been compacted, the oldest kept is {oldest}")]
    Compacted {
        /// The requested revision.
        asked: u64,
        /// The oldest revision that can be read.
        oldest: u64,
    },
    /// The revision does not exist yet.
    #[error("revision {asked} is in the future, the newest is {newest}")]
    Future {
        /// The requested revision.
        asked: u64,
        /// The newest revision.
        newest: u64,
    },
}

/// A watch ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The revision to watch from is compacted.
    #[error("revision {asked} has been compacted, the oldest kept is {oldest}")]
    Compacted {
        /// The requested revision.
        asked: u64,
        /// The oldest revision that can be watched from.
        oldest: u64,
    },
    /// The watcher was too slow: the log has dropped a change that it has not read.
    #[error("the watcher fell behind and was cut off after revision {last}")]
    Overrun {
        /// The last revision that the watcher has read.
        last: u64,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

/// A data directory could not be opened. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process uses the directory.
    #[error("{0} is in use by another process")]
    Locked(String),
    /// The directory holds other files, or a store of another format version.
    #[error("{path} is not a data directory that this version can use: {why}")]
    Foreign {
        /// The directory.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// A backup cannot be restored into the directory, because it holds a store.
    #[error("{0} holds a store already")]
    Occupied(String),
    /// The directory holds a damaged store.
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
        /// The error of the operating system.
        source: std::io::Error,
    },
}
