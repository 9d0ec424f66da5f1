//! Two group-versions of one kind are two faces of one stored object.

use evenkeel_store::Entry;
use serde_json::Value;

use crate::encode::Shown;
use crate::{Header, ResourceInfo};

/// Whether the stored bytes are what this resource shows.
fn is_stored_face(_: &ResourceInfo) -> bool {
    true
}

/// A stored object as this resource shows it, at `revision`.
pub(crate) fn show(info: &ResourceInfo, entry: &Entry<Header>, revision: u64) -> Shown {
    if is_stored_face(info) {
        Shown::stored(entry, revision)
    } else {
        Shown::sealed(&open(info, entry), revision)
    }
}

/// A stored object as a tree, in the face of this resource, without a resourceVersion.
pub(crate) fn open(info: &ResourceInfo, entry: &Entry<Header>) -> Value {
    let object = serde_json::from_slice(&entry.value).expect("what is stored was written by us as JSON");
    from_stored(info, object)
}

/// From the stored face to that of this resource.
pub(crate) fn from_stored(_: &ResourceInfo, object: Value) -> Value {
    object
}

/// From the face of this resource to the stored one.
pub(crate) fn to_stored(_: &ResourceInfo, object: Value) -> Value {
    object
}
