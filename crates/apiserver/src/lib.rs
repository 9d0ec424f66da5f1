//! A Kubernetes API server as a [`tower::Service`]: requests to revisions, without sockets.
//!
//! All resources take the same path; no kind has a handler of its own. A request passes these stations:
//!
//! ```text
//! request ▸ authenticate ▸ authorize ▸ decode ▸ admit ▸ default ▸ validate ▸ strategy ▸ managed fields ▸ store ▸ encode
//! ```
//!
//! What differs between kinds is data: [`ResourceInfo`] (built in, or from a CustomResourceDefinition) and
//! its strategy. A stored object consists of canonical JSON bytes and a [`Header`]. Reads send slices of
//! those bytes and parse them only for a Table or a conversion.
//!
//! *Invariant:* this crate opens no sockets, reads neither the OS clock nor OS randomness, and does not
//! depend on the runtime.

pub mod access;
mod admission;
mod allocate;
mod audit;
mod authenticate;
mod authorize;
mod body;
pub mod bootstrap;
mod completion;
mod component_status;
mod context;
mod conversion;
mod crd;
mod deadline;
mod decode;
mod discovery;
mod encode;
mod field_selectors;
mod header;
mod health;
mod managed_fields;
mod nonresource;
mod object_cache;
mod openapi;
mod panics;
mod read;
mod registry;
mod request;
mod respond;
mod resume;
mod route;
mod server;
mod snapshot;
pub mod status;
mod storage;
mod strategy;
mod subresource;
mod table;
mod user;
mod validate;
mod webhook;
mod write;

pub use audit::{Audit, AuditPolicy, AuditPolicyError, AuditSink};
pub use authenticate::{KeyError, SigningKey, TokenAuthenticator};
pub use authorize::{Rbac, Rule};
pub use body::{Body, Piece, Spliced};
pub use header::Header;
pub use registry::{Column, CustomInfo, Registry, ResourceInfo, SubresourceInfo};
pub use request::{Caller, Committed};
pub use server::{ApiServer, Options};
pub use snapshot::SNAPSHOT_PATH;
pub use status::Status;
pub use user::User;
pub use webhook::{WebhookAnswer, WebhookCaller, WebhookQuestion};
