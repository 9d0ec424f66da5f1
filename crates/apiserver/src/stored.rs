//! Reading stored objects back.
//!
//! What is stored was written by this server, yet it comes from a disk: bytes that cannot be parsed are an error that names
//! their key, and concern nobody but the reader of that object.

use evenkeel_store::Entry;
use serde::de::DeserializeOwned;

use crate::Header;
use crate::status::{Result, Status};

/// Parses a stored object.
///
/// # Errors
/// Names the key of an object that cannot be parsed.
pub(crate) fn read<T: DeserializeOwned>(entry: &Entry<Header>) -> Result<T> {
    check(entry)?;
    serde_json::from_slice(&entry.value).map_err(|error| damaged(entry, &error.to_string()))
}

/// Parses a stored object of several that are read; logs and skips one that cannot be parsed.
pub(crate) fn read_or_skip<T: DeserializeOwned>(entry: &Entry<Header>) -> Option<T> {
    match read(entry) {
        Ok(object) => Some(object),
        Err(status) => {
            tracing::error!(
                key = &*entry.key,
                why = status.message,
                "a stored object cannot be read and is skipped"
            );
            None
        }
    }
}

/// Refuses an object whose header could not be read from its bytes.
pub(crate) fn check(entry: &Entry<Header>) -> Result<()> {
    match &entry.header.damage {
        None => Ok(()),
        Some(why) => Err(damaged(entry, why)),
    }
}

/// The answer about an object that cannot be decoded, in the words of Kubernetes' storage.
fn damaged(entry: &Entry<Header>, why: &str) -> Status {
    let (key, revision) = (&entry.key, entry.revision);
    Status::internal(format!(
        "StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: object not decodable \
         revision={revision}: {why}"
    ))
}
