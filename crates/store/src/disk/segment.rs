//! The log on disk: files of frames, each frame synced before the next is written.

use std::fs::{self, File};
use std::io::{self, Write};

use super::folder::{Folder, private};
use super::frame::{self, Found};

/// What a segment begins with.
const HEADER: [u8; 16] = *b"evenkeel log  1\n";

/// The segment that is being written.
#[derive(Debug)]
pub(crate) struct Segment {
    file: File,
    /// How long it is.
    pub(crate) length: u64,
}

/// Why a segment cannot be read.
#[derive(Debug)]
pub(crate) enum Unreadable {
    Io(io::Error),
    Damaged(String),
}

impl Segment {
    /// Begins a segment whose first revision will be `first`.
    pub(crate) fn create(folder: &Folder, first: u64) -> io::Result<Self> {
        let mut file = private().create(true).truncate(true).write(true).open(folder.segment(first))?;
        file.write_all(&HEADER)?;
        file.sync_all()?;
        folder.sync()?;
        Ok(Self { file, length: HEADER.len() as u64 })
    }

    /// Goes on with a segment after its last whole frame, cutting off what is behind it.
    pub(crate) fn resume(folder: &Folder, first: u64, length: u64) -> io::Result<Self> {
        if length < HEADER.len() as u64 {
            return Self::create(folder, first);
        }
        let file = private().append(true).open(folder.segment(first))?;
        if file.metadata()?.len() > length {
            file.set_len(length)?;
            file.sync_all()?;
        }
        Ok(Self { file, length })
    }

    /// One that cannot be written to.
    #[cfg(test)]
    pub(crate) fn that_fails(folder: &Folder, first: u64) -> Self {
        let file = File::open(folder.segment(first)).unwrap();
        Self { length: file.metadata().unwrap().len(), file }
    }

    /// Appends frames; when this returns they are durable.
    pub(crate) fn append(&mut self, frames: &[u8]) -> io::Result<()> {
        self.file.write_all(frames)?;
        self.file.sync_data()?;
        self.length += frames.len() as u64;
        Ok(())
    }
}

/// Reads a segment and hands out the bodies of its frames, for which `each` gives their last revision; gives how long its
/// whole part is.
///
/// The newest segment may end in a frame that was being written when the process or the machine stopped; it was not
/// acknowledged and is passed over. A broken frame with a whole one behind it is something else: the later one was only
/// begun when the earlier was durable, so what is broken had been acknowledged. (What a file system leaves behind the
/// end may hold whole frames of files that were removed; their revisions are earlier.)
pub(crate) fn read(
    folder: &Folder,
    first: u64,
    is_newest: bool,
    mut each: impl FnMut(&[u8]) -> Result<u64, String>,
) -> Result<u64, Unreadable> {
    let path = folder.segment(first);
    let damaged = |what: String| Unreadable::Damaged(format!("{}: {what}", path.display()));
    let bytes = fs::read(&path).map_err(Unreadable::Io)?;
    let mut place = HEADER.len();
    if !bytes.starts_with(&HEADER) {
        let begun = is_newest && HEADER.starts_with(&bytes);
        return if begun { Ok(0) } else { Err(damaged("it does not begin as a log".to_owned())) };
    }
    let mut revision = first - 1;
    loop {
        match frame::at(&bytes, place) {
            Found::Frame { body, next } => {
                revision = each(body).map_err(|what| damaged(format!("at byte {place}: {what}")))?;
                place = next;
            }
            Found::End => return Ok(place as u64),
            Found::Broken if is_newest && !frame::has_later(&bytes[place..], revision) => {
                return Ok(place as u64);
            }
            Found::Broken => return Err(damaged(format!("at byte {place}: the checksum does not match"))),
        }
    }
}
