//! The one place where an object becomes the bytes that are stored.
//!
//! Whatever made an object (a body, a patch, an apply, defaults, a conversion, admission), its depth and its size are checked
//! here, after the last change to it. In debug builds the bytes are read back.

use bytes::Bytes;
use evenkeel_schema::depth;
use evenkeel_schema::field::FieldError;
use serde_json::Value;

use crate::header::seal;
use crate::status::{Result, Status};
use crate::{Header, ResourceInfo};

/// The canonical bytes of an object that is about to be stored, and its header.
///
/// # Errors
/// Refuses an object that no reader could parse.
pub(crate) fn seal_storable(info: &ResourceInfo, object: &Value) -> Result<(Bytes, Header)> {
    check_depth(info, object)?;
    let sealed = seal(object);
    debug_assert_eq!(read_back(&sealed), Ok(()), "a stored object must be readable");
    Ok(sealed)
}

/// Refuses an object that is nested deeper than its readers can parse.
pub(crate) fn check_depth(info: &ResourceInfo, object: &Value) -> Result<()> {
    depth::check(object).map_err(|too_deep| {
        let members = object.as_object().into_iter().flatten();
        let mut deep = members.filter(|(_, member)| !depth::fits(member, depth::DEPTH_MAX - 1));
        let field = deep.next().map_or("", |(name, _)| name.as_str());
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let error = FieldError::forbidden(field, too_deep.to_string());
        Status::invalid(&info.group, &info.kind, name, &[error])
    })
}

/// Reads sealed bytes as every later reader does: the whole object, and its header alone.
fn read_back((bytes, header): &(Bytes, Header)) -> std::result::Result<(), String> {
    serde_json::from_slice::<Value>(bytes).map_err(|error| error.to_string())?;
    let read = <Header as evenkeel_store::Header>::parse("", bytes)?;
    if read == *header { Ok(()) } else { Err(format!("the header {header:?} is read back as {read:?}")) }
}
