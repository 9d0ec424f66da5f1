//! The one thread that writes: it decides what waits, syncs it as one frame, then shows it to readers.

mod house;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_env::HashMap;
use tokio::time::Instant;

use super::folder::Folder;
use super::frame;
use super::queue::{Queue, Submission};
use super::recover::Recovered;
use super::segment::{AppendError, Segment};
use crate::keyspace::{FOLDERS_MAX, is_too_deep};
use crate::state::{Aftermath, Shared, State, change_of, permits};
use crate::{Change, Entry, Header, Op, Options, Write, WriteError, Written};
pub(crate) use house::{Running, WriteCheckpoint};

/// How much is written as one frame; more waits for the next one. It bounds what a torn frame can be, and the memory
/// of the buffer.
const FRAME_BYTES: usize = 8 << 20;
/// The longest key or value. Kubernetes takes 3 MiB; a frame's length must stay below 4 GiB.
const VALUE_BYTES_MAX: usize = 1 << 30;
/// A batch waits for the writers who were in the batch before it, who were answered together and are likely to come
/// back together: for at most this part of what the last sync took. So it can cost a write little, and can save it a
/// sync.
const GATHER_PART: u32 = 4;
/// And never longer than this, however slow the disk is.
const GATHER_MAX: Duration = Duration::from_millis(2);

pub(crate) struct Committer<H> {
    shared: Arc<Shared<H>>,
    queue: Arc<Queue<H>>,
    folder: Arc<Folder>,
    segment: Segment,
    /// Segments and checkpoints that exist durably, oldest first.
    segments: Vec<u64>,
    checkpoints: Vec<u64>,
    /// Checkpoints that failed, whose files may still be there.
    failed_checkpoints: Vec<u64>,
    /// How large the newest checkpoint is, and how much log came after it.
    checkpoint_bytes: u64,
    log_bytes: u64,
    /// How much log there is between two checkpoints, at least.
    checkpoint_bytes_min: u64,
    /// How much log there must be before a new segment is tried again; zero unless the last attempt failed.
    retry_at: u64,
    /// The checkpoint that is being written, and its revision.
    checkpointing: Option<(u64, Running)>,
    /// How the writing of a checkpoint is begun.
    begin: fn(WriteCheckpoint) -> io::Result<Running>,
    /// Tells whoever writes a checkpoint that nobody wants it any more.
    cancelled: Arc<AtomicBool>,
    /// How long the next batch may wait for company.
    patience: Duration,
    /// Why nothing more is written.
    failed: Option<String>,
    buffer: Vec<u8>,
}

/// What became of one write before it is durable.
type Decision<H> = Result<Arc<Change<H>>, WriteError<H>>;

/// Values of keys that the writes of a batch have decided and not yet made durable.
type Pending<H> = HashMap<Arc<str>, Option<Arc<Entry<H>>>>;

/// Why a part of a batch was not made durable.
#[derive(Clone, Debug)]
enum Shortfall {
    /// There is no room: that part was not made.
    NoRoom(String),
    /// Nobody knows whether that part was made.
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
    /// Makes ready to write behind what was recovered. When this returns, all of that is durable and may be shown.
    pub(crate) fn new(
        folder: Folder,
        recovered: Recovered<H>,
        options: &Options,
        shared: impl FnOnce(State<H>) -> Arc<Shared<H>>,
        queue: Arc<Queue<H>>,
        begin: fn(WriteCheckpoint) -> io::Result<Running>,
    ) -> io::Result<Self> {
        let Recovered { state, mut listing, unused, torn, newest, checkpoint_bytes, log_bytes } = recovered;
        if let Some(torn) = torn {
            Segment::resume(&folder, &torn)?;
        }
        let segment = match newest {
            Some(newest) => Segment::resume(&folder, &newest)?,
            None => {
                listing.segments.push(state.revision + 1);
                Segment::create(&folder, state.revision + 1)?
            }
        };
        // The process before may have ended between a creation, renaming or removal and the sync after it.
        folder.sync()?;
        folder.clear_away(&unused);
        Ok(Self {
            shared: shared(state),
            queue,
            folder: Arc::new(folder),
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

    /// Serves until the queue is closed.
    pub(crate) fn run(mut self) {
        let mut company = 0;
        while let Some(submissions) = self.queue.take(company, self.patience) {
            company = submissions.len();
            self.serve(submissions);
            self.keep_house();
        }
        if let Some((_, running)) = self.checkpointing.take() {
            // Nobody waits for a checkpoint, but the lock must not be given up while somebody still writes.
            self.cancelled.store(true, Ordering::Relaxed);
            let _ = running.finish();
        }
    }

    /// Decides, makes durable, shows, answers.
    pub(crate) fn serve(&mut self, submissions: Vec<Submission<H>>) {
        if let Some(why) = &self.failed {
            // Nothing is decided any more: a decision could show what will never be durable.
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
            // Whoever does not wait any more does not want to know.
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

    /// Makes changes durable, as many frames as they need; gives how many are, and why not all. After a failure that
    /// leaves the segment in doubt nothing is written ever after.
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
                tracing::warn!(%error, "no room for a write; it was not made");
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

/// What a writer is told, when everything up to a revision is durable.
///
/// A conflict may have been decided by a change that did not become durable. So in a batch that fell short, a
/// conflict is told as the shortfall is.
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
        // Whoever does not wait any more does not want to know.
        let _ = answer.send(writes.iter().map(|_| Err(shortfall.error())).collect());
    }
}

/// Whether the lengths of a write fit the files.
fn is_too_large<H>(write: &Write<H>) -> bool {
    let value = match &write.op {
        Op::Put(value, _) => value.len(),
        Op::Delete => 0,
    };
    write.key.len().max(value) > VALUE_BYTES_MAX
}
