//! Maintenance between writes: new segments, checkpoints, and the removal of files that are no longer needed.
//!
//! No write fails because of maintenance. If a new segment cannot be created, the old one stays in use. If a checkpoint cannot
//! be written, the log becomes longer. Both are tried again.

use std::io;
use std::thread::JoinHandle;

use super::Committer;
use crate::Header;
use crate::disk::checkpoint;
use crate::disk::segment::Segment;
use crate::state::FIRST_REVISION;

/// After a failure, the log grows by this fraction of the distance between two checkpoints before the next attempt.
const RETRY_PART: u64 = 8;

/// Writes a checkpoint and returns its size.
pub(crate) type WriteCheckpoint = Box<dyn FnOnce() -> io::Result<u64> + Send>;

/// A checkpoint that is being written.
pub(crate) enum Running {
    /// On a thread of its own.
    Thread(JoinHandle<io::Result<u64>>),
    /// When the outcome is asked for, on the same thread.
    #[cfg(test)]
    Later(WriteCheckpoint),
}

impl Running {
    /// Writes a checkpoint on a thread of its own.
    pub(crate) fn on_a_thread(write: WriteCheckpoint) -> io::Result<Self> {
        std::thread::Builder::new().name("store-checkpoint".to_owned()).spawn(write).map(Self::Thread)
    }

    fn is_finished(&self) -> bool {
        match self {
            Self::Thread(thread) => thread.is_finished(),
            #[cfg(test)]
            Self::Later(_) => true,
        }
    }

    /// Waits for the checkpoint and returns its size.
    pub(super) fn finish(self) -> io::Result<u64> {
        match self {
            Self::Thread(thread) => {
                thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
            }
            #[cfg(test)]
            Self::Later(write) => write(),
        }
    }
}

impl<H: Header> Committer<H> {
    /// Starts a checkpoint if the log is long enough, and removes files that a finished checkpoint replaces.
    pub(crate) fn maintain(&mut self) {
        if self.failed.is_some() {
            return;
        }
        if let Some((revision, running)) = self.checkpointing.take_if(|(_, running)| running.is_finished()) {
            self.checkpointed(revision, running.finish());
        }
        let enough = self.checkpoint_bytes.max(self.checkpoint_bytes_min).max(self.retry_at);
        if self.checkpointing.is_none() && self.log_bytes >= enough && self.segment.has_frames() {
            self.begin_checkpoint();
        }
    }

    fn begin_checkpoint(&mut self) {
        let (revision, keys) = {
            let state = self.shared.state.read();
            (state.revision, state.keys.clone())
        };
        let first = revision + 1;
        match Segment::create(&self.data_dir, first) {
            Ok(segment) => self.segment = segment,
            Err(error) => {
                tracing::warn!(%error, "cannot create a new log file; the old one stays in use");
                // If the file stays, it has no frame, and recovery skips it.
                if let Err(error) = self.data_dir.remove(&self.data_dir.segment(first)) {
                    tracing::warn!(%error, "cannot remove an unused log file");
                }
                self.retry_at = self.log_bytes + (self.checkpoint_bytes_min / RETRY_PART).max(1);
                return;
            }
        }
        self.segments.push(first);
        (self.log_bytes, self.retry_at) = (0, 0);
        let (data_dir, cancelled) = (self.data_dir.clone(), self.cancelled.clone());
        match (self.begin)(Box::new(move || checkpoint::write(&data_dir, &keys, revision, &cancelled))) {
            Ok(running) => self.checkpointing = Some((revision, running)),
            Err(error) => tracing::warn!(%error, "cannot start a checkpoint; the log becomes longer"),
        }
    }

    fn checkpointed(&mut self, revision: u64, outcome: io::Result<u64>) {
        match outcome {
            Ok(bytes) => {
                self.checkpoint_bytes = bytes;
                self.checkpoints.push(revision);
            }
            Err(error) => {
                tracing::warn!(%error, "cannot write a checkpoint; the log becomes longer");
                self.failed_checkpoints.push(revision);
            }
        }
        if let Err(error) = self.remove_unneeded() {
            tracing::warn!(%error, "cannot remove files that are no longer needed");
        }
    }

    /// Removes files that recovery no longer needs.
    ///
    /// A checkpoint is needed while kept history begins before the next one. A segment is needed while a checkpoint before it
    /// exists.
    fn remove_unneeded(&mut self) -> io::Result<()> {
        // A failed checkpoint that has its final name and could not be removed would be the oldest one for recovery, which
        // would then miss the log after it.
        while let Some(failed) = self.failed_checkpoints.last() {
            self.data_dir.remove(&self.data_dir.checkpoint(*failed))?;
            self.failed_checkpoints.pop();
        }
        let floor = self.shared.state.read().log.floor();
        while let [oldest, next, ..] = self.checkpoints[..]
            && next <= floor
        {
            let file = match oldest {
                FIRST_REVISION => self.data_dir.segment(FIRST_REVISION + 1),
                _ => self.data_dir.checkpoint(oldest),
            };
            self.data_dir.remove(&file)?;
            self.checkpoints.remove(0);
        }
        // Segments are removed only after the removal of older checkpoints is durable, because recovery would need them.
        self.data_dir.sync()?;
        let base = self.checkpoints.first().copied().unwrap_or(FIRST_REVISION);
        while let Some(first) = self.segments.first().copied()
            && first <= base
        {
            self.data_dir.remove(&self.data_dir.segment(first))?;
            self.segments.remove(0);
        }
        Ok(())
    }
}
