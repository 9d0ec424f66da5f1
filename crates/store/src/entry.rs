//! What is stored and what is asked.

use std::sync::Arc;

use bytes::Bytes;

/// What the owner of the store wants to know of a value without parsing it again.
///
/// It is made once for each stored value: by the writer, or by [`Header::parse`] when a journal is read back.
pub trait Header: Send + Sync + Sized + 'static {
    /// Reads it from the bytes of a stored value.
    fn parse(key: &str, value: &Bytes) -> Result<Self, String>;
}

impl Header for () {
    fn parse(_: &str, _: &Bytes) -> Result<Self, String> {
        Ok(())
    }
}

/// A value as it was stored at a revision.
#[derive(Debug)]
pub struct Entry<H> {
    /// The key.
    pub key: Arc<str>,
    /// The bytes.
    pub value: Bytes,
    /// What was read from the bytes once.
    pub header: H,
    /// The revision at which the key came to be.
    pub create_revision: u64,
    /// The revision that wrote this value.
    pub revision: u64,
}

/// What a write demands of the key before it.
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
    /// Removes the key. Deleting what does not exist is a conflict, whatever is expected.
    Delete,
}

/// A compare-and-set of one key.
#[derive(Debug)]
pub struct Write<H> {
    /// The key.
    pub key: Arc<str>,
    /// What must hold, else nothing is written.
    pub expect: Expect,
    /// What is written.
    pub op: Op<H>,
}

/// One change of one key.
#[derive(Debug)]
pub struct Change<H> {
    /// The revision that made it.
    pub revision: u64,
    /// The key's value before, if there was one.
    pub before: Option<Arc<Entry<H>>>,
    /// The key's value after; none for a deletion.
    pub after: Option<Arc<Entry<H>>>,
}

/// Which keys a read wants.
#[derive(Clone, Debug, Default)]
pub struct Range {
    /// Keys that begin with this.
    pub prefix: String,
    /// Only keys that sort after this one.
    pub after: Option<String>,
    /// At most this many.
    pub limit: Option<usize>,
    /// As of this revision; the newest unless set.
    pub at: Option<u64>,
}

/// What a range read found.
#[derive(Debug)]
pub struct Page<H> {
    /// The entries, in key order.
    pub entries: Vec<Arc<Entry<H>>>,
    /// The revision that the page is a state of.
    pub revision: u64,
    /// How many more keys the range holds after the last entry.
    pub remaining: usize,
}

/// What a write did.
#[derive(Debug)]
pub struct Written<H> {
    /// The revision it was given.
    pub revision: u64,
    /// The key's value now; none after a deletion.
    pub entry: Option<Arc<Entry<H>>>,
    /// The key's value before, if there was one.
    pub before: Option<Arc<Entry<H>>>,
}
