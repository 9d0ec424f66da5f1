//! Parsing of stored objects.
//!
//! This server wrote the stored objects, but they come from a disk. Bytes that cannot be parsed are an error
//! that names their key, and affect no other object.

use evenkeel_schema::api_resources::split_api_version;
use evenkeel_store::Entry;
use serde::de::DeserializeOwned;

use crate::Header;
use crate::status::{Result, Status};

/// The key of an object's API version, with the quote that begins its value.
const API_VERSION: &[u8] = b"\"apiVersion\":\"";

/// Parses a stored object.
///
/// # Errors
/// If the object cannot be parsed; the error names its key.
pub(crate) fn read<T: DeserializeOwned>(entry: &Entry<Header>) -> Result<T> {
    check_readable(entry)?;
    serde_json::from_slice(&entry.value).map_err(|error| damaged(entry, &error.to_string()))
}

/// Parses one of several stored objects; logs and skips it if it cannot be parsed.
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

/// Returns the version in which an object is stored, read from its first fields, or an empty string if its bytes are
/// damaged.
pub(crate) fn version(entry: &Entry<Header>) -> &str {
    let outer = &entry.value[..entry.header.metadata_at as usize];
    let at = outer.windows(API_VERSION.len()).position(|window| window == API_VERSION);
    let api_version = at.map(|at| &outer[at + API_VERSION.len()..]);
    let api_version = api_version.and_then(|rest| rest.split(|&byte| byte == b'"').next());
    split_api_version(api_version.and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default()).1
}

/// Refuses an object whose header could not be parsed from its bytes.
pub(crate) fn check_readable(entry: &Entry<Header>) -> Result<()> {
    match &entry.header.damage {
        None => Ok(()),
        Some(why) => Err(damaged(entry, why)),
    }
}

/// The error for an object that cannot be decoded, in the words of Kubernetes' storage.
fn damaged(entry: &Entry<Header>, why: &str) -> Status {
    let (key, revision) = (&entry.key, entry.revision);
    Status::internal(format!(
        "StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: object not decodable \
         revision={revision}: {why}"
    ))
}
