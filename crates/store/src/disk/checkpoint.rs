//! A checkpoint: the whole state as of a revision, so that the log before it need not be kept.
//!
//! [`encode`] and [`decode`] are for any stream; [`write`] and [`read`] are about the files of a data directory.

use std::fmt;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::files::OpenFile;
use super::folder::Folder;
use super::frame::{self, Kept, Reader};
use super::headers;
use crate::keyspace::{FOLDERS_MAX, Keyspace, is_too_deep};
use crate::{Entry, Header, OpenError};

/// What a checkpoint begins with.
const HEADER: [u8; 16] = *b"evenkeel state1\n";
/// How many entries are written as one frame; with Kubernetes' objects, of a few KiB, some hundred KiB.
const ENTRIES_PER_FRAME: usize = 128;
/// How much is handed to the file system at once: large enough that the calls do not count.
const BUFFER_BYTES: usize = 1 << 20;

/// Why a stream is no checkpoint.
#[derive(Debug)]
pub(crate) enum DecodeError {
    /// Reading failed.
    Io(io::Error),
    /// What was read is not what was written.
    Damaged(String),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Damaged(why) => f.write_str(why),
        }
    }
}

impl From<io::Error> for DecodeError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<&str> for DecodeError {
    fn from(why: &str) -> Self {
        Self::Damaged(why.to_owned())
    }
}

/// Writes the state as of a revision. It is given up with an error when `cancelled` is set.
pub(crate) fn encode<H>(
    out: &mut impl Write,
    keys: &Keyspace<H>,
    revision: u64,
    cancelled: &AtomicBool,
) -> io::Result<()> {
    out.write_all(&HEADER)?;
    let mut buffer = Vec::new();
    frame::append(&mut buffer, |body| {
        body.extend_from_slice(&revision.to_le_bytes());
        body.extend_from_slice(&(keys.count("") as u64).to_le_bytes());
    });
    let mut written: Option<Arc<str>> = None;
    loop {
        out.write_all(&buffer)?;
        if cancelled.load(Ordering::Relaxed) {
            return Err(io::Error::other("the store is being closed"));
        }
        let (entries, _) = keys.page("", written.as_deref(), ENTRIES_PER_FRAME);
        let Some(last) = entries.last() else { return Ok(()) };
        written = Some(last.key.clone());
        buffer.clear();
        frame::append(&mut buffer, |body| frame::write_entries(body, &entries));
    }
}

/// How many bytes [`encode`] writes.
pub(crate) fn length_of<H>(keys: &Keyspace<H>) -> u64 {
    let mut length = HEADER.len() as u64 + frame::length_of(&[0; 2 * size_of::<u64>()]);
    let mut counted: Option<Arc<str>> = None;
    loop {
        let (entries, _) = keys.page("", counted.as_deref(), ENTRIES_PER_FRAME);
        let Some(last) = entries.last() else { return length };
        counted = Some(last.key.clone());
        length += frame::length_of(&[]) + frame::entries_length(&entries);
    }
}

/// Reads what [`encode`] wrote, to the end of the stream: the revision and the state.
pub(crate) fn decode<H: Header>(input: &mut impl Read) -> Result<(u64, Keyspace<H>), DecodeError> {
    let mut header = Vec::with_capacity(HEADER.len());
    input.take(HEADER.len() as u64).read_to_end(&mut header)?;
    if header != HEADER {
        return Err("it does not begin as a checkpoint".into());
    }
    let mut frames = Frames { input, place: HEADER.len() as u64, body: Vec::new() };
    let mut head = Reader(frames.next()?.ok_or("it is empty")?);
    let revision = head.u64().ok_or("it does not say of which revision it is")?;
    let count = head.u64().ok_or("it does not say how much it holds")?;
    let mut entries = Vec::new();
    while let Some(body) = frames.next()? {
        entries.extend(frame::read_entries(body).ok_or("a frame holds something else than entries")?);
    }
    if entries.len() as u64 != count {
        return Err(DecodeError::Damaged(format!("it holds {} of its {count} keys", entries.len())));
    }
    check(&entries, revision).map_err(DecodeError::Damaged)?;
    Ok((revision, keyspace_of(entries).map_err(DecodeError::Damaged)?))
}

/// Whether entries can be the state as of a revision, in the order in which they are written.
fn check(entries: &[Kept], newest: u64) -> Result<(), String> {
    let mut before: Option<&str> = None;
    for entry in entries {
        check_entry(before, entry, newest)?;
        before = Some(&entry.key);
    }
    Ok(())
}

/// Whether an entry can come after the key `before` in the state as of a revision.
pub(crate) fn check_entry(before: Option<&str>, entry: &Kept, newest: u64) -> Result<(), String> {
    let Kept { key, create_revision, revision, .. } = entry;
    if before.is_some_and(|before| *before >= **key) {
        return Err(format!("{key:?} is out of order"));
    }
    if is_too_deep(key) {
        return Err(format!("a key lies in more than {FOLDERS_MAX} folders"));
    }
    if !(1..=*revision).contains(create_revision) || *revision > newest {
        return Err(format!("{key:?} was created at {create_revision} and written at {revision}"));
    }
    Ok(())
}

pub(crate) fn keyspace_of<H: Header>(entries: Vec<Kept>) -> Result<Keyspace<H>, String> {
    let values: Vec<_> = entries.iter().map(|entry| (&*entry.key, &entry.value)).collect();
    let headers = headers::make(&values)?;
    let mut keys = Keyspace::new();
    for (Kept { key, value, create_revision, revision }, header) in entries.into_iter().zip(headers) {
        keys.insert(Arc::new(Entry { key, value, header, create_revision, revision }));
    }
    Ok(keys)
}

