//! A checkpoint: the whole state as of a revision, so that the log before it need not be kept.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::folder::{Folder, private};
use super::frame::{self, Found, Kept, Reader};
use super::headers;
use crate::keyspace::Keyspace;
use crate::{Entry, Header};

/// What a checkpoint begins with.
const HEADER: [u8; 16] = *b"evenkeel state1\n";
/// How many entries are written as one frame; with Kubernetes' objects, of a few KiB, some hundred KiB.
const ENTRIES_PER_FRAME: usize = 128;

/// Writes the state as of a revision; gives its size. It has its name only when it is whole and durable, and never
/// gets it once `cancelled` is set.
pub(crate) fn write<H>(
    folder: &Folder,
    keys: &Keyspace<H>,
    revision: u64,
    cancelled: &AtomicBool,
) -> io::Result<u64> {
    let unfinished = folder.unfinished();
    let file = private().create(true).truncate(true).write(true).open(&unfinished)?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
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
        let Some(last) = entries.last() else { break };
        written = Some(last.key.clone());
        buffer.clear();
        frame::append(&mut buffer, |body| frame::write_entries(body, &entries));
    }
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    let size = file.metadata()?.len();
    fs::rename(&unfinished, folder.checkpoint(revision))?;
    folder.sync()?;
    Ok(size)
}

/// Reads a checkpoint back. It had its name only when it was whole, so whatever is wrong with it is damage.
pub(crate) fn read<H: Header>(folder: &Folder, revision: u64) -> Result<Keyspace<H>, crate::OpenError> {
    let path = folder.checkpoint(revision);
    let bytes = fs::read(&path).map_err(|source| folder.io_error(source))?;
    parse(&bytes, revision).map_err(|why| folder.damaged(format!("{}: {why}", path.display())))
}

fn parse<H: Header>(bytes: &[u8], revision: u64) -> Result<Keyspace<H>, String> {
    if !bytes.starts_with(&HEADER) {
        return Err("it does not begin as a checkpoint".to_owned());
    }
    let mut frames = Frames { bytes, place: HEADER.len() };
    let mut head = Reader(frames.next()?.ok_or("it is empty")?);
    if head.u64() != Some(revision) {
        return Err("it is of another revision than its name says".to_owned());
    }
    let count = head.u64().ok_or("it does not say how much it holds")?;
    let mut entries = Vec::new();
    while let Some(body) = frames.next()? {
        entries.extend(frame::read_entries(body).ok_or("a frame holds something else than entries")?);
    }
    if entries.len() as u64 != count {
        return Err(format!("it holds {} of its {count} keys", entries.len()));
    }
    keyspace_of(entries)
}

fn keyspace_of<H: Header>(entries: Vec<Kept>) -> Result<Keyspace<H>, String> {
    let values: Vec<_> = entries.iter().map(|entry| (&*entry.key, &entry.value)).collect();
    let headers = headers::make(&values)?;
    let mut keys = Keyspace::new();
    for (Kept { key, value, create_revision, revision }, header) in entries.into_iter().zip(headers) {
        keys.insert(Arc::new(Entry { key, value, header, create_revision, revision }));
    }
    Ok(keys)
}

struct Frames<'a> {
    bytes: &'a [u8],
    place: usize,
}

impl<'a> Frames<'a> {
    fn next(&mut self) -> Result<Option<&'a [u8]>, String> {
        match frame::at(self.bytes, self.place) {
            Found::Frame { body, next } => {
                self.place = next;
                Ok(Some(body))
            }
            Found::End => Ok(None),
            Found::Broken => Err(format!("at byte {}: the checksum does not match", self.place)),
        }
    }
}
