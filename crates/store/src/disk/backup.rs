//! Backups: the state at one revision as a stream, which is restored completely or not at all.
//!
//! ```text
//! evenkeel snap 1\n     the name and version of the format
//! frame: beginning      the revision, the number of entries
//! frame: entries        any number of these frames
//! frame: end            the number of entries, a checksum of every byte before this frame
//! ```
//!
//! Every frame has a checksum of its own. The end frame distinguishes a complete stream from one that was cut between two
//! frames.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;

use super::checkpoint::{check_entry, keyspace_of};
use super::frame::{self, Next, Reader, StoredEntry};
use crate::keyspace::Keyspace;
use crate::{Entry, Header};

/// The beginning of every backup, before the version.
const NAME: &[u8] = b"evenkeel snap ";
/// The version that this code writes and reads, with the end of the line.
const VERSION: &[u8] = b"1\n";
/// The kind of a frame, the first byte of its body: revision and count.
const BEGINNING: u8 = 1;
/// The kind of a frame with entries.
const ENTRIES: u8 = 2;
/// The kind of the last frame.
const END: u8 = 3;
/// A frame ends when it is this long. With its last entry of up to 1.5 MiB, this bounds the memory of a stream, however
/// large the state is.
const FRAME_BYTES: usize = 256 << 10;
/// How many entries are read from the state at once.
const PAGE: usize = 128;
/// The highest plausible revision. No store reaches it, and a restored store continues far above its backup.
const REVISION_MAX: u64 = (i64::MAX / 2) as u64;

/// A backup as an iterator over the parts of its stream. It holds a snapshot of the state, which costs nothing until later
/// writes replace entries.
#[derive(Debug)]
pub struct BackupStream<H> {
    keys: Keyspace<H>,
    revision: u64,
    stage: Stage,
    /// Entries that were read from the state and are not written yet.
    page: VecDeque<Arc<Entry<H>>>,
    /// The last key that was read.
    taken: Option<Arc<str>>,
    checksum: crc32fast::Hasher,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Beginning,
    Entries,
    Ended,
}

impl<H> BackupStream<H> {
    pub(crate) fn new(keys: Keyspace<H>, revision: u64) -> Self {
        let (page, taken, checksum) = (VecDeque::new(), None, crc32fast::Hasher::new());
        Self { keys, revision, stage: Stage::Beginning, page, taken, checksum }
    }

    /// Returns the revision of the backup.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    fn count(&self) -> u64 {
        self.keys.count("") as u64
    }

    fn beginning(&self) -> Vec<u8> {
        let mut out = [NAME, VERSION].concat();
        frame::append(&mut out, |body| {
            body.push(BEGINNING);
            body.extend_from_slice(&self.revision.to_le_bytes());
            body.extend_from_slice(&self.count().to_le_bytes());
        });
        out
    }

    /// Returns the next frame of entries; `None` when all are written.
    fn entries(&mut self) -> Option<Vec<u8>> {
        let first = self.next_entry()?;
        let mut out = Vec::with_capacity(FRAME_BYTES);
        frame::append(&mut out, |body| {
            body.push(ENTRIES);
            frame::write_entries(body, &[first]);
            while body.len() < FRAME_BYTES
                && let Some(entry) = self.next_entry()
            {
                frame::write_entries(body, &[entry]);
            }
        });
        Some(out)
    }

    fn next_entry(&mut self) -> Option<Arc<Entry<H>>> {
        if self.page.is_empty() {
            self.page = self.keys.page("", self.taken.as_deref(), PAGE).0.into();
            self.taken = self.page.back().map(|entry| entry.key.clone()).or(self.taken.take());
        }
        self.page.pop_front()
    }

    fn end(&self) -> Vec<u8> {
        let mut out = Vec::new();
        frame::append(&mut out, |body| {
            body.push(END);
            body.extend_from_slice(&self.count().to_le_bytes());
            body.extend_from_slice(&self.checksum.clone().finalize().to_le_bytes());
        });
        out
    }
}

impl<H> Iterator for BackupStream<H> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let part = match self.stage {
            Stage::Beginning => {
                self.stage = Stage::Entries;
                self.beginning()
            }
            Stage::Entries => match self.entries() {
                Some(part) => part,
                None => {
                    self.stage = Stage::Ended;
                    return Some(self.end().into());
                }
            },
            Stage::Ended => return None,
        };
        self.checksum.update(&part);
        Some(part.into())
    }
}

/// Why a stream is not a complete backup.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// Reading failed.
    #[error("cannot read the snapshot: {0}")]
    Io(#[from] io::Error),
    /// The stream does not begin as a backup does.
    #[error("the file is not a snapshot of evenkeel")]
    Foreign,
    /// The backup has another format version.
    #[error("the snapshot has format {found}, and this version of evenkeel reads format 1")]
    Version {
        /// The version of the backup.
        found: String,
    },
    /// The backup is damaged.
    #[error("the snapshot is damaged at byte {at}: {why}")]
    Damaged {
        /// The offset of the damaged frame.
        at: u64,
        /// What is wrong.
        why: String,
    },
}

/// The size of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupSummary {
    /// The revision of the state.
    pub revision: u64,
    /// The number of keys.
    pub entries: u64,
    /// The length of the stream.
    pub bytes: u64,
}

