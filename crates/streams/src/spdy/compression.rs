//! The headers of streams, which are compressed with zlib and a dictionary that both sides know.
//!
//! Received headers are inflated. Sent ones are put into blocks that are not compressed: a server sends a few bytes for
//! each stream.

use bytes::{BufMut as _, Bytes, BytesMut};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_HAS_MORE_INPUT;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

use crate::limits::{HEADERS_MAX, HEADERS_MAX_BYTES};

/// The dictionary of SPDY/3: the words that are frequent in headers.
const DICTIONARY: &[u8] = include_bytes!("dictionary.bin");

/// How far back compressed bytes can refer.
const WINDOW_BYTES: usize = 32 * 1024;

/// The beginning of a zlib stream with a dictionary: deflate with a window of 32 KiB, the flag for the dictionary, and a
/// checksum of both.
const ZLIB_HEAD: [u8; 2] = [0x78, 0x20];
/// The flag for a dictionary in the second byte of a zlib stream.
const HAS_DICTIONARY: u8 = 0x20;

/// An empty block that is not the last one, which marks the end of a flush. Go's reader holds back what it has inflated
/// until it reads this block, and without it reports an error.
const EMPTY_BLOCK: [u8; 5] = [0, 0, 0, 0xff, 0xff];

/// The names and values of a stream's headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

/// The headers of a stream cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The compressed bytes are damaged, or use another dictionary.
    #[error("the compressed headers are damaged")]
    Damaged,
    /// The headers have more than [`HEADERS_MAX_BYTES`], or there are more than [`HEADERS_MAX`].
    #[error("the headers are too long")]
    TooLong,
    /// The headers are shorter than they say.
    #[error("the headers are too short")]
    TooShort,
    /// A name or a value is not UTF-8.
    #[error("the headers are not UTF-8")]
    NoText,
}

impl Headers {
    /// The value of a header, whose name is given in lower case; empty if it is missing.
    pub fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(it, _)| it == name).map_or("", |(_, value)| value)
    }

    fn parse(mut block: &[u8]) -> Result<Self, HeaderError> {
        let count = take_number(&mut block)?;
        if count > HEADERS_MAX {
            return Err(HeaderError::TooLong);
        }
        let mut headers = Vec::with_capacity(count);
        for _ in 0..count {
            let name = take_text(&mut block)?.to_ascii_lowercase();
            headers.push((name, take_text(&mut block)?.to_owned()));
        }
        Ok(Self(headers))
    }
}

fn take_number(block: &mut &[u8]) -> Result<usize, HeaderError> {
    let (number, rest) = block.split_first_chunk().ok_or(HeaderError::TooShort)?;
    *block = rest;
    Ok(u32::from_be_bytes(*number) as usize)
}

fn take_text<'a>(block: &mut &'a [u8]) -> Result<&'a str, HeaderError> {
    let length = take_number(block)?;
    let (text, rest) = block.split_at_checked(length).ok_or(HeaderError::TooShort)?;
    *block = rest;
    std::str::from_utf8(text).map_err(|_| HeaderError::NoText)
}

/// Inflates the headers of a connection. Each block refers to the bytes of those before.
pub struct Inflater {
    core: DecompressorOxide,
    /// The last bytes that were inflated, in a ring.
    window: Box<[u8]>,
    /// Where the next byte goes.
    at: usize,
    begun: bool,
}

impl Inflater {
    /// Creates an inflater for a new connection.
    pub fn new() -> Self {
        let mut window = vec![0; WINDOW_BYTES].into_boxed_slice();
        window[..DICTIONARY.len()].copy_from_slice(DICTIONARY);
        Self { core: DecompressorOxide::new(), window, at: DICTIONARY.len(), begun: false }
    }

    /// Inflates the headers of one frame.
    ///
    /// # Errors
    /// Fails if they are damaged or too long. The connection cannot go on then.
    pub fn inflate(&mut self, mut bytes: &[u8]) -> Result<Headers, HeaderError> {
        if !self.begun && !bytes.is_empty() {
            bytes = begin(bytes)?;
            self.begun = true;
        }
        let mut block = Vec::new();
        loop {
            let (status, read, written) =
                decompress(&mut self.core, bytes, &mut self.window, self.at, TINFL_FLAG_HAS_MORE_INPUT);
            block.extend_from_slice(&self.window[self.at..self.at + written]);
            self.at = (self.at + written) % WINDOW_BYTES;
            bytes = &bytes[read..];
            if block.len() > HEADERS_MAX_BYTES {
                return Err(HeaderError::TooLong);
            }
            match status {
                TINFLStatus::NeedsMoreInput => return Headers::parse(&block),
                TINFLStatus::HasMoreOutput => {}
                _ => return Err(HeaderError::Damaged),
            }
        }
    }
}

impl Default for Inflater {
    fn default() -> Self {
        Self::new()
    }
}

