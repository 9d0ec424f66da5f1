//! Frames: a head of eight bytes, and a payload.
//!
//! Parsing is pure: the connection reads the head, then the payload of a control frame or, piece by piece, the data.

use bytes::{BufMut as _, Bytes, BytesMut};

use super::compression::{HeaderError, Headers, Inflater};
use crate::limits::CONTROL_FRAME_MAX_BYTES;

/// The number of bytes of a frame's head.
pub const HEAD_BYTES: usize = 8;

const VERSION: u16 = 3;
const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const SETTINGS: u16 = 4;
const PING: u16 = 6;
const GO_AWAY: u16 = 7;
const HEADERS: u16 = 8;
const WINDOW_UPDATE: u16 = 9;

const FIN: u8 = 1;
/// The bits of a stream's number; the highest bit is reserved.
const STREAM_BITS: u32 = 0x7fff_ffff;
/// The status of a reset for a stream beyond a limit.
const REFUSED_STREAM: u32 = 3;
/// The status of a reset for a stream that violates the protocol.
const PROTOCOL_ERROR: u32 = 1;

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameHead {
    /// Data of a stream follow.
    Data {
        /// The stream.
        stream: u32,
        /// Whether these are the last data of the stream in this direction.
        fin: bool,
        /// How many bytes follow.
        length: usize,
    },
    /// The payload of a control frame follows.
    Control {
        /// The type of the frame.
        kind: u16,
        /// The flags of the frame.
        flags: u8,
        /// How many bytes follow.
        length: usize,
    },
}

/// What a control frame says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// The client opens a stream.
    Open {
        /// The new stream.
        stream: u32,
        /// Whether the client will send no data.
        fin: bool,
        /// The headers of the stream.
        headers: Headers,
    },
    /// The client gives a stream up.
    Reset {
        /// The stream.
        stream: u32,
    },
    /// The client wants this number back.
    Ping(u32),
    /// The client opens no more streams.
    GoAway,
    /// Something that needs no answer: settings, windows, further headers.
    Other,
}

/// A frame violates the protocol or a limit. The connection ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The version of the protocol is another one.
    #[error("SPDY version {0} instead of 3")]
    Version(u16),
    /// The control frame is longer than [`CONTROL_FRAME_MAX_BYTES`].
    #[error("a control frame of {0} bytes is too long")]
    TooLong(usize),
    /// The payload is shorter than its fields.
    #[error("a control frame of type {0} is too short")]
    TooShort(u16),
    /// The headers cannot be read.
    #[error(transparent)]
    Headers(#[from] HeaderError),
}

impl FrameHead {
    /// Parses the head of a frame.
    ///
    /// # Errors
    /// Fails if it is a control frame of another version of the protocol, or too long.
    pub fn parse(head: [u8; HEAD_BYTES]) -> Result<Self, FrameError> {
        let [a, b, c, d, flags, length @ ..] = head;
        let [high, middle, low] = length;
        let length = u32::from_be_bytes([0, high, middle, low]) as usize;
        if a & 0x80 == 0 {
            let stream = u32::from_be_bytes([a, b, c, d]);
            return Ok(Self::Data { stream, fin: flags & FIN != 0, length });
        }
        match u16::from_be_bytes([a & 0x7f, b]) {
            VERSION if length > CONTROL_FRAME_MAX_BYTES => Err(FrameError::TooLong(length)),
            VERSION => Ok(Self::Control { kind: u16::from_be_bytes([c, d]), flags, length }),
            other => Err(FrameError::Version(other)),
        }
    }
}

impl Control {
    /// Parses the payload of a control frame. All frames of a connection share an inflater.
    ///
    /// # Errors
    /// Fails if the payload is malformed.
    pub fn parse(kind: u16, flags: u8, payload: &[u8], inflater: &mut Inflater) -> Result<Self, FrameError> {
        let number = |at: usize| {
            let bytes = payload.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map(u32::from_be_bytes).ok_or(FrameError::TooShort(kind))
        };
        let block = |at: usize| payload.get(at..).ok_or(FrameError::TooShort(kind));
        Ok(match kind {
            // The number of the stream, an associated stream, a priority, and a slot for certificates.
            SYN_STREAM => {
                let (stream, headers) = (number(0)? & STREAM_BITS, inflater.inflate(block(10)?)?);
                Self::Open { stream, fin: flags & FIN != 0, headers }
            }
            // Headers are not used, but their compression depends on what came before.
            SYN_REPLY | HEADERS => {
                inflater.inflate(block(4)?)?;
                Self::Other
            }
            RST_STREAM => Self::Reset { stream: number(0)? & STREAM_BITS },
            PING => Self::Ping(number(0)?),
            GO_AWAY => Self::GoAway,
            SETTINGS | WINDOW_UPDATE => Self::Other,
            _ => Self::Other,
        })
    }
}

