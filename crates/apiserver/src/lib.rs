//! A Kubernetes API server as a [`tower::Service`]: requests to revisions, without sockets.
//!
//! All resources take the same path; no kind has a handler of its own. A request passes these stations:
//!
//! ```text
//! request ▸ authenticate ▸ authorize ▸ decode ▸ admission (mutate) ▸ validate ▸ admission (validate) ▸ commit ▸ encode
//! ```
//!
//! What differs between kinds is data: [`ResourceInfo`] (built in, or from a CustomResourceDefinition) and
//! its strategy. A stored object consists of canonical JSON bytes and a [`Header`]. Reads send slices of
//! those bytes and parse them only for a Table or a conversion.
//!
//! # Layers
//!
//! A module uses modules of its own layer, without a cycle, and of the layers below. Tests check that (`tests/it/layers.rs`).
//!
//! | layer | modules | what they are |
//! |---|---|---|
//! | server | `server`, `completion`, `deadline`, `resume` | the service: from HTTP to a response, and the completion of what it began |
//! | routing | `route`, `nonresource`, `debugging`, `health`, `snapshot` | from the path of a request to the station that answers it |
//! | stations | `read`, `write`, `subresource`, `component_status`, `admission`, `incoming`, `managed_fields`, `validate`, `commit` | what happens to a request for a resource, in terms of its context |
//! | context | `context`, `services`, `destination` | one request to one resource, and the parts of the server that requests use |
//! | parts | `authenticate`, `authorize`, `audit`, `admission_registration`, `allocate`, `bootstrap`, `crd`, `discovery`, `encoded_events`, `metrics`, `openapi`, `own_status`, `panics`, `reports` | state and rules that know nothing of requests to resources; each has its own dependencies |
//! | messages | `request`, `respond`, `decode`, `table`, `webhook_client`, `conversion` | what clients send and receive |
//! | objects | `registry`, `strategy`, `storage`, `object_cache`, `converted_objects`, `header`, `field_selectors`, `encode`, `body`, `node_api` | what is served, and how an object is stored and written out |
//! | words | `access`, `user`, `status`, `webhook`, `members`, `bounded_cache` | basic types that all other modules use |
//!
//! Where a lower layer must reach a higher one, it is given a function or a trait: an [`Authorizer`](access::Authorizer),
//! a [`WebhookCaller`], an [`AuditSink`].
//!
//! *Invariant:* this crate opens no sockets, reads neither the OS clock nor OS randomness, and does not
//! depend on the runtime.

pub mod access;
mod admission;
mod admission_registration;
mod allocate;
mod audit;
mod authenticate;
mod authorize;
mod body;
pub mod bootstrap;
mod bounded_cache;
mod commit;
mod completion;
mod component_status;
mod context;
mod conversion;
mod converted_objects;
mod crd;
mod deadline;
mod debugging;
mod decode;
mod destination;
mod discovery;
mod encode;
mod encoded_events;
mod field_selectors;
mod header;
mod health;
mod incoming;
mod managed_fields;
mod members;
mod metrics;
mod node_api;
mod nonresource;
mod object_cache;
mod openapi;
mod own_status;
mod panics;
mod read;
mod registry;
mod reports;
mod request;
mod respond;
mod resume;
mod route;
mod server;
mod services;
mod snapshot;
pub mod status;
mod storage;
mod strategy;
mod subresource;
mod table;
mod user;
mod validate;
mod webhook;
mod webhook_client;
mod write;

pub use access::Rule;
pub use audit::{Audit, AuditPolicy, AuditPolicyError, AuditSink};
pub use authenticate::{KeyError, SigningKey, TokenAuthenticator};
pub use authorize::Rbac;
pub use body::{Body, Piece, Spliced};
pub use header::Header;
pub use node_api::{
    CommandCall, ContainerLog, Destination, HttpAnswer, HttpFailure, LogLine, NodeApi, Upgrade,
};
pub use openapi::describe_types;
pub use registry::{Column, CustomInfo, Registry, ResourceInfo, SubresourceInfo};
pub use request::{Caller, Committed};
pub use server::{ApiServer, Options};
pub use snapshot::SNAPSHOT_PATH;
pub use status::Status;
pub use user::User;
pub use webhook::{WebhookAnswer, WebhookCaller, WebhookQuestion};
