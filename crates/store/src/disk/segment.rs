//! The log on disk: files of frames, each frame synced before the next is written.
//!
//! From that one rule follows what a segment can look like after a crash:
//!
//! * Every frame but the last of the log was synced. A broken frame with a whole one behind it had been durable: that
//!   is damage.
//! * The last frame may be torn, if its sync did not return: it was not acknowledged, and is cut off.
//! * The last frame may be whole and still not be durable: the process ended before its sync returned, or the sync
//!   failed and the kernel took the pages for clean. So [`Segment::resume`] writes it once more and syncs it before
//!   anybody is shown what it holds. Another sync alone would not do: it has nothing to write.
//! * A file may have been created, and its header may not be durable. No frame is written before the header is, so
//!   that a file without a header and no longer than one was begun and holds nothing.

use std::io;

use super::files::OpenFile;
use super::folder::Folder;
use super::frame::{self, Found, Record};
use crate::OpenError;

/// What a segment begins with.
const HEADER: [u8; 16] = *b"evenkeel log  1\n";

/// The segment that is being written.
#[derive(Debug)]
pub(crate) struct Segment {
    file: Box<dyn OpenFile>,
    /// How long its durable part is, which ends with a whole frame.
    length: u64,
}

/// A frame that could not be appended.
#[derive(Debug)]
pub(crate) enum AppendError {
    /// There is no room for the frame. The segment is as it was before, durably; another frame can be tried.
    NoRoom(io::Error),
    /// Whether the frame is there will show when the directory is opened again. Nothing more may be written: nobody
    /// knows what the file holds.
    Unknown(io::Error),
}

/// What could be read of a segment.
#[derive(Debug)]
pub(crate) struct Whole {
    /// Its changes; the first is that of the segment's first revision.
    pub(crate) records: Vec<Record>,
    /// Where to go on.
    pub(crate) end: End,
}

/// The end of what is whole in a segment.
#[derive(Debug)]
pub(crate) struct End {
    /// The segment's first revision.
    pub(crate) first: u64,
    /// How long the whole part is; zero if not even the header is whole.
    pub(crate) length: u64,
    /// How many bytes of a torn frame are behind it.
    pub(crate) torn: u64,
    /// The last frame, or the header if there is none: what may not be durable yet.
    last: Vec<u8>,
}

impl End {
    /// Whether no frame was ever begun in this segment.
    pub(crate) fn is_only_begun(&self) -> bool {
        self.length + self.torn <= HEADER.len() as u64
    }
}

impl Segment {
    /// Begins a segment whose first revision will be `first`.
    pub(crate) fn create(folder: &Folder, first: u64) -> io::Result<Self> {
        let mut file = folder.files().create(&folder.segment(first))?;
        file.write_at(0, &HEADER)?;
        file.sync()?;
        folder.sync()?;
        Ok(Self { file, length: HEADER.len() as u64 })
    }

    /// Goes on with a segment after its last whole frame: cuts off what is behind it and makes sure that the frame is
    /// durable. The directory is left to be synced by the caller.
    pub(crate) fn resume(folder: &Folder, end: &End) -> io::Result<Self> {
        if end.length < HEADER.len() as u64 {
            return Self::create(folder, end.first);
        }
        let path = folder.segment(end.first);
        let mut file = folder.files().open(&path)?;
        if end.torn > 0 {
            file.set_len(end.length)?;
        }
        file.write_at(end.length - end.last.len() as u64, &end.last)?;
        file.sync()?;
        if end.torn > 0 {
            let (file, offset, bytes) = (path.display(), end.length, end.torn);
            tracing::warn!(%file, offset, bytes, "cut off a torn frame at the end of the log; it was not acknowledged");
        }
        Ok(Self { file, length: end.length })
    }

    /// Whether it holds a frame.
    pub(crate) fn has_frames(&self) -> bool {
        self.length > HEADER.len() as u64
    }

    /// Appends a frame; when this returns it is durable.
    ///
    /// A write that runs out of room is taken back: the frame is incomplete, so that nothing can take it for one, and
    /// once the file is cut to its old length and synced it is as it was. Any other failure is final. That goes for
    /// a failed sync above all, whatever its error is: the kernel has dropped what it could not write.
    pub(crate) fn append(&mut self, frame: &[u8]) -> Result<(), AppendError> {
        if let Err(error) = self.file.write_at(self.length, frame) {
            let is_taken_back = is_out_of_room(&error) && self.take_back().is_ok();
            return Err(if is_taken_back { AppendError::NoRoom(error) } else { AppendError::Unknown(error) });
        }
        self.file.sync().map_err(AppendError::Unknown)?;
        self.length += frame.len() as u64;
        Ok(())
    }

    fn take_back(&mut self) -> io::Result<()> {
        self.file.set_len(self.length)?;
        self.file.sync()
    }
}

fn is_out_of_room(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Reads a segment up to its end or to a torn frame; whether it may end in one is for the caller to say.
///
/// A broken frame with a whole one behind it is damage: the later one was only begun when the earlier was durable.
/// (What a file system leaves behind the end may hold whole frames of files that were removed; their revisions are
/// earlier.)
pub(crate) fn read(folder: &Folder, first: u64) -> Result<Whole, OpenError> {
    let path = folder.segment(first);
    let damaged = |what: String| folder.damaged(format!("{}: {what}", path.display()));
    let bytes = folder.read(&path).map_err(|source| folder.file_error(&path, source))?;
    let mut records = Vec::new();
    if !bytes.starts_with(&HEADER) {
        if bytes.len() > HEADER.len() {
            return Err(damaged("it is no log".to_owned()));
        }
        let end = End { first, length: 0, torn: bytes.len() as u64, last: Vec::new() };
        return Ok(Whole { records, end });
    }
    let (mut last, mut place) = (0, HEADER.len());
    loop {
        let next_revision = first + records.len() as u64;
        match frame::at(&bytes, place) {
            Found::Frame { body, next } => {
                let changes = changes_of(body, next_revision);
                records.extend(changes.map_err(|what| damaged(format!("at byte {place}: {what}")))?);
                (last, place) = (place, next);
            }
            Found::Broken if frame::may_have_later(&bytes[place..], next_revision) => {
                return Err(damaged(format!("at byte {place}: the checksum does not match")));
            }
            Found::End | Found::Broken => {
                let (length, torn) = (place as u64, (bytes.len() - place) as u64);
                let end = End { first, length, torn, last: bytes[last..place].to_vec() };
                return Ok(Whole { records, end });
            }
        }
    }
}

fn changes_of(body: &[u8], expected: u64) -> Result<Vec<Record>, String> {
    let (first, records) = frame::read_changes(body).ok_or("a frame holds something else than changes")?;
    if first != expected {
        return Err(format!("revision {first} stands where {expected} should"));
    }
    if records.is_empty() {
        return Err("a frame holds no change".to_owned());
    }
    Ok(records)
}
