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

mod assertions;
pub mod audit;
mod backend;
mod builder;
mod cluster;
mod crash;
mod diff;
mod elsewhere;
mod everywhere;
mod fault;
mod install;
mod kit;
mod objects;
mod operator;
mod record;
mod rules;
pub mod serve;
pub mod snapshot;
mod target;
pub mod testing;
mod transport;
mod watches;
mod webhooks;

pub use builder::Builder;
pub use cluster::{Cluster, StartError};
pub use crash::CrashPoint;
pub use diff::Diff;
pub use fault::{Fault, Matcher};
pub use objects::Place;
pub use record::{Exchange, Mark, Moment, Outcome, Reconcile, Write};
pub use target::Target;

pub use evenkeel_apiserver::User;
pub use evenkeel_store::OpenError;
