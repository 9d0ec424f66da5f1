//! How much is kept, and how.

use std::time::Duration;

/// What a store keeps beyond its current state, and how it keeps it.
///
/// History is dropped, oldest first, as soon as one of the bounds is passed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// How long a change is kept.
    ///
    /// Kubernetes compacts its etcd every five minutes, to where it was five minutes before: clients are used to
    /// find between five and ten minutes of history. The longer of the two is the default.
    pub keep_for: Duration,
    /// How many changes are kept.
    ///
    /// By default 100,000: what a cluster with 300 writes per second makes in the five minutes above. A change costs
    /// a few hundred bytes beside the value it keeps.
    pub keep_changes: usize,
    /// How many bytes history may hold: values that are no longer current, and what describes the changes.
    ///
    /// By default 64 MiB.
    pub keep_bytes: usize,
    /// How much log a disk store writes, at least, before it writes a checkpoint and begins a new file.
    ///
    /// It also writes as much as the last checkpoint was large, so that checkpoints at most double what is written.
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

    /// Writes at least this much log between two checkpoints.
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
