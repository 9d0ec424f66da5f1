//! Writes: create, update, patch and delete.
//!
//! Each of them decodes an object, passes it through admission and validation, and stores it through
//! [`commit`](crate::commit).

mod create;
mod delete;
mod patch;
mod prepare;
mod update;

pub(crate) use create::create;
pub(crate) use delete::{
    DeleteOptions, IGNORE_READ_ERROR, check_preconditions, delete, delete_collection, delete_object,
};
pub(crate) use patch::{MayApply, patch, patched_part};
pub(crate) use update::{Writer, change, check_uid, conflict, update};
