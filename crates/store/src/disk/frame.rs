//! The frames of the files, and the encoding of their bodies.
//!
//! A frame is a mark, the length of its body, a checksum of length and body, and the body. Numbers are little-endian. An
//! incomplete frame is never read as a shorter one.

use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;

use crate::{Change, Entry};

/// The first bytes of a frame. They make the search for whole frames after a broken one fast.
const MARK: [u8; 4] = [0xEC, 0xA5, 0x1D, 0x7E];
/// The length of mark, length and checksum.
const HEAD: usize = 12;

/// How often the search for whole frames after a broken one may read each byte, on average. In a broken log, few frames claim
/// more bytes than they have.
const SEARCH_FACTOR: usize = 16;

/// What is at an offset of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// A whole frame, and the offset of the next one.
    Frame { body: &'a [u8], next: usize },
    /// The end of the file.
    End,
    /// Something else.
    Broken,
}

/// Appends a frame whose body is written by `write`.
pub(crate) fn append(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&MARK);
    out.extend_from_slice(&[0; HEAD - MARK.len()]);
    write(out);
    let length = u32::try_from(out.len() - start - HEAD).expect("a batch is bounded far below 4 GiB");
    out[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
    let checksum = checksum(length, &out[start + HEAD..]);
    out[start + 8..start + HEAD].copy_from_slice(&checksum.to_le_bytes());
}

/// Reads the frame at an offset.
pub(crate) fn at(bytes: &[u8], place: usize) -> Found<'_> {
    let rest = bytes.get(place..).unwrap_or_default();
    if rest.is_empty() {
        return Found::End;
    }
    whole(rest).map_or(Found::Broken, |body| Found::Frame { body, next: place + HEAD + body.len() })
}

/// The result of reading a frame from a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A whole frame, whose body was read.
    Frame,
    /// The end of the stream.
    End,
    /// Something else.
    Broken,
}

/// Reads the body of the next frame from a stream. The length in the frame is not trusted: memory grows only with the bytes
/// that are read.
pub(crate) fn read(input: &mut impl Read, body: &mut Vec<u8>) -> io::Result<Next> {
    body.clear();
    input.take(HEAD as u64).read_to_end(body)?;
    if body.is_empty() {
        return Ok(Next::End);
    }
    let Some((length, expected)) = head(&mut Reader(body)) else { return Ok(Next::Broken) };
    body.clear();
    input.take(length.into()).read_to_end(body)?;
    let is_whole = body.len() == length as usize && checksum(length, body) == expected;
    Ok(if is_whole { Next::Frame } else { Next::Broken })
}

/// Returns the length of the frame with this body.
pub(crate) fn length_of(body: &[u8]) -> u64 {
    (HEAD + body.len()) as u64
}

/// Whether bytes after a broken frame may contain a whole frame of changes after a revision.
///
/// Text does not contain the mark, so that values of Kubernetes objects never look like frames. Bytes with many marks and
/// large lengths could make the search quadratic. It gives up after [`SEARCH_FACTOR`] times the length of the bytes and
/// returns true, so that the store does not open.
pub(crate) fn may_have_later(bytes: &[u8], revision: u64) -> bool {
    let mut budget = bytes.len().saturating_mul(SEARCH_FACTOR);
    let marked = bytes.windows(MARK.len()).enumerate().filter(|(_, window)| *window == MARK);
    for (at, _) in marked {
        let mut reader = Reader(&bytes[at..]);
        let Some((length, _)) = head(&mut reader) else { continue };
        let is_later = reader.u64().is_some_and(|first| first > revision);
        if !is_later || length as usize > bytes.len() - at {
            continue;
        }
        let Some(rest) = budget.checked_sub(length as usize) else { return true };
        budget = rest;
        if whole(&bytes[at..]).is_some() {
            return true;
        }
    }
    false
}

fn whole(bytes: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader(bytes);
    let (length, expected) = head(&mut reader)?;
    let body = reader.take(length as usize)?;
    (checksum(length, body) == expected).then_some(body)
}

/// Reads length and checksum of a frame; `None` if no frame begins here.
fn head(reader: &mut Reader<'_>) -> Option<(u32, u32)> {
    let is_marked = reader.take(MARK.len())? == MARK;
    let (length, checksum) = (reader.u32()?, reader.u32()?);
    is_marked.then_some((length, checksum))
}

fn checksum(length: u32, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length.to_le_bytes());
    hasher.update(body);
    hasher.finalize()
}

/// A change in a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) key: Arc<str>,
    /// `None` for a deletion.
    pub(crate) value: Option<Bytes>,
}

/// An entry in a file, without its header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StoredEntry {
    pub(crate) key: Arc<str>,
    pub(crate) value: Bytes,
    pub(crate) create_revision: u64,
    pub(crate) revision: u64,
}

const PUT: u8 = 1;
const DELETE: u8 = 2;

/// Writes the body of a log frame: changes with consecutive revisions.
pub(crate) fn write_changes<H>(out: &mut Vec<u8>, changes: &[Arc<Change<H>>]) {
    let first = changes.first().map_or(0, |change| change.revision);
    out.extend_from_slice(&first.to_le_bytes());
    for change in changes {
        out.push(if change.after.is_some() { PUT } else { DELETE });
        write_bytes(out, change.key().as_bytes());
        if let Some(entry) = &change.after {
            write_bytes(out, &entry.value);
        }
    }
}