/// Checks the beginning of a zlib stream, and returns what follows it.
fn begin(bytes: &[u8]) -> Result<&[u8], HeaderError> {
    let [method, flags, rest @ ..] = bytes else { return Err(HeaderError::Damaged) };
    if method & 0x0f != 8 || u16::from_be_bytes([*method, *flags]) % 31 != 0 {
        return Err(HeaderError::Damaged);
    }
    if flags & HAS_DICTIONARY == 0 {
        return Ok(rest);
    }
    match rest.split_first_chunk() {
        Some((id, rest)) if u32::from_be_bytes(*id) == adler(DICTIONARY) => Ok(rest),
        _ => Err(HeaderError::Damaged),
    }
}

/// The checksum of RFC 1950.
fn adler(bytes: &[u8]) -> u32 {
    const BASE: u32 = 65521;
    let (low, high) = bytes.iter().fold((1, 0), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % BASE;
        (low, (high + low) % BASE)
    });
    high << 16 | low
}

/// Writes headers as the next block of a connection's compressed headers. `is_first` says that it is the first one.
pub fn deflate(headers: &[(&str, &str)], is_first: bool) -> Bytes {
    let mut block = BytesMut::new();
    block.put_u32(headers.len() as u32);
    for (name, value) in headers {
        for text in [name, value] {
            block.put_u32(text.len() as u32);
            block.put_slice(text.as_bytes());
        }
    }
    let mut bytes = BytesMut::new();
    if is_first {
        bytes.put_slice(&ZLIB_HEAD);
        bytes.put_u32(adler(DICTIONARY));
    }
    for piece in block.chunks(usize::from(u16::MAX)) {
        let length = piece.len() as u16;
        // A block that is not the last one and not compressed.
        bytes.put_u8(0);
        bytes.put_u16_le(length);
        bytes.put_u16_le(!length);
        bytes.put_slice(piece);
    }
    bytes.put_slice(&EMPTY_BLOCK);
    bytes.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Go's zlib writer with the dictionary makes of two blocks: the headers of the error stream and of the data
    /// stream of a forwarded connection, as kubectl sends them.
    const FROM_GO: [&str; 2] = [
        "78f9e3c6a7c202253a48f95b044aab4c16060c0c0c9c4590d8ca04a5624603703a2c294a4dcc851635aca9a08800000000ffff",
        "224b2ba8944a04000000ffff",
    ];

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn headers_that_go_has_compressed_are_read() {
        let mut inflater = Inflater::new();
        let [error, data] = FROM_GO.map(|hex| inflater.inflate(&bytes(hex)).unwrap());
        for (headers, of_type) in [(error, "error"), (data, "data")] {
            let headers = ["port", "requestid", "streamtype"].map(|name| headers.get(name).to_owned());
            assert_eq!(headers, ["80", "0", of_type]);
        }
        assert_eq!(Inflater::new().inflate(&bytes(FROM_GO[1])), Err(HeaderError::Damaged));
    }

    #[test]
    fn the_dictionary_is_that_of_the_specification() {
        assert_eq!((DICTIONARY.len(), adler(DICTIONARY)), (1423, 0xe3c6_a7c2));
        assert_eq!(u16::from_be_bytes(ZLIB_HEAD) % 31, 0);
    }

    #[test]
    fn written_headers_are_read() {
        let mut inflater = Inflater::new();
        let first = inflater.inflate(&deflate(&[("Port", "80"), ("streamtype", "error")], true)).unwrap();
        assert_eq!((first.get("port"), first.get("streamtype"), first.get("x")), ("80", "error", ""));
        let second = inflater.inflate(&deflate(&[("port", "81")], false)).unwrap();
        assert_eq!(second.get("port"), "81");
        // More than the window in all.
        let long = "x".repeat(1000);
        for _ in 0..2 * WINDOW_BYTES / long.len() {
            assert_eq!(inflater.inflate(&deflate(&[("a", &long)], false)).unwrap().get("a"), long);
        }
    }

    #[test]
    fn damaged_and_endless_headers_are_refused() {
        let inflate = |bytes: &[u8]| Inflater::new().inflate(bytes);
        for damaged in [&b"\x78"[..], b"\x79\x20", b"\x78\x20\x00\x00\x00\x00", b"\x78\x01\x07"] {
            assert_eq!(inflate(damaged), Err(HeaderError::Damaged), "{damaged:?}");
        }
        let long = "x".repeat(HEADERS_MAX_BYTES);
        assert_eq!(inflate(&deflate(&[("a", &long)], true)), Err(HeaderError::TooLong));
        let many = vec![("a", "b"); HEADERS_MAX + 1];
        assert_eq!(inflate(&deflate(&many, true)), Err(HeaderError::TooLong));
        assert_eq!(inflate(b""), Err(HeaderError::TooShort));
        let mut short = deflate(&[("a", "b")], true).to_vec();
        // The count of the headers is one too high.
        short[6 + 5 + 3] = 2;
        assert_eq!(inflate(&short), Err(HeaderError::TooShort));
    }
}