/// A frame that the server sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outgoing {
    /// Accepts a stream. The bytes are compressed headers.
    Reply(u32, Bytes),
    /// Data of a stream.
    Data(u32, Bytes),
    /// The end of a stream.
    Fin(u32),
    /// Refuses a stream beyond a limit.
    Refuse(u32),
    /// Refuses a stream with a number that it must not have.
    Violation(u32),
    /// Answers a ping.
    Pong(u32),
    /// Says goodbye; the number of the last stream that was accepted.
    GoAway(u32),
}

impl Outgoing {
    pub(crate) fn encode(&self) -> Bytes {
        match self {
            Self::Reply(stream, headers) => {
                let mut payload = BytesMut::with_capacity(4 + headers.len());
                payload.put_u32(*stream);
                payload.put_slice(headers);
                control(SYN_REPLY, &payload)
            }
            Self::Data(stream, bytes) => data(*stream, 0, bytes),
            Self::Fin(stream) => data(*stream, FIN, &[]),
            Self::Refuse(stream) => reset(*stream, REFUSED_STREAM),
            Self::Violation(stream) => reset(*stream, PROTOCOL_ERROR),
            Self::Pong(number) => control(PING, &number.to_be_bytes()),
            Self::GoAway(last) => control(GO_AWAY, &[last.to_be_bytes(), [0; 4]].concat()),
        }
    }
}

fn reset(stream: u32, status: u32) -> Bytes {
    control(RST_STREAM, &[stream.to_be_bytes(), status.to_be_bytes()].concat())
}

/// A control frame of the server, none of which is longer than a few hundred bytes.
fn control(kind: u16, payload: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(HEAD_BYTES + payload.len());
    frame.put_u16(0x8000 | VERSION);
    frame.put_u16(kind);
    frame.put_u32(payload.len() as u32);
    frame.put_slice(payload);
    frame.freeze()
}

/// A data frame. The bytes are one piece of at most [`CHUNK_BYTES`](crate::limits::CHUNK_BYTES), so their number fits
/// into 24 bits.
fn data(stream: u32, flags: u8, bytes: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(HEAD_BYTES + bytes.len());
    frame.put_u32(stream & STREAM_BITS);
    frame.put_u32(u32::from(flags) << 24 | bytes.len() as u32);
    frame.put_slice(bytes);
    frame.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_a_head_of_eight_bytes() {
        let head = |frame: &Outgoing| FrameHead::parse(frame.encode()[..HEAD_BYTES].try_into().unwrap());
        let frame = Outgoing::Data(5, Bytes::from_static(b"abc"));
        assert_eq!(head(&frame), Ok(FrameHead::Data { stream: 5, fin: false, length: 3 }));
        assert_eq!(head(&Outgoing::Fin(7)), Ok(FrameHead::Data { stream: 7, fin: true, length: 0 }));
        assert_eq!(head(&Outgoing::Pong(9)), Ok(FrameHead::Control { kind: PING, flags: 0, length: 4 }));
        let mut inflater = Inflater::new();
        for (frame, parsed) in [
            (Outgoing::Pong(9), Control::Ping(9)),
            (Outgoing::Refuse(3), Control::Reset { stream: 3 }),
            (Outgoing::GoAway(3), Control::GoAway),
        ] {
            let bytes = frame.encode();
            let Ok(FrameHead::Control { kind, flags, length }) = head(&frame) else { panic!("{frame:?}") };
            assert_eq!(bytes.len(), HEAD_BYTES + length);
            assert_eq!(Control::parse(kind, flags, &bytes[HEAD_BYTES..], &mut inflater), Ok(parsed));
        }
    }

    #[test]
    fn what_is_malformed_is_refused() {
        assert_eq!(FrameHead::parse([0x80, 2, 0, 1, 0, 0, 0, 0]), Err(FrameError::Version(2)));
        assert_eq!(FrameHead::parse([0x80, 3, 0, 1, 0, 0xff, 0, 0]), Err(FrameError::TooLong(0xff_0000)));
        for (kind, length) in [(SYN_STREAM, 9), (SYN_REPLY, 3), (HEADERS, 3), (RST_STREAM, 3), (PING, 3)] {
            let error = Control::parse(kind, 0, &vec![0; length], &mut Inflater::new());
            assert_eq!(error, Err(FrameError::TooShort(kind)));
        }
        assert_eq!(Control::parse(99, 0, b"", &mut Inflater::new()), Ok(Control::Other));
    }
}
