//! How much history a store keeps.

use std::time::Duration;

/// How much history a store keeps, and how it is written to disk.
///
/// The oldest history is dropped as soon as one of the bounds is exceeded.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[must_use]
pub struct Options {
    /// How long a change is kept.
    ///
    /// Kubernetes compacts its etcd every five minutes, to the revision of five minutes before: clients find between five
    /// and ten minutes of history. The default is ten minutes.
    pub keep_for: Duration,
    /// How many changes are kept.
    ///
    /// By default 100,000: five minutes of a cluster with 300 writes per second. A change costs a few hundred bytes beside
    /// its value.
    pub keep_changes: usize,
    /// How many bytes history may use: values that are no longer current, and the records of the changes.
    ///
    /// By default 64 MiB.
    pub keep_bytes: usize,
    /// How many bytes of log a disk store writes, at least, before it writes a checkpoint and begins a new log file.
    ///
    /// It also waits until the log is as long as the last checkpoint, so that checkpoints at most double the bytes written.
    /// By default 32 MiB.
    pub checkpoint_bytes: u64,
}

impl Options {
    /// Keeps changes for this long.
    pub fn keep_for(mut self, age: Duration) -> Self {
        self.keep_for = age;
        self
    }

    /// Keeps this many changes.
    pub fn keep_changes(mut self, changes: usize) -> Self {
        self.keep_changes = changes;
        self
    }

    /// Keeps this many bytes of history.
    pub fn keep_bytes(mut self, bytes: usize) -> Self {
        self.keep_bytes = bytes;
        self
    }

    /// Writes at least this many bytes of log between two checkpoints.
    pub fn checkpoint_bytes(mut self, bytes: u64) -> Self {
        self.checkpoint_bytes = bytes;
        self
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            keep_for: Duration::from_secs(600),
            keep_changes: 100_000,
            keep_bytes: 64 << 20,
            checkpoint_bytes: 32 << 20,
        }
    }
}
