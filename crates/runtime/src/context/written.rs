//! What a reconcile wrote, so that the next one does not read from before it.

use kube::core::ApiResource;

use crate::Request;

/// How many writes of one reconcile are remembered: the newest of each object stands for the others, and waiting
/// for more than this many objects would take longer than reading live.
const WRITES_KEPT: usize = 64;

/// One write, as the server answered it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Written {
    pub(crate) resource: ApiResource,
    pub(crate) key: Request,
    pub(crate) uid: Option<String>,
    pub(crate) expected: Expected,
}

/// What a cache that knows of a write shows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expected {
    /// The object in this version or a later one.
    Version(String),
    /// No object of that uid.
    Gone,
}

impl Written {
    /// The version to wait for, where it is a number.
    pub(crate) fn version_number(&self) -> Option<u64> {
        match &self.expected {
            Expected::Version(version) => version.parse().ok(),
            Expected::Gone => None,
        }
    }
}

/// The writes of one reconcile, the newest for each object.
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
