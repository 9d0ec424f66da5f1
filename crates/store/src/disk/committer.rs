//! The one thread that writes: it decides what waits, syncs it as one frame, then shows it to readers.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_env::HashMap;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::checkpoint;
use super::folder::Folder;
use super::frame;
use super::queue::{Queue, Submission};
use super::recover::Recovered;
use super::segment::Segment;
use crate::journal::Answers;
use crate::state::{Aftermath, FIRST_REVISION, Shared, State, change_of, permits};
use crate::{Change, Entry, Header, Op, Options, Write, WriteError, Written};

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
    /// Segments and checkpoints that exist, oldest first.
    segments: Vec<u64>,
    checkpoints: Vec<u64>,
    /// How large the newest checkpoint is, and how much log came after it.
    checkpoint_bytes: u64,
    log_bytes: u64,
    /// How much log there is between two checkpoints, at least.
    checkpoint_bytes_min: u64,
    /// The thread that writes the next checkpoint, and its revision.
    checkpointing: Option<(u64, JoinHandle<io::Result<u64>>)>,
    /// Tells that thread that nobody wants its checkpoint any more.
    cancelled: Arc<AtomicBool>,
    /// How long the next batch may wait for company.
    patience: Duration,
    /// Why nothing more is written.
    failed: Option<String>,
    buffer: Vec<u8>,
}

/// What became of one write before it is durable.
type Decision<H> = Result<Arc<Change<H>>, WriteError<H>>;

