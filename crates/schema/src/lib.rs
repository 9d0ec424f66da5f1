//! Kubernetes kinds, schemas, patches and server-side apply, as pure functions: no IO, no clock, no async.

pub mod field;
pub mod json;
pub mod kinds;
mod messages;
pub mod names;
mod read;
pub mod selector;
pub mod types;
pub mod validate;
