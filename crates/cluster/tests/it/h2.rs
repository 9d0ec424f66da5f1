//! An HTTP/2 client for these tests that sends any frames, valid or not.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::wire::Wire;

/// Longer than anything that a server of these tests should do.
pub(crate) const HANG: Duration = Duration::from_secs(60);

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

/// The HTTP/2 setting for the initial flow-control window of each stream.
pub(crate) const INITIAL_WINDOW: u16 = 4;

#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

pub(crate) struct H2 {
    stream: TlsStream<TcpStream>,
}

impl H2 {
    /// A connection of the administrator on which nothing has been sent yet.
    pub(crate) async fn silent(wire: &Wire) -> Self {
        Self { stream: wire.connect_h2(true).await }
    }

    /// A connection without credentials on which nothing has been sent yet.
    pub(crate) async fn stranger(wire: &Wire) -> Self {
        Self { stream: wire.connect_h2(false).await }
    }

    /// A connection of the administrator, with these settings.
    pub(crate) async fn start(wire: &Wire, settings: &[(u16, u32)]) -> Self {
        let mut h2 = Self::silent(wire).await;
        h2.begin(settings).await;
        h2
    }

    /// Sends the preface.
    pub(crate) async fn begin(&mut self, settings: &[(u16, u32)]) {
        self.stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.expect("the server reads");
        let settings: Vec<u8> = settings
            .iter()
            .flat_map(|(key, value)| [&key.to_be_bytes()[..], &value.to_be_bytes()].concat())
            .collect();
        self.send(SETTINGS, 0, 0, &settings).await.expect("the server reads");
    }

    /// Sends a frame. Fails if the server has closed the connection.
    pub(crate) async fn send(
        &mut self,
        kind: u8,
        flags: u8,
        stream: u32,
        payload: &[u8],
    ) -> std::io::Result<()> {
        self.send_raw(&frame(kind, flags, stream, payload)).await
    }

    pub(crate) async fn send_raw(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }

    /// Sends a GET.
    pub(crate) async fn get(&mut self, stream: u32, path: &str, more: &[(&str, &str)]) {
        let block = head("GET", path, more);
        self.send(HEADERS, END_STREAM | END_HEADERS, stream, &block).await.expect("the server reads");
    }

    /// The next frame. `None` if the server has closed the connection.
    pub(crate) async fn read(&mut self) -> Option<Frame> {
        tokio::time::timeout(HANG, self.read_frame()).await.expect("the server says something or closes")
    }

    async fn read_frame(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).await.ok()?;
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        self.stream.read_exact(&mut payload).await.ok()?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff;
        Some(Frame { kind: head[3], flags: head[4], stream, payload })
    }

    /// Reads until a frame of this kind arrives, on this stream unless that is 0. Answers pings on the way.
    pub(crate) async fn read_until(&mut self, kind: u8, stream: u32) -> Option<Frame> {
        // The server's own pings are no progress: the bound is for all frames together.
        let found = tokio::time::timeout(HANG, self.find(kind, stream)).await;
        found.expect("the server sends the frame or closes")
    }

    async fn find(&mut self, kind: u8, stream: u32) -> Option<Frame> {
        loop {
            let frame = self.read_frame().await?;
            if frame.kind == PING && frame.flags & ACK == 0 {
                let _ = self.send(PING, ACK, 0, &frame.payload).await;
            }
            if frame.kind == kind && (stream == 0 || frame.stream == stream) {
                return Some(frame);
            }
        }
    }

    /// Reads, answering pings, until the server has closed the connection. Returns the error code of its GOAWAY.
    pub(crate) async fn read_to_end(&mut self) -> Option<u32> {
        let mut code = None;
        while let Some(frame) = self.read_until(GOAWAY, 0).await {
            code = Some(u32::from_be_bytes(frame.payload[4..8].try_into().expect("four bytes")));
        }
        code
    }
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The header block of a request: literals without Huffman coding and without an index.
pub(crate) fn head(method: &str, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let pseudo = [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)];
    pseudo.iter().chain(more).flat_map(|(name, value)| header(name, value)).collect()
}

pub(crate) fn header(name: &str, value: &str) -> Vec<u8> {
    let mut out = vec![0];
    for text in [name, value] {
        push_length(&mut out, text.len());
        out.extend_from_slice(text.as_bytes());
    }
    out
}

/// A length as an HPACK integer with a prefix of seven bits.
fn push_length(out: &mut Vec<u8>, length: usize) {
    let Some(mut rest) = length.checked_sub(127) else { return out.push(length as u8) };
    out.push(127);
    while rest >= 128 {
        out.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    out.push(rest as u8);
}

/// Whether a header block has this status. The server encodes most of them by the static table.
pub(crate) fn status(frame: &Frame) -> u16 {
    match frame.payload.first() {
        Some(byte) if byte & 128 != 0 => match byte & 127 {
            8 => 200,
            9 => 204,
            10 => 206,
            11 => 304,
            12 => 400,
            13 => 404,
            14 => 500,
            _ => 0,
        },
        // A literal with the name from the table: `:status` is 8 to 14.
        Some(_) => huffman_digits(&frame.payload),
        None => 0,
    }
}

/// The Huffman coding of a status that is not in the static table. A digit takes five or six bits.
fn huffman_digits(block: &[u8]) -> u16 {
    let (is_huffman, length) = (block[1] & 128 != 0, usize::from(block[1] & 127));
    let text = &block[2..2 + length];
    if !is_huffman {
        return std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or_default();
    }
    let bits: Vec<bool> =
        text.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1 == 1)).collect();
    let number = |bits: &[bool]| bits.iter().fold(0u16, |sum, bit| sum << 1 | u16::from(*bit));
    let (mut at, mut status) = (0, 0);
    while at + 5 <= bits.len() && status < 100 {
        let five = number(&bits[at..at + 5]);
        let (digit, taken) = if five < 3 { (five, 5) } else { (number(&bits[at..at + 6]) - 0x19 + 3, 6) };
        status = status * 10 + digit;
        at += taken;
    }
    status
}
