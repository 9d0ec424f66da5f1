//! Kubernetes kinds, schemas, patches and server-side apply, as pure functions: no IO, no clock, no async.

pub mod admission;
pub mod api_resources;
pub mod certificate_request;
pub mod cron;
pub mod defaults;
pub mod deletion_cost;
pub mod depth;
pub mod empties;
pub mod empty_lists;
pub mod field;
pub mod fieldset;
pub mod floats;
mod go_structs;
pub mod int_or_string;
mod internal_structs;
pub mod json;
pub mod json_order;
pub mod managed_fields;
pub mod normalize;
pub mod object_meta;
pub mod patch;
pub mod patched_text;
pub mod pod_resources;
pub mod prepare;
pub mod protobuf;
pub mod quota;
mod read;
mod resource_names;
pub mod selector;
pub mod strict_decoding;
pub mod structural;
pub mod types;
pub mod validate;
pub mod warnings;
mod webhook_client_config;

pub use evenkeel_scalars::{go, names, quantity, time};