impl<H: Header> Committer<H> {
    /// Makes ready to write behind what was recovered.
    pub(crate) fn new(
        folder: Folder,
        recovered: Recovered<H>,
        options: &Options,
        shared: impl FnOnce(State<H>) -> Arc<Shared<H>>,
        queue: Arc<Queue<H>>,
    ) -> io::Result<Self> {
        let Recovered { state, mut listing, newest, checkpoint_bytes, log_bytes } = recovered;
        let segment = match newest {
            Some((first, length)) => Segment::resume(&folder, first, length)?,
            None => {
                listing.segments.push(state.revision + 1);
                Segment::create(&folder, state.revision + 1)?
            }
        };
        Ok(Self {
            shared: shared(state),
            queue,
            folder: Arc::new(folder),
            segment,
            segments: listing.segments,
            checkpoints: listing.checkpoints,
            checkpoint_bytes,
            log_bytes,
            checkpoint_bytes_min: options.checkpoint_bytes,
            checkpointing: None,
            cancelled: Arc::default(),
            patience: Duration::ZERO,
            failed: None,
            buffer: Vec::new(),
        })
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<H>> {
        &self.shared
    }

    /// Serves until the queue is closed.
    pub(crate) fn run(mut self) {
        let mut company = 0;
        while let Some(submissions) = self.queue.take(company, self.patience) {
            company = submissions.len();
            self.serve(submissions);
            self.keep_house();
        }
        if let Some((_, thread)) = self.checkpointing.take() {
            // Nobody waits for a checkpoint, but the lock must not be given up while somebody still writes.
            self.cancelled.store(true, Ordering::Relaxed);
            let _ = thread.join();
        }
    }

    /// Decides, makes durable, shows, answers.
    fn serve(&mut self, submissions: Vec<Submission<H>>) {
        let mut waiting = Vec::with_capacity(submissions.len());
        let mut pending: HashMap<Arc<str>, Option<Arc<Entry<H>>>> = HashMap::default();
        let mut revision = self.shared.state.read().revision;
        for Submission { writes, answer } in submissions {
            let decisions = self.decide(writes, &mut pending, &mut revision);
            waiting.push((decisions, answer));
        }
        let changes: Vec<_> =
            waiting.iter().flat_map(|(decisions, _)| decisions.iter().flatten().cloned()).collect();
        self.append(&changes);
        if self.failed.is_none() {
            self.show(&changes);
        }
        drop(changes);
        for (decisions, answer) in waiting {
            self.answer(decisions, answer);
        }
    }

    fn decide(
        &self,
        writes: Vec<Write<H>>,
        pending: &mut HashMap<Arc<str>, Option<Arc<Entry<H>>>>,
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

    /// Makes changes durable; on failure nothing is written ever after.
    fn append(&mut self, changes: &[Arc<Change<H>>]) {
        let mut rest = changes;
        while !rest.is_empty() && self.failed.is_none() {
            let mut bytes = 0;
            let fits = |change: &&Arc<Change<H>>| {
                bytes += change.after.as_ref().map_or(0, |entry| entry.value.len());
                bytes <= FRAME_BYTES
            };
            let (now, later) = rest.split_at(rest.iter().take_while(fits).count().max(1));
            self.buffer.clear();
            frame::append(&mut self.buffer, |body| frame::write_changes(body, now));
            self.log_bytes += self.buffer.len() as u64;
            let started = Instant::now();
            if let Err(error) = self.segment.append(&self.buffer) {
                self.failed = Some(error.to_string());
            }
            self.patience = (started.elapsed() / GATHER_PART).min(GATHER_MAX);
            rest = later;
        }
        self.buffer.shrink_to(FRAME_BYTES);
    }

    fn show(&self, changes: &[Arc<Change<H>>]) {
        let now = Instant::now();
        let mut aftermath = Aftermath::default();
        let mut state = self.shared.state.write();
        for change in changes {
            state.apply(change.clone(), now, &mut aftermath);
        }
        drop(state);
        self.shared.settle(aftermath);
    }

    fn answer(&self, decisions: Vec<Decision<H>>, answer: oneshot::Sender<Answers<H>>) {
        let answers = decisions.into_iter().map(|decision| match (decision, &self.failed) {
            (Ok(_), Some(why)) => Err(WriteError::Journal(why.clone())),
            (Ok(change), None) => Ok(Written::of(&change)),
            (Err(error), _) => Err(error),
        });
        // Whoever does not wait any more does not want to know.
        let _ = answer.send(answers.collect());
    }

    /// Checkpoints what has grown too long, and removes what a checkpoint has made needless. None of it can fail a
    /// write: if a checkpoint cannot be written, the log is longer.
    fn keep_house(&mut self) {
        if self.failed.is_some() {
            return;
        }
        if let Some((revision, thread)) = self.checkpointing.take_if(|(_, thread)| thread.is_finished()) {
            self.checkpointed(revision, thread);
        }
        if self.checkpointing.is_none()
            && self.log_bytes >= self.checkpoint_bytes.max(self.checkpoint_bytes_min)
        {
            self.begin_checkpoint();
        }
    }

    fn begin_checkpoint(&mut self) {
        let (revision, keys) = {
            let state = self.shared.state.read();
            (state.revision, state.keys.clone())
        };
        match Segment::create(&self.folder, revision + 1) {
            Ok(segment) => self.segment = segment,
            Err(error) => {
                // Whether the new segment exists is not known, so that no frame can be put in the right place.
                self.failed = Some(error.to_string());
                return;
            }
        }
        self.segments.push(revision + 1);
        self.log_bytes = 0;
        let (folder, cancelled) = (self.folder.clone(), self.cancelled.clone());
        let thread = std::thread::Builder::new()
            .name("store-checkpoint".to_owned())
            .spawn(move || checkpoint::write(&folder, &keys, revision, &cancelled));
        match thread {
            Ok(thread) => self.checkpointing = Some((revision, thread)),
            Err(error) => tracing::warn!(%error, "cannot start a checkpoint; the log grows on"),
        }
    }

    fn checkpointed(&mut self, revision: u64, thread: JoinHandle<io::Result<u64>>) {
        let outcome = thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread panicked")));
        match outcome {
            Ok(bytes) => {
                self.checkpoint_bytes = bytes;
                self.checkpoints.push(revision);
            }
            Err(error) => tracing::warn!(%error, "cannot write a checkpoint; the log grows on"),
        }
        if let Err(error) = self.remove_needless() {
            tracing::warn!(%error, "cannot remove files that are no longer needed");
        }
    }

    /// A checkpoint is needed while history reaches back before the next one; a segment while a checkpoint before it
    /// is there.
    fn remove_needless(&mut self) -> io::Result<()> {
        let floor = self.shared.state.read().log.floor();
        while let [oldest, next, ..] = self.checkpoints[..]
            && next <= floor
        {
            let file = match oldest {
                FIRST_REVISION => self.folder.segment(FIRST_REVISION + 1),
                _ => self.folder.checkpoint(oldest),
            };
            self.remove(&file)?;
            self.checkpoints.remove(0);
        }
        // The log may only go when it is certain that nothing will start from before it.
        self.folder.sync()?;
        let base = self.checkpoints.first().copied().unwrap_or(FIRST_REVISION);
        while let Some(first) = self.segments.first().copied()
            && first <= base
        {
            self.remove(&self.folder.segment(first))?;
            self.segments.remove(0);
        }
        Ok(())
    }

    /// Removes a file that may be gone already.
    fn remove(&self, path: &Path) -> io::Result<()> {
        match self.folder.files().remove(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            outcome => outcome,
        }
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use evenkeel_env::Env;

    use super::*;
    use crate::Expect;
    use crate::disk::files::OsFiles;
    use crate::disk::recover::recover;

    fn committer(dir: &Path) -> Committer<()> {
        let folder = Folder::open(Arc::new(OsFiles), dir).unwrap();
        let recovered = recover(&folder, Options::default()).unwrap();
        let share = |state| Arc::new(Shared::of(Env::system(), state));
        Committer::new(folder, recovered, &Options::default(), share, Arc::new(Queue::new())).unwrap()
    }

    fn write(committer: &mut Committer<()>, key: &str) -> Result<Written<()>, WriteError<()>> {
        let op = Op::Put(Bytes::from_static(b"x"), ());
        let writes = vec![Write { key: key.into(), expect: Expect::Any, op }];
        let (answer, mut answered) = oneshot::channel();
        committer.serve(vec![Submission { writes, answer }]);
        answered.try_recv().unwrap().remove(0)
    }

    #[test]
    fn what_cannot_be_made_durable_is_not_shown_and_nothing_follows_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut committer = committer(dir.path());
        write(&mut committer, "/a/1").unwrap();
        committer.segment = Segment::that_fails(&committer.folder, 2);
        assert!(matches!(write(&mut committer, "/a/2"), Err(WriteError::Journal(_))));
        assert_eq!(committer.shared.state.read().revision, 2);
        assert!(committer.shared.state.read().keys.get("/a/2").is_none());
        committer.segment = Segment::resume(&committer.folder, 2, committer.segment.length).unwrap();
        assert!(matches!(write(&mut committer, "/a/3"), Err(WriteError::Journal(_))));
    }
}
