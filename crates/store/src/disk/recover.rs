//! From files back to a state: the oldest checkpoint, and the log from there on.

use std::sync::Arc;

use tokio::time::Instant;

use super::checkpoint;
use super::folder::{Folder, Listing};
use super::frame::Record;
use super::headers;
use super::segment::{self, End, Whole};
use crate::keyspace::{FOLDERS_MAX, Keyspace, is_too_deep};
use crate::state::{Aftermath, FIRST_REVISION, State, change_of, permits};
use crate::{Expect, Header, Op, OpenError, Options, Write};

/// What was found.
#[derive(Debug)]
pub(crate) struct Recovered<H> {
    pub(crate) state: State<H>,
    /// Its checkpoints begin with the one it starts from; the empty state of the first revision is one without a
    /// file, which is there while the segment after it is.
    pub(crate) listing: Listing,
    /// Segments in which no frame was ever begun, and in which none may be: the log went on in the one before.
    pub(crate) unused: Vec<u64>,
    /// The segment before the newest, if it ends in a torn frame: it must be cut before the newest is written to.
    pub(crate) torn: Option<End>,
    /// The segment to go on with.
    pub(crate) newest: Option<End>,
    /// The size of the newest checkpoint, and of the log after it.
    pub(crate) checkpoint_bytes: u64,
    pub(crate) log_bytes: u64,
}

/// Reads everything and changes nothing.
///
/// All changes since the oldest checkpoint become history again, within the bounds of the options: whoever watched
/// before a restart can go on after it.
pub(crate) fn recover<H: Header>(folder: &Folder, options: Options) -> Result<Recovered<H>, OpenError> {
    let mut listing = folder.list()?;
    let is_new = listing.segments.is_empty() && listing.checkpoints.is_empty();
    if is_new || listing.segments.first() == Some(&(FIRST_REVISION + 1)) {
        listing.checkpoints.insert(0, FIRST_REVISION);
    }
    let (base, keys) = match listing.checkpoints.first() {
        Some(&FIRST_REVISION) => (FIRST_REVISION, Keyspace::new()),
        Some(&revision) => (revision, checkpoint::read(folder, revision)?),
        None => return Err(folder.damaged("the state before the log is missing")),
    };
    let checkpoint_bytes = match listing.checkpoints.last() {
        Some(&newest) if newest > FIRST_REVISION => {
            let path = folder.checkpoint(newest);
            folder.files().length(&path).map_err(|source| folder.file_error(&path, source))?
        }
        _ => 0,
    };
    let mut recovered = Recovered {
        state: State::new(base, keys, options),
        listing,
        unused: Vec::new(),
        torn: None,
        newest: None,
        checkpoint_bytes,
        log_bytes: 0,
    };
    recovered.replay(folder, base)?;
    Ok(recovered)
}

impl<H: Header> Recovered<H> {
    fn replay(&mut self, folder: &Folder, base: u64) -> Result<(), OpenError> {
        let segments: Vec<u64> =
            self.listing.segments.iter().copied().filter(|first| *first > base).collect();
        // A checkpoint is only begun when the segment after it exists.
        if segments.is_empty() && base != FIRST_REVISION {
            return Err(folder.damaged(format!("the log after revision {base} is missing")));
        }
        let now = Instant::now();
        for first in segments {
            self.replay_segment(folder, first, now)?;
        }
        let unused = &self.unused;
        self.listing.segments.retain(|first| !unused.contains(first));
        Ok(())
    }

    /// Replays the segment that begins with a revision.
    ///
    /// It was created when the revision before it was durable, in the segment before it. If the creation failed
    /// half-way, that segment was written on, and this one holds nothing and is passed over.
    fn replay_segment(&mut self, folder: &Folder, first: u64, now: Instant) -> Result<(), OpenError> {
        let expected = self.state.revision + 1;
        if first > expected {
            return Err(
                folder.damaged(format!("the log from revision {expected} to {} is missing", first - 1))
            );
        }
        let path = folder.segment(first);
        let damaged = |why: String| folder.damaged(format!("{}: {why}", path.display()));
        let Whole { records, end } = segment::read(folder, first)?;
        let before = self.newest.take();
        if end.is_only_begun() && first < expected {
            self.unused.push(first);
            self.newest = before;
            return Ok(());
        }
        let torn = before.filter(|before| before.torn > 0);
        if end.is_only_begun() {
            self.torn = torn;
        } else if let Some(End { first, length, .. }) = torn {
            let path = folder.segment(first);
            let why = format!("{}: at byte {length}: the checksum does not match", path.display());
            return Err(folder.damaged(why));
        } else if first < expected {
            return Err(damaged(format!("it begins with revision {first}, which the log before it has")));
        }
        self.apply(records, now).map_err(damaged)?;
        if self.listing.checkpoints.last().is_none_or(|newest| first > *newest) {
            self.log_bytes += end.length;
        }
        self.newest = Some(end);
        Ok(())
    }

    fn apply(&mut self, records: Vec<Record>, now: Instant) -> Result<(), String> {
        let values: Vec<_> =
            records.iter().filter_map(|record| Some((&*record.key, record.value.as_ref()?))).collect();
        let mut headers = headers::make(&values)?.into_iter();
        for Record { key, value } in records {
            let op = match value {
                Some(value) => Op::Put(value, headers.next().ok_or("a value has no header")?),
                None => Op::Delete,
            };
            self.apply_write(Write { key, expect: Expect::Any, op }, now)?;
        }
        Ok(())
    }

    fn apply_write(&mut self, write: Write<H>, now: Instant) -> Result<(), String> {
        let revision = self.state.revision + 1;
        if is_too_deep(&write.key) {
            return Err(format!(
                "revision {revision} has a key that lies in more than {FOLDERS_MAX} folders"
            ));
        }
        let before = self.state.keys.get(&write.key).cloned();
        if !permits(&write, before.as_ref()) {
            return Err(format!("revision {revision} deletes {}, which does not exist", write.key));
        }
        let change = Arc::new(change_of(write, before, revision));
        // Nobody watches yet, and what leaves the log stays on disk until a checkpoint is behind it.
        self.state.apply(change, now, &mut Aftermath::default());
        Ok(())
    }
}
