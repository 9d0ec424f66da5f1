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

/// How many bytes a stored object may have: etcd's default limit of a request.
///
/// etcd counts the whole transaction, which is some hundred bytes longer than the object, and Kubernetes stores built-in
/// kinds in protobuf, which is shorter than JSON. Objects near the limit may differ in this.
pub(crate) const OBJECT_BYTES_MAX: usize = 1536 * 1024;

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

/// Makes room in an object that is too large to be stored. Kubernetes forgets who manages its fields then, which can be
/// most of an object, unless the write is an apply, which is about nothing else.
///
/// # Errors
/// Refuses an object that is too large nevertheless, as etcd does.
pub(crate) fn make_room(
    info: &ResourceInfo,
    object: &mut Value,
    sealed: (Bytes, Header),
    applies: bool,
) -> Result<(Bytes, Header)> {
    if sealed.0.len() <= OBJECT_BYTES_MAX {
        return Ok(sealed);
    }
    let metadata = object["metadata"].as_object_mut().filter(|_| !applies);
    if metadata.is_none_or(|metadata| metadata.remove("managedFields").is_none()) {
        return check_size(sealed);
    }
    check_size(seal_storable(info, object)?)
}

/// Refuses bytes that are too large to be stored, with the answer that Kubernetes gives when etcd refuses them.
fn check_size(sealed: (Bytes, Header)) -> Result<(Bytes, Header)> {
    match sealed.0.len() <= OBJECT_BYTES_MAX {
        true => Ok(sealed),
        false => Err(Status::server_error("etcdserver: request is too large")),
    }
}