/// Reads the first revision and the changes of a log frame; `None` if the body is not one.
pub(crate) fn read_changes(body: &[u8]) -> Option<(u64, Vec<Record>)> {
    let mut reader = Reader(body);
    let first = reader.u64()?;
    let mut records = Vec::new();
    while !reader.0.is_empty() {
        let kind = reader.u8()?;
        let key = std::str::from_utf8(reader.bytes()?).ok()?.into();
        let value = match kind {
            PUT => Some(Bytes::copy_from_slice(reader.bytes()?)),
            DELETE => None,
            _ => return None,
        };
        records.push(Record { key, value });
    }
    Some((first, records))
}

/// Writes the body of a checkpoint frame.
pub(crate) fn write_entries<H>(out: &mut Vec<u8>, entries: &[Arc<Entry<H>>]) {
    for entry in entries {
        out.extend_from_slice(&entry.create_revision.to_le_bytes());
        out.extend_from_slice(&entry.revision.to_le_bytes());
        write_bytes(out, entry.key.as_bytes());
        write_bytes(out, &entry.value);
    }
}

/// Returns the length of the body that [`write_entries`] writes.
pub(crate) fn entries_length<H>(entries: &[Arc<Entry<H>>]) -> u64 {
    let numbers = 2 * size_of::<u64>() + 2 * size_of::<u32>();
    entries.iter().map(|entry| (numbers + entry.key.len() + entry.value.len()) as u64).sum()
}

/// Reads the entries of a checkpoint frame; `None` if the body is not one.
pub(crate) fn read_entries(body: &[u8]) -> Option<Vec<StoredEntry>> {
    let mut reader = Reader(body);
    let mut entries = Vec::new();
    while !reader.0.is_empty() {
        let (create_revision, revision) = (reader.u64()?, reader.u64()?);
        let key = std::str::from_utf8(reader.bytes()?).ok()?.into();
        let value = Bytes::copy_from_slice(reader.bytes()?);
        entries.push(StoredEntry { key, value, create_revision, revision });
    }
    Some(entries)
}

fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("the journal rejects keys and values of this length");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Reads numbers and bytes from the front of a slice; `None` if there are too few bytes.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.take(length as usize)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(revision: u64, key: &str, value: Option<&'static str>) -> Arc<Change<()>> {
        let entry = |value: &'static str| {
            Arc::new(Entry {
                key: key.into(),
                value: value.into(),
                header: (),
                create_revision: revision,
                revision,
            })
        };
        let before = value.is_none().then(|| entry("old"));
        Arc::new(Change { revision, before, after: value.map(entry) })
    }

    #[test]
    fn changes_come_back() {
        let mut bytes = Vec::new();
        append(&mut bytes, |out| {
            write_changes(out, &[change(7, "/a/1", Some("x")), change(8, "/a/2", None)])
        });
        let Found::Frame { body, next } = at(&bytes, 0) else { panic!("the frame is whole") };
        assert_eq!(next, bytes.len());
        assert_eq!(at(&bytes, next), Found::End);
        let (first, records) = read_changes(body).unwrap();
        assert_eq!(first, 7);
        let expected = [("/a/1", Some("x")), ("/a/2", None)]
            .map(|(key, value)| Record { key: key.into(), value: value.map(Bytes::from) });
        assert_eq!(records, expected);
    }

    #[test]
    fn no_flipped_bit_and_no_cut_goes_unseen() {
        let mut bytes = Vec::new();
        append(&mut bytes, |out| write_changes(out, &[change(7, "/a/1", Some("value"))]));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(at(&flipped, 0), Found::Broken, "bit {bit}");
        }
        for end in 1..bytes.len() {
            assert_eq!(at(&bytes[..end], 0), Found::Broken, "cut at {end}");
        }
    }

    #[test]
    fn a_whole_frame_behind_a_broken_one_is_found() {
        let mut bytes = Vec::new();
        append(&mut bytes, |out| write_changes(out, &[change(7, "/a/1", Some("x"))]));
        bytes[HEAD] ^= 1;
        append(&mut bytes, |out| write_changes(out, &[change(8, "/a/1", Some("y"))]));
        assert!(may_have_later(&bytes, 6));
        assert!(!may_have_later(&bytes, 8), "what is earlier was left behind by another file");
        bytes.truncate(bytes.len() - 1);
        assert!(!may_have_later(&bytes, 6));
    }

    #[test]
    fn bytes_that_are_all_marks_are_not_searched_for_ever() {
        let mut bytes = Vec::new();
        while bytes.len() < 4 << 20 {
            bytes.extend_from_slice(&MARK);
            bytes.extend_from_slice(&(2_000_000u32).to_le_bytes());
            bytes.extend_from_slice(&[0xFF; 4]);
        }
        assert!(may_have_later(&bytes, 1), "what cannot be told is taken for damage");
    }

    #[test]
    fn what_is_no_frame_of_ours_is_refused_not_misread() {
        assert_eq!(read_changes(b"short"), None);
        let mut body = 7u64.to_le_bytes().to_vec();
        body.extend_from_slice(&[9, 0, 0, 0, 0]);
        assert_eq!(read_changes(&body), None, "an unknown kind");
        body[8] = PUT;
        body[9] = 0xFF;
        assert_eq!(read_changes(&body), None, "a length beyond the end");
    }
}
