//! The segments of the log: files of frames. Each frame is synced before the next is written.
//!
//! So after a crash a segment can look as follows:
//!
//! * Every frame but the last of the log was synced. A broken frame before a whole one had been durable: that is damage.
//! * The last frame may be torn, if its sync did not return. It was not acknowledged, and is cut off.
//! * The last frame may be whole but not durable: the process ended before its sync returned, or the sync failed and the
//!   kernel treated the pages as clean. So [`Segment::resume`] writes the frame again and syncs it before it becomes visible.
//!   Another sync alone is not enough, because it has nothing to write.
//! * A file may exist while its header is not durable. No frame is written before the header is durable, so that a file
//!   without a header and no longer than one is empty.

use std::io;

use super::data_dir::DataDir;
use super::files::OpenFile;
use super::frame::{self, Found, Record};
use crate::OpenError;

/// The first bytes of a segment.
const HEADER: [u8; 16] = *b"evenkeel log  1\n";

/// The segment that is being written.
#[derive(Debug)]
pub(crate) struct Segment {
    file: Box<dyn OpenFile>,
    /// The length of the durable part, which ends with a whole frame.
    length: u64,
}

/// A frame that could not be appended.
#[derive(Debug)]
pub(crate) enum AppendError {
    /// The disk is full. The segment is unchanged, durably, and another frame can be tried.
    NoRoom(io::Error),
    /// Whether the frame was written is unknown until the segment is opened again. Nothing more may be written, because the
    /// contents of the file are unknown.
    Unknown(io::Error),
}

/// The readable part of a segment.
#[derive(Debug)]
pub(crate) struct SegmentContents {
    /// The changes, beginning with the segment's first revision.
    pub(crate) records: Vec<Record>,
    /// Where to continue.
    pub(crate) end: End,
}

/// The end of the whole frames of a segment.
#[derive(Debug)]
pub(crate) struct End {
    /// The segment's first revision.
    pub(crate) first: u64,
    /// The length of the whole part; zero if the header is incomplete.
    pub(crate) length: u64,
    /// The number of bytes of a torn frame after it.
    pub(crate) torn: u64,
    /// The last frame, or the header if there is none. It may not be durable yet.
    last: Vec<u8>,
}

impl End {
    /// Whether the segment has no frame, not even a torn one.
    pub(crate) fn is_only_begun(&self) -> bool {
        self.length + self.torn <= HEADER.len() as u64
    }
}

impl Segment {
    /// Creates a segment whose first revision will be `first`.
    pub(crate) fn create(data_dir: &DataDir, first: u64) -> io::Result<Self> {
        let mut file = data_dir.files().create(&data_dir.segment(first))?;
        file.write_at(0, &HEADER)?;
        file.sync()?;
        data_dir.sync()?;
        Ok(Self { file, length: HEADER.len() as u64 })
    }

    /// Continues a segment after its last whole frame: cuts off a torn frame, and makes the last whole frame durable. The
    /// caller must sync the directory.
    pub(crate) fn resume(data_dir: &DataDir, end: &End) -> io::Result<Self> {
        if end.length < HEADER.len() as u64 {
            return Self::create(data_dir, end.first);
        }
        let path = data_dir.segment(end.first);
        let mut file = data_dir.files().open(&path)?;
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

    /// Whether the segment has a frame.
    pub(crate) fn has_frames(&self) -> bool {
        self.length > HEADER.len() as u64
    }

    /// Appends a frame and makes it durable.
    ///
    /// A write that fails for lack of room is undone: the file is truncated to its old length and synced. Until then the
    /// incomplete frame is harmless, because it is never read as a frame. Any other failure is final, above all a failed sync,
    /// whatever its error: the kernel has dropped what it could not write.
    pub(crate) fn append(&mut self, frame: &[u8]) -> Result<(), AppendError> {
        if let Err(error) = self.file.write_at(self.length, frame) {
            let is_undone = is_out_of_room(&error) && self.undo().is_ok();
            return Err(if is_undone { AppendError::NoRoom(error) } else { AppendError::Unknown(error) });
        }
        self.file.sync().map_err(AppendError::Unknown)?;
        self.length += frame.len() as u64;
        Ok(())
    }

    fn undo(&mut self) -> io::Result<()> {
        self.file.set_len(self.length)?;
        self.file.sync()
    }
}

fn is_out_of_room(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Reads a segment up to its end or to a torn frame. The caller decides whether it may end with a torn frame.
///
/// A broken frame before a whole one is damage, because the later one was written only when the earlier was durable. (After
/// the end, a file system may leave whole frames of removed files; their revisions are earlier.)
pub(crate) fn read(data_dir: &DataDir, first: u64) -> Result<SegmentContents, OpenError> {
    let path = data_dir.segment(first);
    let damaged = |what: String| data_dir.damaged(format!("{}: {what}", path.display()));
    let bytes = data_dir.read(&path).map_err(|source| data_dir.file_error(&path, source))?;
    let mut records = Vec::new();
    if !bytes.starts_with(&HEADER) {
        if bytes.len() > HEADER.len() {
            return Err(damaged("it is not a log".to_owned()));
        }
        let end = End { first, length: 0, torn: bytes.len() as u64, last: Vec::new() };
        return Ok(SegmentContents { records, end });
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
                return Ok(SegmentContents { records, end });
            }
        }
    }
}

fn changes_of(body: &[u8], expected: u64) -> Result<Vec<Record>, String> {
    let (first, records) = frame::read_changes(body).ok_or("a frame of changes cannot be decoded")?;
    if first != expected {
        return Err(format!("revision {first} is where {expected} should be"));
    }
    if records.is_empty() {
        return Err("a frame has no changes".to_owned());
    }
    Ok(records)
}
