//! A whole Kubernetes cluster: in process, or over TLS on a port with a kubeconfig.
//!
//! ```text
//! client ─▶ transport: ledger ▸ crash points ▸ faults ▸ record ─▶ apiserver ─▶ store
//!    ▲                                                                            │
//!    └── operators and built-in controllers ◀── watch ◀──────────────────────────┘
//! ```
//! [`Cluster`] is the handle on a cluster. The test kit is made of its methods: wait ([`Cluster::settled`]), look
//! ([`Cluster::writes`]), and break things ([`Cluster::fail`], [`Cluster::crash`], [`Cluster::cut_watch`]).
//!
//! *Invariant:* this is the only crate that opens a port for the Kubernetes API. Clients in this process use the same
//! [`tower::Service`] that the port serves.

mod assemble;
pub mod audit;
mod cluster;
mod containers;
mod kit;
mod operator;
mod os;
mod private_file;
mod remote;
pub mod serve;
mod settings;
pub mod snapshot;
pub mod testing;
mod tls;
mod transport;
mod webhooks;

pub use assemble::{Builder, StartError};
pub use cluster::Cluster;
pub use containers::{Connection, Exec, Exit, HttpFault, PortCall};
pub use kit::{
    ApiScope, ClusterHttp, Diff, HttpError, Outside, OutsideError, RECORD_PATH, RecordFollower, StoredChange,
    StoredObject,
};
pub use transport::{
    CrashMoment, CrashPoint, Directed, Director, Exchange, Fault, Mark, Matcher, Moment, Outcome, Reconcile,
    ServedWebhook, Verdict, WebhookAddress, WebhookFault, Write,
};

pub use evenkeel_apiserver::User;
pub use evenkeel_controllers::node::behaviour::{Behaviour, InvalidWord};
pub use evenkeel_controllers::node::logs::{Logs, PrintedLine};
pub use evenkeel_controllers::node::rules::{InvalidRule, Rule as PodRule, Selector as PodSelector};
pub use evenkeel_env::SettingError;
pub use evenkeel_request_info::ResourcePath;
pub use evenkeel_store::OpenError;
pub use evenkeel_streams::{Pipe, Sizes, TerminalSize};
