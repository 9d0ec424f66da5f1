//! What the committer does between writes: rolling segments, checkpoints, and the removal of what they made needless.
//!
//! None of it can fail a write. A segment that cannot be begun leaves the old one in use, a checkpoint that cannot be
//! written leaves a longer log, and both are tried again.

use std::io;
use std::thread::JoinHandle;

use super::Committer;
use crate::Header;
use crate::disk::checkpoint;
use crate::disk::segment::Segment;
use crate::state::FIRST_REVISION;

/// After a failure, the log grows by this part of what lies between two checkpoints before the next attempt.
const RETRY_PART: u64 = 8;

/// Writes a checkpoint; gives its size.
pub(crate) type WriteCheckpoint = Box<dyn FnOnce() -> io::Result<u64> + Send>;

/// A checkpoint that is being written.
pub(crate) enum Running {
    /// By a thread of its own.
    Thread(JoinHandle<io::Result<u64>>),
    /// By whoever asks for its outcome.
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

    /// Waits for the checkpoint.
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
    /// Checkpoints what has grown too long, and removes what a checkpoint has made needless.
    pub(crate) fn keep_house(&mut self) {
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
        match Segment::create(&self.folder, first) {
            Ok(segment) => self.segment = segment,
            Err(error) => {
                tracing::warn!(%error, "cannot begin a new log file; the old one grows on");
                // If it stays, no frame is in it: a later opening passes it over.
                if let Err(error) = self.folder.remove(&self.folder.segment(first)) {
                    tracing::warn!(%error, "cannot remove a log file that is not used");
                }
                self.retry_at = self.log_bytes + (self.checkpoint_bytes_min / RETRY_PART).max(1);
                return;
            }
        }
        self.segments.push(first);
        (self.log_bytes, self.retry_at) = (0, 0);
        let (folder, cancelled) = (self.folder.clone(), self.cancelled.clone());
        match (self.begin)(Box::new(move || checkpoint::write(&folder, &keys, revision, &cancelled))) {
            Ok(running) => self.checkpointing = Some((revision, running)),
            Err(error) => tracing::warn!(%error, "cannot start a checkpoint; the log grows on"),
        }
    }

    fn checkpointed(&mut self, revision: u64, outcome: io::Result<u64>) {
        match outcome {
            Ok(bytes) => {
                self.checkpoint_bytes = bytes;
                self.checkpoints.push(revision);
            }
            Err(error) => {
                tracing::warn!(%error, "cannot write a checkpoint; the log grows on");
                self.failed_checkpoints.push(revision);
            }
        }
        if let Err(error) = self.remove_needless() {
            tracing::warn!(%error, "cannot remove files that are no longer needed");
        }
    }

    /// Removes what no opening will start from any more.
    ///
    /// A checkpoint is needed while history reaches back before the next one; a segment while a checkpoint before it
    /// is there.
    fn remove_needless(&mut self) -> io::Result<()> {
        // One that was named and could neither be made durable nor be removed would be the oldest for an opening,
        // which would then miss the log after it.
        while let Some(failed) = self.failed_checkpoints.last() {
            self.folder.remove(&self.folder.checkpoint(*failed))?;
            self.failed_checkpoints.pop();
        }
        let floor = self.shared.state.read().log.floor();
        while let [oldest, next, ..] = self.checkpoints[..]
            && next <= floor
        {
            let file = match oldest {
                FIRST_REVISION => self.folder.segment(FIRST_REVISION + 1),
                _ => self.folder.checkpoint(oldest),
            };
            self.folder.remove(&file)?;
            self.checkpoints.remove(0);
        }
        // The log may only go when it is certain that nothing will start from before it.
        self.folder.sync()?;
        let base = self.checkpoints.first().copied().unwrap_or(FIRST_REVISION);
        while let Some(first) = self.segments.first().copied()
            && first <= base
        {
            self.folder.remove(&self.folder.segment(first))?;
            self.segments.remove(0);
        }
        Ok(())
    }
}
