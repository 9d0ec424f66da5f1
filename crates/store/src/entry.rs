//! Entries, writes, changes and reads.

use std::sync::Arc;

use bytes::Bytes;

/// What the user of the store needs to know about a value without parsing it again.
///
/// A header is made once for each stored value: by the writer, or by [`Header::parse`] when a journal is read.
pub trait Header: Send + Sync + Sized + 'static {
    /// Makes the header of a stored value.
    fn parse(key: &str, value: &Bytes) -> Result<Self, String>;
}

impl Header for () {
    fn parse(_: &str, _: &Bytes) -> Result<Self, String> {
        Ok(())
    }
}

/// A stored value with its key and revisions.
#[derive(Debug)]
pub struct Entry<H> {
    /// The key.
    pub key: Arc<str>,
    /// The value.
    pub value: Bytes,
    /// The header of the value.
    pub header: H,
    /// The revision that created the key.
    pub create_revision: u64,
    /// The revision that wrote this value.
    pub revision: u64,
}

/// What a write expects of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Any,
    /// The key does not exist.
    Absent,
    /// The key exists and its value was written by this revision.
    Revision(u64),
}

/// What a write does to the key.
#[derive(Debug)]
pub enum Op<H> {
    /// Stores these bytes.
    Put(Bytes, H),
    /// Removes the key. Deleting a key that does not exist is a conflict, even with [`Expect::Any`].
    Delete,
}

/// A compare-and-set of one key.
#[derive(Debug)]
pub struct Write<H> {
    /// The key.
    pub key: Arc<str>,
    /// The expectation. If it does not hold, nothing is written.
    pub expect: Expect,
    /// The operation.
    pub op: Op<H>,
}

/// One change of one key.
#[derive(Debug)]
pub struct Change<H> {
    /// The revision of the change.
    pub revision: u64,
    /// The key's value before, if there was one.
    pub before: Option<Arc<Entry<H>>>,
    /// The key's value after; `None` for a deletion.
    pub after: Option<Arc<Entry<H>>>,
}

/// A range of keys to read.
#[derive(Clone, Debug, Default)]
pub struct Range {
    /// Only keys that begin with this prefix.
    pub prefix: String,
    /// Only keys that sort after this one.
    pub after: Option<String>,
    /// At most this many keys.
    pub limit: Option<usize>,
    /// The revision to read; the newest one if `None`.
    pub at: Option<u64>,
}

/// The result of a range read.
#[derive(Debug)]
pub struct Page<H> {
    /// The entries, in key order.
    pub entries: Vec<Arc<Entry<H>>>,
    /// The revision of the state that was read.
    pub revision: u64,
    /// How many more keys the range has after the last entry.
    pub remaining: usize,
}

/// The result of a write.
#[derive(Debug)]
pub struct Written<H> {
    /// The revision of the write.
    pub revision: u64,
    /// The key's value now; `None` after a deletion.
    pub entry: Option<Arc<Entry<H>>>,
    /// The key's value before, if there was one.
    pub before: Option<Arc<Entry<H>>>,
}
