//! Kubernetes kinds, schemas, patches and server-side apply, as pure functions: no IO, no clock, no async.

pub mod admission;
pub mod cron;
pub mod defaults;
pub mod depth;
pub mod empties;
pub mod field;
pub mod fieldset;
pub mod int_or_string;
pub mod json;
pub mod kinds;
pub mod managed;
mod messages;
pub mod normalize;
pub mod object_meta;
pub mod patch;
pub mod pod_resources;
pub mod prepare;
pub mod protobuf;
pub mod quota;
mod read;
pub mod selector;
pub mod structural;
pub mod types;
pub mod unknown;
pub mod validate;
pub mod warnings;

pub use evenkeel_scalars::{go, names, quantity, time};
