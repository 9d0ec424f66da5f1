//! From files back to a state: the oldest checkpoint, and the log from there on.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;

use super::checkpoint;
use super::folder::{Folder, Listing};
use super::frame::{self, Record};
use super::segment::{self, Unreadable};
use crate::keyspace::Keyspace;
use crate::state::{Aftermath, FIRST_REVISION, State, change_of};
use crate::{Expect, Header, Op, OpenError, Options, Write};

/// What was found.
#[derive(Debug)]
pub(crate) struct Recovered<H> {
    pub(crate) state: State<H>,
    /// Its checkpoints begin with the one it starts from; the empty state of the first revision is one without a file,
    /// which is there while the segment after it is.
    pub(crate) listing: Listing,
    /// The segment to go on with, and how long its whole part is.
    pub(crate) newest: Option<(u64, u64)>,
    /// The size of the newest checkpoint, and of the log after it.
    pub(crate) checkpoint_bytes: u64,
    pub(crate) log_bytes: u64,
}

/// Reads everything and changes nothing.
///
/// All changes since the oldest checkpoint become history again, within the bounds of the options: whoever watched
/// before a restart can go on after it.
pub(crate) fn recover<H: Header>(folder: &Folder, options: Options) -> Result<Recovered<H>, OpenError> {
    let mut listing = folder.list().map_err(|source| folder.io_error(source))?;
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
            std::fs::metadata(folder.checkpoint(newest)).map_err(|source| folder.io_error(source))?.len()
        }
        _ => 0,
    };
    let state = State::new(base, keys, options);
    let mut recovered = Recovered { state, listing, newest: None, checkpoint_bytes, log_bytes: 0 };
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
        let newest_checkpoint = self.listing.checkpoints.last().copied().unwrap_or(0);
        let now = Instant::now();
        for first in &segments {
            if *first != self.state.revision + 1 {
                let from = self.state.revision + 1;
                return Err(
                    folder.damaged(format!("the log from revision {from} to {} is missing", first - 1))
                );
            }
            let is_newest = segments.last() == Some(first);
            let length = segment::read(folder, *first, is_newest, |body| self.replay_frame(body, now))
                .map_err(|error| match error {
                    Unreadable::Io(source) => folder.io_error(source),
                    Unreadable::Damaged(why) => folder.damaged(why),
                })?;
            if *first > newest_checkpoint {
                self.log_bytes += length;
            }
            self.newest = Some((*first, length));
        }
        Ok(())
    }

    fn replay_frame(&mut self, body: &[u8], now: Instant) -> Result<u64, String> {
        let (first, records) =
            frame::read_changes(body).ok_or("a frame holds something else than changes")?;
        if first != self.state.revision + 1 {
            return Err(format!("revision {first} follows {}", self.state.revision));
        }
        records.into_iter().try_for_each(|record| self.replay_record(record, now))?;
        Ok(self.state.revision)
    }

    fn replay_record(&mut self, record: Record<'_>, now: Instant) -> Result<(), String> {
        let revision = self.state.revision + 1;
        let before = self.state.keys.get(record.key).cloned();
        let op = match record.value {
            Some(value) => {
                let value = Bytes::copy_from_slice(value);
                let header = H::parse(record.key, &value).map_err(|why| format!("{}: {why}", record.key))?;
                Op::Put(value, header)
            }
            None if before.is_none() => {
                return Err(format!("revision {revision} deletes {}, which does not exist", record.key));
            }
            None => Op::Delete,
        };
        let write = Write { key: record.key.into(), expect: Expect::Any, op };
        let change = Arc::new(change_of(write, before, revision));
        // Nobody watches yet, and what leaves the log stays on disk until a checkpoint is behind it.
        self.state.apply(change, now, &mut Aftermath::default());
        Ok(())
    }
}
