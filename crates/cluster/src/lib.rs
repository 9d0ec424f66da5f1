//! Puts a whole cluster together: in process, or behind TLS on a port with a kubeconfig.
//!
//! ```text
//! client ─▶ transport: ledger ▸ crash points ▸ faults ▸ record ─▶ apiserver ─▶ store
//!    ▲                                                                            │
//!    └── operators and built-in controllers ◀── watch ◀──────────────────────────┘
//! ```
//! [`Cluster`] is the whole of it in one value, with the test kit on it: wait ([`Cluster::settled`]), look
//! ([`Cluster::writes`]), and break ([`Cluster::fail`], [`Cluster::crash`], [`Cluster::cut_watch`]).
//!
//! *Invariant:* this is the only crate that listens for the Kubernetes API; everything in process goes through
//! the same [`tower::Service`] that the port serves.

mod assemble;
pub mod audit;
mod cluster;
mod kit;
mod operator;
mod os;
mod private_file;
mod remote;
pub mod serve;
mod settings;
pub mod snapshot;
pub mod testing;
mod transport;
mod webhooks;

pub use assemble::{Builder, StartError};
pub use cluster::Cluster;
pub use kit::{ApiScope, Diff};
pub use transport::{CrashPoint, Exchange, Fault, Mark, Matcher, Moment, Outcome, Reconcile, Write};

pub use evenkeel_apiserver::User;
pub use evenkeel_request_info::ResourcePath;
pub use evenkeel_store::OpenError;
