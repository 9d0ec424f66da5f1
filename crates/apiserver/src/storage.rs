//! Objects as they are stored: canonical bytes in, parsed objects out.

mod encode;
mod read;

pub(crate) use encode::{CheckedObject, ManagedFields, StorableObject, check_depth};
pub(crate) use read::{check_readable, read, read_or_skip, version};
