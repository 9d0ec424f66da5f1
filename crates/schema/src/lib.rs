//! Kubernetes kinds, schemas, patches and server-side apply, as pure functions: no IO, no clock, no async.

pub mod field;
pub mod json;
pub mod kinds;
pub mod names;
pub mod selector;
pub mod types;
