//! The checks that every object passes before it is stored.
//!
//! Whatever produced an object (a request body, a patch, an apply, defaults, a conversion, admission, the
//! server itself), its depth and size are checked here, after the last change to it. Debug builds also parse
//! the encoded bytes.
//!
//! ***Invariant:*** no other module of this crate creates a write that stores bytes: only
//! [`StorableObject::into_op`] does, and a test checks the sources for that.

use bytes::Bytes;
use evenkeel_schema::api_resources::split_api_version;
use evenkeel_schema::depth;
use evenkeel_schema::field::FieldError;
use evenkeel_schema::json::Value;
use evenkeel_store::Op;

use crate::Header;
use crate::header::{Plain, encode_object};
use crate::status::{Result, Status};

/// The largest stored object: etcd's default limit for a request.
///
/// Objects near the limit may behave differently than in Kubernetes: etcd counts the whole transaction, which
/// is some hundred bytes longer than the object, and Kubernetes stores built-in kinds as protobuf, which is
/// shorter than JSON.
pub(crate) const OBJECT_BYTES_MAX: usize = 1536 * 1024;

/// An encoded object whose depth and size were checked.
#[derive(Debug)]
pub(crate) struct StorableObject {
    bytes: Bytes,
    header: Header,
}

impl StorableObject {
    /// Checks and encodes an object that is about to be stored. An object that is too large loses its
    /// managedFields.
    ///
    /// # Errors
    /// If the object is nested too deeply to be parsed again, or is too large.
    pub(crate) fn new(object: &mut Value) -> Result<Self> {
        CheckedObject::new(object)?.fit_to_limit(object, ManagedFields::MayBeDropped)
    }

    /// Encodes an object that the server builds from constants, which is neither deep nor large.
    pub(crate) fn plain(object: &Plain<'_>, rest: impl FnOnce(&mut String)) -> Self {
        let (bytes, header) = object.encode(rest);
        debug_assert_eq!(read_back(&bytes, &header), Ok(()), "a stored object must be readable");
        debug_assert!(bytes.len() <= OBJECT_BYTES_MAX, "the objects of a new cluster are small");
        Self { bytes, header }
    }

    /// The encoded object.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Records that a custom resource conforms to the storage version and schema with this number
    /// (`CustomInfo::stored_revision`).
    pub(crate) fn conforming_to(self, stored_revision: u64) -> Self {
        self.header.conformity.note(stored_revision);
        self
    }

    /// The operation that stores the object.
    pub(crate) fn into_op(self) -> Op<Header> {
        Op::Put(self.bytes, self.header)
    }
}

/// Whether an object that is too large may lose its managedFields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ManagedFields {
    /// The managedFields are dropped, as in Kubernetes; they can be most of an object.
    MayBeDropped,
    /// The managedFields are kept, because an apply depends on them.
    Needed,
}

/// An encoded object whose depth was checked, but not its size.
#[derive(Debug)]
pub(crate) struct CheckedObject {
    bytes: Bytes,
    header: Header,
}

impl CheckedObject {
    /// Checks the depth of an object and encodes it.
    ///
    /// # Errors
    /// If the object is nested too deeply to be parsed again.
    pub(crate) fn new(object: &Value) -> Result<Self> {
        check_depth(object)?;
        let (bytes, header) = encode_object(object);
        debug_assert_eq!(read_back(&bytes, &header), Ok(()), "a stored object must be readable");
        Ok(Self { bytes, header })
    }

    /// The encoded object, for comparison with the stored one.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Checks the size. An object that is too large loses its managedFields, if `managed` allows that.
    ///
    /// # Errors
    /// If the object is still too large, with the error that Kubernetes returns when etcd refuses it.
    pub(crate) fn fit_to_limit(self, object: &mut Value, managed: ManagedFields) -> Result<StorableObject> {
        if self.bytes.len() <= OBJECT_BYTES_MAX {
            return Ok(StorableObject { bytes: self.bytes, header: self.header });
        }
        let may_drop = managed == ManagedFields::MayBeDropped;
        let metadata = object["metadata"].as_object_mut().filter(|_| may_drop);
        if metadata.is_some_and(|metadata| metadata.remove("managedFields").is_some()) {
            return Self::new(object)?.fit_to_limit(object, managed);
        }
        Err(Status::server_error("etcdserver: request is too large"))
    }
}

/// Refuses an object that is nested too deeply to be parsed again.
pub(crate) fn check_depth(object: &Value) -> Result<()> {
    depth::check(object).map_err(|too_deep| {
        let members = object.as_object().into_iter().flatten();
        let mut deep = members.filter(|(_, member)| !depth::fits(member, depth::DEPTH_MAX - 1));
        let field = deep.next().map_or("", |(name, _)| name.as_str());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let error = FieldError::forbidden(field, too_deep.to_string());
        Status::invalid(split_api_version(&version).0, &kind, &text(&object["metadata"]["name"]), &[error])
    })
}

/// Parses encoded bytes as every later reader does: the whole object, and its header alone.
fn read_back(bytes: &Bytes, header: &Header) -> std::result::Result<(), String> {
    serde_json::from_slice::<Value>(bytes).map_err(|error| error.to_string())?;
    let read = <Header as evenkeel_store::Header>::parse("", bytes)?;
    if read == *header { Ok(()) } else { Err(format!("the header {header:?} is read back as {read:?}")) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    /// Collects the sources below a directory, without tests, which may store damaged bytes.
    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|it| it == "rs") && !path.ends_with("tests.rs") {
                found.push(path);
            }
        }
    }

    /// Status writes of CRDs, charged quotas and marked custom resources used to be stored unchecked.
    #[test]
    fn every_stored_object_comes_through_this_module() {
        let mut found = Vec::new();
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
        assert!(found.len() > 100, "{} sources", found.len());
        for path in found.iter().filter(|path| !path.ends_with("storage/encode.rs")) {
            let text = fs::read_to_string(path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            assert!(!code.contains("Op::Put"), "{} stores bytes that nobody checked", path.display());
        }
    }
}
