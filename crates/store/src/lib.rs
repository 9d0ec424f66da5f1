//! A revisioned keyspace with a change log.
//!
//! Every write gets the next revision. A key is written by compare-and-set on its revision. A range is read in key order,
//! at the newest revision or at an earlier one that is still kept. A watch that starts after revision *r* sees every later
//! change under its prefix exactly once and in order, or is told that the revision is compacted.
//!
//! The current state is in memory. A journal makes it durable, or there is none. Each value has a [`Header`] that is made
//! once when the value is stored, so that a reader can choose among a thousand values without parsing them.
//!
//! *Invariants:* the store knows keys, bytes and revisions, not Kubernetes. It never opens a network connection. The memory
//! backend takes no time: when a write returns, it is committed, and every watcher that will see it holds work in the
//! ledger.

#[cfg(feature = "disk")]
mod disk;
mod entry;
mod error;
mod journal;
mod keyspace;
mod listener;
mod log;
mod options;
mod read;
mod scope;
mod shared;
#[cfg(feature = "simulation")]
pub mod simulation;
mod snapshot;
mod state;
mod store;
mod tree;
mod watch;

#[cfg(feature = "disk")]
pub use disk::{Backup, BackupError, BackupStream, BackupSummary, verify_backup};
pub use entry::{Change, Entry, Expect, Header, Op, Page, Range, Write, Written};
pub use error::{OpenError, ReadError, WatchError, WriteError};
pub use options::Options;
pub use store::Store;
pub use watch::Watch;
