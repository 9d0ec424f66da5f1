//! Replays request scripts against a Kubernetes API and compares the answers with those of Kubernetes itself.
//!
//! `cases/*.yaml` hold the scripts, `golden/*.json` the answers that Kubernetes v1.36 gave to them (kube-apiserver and
//! kube-controller-manager on etcd, no kubelet, no scheduler). Uids, resource versions, times, generated names,
//! allocated addresses and hashes are replaced by symbols, numbered in the order of their first appearance, so that equal
//! values stay equal and different values stay different.
//!
//! The path of a case: [`Suite`] reads it ▸ [`replay`] sends its steps to a [`Server`] ▸ [`Symbols`] make the
//! answers comparable ▸ [`compare`] finds the [`Difference`]s ▸ [`Gaps`] lists the known ones.

mod compare;
mod gaps;
pub mod in_process;
mod ordered;
mod pointer;
mod replay;
mod server;
mod step;
mod suite;
mod symbols;
mod watch;

pub use compare::{Difference, Wording, compare};
pub use gaps::{Gap, Gaps, Verdict};
pub use ordered::Ordered;
pub use replay::replay;
pub use server::Server;
pub use suite::{Case, Suite};
pub use symbols::{Symbols, canonical};
