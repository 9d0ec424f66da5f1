//! The committer thread: it decides the waiting writes, syncs them as one frame, and then makes them visible.

mod maintenance;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_env::HashMap;
use tokio::time::Instant;

use super::data_dir::DataDir;
use super::frame;
use super::queue::{Queue, Submission};
use super::recover::Recovered;
use super::segment::{AppendError, Segment};
use crate::keyspace::{FOLDERS_MAX, is_too_deep};
use crate::shared::Shared;
use crate::state::{Aftermath, StoreState, change_of, permits};
use crate::{Change, Entry, Header, Op, Options, Write, WriteError, Written};
pub(crate) use maintenance::{Running, WriteCheckpoint};

/// The most bytes of values in one frame; more writes wait for the next frame. It bounds the size of a torn frame and of the
/// buffer.
const FRAME_BYTES: usize = 8 << 20;
/// The longest key or value. Kubernetes accepts 3 MiB; the length of a frame must stay below 4 GiB.
const VALUE_BYTES_MAX: usize = 1 << 30;
/// A batch waits for the writers of the batch before it, because they were answered together and are likely to write again
/// together. It waits for at most this fraction of the last sync, so that the wait costs a write little and can save a sync.
const GATHER_PART: u32 = 4;
/// The longest wait for other writers, however slow the disk is.
const GATHER_MAX: Duration = Duration::from_millis(2);

pub(crate) struct Committer<H> {
    shared: Arc<Shared<H>>,
    queue: Arc<Queue<H>>,
    data_dir: Arc<DataDir>,
    segment: Segment,
    /// The first revisions of the durable segments, oldest first.
    segments: Vec<u64>,
    /// The revisions of the durable checkpoints, oldest first.
    checkpoints: Vec<u64>,
    /// The revisions of failed checkpoints whose files may still exist.
    failed_checkpoints: Vec<u64>,
    /// The size of the newest checkpoint.
    checkpoint_bytes: u64,
    /// The size of the log after the newest checkpoint.
    log_bytes: u64,
    /// The least size of the log between two checkpoints.
    checkpoint_bytes_min: u64,
    /// The size of the log at which a failed attempt to begin a segment is repeated; zero if the last one succeeded.
    retry_at: u64,
    /// The revision of the checkpoint that is being written, and its task.
    checkpointing: Option<(u64, Running)>,
    /// Starts to write a checkpoint.
    begin: fn(WriteCheckpoint) -> io::Result<Running>,
    /// Cancels the checkpoint that is being written.
    cancelled: Arc<AtomicBool>,
    /// How long the next batch may wait for other writers.
    patience: Duration,
    /// The failure after which nothing more is written.
    failed: Option<String>,
    buffer: Vec<u8>,
}

/// The decision about one write, before it is durable.
type Decision<H> = Result<Arc<Change<H>>, WriteError<H>>;

/// The values of keys that the batch has written and that are not durable yet.
type Pending<H> = HashMap<Arc<str>, Option<Arc<Entry<H>>>>;

/// Why a part of a batch did not become durable.
#[derive(Clone, Debug)]
enum Shortfall {
    /// The disk is full: that part of the batch was not written.
    NoRoom(String),
    /// Whether that part of the batch was written is unknown.
    Unknown(String),
}

impl Shortfall {
    fn error<H>(&self) -> WriteError<H> {
        match self {
            Self::NoRoom(why) => WriteError::NoRoom(why.clone()),
            Self::Unknown(why) => WriteError::Journal(why.clone()),
        }
    }
}

