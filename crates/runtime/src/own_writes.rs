//! The writes of a reconcile, which the next reconcile of its key waits for: it must not read a cache that is older.

use kube::core::ApiResource;

use crate::Request;

/// How many objects' writes of one reconcile are remembered. Waiting for the caches to show more than this many objects
/// would take longer than reading from the server.
const WRITES_KEPT: usize = 64;

/// One write, as the API server answered it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Written {
    pub(crate) resource: ApiResource,
    pub(crate) key: Request,
    pub(crate) uid: Option<String>,
    pub(crate) expected: Expected,
}

/// What a cache shows once it has seen a write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expected {
    /// The object, at this resource version or a later one.
    Version(String),
    /// No object with the uid of the write.
    Gone,
}

impl Written {
    /// The resource version to wait for, if it is a number.
    pub(crate) fn version_number(&self) -> Option<u64> {
        match &self.expected {
            Expected::Version(version) => version.parse().ok(),
            Expected::Gone => None,
        }
    }
}

/// The writes of one reconcile: the newest for each object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writes {
    list: Vec<Written>,
}

impl Writes {
    pub(crate) fn push(&mut self, written: Written) {
        self.list.retain(|other| other.key != written.key || other.resource != written.resource);
        if self.list.len() == WRITES_KEPT {
            self.list.remove(0);
        }
        self.list.push(written);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Written> {
        self.list.iter()
    }
}
