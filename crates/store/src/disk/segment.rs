//! The log on disk: files of frames, each frame synced before the next is written.

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
    /// How long it is.
    pub(crate) length: u64,
}

/// What could be read of a segment.
#[derive(Debug)]
pub(crate) struct Whole {
    /// Its changes; the first is that of the segment's first revision.
    pub(crate) records: Vec<Record>,
    /// How long its whole part is.
    pub(crate) length: u64,
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

    /// Goes on with a segment after its last whole frame, cutting off what is behind it.
    pub(crate) fn resume(folder: &Folder, first: u64, length: u64) -> io::Result<Self> {
        if length < HEADER.len() as u64 {
            return Self::create(folder, first);
        }
        let path = folder.segment(first);
        let mut file = folder.files().open(&path)?;
        if folder.files().length(&path)? > length {
            file.set_len(length)?;
            file.sync()?;
        }
        Ok(Self { file, length })
    }

    /// A segment that cannot be written to.
    #[cfg(test)]
    pub(crate) fn that_fails(folder: &Folder, first: u64) -> Self {
        let length = folder.files().length(&folder.segment(first)).unwrap();
        Self { file: Box::new(ReadOnly), length }
    }

    /// Appends frames; when this returns they are durable.
    pub(crate) fn append(&mut self, frames: &[u8]) -> io::Result<()> {
        self.file.write_at(self.length, frames)?;
        self.file.sync()?;
        self.length += frames.len() as u64;
        Ok(())
    }
}

/// Reads a segment.
///
/// The newest segment may end in a frame that was being written when the process or the machine stopped; it was not
/// acknowledged and is passed over. A broken frame with a whole one behind it is something else: the later one was
/// only begun when the earlier was durable, so what is broken had been acknowledged. (What a file system leaves
/// behind the end may hold whole frames of files that were removed; their revisions are earlier.)
pub(crate) fn read(folder: &Folder, first: u64, is_newest: bool) -> Result<Whole, OpenError> {
    let path = folder.segment(first);
    let damaged = |what: String| folder.damaged(format!("{}: {what}", path.display()));
    let bytes = folder.read(&path).map_err(|source| folder.io_error(source))?;
    let mut records = Vec::new();
    if !bytes.starts_with(&HEADER) {
        let begun = is_newest && HEADER.starts_with(&bytes);
        return if begun {
            Ok(Whole { records, length: 0 })
        } else {
            Err(damaged("it is no log".to_owned()))
        };
    }
    let mut place = HEADER.len();
    loop {
        let next_revision = first + records.len() as u64;
        match frame::at(&bytes, place) {
            Found::Frame { body, next } => {
                let changes = changes_of(body, next_revision);
                records.extend(changes.map_err(|what| damaged(format!("at byte {place}: {what}")))?);
                place = next;
            }
            Found::Broken if !is_newest || frame::has_later(&bytes[place..], next_revision) => {
                return Err(damaged(format!("at byte {place}: the checksum does not match")));
            }
            Found::End | Found::Broken => return Ok(Whole { records, length: place as u64 }),
        }
    }
}

fn changes_of(body: &[u8], expected: u64) -> Result<Vec<Record>, String> {
    let (first, records) = frame::read_changes(body).ok_or("a frame holds something else than changes")?;
    if first == expected {
        Ok(records)
    } else {
        Err(format!("revision {first} stands where {expected} should"))
    }
}

/// A file to which every write fails.
#[cfg(test)]
#[derive(Debug)]
struct ReadOnly;

#[cfg(test)]
impl OpenFile for ReadOnly {
    fn write_at(&mut self, _: u64, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn set_len(&mut self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn reserve(&mut self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}
