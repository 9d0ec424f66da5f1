//! Recovery of the state from the files: the oldest checkpoint, and the log after it.

use std::sync::Arc;

use tokio::time::Instant;

use super::checkpoint;
use super::data_dir::{DataDir, Listing};
use super::frame::Record;
use super::headers;
use super::segment::{self, End, SegmentContents};
use crate::keyspace::{FOLDERS_MAX, Keyspace, is_too_deep};
use crate::state::{Aftermath, FIRST_REVISION, StoreState, change_of, permits};
use crate::{Expect, Header, Op, OpenError, Options, Write};

/// The recovered state, and what the committer needs to continue.
#[derive(Debug)]
pub(crate) struct Recovered<H> {
    pub(crate) state: StoreState<H>,
    /// The files. The first checkpoint is the one that recovery began with. The empty state of the first revision counts as a
    /// checkpoint without a file, while the segment after it exists.
    pub(crate) listing: Listing,
    /// Empty segments that must not be used, because the log continued in the segment before.
    pub(crate) unused: Vec<u64>,
    /// The segment before the newest, if it ends with a torn frame. It must be cut before the newest is written.
    pub(crate) torn: Option<End>,
    /// The segment to continue with.
    pub(crate) newest: Option<End>,
    /// The size of the newest checkpoint.
    pub(crate) checkpoint_bytes: u64,
    /// The size of the log after the newest checkpoint.
    pub(crate) log_bytes: u64,
}

/// Reads all files and changes none.
///
/// All changes since the oldest checkpoint become history again, within the bounds of the options, so that watches can resume
/// after a restart.
pub(crate) fn recover<H: Header>(data_dir: &DataDir, options: Options) -> Result<Recovered<H>, OpenError> {
    let mut listing = data_dir.list()?;
    let is_new = listing.segments.is_empty() && listing.checkpoints.is_empty();
    if is_new || listing.segments.first() == Some(&(FIRST_REVISION + 1)) {
        listing.checkpoints.insert(0, FIRST_REVISION);
    }
    let (base, keys) = match listing.checkpoints.first() {
        Some(&FIRST_REVISION) => (FIRST_REVISION, Keyspace::new()),
        Some(&revision) => (revision, checkpoint::read(data_dir, revision)?),
        None => return Err(data_dir.damaged("the state before the log is missing")),
    };
    let checkpoint_bytes = match listing.checkpoints.last() {
        Some(&newest) if newest > FIRST_REVISION => {
            let path = data_dir.checkpoint(newest);
            data_dir.files().length(&path).map_err(|source| data_dir.file_error(&path, source))?
        }
        _ => 0,
    };
    let mut recovered = Recovered {
        state: StoreState::new(base, keys, options),
        listing,
        unused: Vec::new(),
        torn: None,
        newest: None,
        checkpoint_bytes,
        log_bytes: 0,
    };
    recovered.replay(data_dir, base)?;
    Ok(recovered)
}

impl<H: Header> Recovered<H> {
    fn replay(&mut self, data_dir: &DataDir, base: u64) -> Result<(), OpenError> {
        let segments: Vec<u64> =
            self.listing.segments.iter().copied().filter(|first| *first > base).collect();
        // A checkpoint is written only when the segment after it exists.
        if segments.is_empty() && base != FIRST_REVISION {
            return Err(data_dir.damaged(format!("the log after revision {base} is missing")));
        }
        let now = Instant::now();
        for first in segments {
            self.replay_segment(data_dir, first, now)?;
        }
        let unused = &self.unused;
        self.listing.segments.retain(|first| !unused.contains(first));
        Ok(())
    }

    /// Replays the segment that begins with a revision.
    ///
    /// The segment was created when the revision before it was durable. If its creation failed half-way, the log continued in
    /// the segment before, and this one is empty and skipped.
    fn replay_segment(&mut self, data_dir: &DataDir, first: u64, now: Instant) -> Result<(), OpenError> {
        let expected = self.state.revision + 1;
        if first > expected {
            return Err(
                data_dir.damaged(format!("the log from revision {expected} to {} is missing", first - 1))
            );
        }
        let path = data_dir.segment(first);
        let damaged = |why: String| data_dir.damaged(format!("{}: {why}", path.display()));
        let SegmentContents { records, end } = segment::read(data_dir, first)?;
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
            let path = data_dir.segment(first);
            let why = format!("{}: at byte {length}: the checksum does not match", path.display());
            return Err(data_dir.damaged(why));
        } else if first < expected {
            return Err(damaged(format!(
                "it begins with revision {first}, which the segment before it has too"
            )));
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
            return Err(format!("revision {revision} has a key with more than {FOLDERS_MAX} folders"));
        }
        let before = self.state.keys.get(&write.key).cloned();
        if !permits(&write, before.as_ref()) {
            return Err(format!("revision {revision} deletes {}, which does not exist", write.key));
        }
        let change = Arc::new(change_of(write, before, revision));
        // There are no watchers yet, and the files of dropped history stay until a checkpoint replaces them.
        self.state.apply(change, now, &mut Aftermath::default());
        Ok(())
    }
}
