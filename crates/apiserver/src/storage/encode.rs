//! The checks that every object passes before it is stored.
//!
//! Whatever produced an object (a request body, a patch, an apply, defaults, a conversion, admission), its
//! depth and size are checked here, after the last change to it. Debug builds also parse the encoded bytes.

use bytes::Bytes;
use evenkeel_schema::depth;
use evenkeel_schema::field::FieldError;
use serde_json::Value;

use crate::header::encode_object;
use crate::status::{Result, Status};
use crate::{Header, ResourceInfo};

/// The largest stored object: etcd's default limit for a request.
///
/// Objects near the limit may behave differently than in Kubernetes: etcd counts the whole transaction, which
/// is some hundred bytes longer than the object, and Kubernetes stores built-in kinds as protobuf, which is
/// shorter than JSON.
pub(crate) const OBJECT_BYTES_MAX: usize = 1536 * 1024;

/// Encodes an object that is about to be stored.
///
/// # Errors
/// If the object is nested too deeply to be parsed again.
pub(crate) fn encode(info: &ResourceInfo, object: &Value) -> Result<(Bytes, Header)> {
    check_depth(info, object)?;
    let encoded = encode_object(object);
    debug_assert_eq!(read_back(&encoded), Ok(()), "a stored object must be readable");
    Ok(encoded)
}

/// Refuses an object that is nested too deeply to be parsed again.
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

/// Parses encoded bytes as every later reader does: the whole object, and its header alone.
fn read_back((bytes, header): &(Bytes, Header)) -> std::result::Result<(), String> {
    serde_json::from_slice::<Value>(bytes).map_err(|error| error.to_string())?;
    let read = <Header as evenkeel_store::Header>::parse("", bytes)?;
    if read == *header { Ok(()) } else { Err(format!("the header {header:?} is read back as {read:?}")) }
}

/// Shrinks an object that is too large to be stored. As Kubernetes does, it drops the managedFields, which
/// can be most of an object; an apply keeps them, because it depends on them.
///
/// # Errors
/// If the object is still too large.
pub(crate) fn fit_to_limit(
    info: &ResourceInfo,
    object: &mut Value,
    encoded: (Bytes, Header),
    applies: bool,
) -> Result<(Bytes, Header)> {
    if encoded.0.len() <= OBJECT_BYTES_MAX {
        return Ok(encoded);
    }
    let metadata = object["metadata"].as_object_mut().filter(|_| !applies);
    if metadata.is_none_or(|metadata| metadata.remove("managedFields").is_none()) {
        return check_size(encoded);
    }
    check_size(encode(info, object)?)
}

/// Refuses bytes that are too large to be stored, with the error that Kubernetes returns when etcd refuses
/// them.
fn check_size(encoded: (Bytes, Header)) -> Result<(Bytes, Header)> {
    match encoded.0.len() <= OBJECT_BYTES_MAX {
        true => Ok(encoded),
        false => Err(Status::server_error("etcdserver: request is too large")),
    }
}