/// The frames of a stream, one after the other.
struct Frames<'a, R> {
    input: &'a mut R,
    /// Where in the stream the next frame begins.
    place: u64,
    body: Vec<u8>,
}

impl<R: Read> Frames<'_, R> {
    /// The body of the next frame; none at the end of the stream.
    fn next(&mut self) -> Result<Option<&[u8]>, DecodeError> {
        match frame::read(self.input, &mut self.body)? {
            frame::Next::End => Ok(None),
            frame::Next::Broken => {
                let why = format!("at byte {}: the checksum does not match", self.place);
                Err(DecodeError::Damaged(why))
            }
            frame::Next::Frame => {
                self.place += frame::length_of(&self.body);
                Ok(Some(&self.body))
            }
        }
    }
}

/// Writes the state as of a revision as a file; gives its size. The file has its name only when it is whole and
/// durable, and never gets it once `cancelled` is set.
///
/// After a failure nothing of it is left, and no room on the disk is taken: the next attempt starts afresh. If even
/// the removal fails, or is lost in a crash, what is left is a file without its name, which the next attempt or opening
/// replaces, or a whole checkpoint, which must be gone before the log after it is.
pub(crate) fn write<H>(
    folder: &Folder,
    keys: &Keyspace<H>,
    revision: u64,
    cancelled: &AtomicBool,
) -> io::Result<u64> {
    let (unfinished, finished) = (folder.unfinished(), folder.checkpoint(revision));
    let written = write_unfinished(folder, keys, revision, cancelled);
    let named = written.and_then(|length| {
        folder.files().rename(&unfinished, &finished)?;
        folder.sync()?;
        Ok(length)
    });
    if named.is_err() {
        let removed = [&finished, &unfinished].map(|path| folder.remove(path));
        for error in removed.into_iter().filter_map(Result::err) {
            tracing::warn!(%error, "cannot remove what a failed checkpoint has left");
        }
    }
    named
}

fn write_unfinished<H>(
    folder: &Folder,
    keys: &Keyspace<H>,
    revision: u64,
    cancelled: &AtomicBool,
) -> io::Result<u64> {
    let mut file = folder.files().create(&folder.unfinished())?;
    // A disk that is too full says so here, before it is filled further.
    file.reserve(length_of(keys))?;
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, Appending { file, length: 0 });
    encode(&mut out, keys, revision, cancelled)?;
    let Appending { mut file, length } = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync()?;
    Ok(length)
}

/// A new file as a stream.
struct Appending {
    file: Box<dyn OpenFile>,
    length: u64,
}

impl Write for Appending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_at(self.length, bytes)?;
        self.length += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads a checkpoint back. It had its name only when it was whole, so whatever is wrong with it is damage.
pub(crate) fn read<H: Header>(folder: &Folder, revision: u64) -> Result<Keyspace<H>, OpenError> {
    let path = folder.checkpoint(revision);
    let file = folder.files().read(&path).map_err(|source| folder.file_error(&path, source))?;
    let damaged = |why: &dyn fmt::Display| folder.damaged(format!("{}: {why}", path.display()));
    match decode(&mut BufReader::with_capacity(BUFFER_BYTES, file)) {
        Ok((found, keys)) if found == revision => Ok(keys),
        Ok(_) => Err(damaged(&"it is of another revision than its name says")),
        Err(DecodeError::Io(source)) => Err(folder.file_error(&path, source)),
        Err(DecodeError::Damaged(why)) => Err(damaged(&why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyspace(count: u64) -> Keyspace<()> {
        let mut keys = Keyspace::new();
        for nth in 0..count {
            let (key, value) = (format!("/a/{nth}").into(), "x".repeat(nth as usize % 50).into());
            keys.insert(Arc::new(Entry { key, value, header: (), create_revision: 1, revision: 1 + nth }));
        }
        keys
    }

    #[test]
    fn what_was_encoded_is_decoded_and_as_long_as_was_said() {
        for count in [0, 1, ENTRIES_PER_FRAME as u64, 300] {
            let keys = keyspace(count);
            let mut bytes = Vec::new();
            encode(&mut bytes, &keys, 400, &AtomicBool::new(false)).unwrap();
            assert_eq!(bytes.len() as u64, length_of(&keys), "{count} keys");
            let (revision, decoded) = decode::<()>(&mut &bytes[..]).unwrap();
            assert_eq!(revision, 400);
            let entries = |keys: &Keyspace<()>| {
                let page = keys.page("", None, usize::MAX).0;
                page.iter()
                    .map(|entry| (entry.key.clone(), entry.value.clone(), entry.revision))
                    .collect::<Vec<_>>()
            };
            assert_eq!(entries(&decoded), entries(&keys));
        }
    }

    #[test]
    fn a_stream_that_is_cut_or_changed_anywhere_is_refused() {
        let mut bytes = Vec::new();
        encode(&mut bytes, &keyspace(130), 400, &AtomicBool::new(false)).unwrap();
        for end in 0..bytes.len() {
            assert!(decode::<()>(&mut &bytes[..end]).is_err(), "cut at {end}");
        }
        for place in 0..bytes.len() {
            bytes[place] ^= 0x20;
            assert!(decode::<()>(&mut &bytes[..]).is_err(), "changed at {place}");
            bytes[place] ^= 0x20;
        }
    }
}
