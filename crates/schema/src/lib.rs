//! Kubernetes kinds, schemas, patches and server-side apply, as pure functions: no IO, no clock, no async.

pub mod cron;
pub mod defaults;
pub mod empties;
pub mod field;
pub mod fieldset;
pub mod int_or_string;
pub mod json;
pub mod kinds;
pub mod managed;
mod messages;
pub mod names;
pub mod normalize;
pub mod patch;
pub mod pod_resources;
pub mod policy;
pub mod prepare;
pub mod protobuf;
pub mod quantity;
pub mod quota;
mod read;
pub mod selector;
pub mod structural;
pub mod time;
pub mod types;
pub mod unknown;
pub mod validate;
pub mod warnings;
