//! Checkpoints: the state at a revision, so that the log before it is no longer needed.
//!
//! [`encode`] and [`decode`] work on any stream; [`write`] and [`read`] work on the files of a data directory.

use std::fmt;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::data_dir::DataDir;
use super::files::OpenFile;
use super::frame::{self, Reader, StoredEntry};
use super::headers;
use crate::keyspace::{FOLDERS_MAX, Keyspace, is_too_deep};
use crate::{Entry, Header, OpenError};

/// The first bytes of a checkpoint.
const HEADER: [u8; 16] = *b"evenkeel state1\n";
/// How many entries a frame has: some hundred KiB with Kubernetes objects of a few KiB.
const ENTRIES_PER_FRAME: usize = 128;
/// The size of the write and read buffers: large enough that the cost of system calls does not matter.
const BUFFER_BYTES: usize = 1 << 20;

/// Why a stream is not a checkpoint.
#[derive(Debug)]
pub(crate) enum DecodeError {
    /// Reading failed.
    Io(io::Error),
    /// The checkpoint is damaged.
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

/// Writes the state at a revision. Fails when `cancelled` is set.
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

/// Returns how many bytes [`encode`] writes.
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

/// Reads a checkpoint to the end of the stream: the revision and the state.
pub(crate) fn decode<H: Header>(input: &mut impl Read) -> Result<(u64, Keyspace<H>), DecodeError> {
    let mut header = Vec::with_capacity(HEADER.len());
    input.take(HEADER.len() as u64).read_to_end(&mut header)?;
    if header != HEADER {
        return Err("it does not begin as a checkpoint does".into());
    }
    let mut frames = Frames { input, place: HEADER.len() as u64, body: Vec::new() };
    let mut head = Reader(frames.next()?.ok_or("it is empty")?);
    let revision = head.u64().ok_or("its revision is missing")?;
    let count = head.u64().ok_or("its number of keys is missing")?;
    let mut entries = Vec::new();
    while let Some(body) = frames.next()? {
        entries.extend(frame::read_entries(body).ok_or("a frame of entries cannot be decoded")?);
    }
    if entries.len() as u64 != count {
        return Err(DecodeError::Damaged(format!("it has {} of its {count} keys", entries.len())));
    }
    check(&entries, revision).map_err(DecodeError::Damaged)?;
    Ok((revision, keyspace_of(entries).map_err(DecodeError::Damaged)?))
}

/// Checks that entries are in order and can be the state at a revision.
fn check(entries: &[StoredEntry], newest: u64) -> Result<(), String> {
    let mut before: Option<&str> = None;
    for entry in entries {
        check_entry(before, entry, newest)?;
        before = Some(&entry.key);
    }
    Ok(())
}

/// Checks that an entry can follow the key `before` in the state at revision `newest`.
pub(crate) fn check_entry(before: Option<&str>, entry: &StoredEntry, newest: u64) -> Result<(), String> {
    let StoredEntry { key, create_revision, revision, .. } = entry;
    if before.is_some_and(|before| *before >= **key) {
        return Err(format!("{key:?} is out of order"));
    }
    if is_too_deep(key) {
        return Err(format!("a key has more than {FOLDERS_MAX} folders"));
    }
    if !(1..=*revision).contains(create_revision) || *revision > newest {
        return Err(format!("{key:?} was created at {create_revision} and written at {revision}"));
    }
    Ok(())
}

pub(crate) fn keyspace_of<H: Header>(entries: Vec<StoredEntry>) -> Result<Keyspace<H>, String> {
    let values: Vec<_> = entries.iter().map(|entry| (&*entry.key, &entry.value)).collect();
    let headers = headers::make(&values)?;
    let mut keys = Keyspace::new();
    for (StoredEntry { key, value, create_revision, revision }, header) in entries.into_iter().zip(headers) {
        keys.insert(Arc::new(Entry { key, value, header, create_revision, revision }));
    }
    Ok(keys)
}

/// Reads the frames of a stream.
struct Frames<'a, R> {
    input: &'a mut R,
    /// The offset of the next frame.
    place: u64,
    body: Vec<u8>,
}

impl<R: Read> Frames<'_, R> {
    /// Returns the body of the next frame; `None` at the end of the stream.
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

/// Writes the state at a revision to a file and returns its size. The file gets its final name only when it is complete and
/// durable, and never after `cancelled` is set.
///
/// After a failure the file is removed, so that it takes no disk space. If the removal fails too, or is lost in a crash, there
/// remains either a file with its temporary name, which the next attempt or opening replaces, or a complete checkpoint, which
/// must be removed before the log after it.
pub(crate) fn write<H>(
    data_dir: &DataDir,
    keys: &Keyspace<H>,
    revision: u64,
    cancelled: &AtomicBool,
) -> io::Result<u64> {
    let (unfinished, finished) = (data_dir.unfinished(), data_dir.checkpoint(revision));
    let written = write_unfinished(data_dir, keys, revision, cancelled);
    let named = written.and_then(|length| {
        data_dir.files().rename(&unfinished, &finished)?;
        data_dir.sync()?;
        Ok(length)
    });
    if named.is_err() {
        let removed = [&finished, &unfinished].map(|path| data_dir.remove(path));
        for error in removed.into_iter().filter_map(Result::err) {
            tracing::warn!(%error, "cannot remove the file of a failed checkpoint");
        }
    }
    named
}

fn write_unfinished<H>(
    data_dir: &DataDir,
    keys: &Keyspace<H>,
    revision: u64,
    cancelled: &AtomicBool,
) -> io::Result<u64> {
    let mut file = data_dir.files().create(&data_dir.unfinished())?;
    // If the disk is too full, this fails before it is filled further.
    file.reserve(length_of(keys))?;
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, Appending { file, length: 0 });
    encode(&mut out, keys, revision, cancelled)?;
    let Appending { mut file, length } = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync()?;
    Ok(length)
}

/// A new file as a [`Write`] stream.
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

/// Reads a checkpoint. A file with its final name was complete, so that any error in it is damage.
pub(crate) fn read<H: Header>(data_dir: &DataDir, revision: u64) -> Result<Keyspace<H>, OpenError> {
    let path = data_dir.checkpoint(revision);
    let file = data_dir.files().read(&path).map_err(|source| data_dir.file_error(&path, source))?;
    let damaged = |why: &dyn fmt::Display| data_dir.damaged(format!("{}: {why}", path.display()));
    match decode(&mut BufReader::with_capacity(BUFFER_BYTES, file)) {
        Ok((found, keys)) if found == revision => Ok(keys),
        Ok(_) => Err(damaged(&"its revision differs from the one in its name")),
        Err(DecodeError::Io(source)) => Err(data_dir.file_error(&path, source)),
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
