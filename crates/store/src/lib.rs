//! A revisioned keyspace with a change log.
//!
//! Every write gets the next revision of one line; a key is written by compare-and-set on its revision; a range is
//! read in key order, at the newest revision or at an earlier one that is still kept; a watcher that starts after
//! revision *r* sees every later change under its prefix exactly once and in order, or is told that it came too late.
//!
//! The current state is held in memory, in front of a journal that makes it durable (or of none). Beside the bytes of
//! a value stands its [`Header`], made once when the value is stored: whoever reads a thousand values to choose ten
//! parses none of them.
//!
//! *Invariant:* the store knows keys, bytes and revisions, not Kubernetes. It never dials out (only the etcd journal
//! will) and its memory backend takes no time: with it, a write is committed, and entered in the ledger for every
//! watcher that will see it, when the call returns.

#[cfg(feature = "disk")]
mod disk;
mod entry;
mod error;
mod journal;
mod keyspace;
mod listener;
mod log;
mod options;
mod scope;
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
