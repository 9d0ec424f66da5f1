//! A Kubernetes API server as a [`tower::Service`]: requests to revisions, without sockets.
//!
//! One generic road serves every resource; there is no handler for a kind. A request passes these stations:
//!
//! ```text
//! request ▸ authenticate ▸ authorize ▸ decode ▸ admit ▸ default ▸ validate ▸ strategy ▸ ownership ▸ store ▸ encode
//! ```
//!
//! What differs between kinds is data: [`ResourceInfo`] (from the facts, or from a CustomResourceDefinition) and its
//! strategy. A stored object is its canonical JSON bytes beside a [`Header`]; reads write slices of those bytes and
//! never parse them, unless a table or a conversion asks for it.
//!
//! *Invariant:* this crate opens no socket, reads no OS clock and no OS randomness, and does not know the runtime.

pub mod access;
mod admit;
mod allocate;
mod audit;
mod authenticate;
mod authorize;
mod body;
pub mod bootstrap;
mod call;
mod completion;
mod component;
mod custom;
mod decode;
mod discovery;
mod encode;
mod faces;
mod fields;
mod header;
mod health;
mod nonresource;
mod openapi;
mod ownership;
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
mod storable;
mod stored;
mod strategy;
mod subresource;
mod table;
mod trees;
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