/// A complete and undamaged backup in memory.
#[derive(Debug)]
pub struct Backup<H> {
    pub(crate) keys: Keyspace<H>,
    summary: BackupSummary,
}

impl<H: Header> Backup<H> {
    /// Reads a backup to the end of the stream and checks it.
    pub fn read(input: &mut impl Read) -> Result<Self, BackupError> {
        let mut entries = Vec::new();
        let summary = walk(input, |entry| entries.push(entry))?;
        let keys = keyspace_of(entries).map_err(|why| BackupError::Damaged { at: summary.bytes, why })?;
        Ok(Self { keys, summary })
    }

    /// Returns the size of the backup.
    pub fn summary(&self) -> BackupSummary {
        self.summary
    }
}

/// Checks a backup to the end of the stream, without keeping its entries.
pub fn verify_backup(input: &mut impl Read) -> Result<BackupSummary, BackupError> {
    walk(input, drop)
}

fn walk(input: &mut impl Read, mut each: impl FnMut(StoredEntry)) -> Result<BackupSummary, BackupError> {
    let mut walk = Walk { place: 0, body: Vec::new(), checksum: crc32fast::Hasher::new(), last: None };
    walk.name(input)?;
    let (revision, count) = walk.beginning(input)?;
    let mut found = 0;
    loop {
        let before = walk.checksum.clone().finalize();
        if walk.next(input)? == END {
            walk.check_end(count, before)?;
            break;
        }
        if walk.body[0] != ENTRIES {
            return Err(walk.damaged("a frame is in the wrong place"));
        }
        let entries = frame::read_entries(&walk.body[1..]);
        for entry in entries.ok_or_else(|| walk.damaged("a frame of entries cannot be decoded"))? {
            walk.check_entry(&entry, revision)?;
            found += 1;
            each(entry);
        }
        walk.advance();
    }
    if found != count {
        return Err(walk.damaged(&format!("it has {found} of its {count} entries")));
    }
    walk.advance();
    match input.read(&mut [0])? {
        0 => Ok(BackupSummary { revision, entries: count, bytes: walk.place }),
        _ => Err(walk.damaged("there are bytes after its end")),
    }
}

/// The state of reading a stream.
struct Walk {
    /// The offset of the frame that was read last.
    place: u64,
    /// The body of that frame.
    body: Vec<u8>,
    /// The checksum of all bytes before that frame.
    checksum: crc32fast::Hasher,
    /// The last key that was read.
    last: Option<Arc<str>>,
}

impl Walk {
    fn damaged(&self, why: &str) -> BackupError {
        BackupError::Damaged { at: self.place, why: why.to_owned() }
    }

    fn name(&mut self, input: &mut impl Read) -> Result<(), BackupError> {
        let mut start = Vec::with_capacity(NAME.len() + VERSION.len());
        input.take((NAME.len() + VERSION.len()) as u64).read_to_end(&mut start)?;
        let version = start.strip_prefix(NAME).ok_or(BackupError::Foreign)?;
        if version != VERSION {
            let found = String::from_utf8_lossy(version).trim_end().to_owned();
            return Err(BackupError::Version { found });
        }
        self.checksum.update(&start);
        self.place = start.len() as u64;
        Ok(())
    }

    /// Reads the next frame and returns its kind.
    fn next(&mut self, input: &mut impl Read) -> Result<u8, BackupError> {
        match frame::read(input, &mut self.body)? {
            Next::Frame => {}
            Next::End => return Err(self.damaged("it was cut off: its end is missing")),
            Next::Broken => return Err(self.damaged("the checksum does not match, or it was cut off here")),
        }
        self.body.first().copied().ok_or_else(|| self.damaged("a frame is empty"))
    }

    /// Reads the first frame: the revision and the number of entries.
    fn beginning(&mut self, input: &mut impl Read) -> Result<(u64, u64), BackupError> {
        if self.next(input)? != BEGINNING {
            return Err(self.damaged("a frame is in the wrong place"));
        }
        let mut reader = Reader(&self.body[1..]);
        let (revision, count) = match (reader.u64(), reader.u64(), reader.0) {
            (Some(revision @ ..=REVISION_MAX), Some(count), []) => (revision, count),
            _ => return Err(self.damaged("its first frame cannot be decoded")),
        };
        self.advance();
        Ok((revision, count))
    }

    /// Moves past the frame that was read last.
    fn advance(&mut self) {
        let mut whole = Vec::with_capacity(self.body.len());
        frame::append(&mut whole, |body| body.extend_from_slice(&self.body));
        self.checksum.update(&whole);
        self.place += whole.len() as u64;
    }

    fn check_entry(&mut self, entry: &StoredEntry, revision: u64) -> Result<(), BackupError> {
        check_entry(self.last.as_deref(), entry, revision).map_err(|why| self.damaged(&why))?;
        self.last = Some(entry.key.clone());
        Ok(())
    }

    fn check_end(&self, count: u64, checksum: u32) -> Result<(), BackupError> {
        let mut expected = count.to_le_bytes().to_vec();
        expected.extend_from_slice(&checksum.to_le_bytes());
        match self.body[1..] == expected {
            true => Ok(()),
            false => Err(self.damaged("its end does not match what is before it")),
        }
    }
}