impl<H: Header> Committer<H> {
    /// Prepares to write after the recovered state. When this returns, that state is durable and may become visible.
    pub(crate) fn new(
        data_dir: DataDir,
        recovered: Recovered<H>,
        options: &Options,
        shared: impl FnOnce(StoreState<H>) -> Arc<Shared<H>>,
        queue: Arc<Queue<H>>,
        begin: fn(WriteCheckpoint) -> io::Result<Running>,
    ) -> io::Result<Self> {
        let Recovered { state, mut listing, unused, torn, newest, checkpoint_bytes, log_bytes } = recovered;
        if let Some(torn) = torn {
            Segment::resume(&data_dir, &torn)?;
        }
        let segment = match newest {
            Some(newest) => Segment::resume(&data_dir, &newest)?,
            None => {
                listing.segments.push(state.revision + 1);
                Segment::create(&data_dir, state.revision + 1)?
            }
        };
        // The previous process may have ended between the creation, renaming or removal of a file and the sync after it.
        data_dir.sync()?;
        data_dir.clear_away(&unused);
        Ok(Self {
            shared: shared(state),
            queue,
            data_dir: Arc::new(data_dir),
            segment,
            segments: listing.segments,
            checkpoints: listing.checkpoints,
            failed_checkpoints: Vec::new(),
            checkpoint_bytes,
            log_bytes,
            checkpoint_bytes_min: options.checkpoint_bytes,
            retry_at: 0,
            checkpointing: None,
            begin,
            cancelled: Arc::default(),
            patience: Duration::ZERO,
            failed: None,
            buffer: Vec::new(),
        })
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<H>> {
        &self.shared
    }

    pub(crate) fn queue(&self) -> &Arc<Queue<H>> {
        &self.queue
    }

    /// Runs until the queue is closed.
    pub(crate) fn run(mut self) {
        let mut company = 0;
        while let Some(submissions) = self.queue.take(company, self.patience) {
            company = submissions.len();
            self.serve(submissions);
            self.maintain();
        }
        if let Some((_, running)) = self.checkpointing.take() {
            // The lock of the directory must be held until the checkpoint thread has stopped writing.
            self.cancelled.store(true, Ordering::Relaxed);
            let _ = running.finish();
        }
    }

    /// Decides the writes, makes them durable, makes them visible, and answers.
    pub(crate) fn serve(&mut self, submissions: Vec<Submission<H>>) {
        if let Some(why) = &self.failed {
            // No more decisions: a conflict could reveal a change that never becomes durable.
            return refuse(submissions, &Shortfall::Unknown(why.clone()));
        }
        let mut waiting = Vec::with_capacity(submissions.len());
        let mut pending = Pending::default();
        let mut revision = self.shared.state.read().revision;
        for Submission { writes, answer } in submissions {
            let decisions = self.decide(writes, &mut pending, &mut revision);
            waiting.push((decisions, answer));
        }
        let changes: Vec<_> =
            waiting.iter().flat_map(|(decisions, _)| decisions.iter().flatten().cloned()).collect();
        let (durable, shortfall) = self.append(&changes);
        self.show(&changes[..durable]);
        self.shared.report(shortfall.as_ref().map(|shortfall| match shortfall {
            Shortfall::NoRoom(why) | Shortfall::Unknown(why) => why.as_str(),
        }));
        let last = changes[..durable].last().map_or(0, |change| change.revision);
        drop(changes);
        for (decisions, answer) in waiting {
            let answers = decisions.into_iter().map(|decision| outcome(decision, last, shortfall.as_ref()));
            // The send fails if the writer no longer waits.
            let _ = answer.send(answers.collect());
        }
    }

    fn decide(
        &self,
        writes: Vec<Write<H>>,
        pending: &mut Pending<H>,
        revision: &mut u64,
    ) -> Vec<Decision<H>> {
        let state = self.shared.state.read();
        let decide = |write: Write<H>| {
            let current = match pending.get(&write.key) {
                Some(current) => current.as_ref(),
                None => state.keys.get(&write.key),
            };
            if is_too_large(&write) {
                return Err(WriteError::TooLarge { limit: VALUE_BYTES_MAX });
            }
            if is_too_deep(&write.key) {
                return Err(WriteError::TooDeep { limit: FOLDERS_MAX });
            }
            if !permits(&write, current) {
                return Err(WriteError::Conflict { current: current.cloned() });
            }
            *revision += 1;
            let change = Arc::new(change_of(write, current.cloned(), *revision));
            pending.insert(change.key().clone(), change.after.clone());
            Ok(change)
        };
        writes.into_iter().map(decide).collect()
    }

    /// Makes changes durable, in as many frames as needed. Returns how many are durable, and why not all. After a failure that
    /// leaves the contents of the segment unknown, nothing is written any more.
    fn append(&mut self, changes: &[Arc<Change<H>>]) -> (usize, Option<Shortfall>) {
        let (mut durable, mut shortfall) = (0, None);
        while durable < changes.len() && shortfall.is_none() {
            let rest = &changes[durable..];
            let mut bytes = 0;
            let fits = |change: &&Arc<Change<H>>| {
                bytes += change.after.as_ref().map_or(0, |entry| entry.value.len());
                bytes <= FRAME_BYTES
            };
            let count = rest.iter().take_while(fits).count().max(1);
            self.buffer.clear();
            frame::append(&mut self.buffer, |body| frame::write_changes(body, &rest[..count]));
            let started = Instant::now();
            match self.segment.append(&self.buffer) {
                Ok(()) => {
                    self.log_bytes += self.buffer.len() as u64;
                    durable += count;
                }
                Err(error) => shortfall = Some(self.fall_short(error)),
            }
            self.patience = (started.elapsed() / GATHER_PART).min(GATHER_MAX);
        }
        self.buffer.shrink_to(FRAME_BYTES);
        (durable, shortfall)
    }

    fn fall_short(&mut self, error: AppendError) -> Shortfall {
        match error {
            AppendError::NoRoom(error) => {
                tracing::warn!(%error, "the disk is full; a write was not made");
                Shortfall::NoRoom(error.to_string())
            }
            AppendError::Unknown(error) => {
                tracing::error!(%error, "the journal failed; the store takes no more writes until it is opened again");
                self.failed = Some(error.to_string());
                Shortfall::Unknown(error.to_string())
            }
        }
    }

    fn show(&self, changes: &[Arc<Change<H>>]) {
        if changes.is_empty() {
            return;
        }
        let now = Instant::now();
        let mut aftermath = Aftermath::default();
        let mut state = self.shared.state.write();
        for change in changes {
            state.apply(change.clone(), now, &mut aftermath);
        }
        drop(state);
        self.shared.settle(aftermath);
    }
}

/// Returns the answer for a writer, given that everything up to a revision is durable.
///
/// A conflict may be due to a change that did not become durable. So in a batch with a shortfall, a conflict is answered by
/// the error of the shortfall.
fn outcome<H>(
    decision: Decision<H>,
    durable: u64,
    shortfall: Option<&Shortfall>,
) -> Result<Written<H>, WriteError<H>> {
    match (decision, shortfall) {
        (Ok(change), None) => Ok(Written::of(&change)),
        (Ok(change), Some(_)) if change.revision <= durable => Ok(Written::of(&change)),
        (Ok(_) | Err(WriteError::Conflict { .. }), Some(shortfall)) => Err(shortfall.error()),
        (Err(error), _) => Err(error),
    }
}

fn refuse<H>(submissions: Vec<Submission<H>>, shortfall: &Shortfall) {
    for Submission { writes, answer } in submissions {
        // The send fails if the writer no longer waits.
        let _ = answer.send(writes.iter().map(|_| Err(shortfall.error())).collect());
    }
}

/// Whether the key or value of a write is too long for the file format.
fn is_too_large<H>(write: &Write<H>) -> bool {
    let value = match &write.op {
        Op::Put(value, _) => value.len(),
        Op::Delete => 0,
    };
    write.key.len().max(value) > VALUE_BYTES_MAX
}
