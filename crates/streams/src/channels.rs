//! Several channels in one WebSocket: each message begins with the number of its channel.

use std::future::Future;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures::stream::{BoxStream, SplitSink, SplitStream};
use futures::{SinkExt as _, Stream, StreamExt as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use crate::Io;
use crate::idle::Idle;
use crate::limits::{CHUNK_BYTES, CLOSING, MESSAGE_MAX_BYTES};
use crate::pipe::Pipe;

/// The number that stands in the place of a channel when a channel is closed.
const CLOSE_SIGNAL: u8 = 255;

/// How the messages of a subprotocol are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    /// The number of the channel is a byte, and what follows are bytes.
    Binary,
    /// The number of the channel is a digit, and what follows is base64.
    Base64,
    /// Binary messages, and clients can close a channel.
    Closable,
}

/// What a client sends.
#[derive(Debug, PartialEq, Eq)]
enum Sent {
    Bytes(u8, Bytes),
    Closed(u8),
    /// Nothing that has a meaning.
    Nothing,
    /// A violation of the protocol, which ends the connection.
    Violation,
}

impl Codec {
    fn encode(self, channel: u8, bytes: &[u8]) -> Message {
        match self {
            Self::Binary | Self::Closable => {
                let mut message = BytesMut::with_capacity(bytes.len() + 1);
                message.put_u8(channel);
                message.put_slice(bytes);
                Message::Binary(message.freeze())
            }
            Self::Base64 => {
                let mut message = String::with_capacity(bytes.len() * 4 / 3 + 4);
                message.push(char::from(b'0'.saturating_add(channel)));
                STANDARD.encode_string(bytes, &mut message);
                Message::Text(message.into())
            }
        }
    }

    fn decode(self, mut message: Bytes) -> Sent {
        let Some(&first) = message.first() else { return Sent::Nothing };
        match self {
            Self::Closable if first == CLOSE_SIGNAL => match message[1..] {
                [channel] => Sent::Closed(channel),
                _ => Sent::Violation,
            },
            Self::Binary | Self::Closable => Sent::Bytes(first, message.split_off(1)),
            Self::Base64 => match STANDARD.decode(&message[1..]) {
                Ok(bytes) => Sent::Bytes(first.wrapping_sub(b'0'), bytes.into()),
                Err(_) => Sent::Violation,
            },
        }
    }
}

/// A WebSocket on an upgraded connection, with this project's limits.
pub(crate) async fn socket(io: Io) -> WebSocketStream<Io> {
    let config = WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_MAX_BYTES))
        .max_frame_size(Some(MESSAGE_MAX_BYTES));
    WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await
}

/// The channels of a connection. A channel that the client writes has its pipe in `inputs`, at the index that is the
/// channel's number. A channel that the client reads has its number and its pipe in `outputs`.
pub(crate) struct Channels {
    pub(crate) inputs: Vec<Option<Pipe>>,
    pub(crate) outputs: Vec<(u8, Pipe)>,
    /// The messages that are sent before all others, with the number of their channel.
    pub(crate) greeting: Vec<(u8, Bytes)>,
}

/// Serves the channels until `last` has completed and all outputs have ended. Then it sends what `last` returned, and
/// closes the connection. It ends at once if the client goes away.
pub(crate) async fn serve(
    io: Io,
    codec: Codec,
    channels: Channels,
    last: impl Future<Output = Option<(u8, Bytes)>>,
) {
    let idle = Idle::new();
    let (sink, stream) = socket(io).await.split();
    let Channels { inputs, outputs, greeting } = channels;
    let sent = async {
        let (sink, last) = futures::join!(send(sink, codec, greeting, outputs, &idle), last);
        finish(sink?, codec, last).await
    };
    let mut received = std::pin::pin!(receive(stream, codec, inputs, &idle));
    tokio::select! {
        biased;
        () = &mut received => return,
        _ = sent => {}
        () = idle.expired() => return,
    }
    // The client closes the connection when it has read everything. Closing the connection with unread bytes would
    // reset it, and the client might lose the last messages.
    let _ = tokio::time::timeout(CLOSING, received).await;
}

/// Sends text in messages until it ends, and closes the connection. What the client sends has no meaning.
pub(crate) async fn serve_text(io: Io, is_base64: bool, text: impl Stream<Item = Bytes> + Send) {
    let (mut sink, stream) = socket(io).await.split();
    let message = |bytes: Bytes| match is_base64 {
        true => Message::Text(STANDARD.encode(bytes).into()),
        false => Message::Binary(bytes),
    };
    let sent = async {
        // An empty message tells the client that the connection stands.
        sink.send(message(Bytes::new())).await.ok()?;
        let mut text = std::pin::pin!(text);
        while let Some(mut bytes) = text.next().await {
            while !bytes.is_empty() {
                let piece = bytes.split_to(bytes.len().min(CHUNK_BYTES));
                sink.send(message(piece)).await.ok()?;
            }
        }
        finish(sink, Codec::Binary, None).await
    };
    let idle = Idle::new();
    let mut received = std::pin::pin!(receive(stream, Codec::Binary, Vec::new(), &idle));
    tokio::select! {
        biased;
        () = &mut received => return,
        _ = sent => {}
    }
    let _ = tokio::time::timeout(CLOSING, received).await;
}

type Sink = SplitSink<WebSocketStream<Io>, Message>;

/// Writes what the client sends into the pipes of its channels.
async fn receive(
    mut stream: SplitStream<WebSocketStream<Io>>,
    codec: Codec,
    mut inputs: Vec<Option<Pipe>>,
    idle: &Idle,
) {
    while let Some(Ok(message)) = stream.next().await {
        idle.note();
        let message = match message {
            Message::Binary(bytes) => bytes,
            Message::Text(text) => text.into(),
            Message::Close(_) => return,
            _ => continue,
        };
        match codec.decode(message) {
            Sent::Bytes(channel, bytes) => {
                let Some(input) = inputs.get_mut(usize::from(channel)) else { continue };
                let unread = match input {
                    Some(pipe) => pipe.write_all(&bytes).await.is_err(),
                    None => false,
                };
                if unread {
                    *input = None;
                }
            }
            Sent::Closed(channel) => match inputs.get_mut(usize::from(channel)) {
                Some(input) => *input = None,
                None => return,
            },
            Sent::Nothing => {}
            Sent::Violation => return,
        }
    }
}

/// Sends the bytes of the pipes to the client, until all pipes have ended.
async fn send(
    mut sink: Sink,
    codec: Codec,
    greeting: Vec<(u8, Bytes)>,
    outputs: Vec<(u8, Pipe)>,
    idle: &Idle,
) -> Option<Sink> {
    for (channel, bytes) in greeting {
        sink.send(codec.encode(channel, &bytes)).await.ok()?;
    }
    let outputs = outputs.into_iter().map(|(channel, pipe)| numbered(channel, pipe));
    let mut outputs = futures::stream::select_all(outputs);
    while let Some((channel, bytes)) = outputs.next().await {
        idle.note();
        sink.send(codec.encode(channel, &bytes)).await.ok()?;
    }
    Some(sink)
}

fn numbered(channel: u8, pipe: Pipe) -> BoxStream<'static, (u8, Bytes)> {
    chunks(pipe).map(move |bytes| (channel, bytes)).boxed()
}

/// Sends the last message, and closes the connection.
async fn finish(mut sink: Sink, codec: Codec, last: Option<(u8, Bytes)>) -> Option<()> {
    let closing = async {
        if let Some((channel, bytes)) = last {
            sink.send(codec.encode(channel, &bytes)).await.ok()?;
        }
        // Clients take an end without this code for a connection that was lost.
        let normal = CloseFrame { code: CloseCode::Normal, reason: Utf8Bytes::default() };
        sink.send(Message::Close(Some(normal))).await.ok()?;
        sink.close().await.ok()
    };
    tokio::time::timeout(CLOSING, closing).await.ok().flatten()
}

/// Reads in pieces of at most [`CHUNK_BYTES`], until the end or an error.
pub(crate) fn chunks(reader: impl AsyncRead + Send + Unpin) -> impl Stream<Item = Bytes> + Send {
    futures::stream::unfold(reader, |mut reader| async {
        let mut buffer = BytesMut::with_capacity(CHUNK_BYTES);
        match reader.read_buf(&mut buffer).await {
            Ok(1..) => Some((buffer.freeze(), reader)),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_number_of_their_channel() {
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        for (codec, message, sent) in [
            (Codec::Binary, &b"\x00ab"[..], Sent::Bytes(0, bytes("ab"))),
            (Codec::Binary, b"\xff\x00", Sent::Bytes(255, bytes("\0"))),
            (Codec::Closable, b"\xff\x00", Sent::Closed(0)),
            (Codec::Closable, b"\xff", Sent::Violation),
            (Codec::Closable, b"\xff\x00\x01", Sent::Violation),
            (Codec::Closable, b"\x01", Sent::Bytes(1, bytes(""))),
            (Codec::Base64, b"0Zm9v", Sent::Bytes(0, bytes("foo"))),
            (Codec::Base64, b"0?", Sent::Violation),
            (Codec::Base64, b"\x00", Sent::Bytes(208, bytes(""))),
            (Codec::Binary, b"", Sent::Nothing),
        ] {
            assert_eq!(codec.decode(Bytes::from_static(message)), sent, "{codec:?} {message:?}");
        }
        assert_eq!(Codec::Base64.encode(1, b"foo"), Message::Text("1Zm9v".into()));
        assert_eq!(Codec::Closable.encode(1, b"foo"), Message::Binary("\x01foo".into()));
    }

    #[tokio::test]
    async fn text_is_sent_in_messages_until_it_ends() {
        for (is_base64, expected) in [
            (false, ["", "one\n", "two\n"].map(|text| Message::Binary(text.into()))),
            (true, ["", "b25lCg==", "dHdvCg=="].map(|text| Message::Text(text.into()))),
        ] {
            let (client, server) = tokio::io::duplex(1 << 16);
            let text =
                futures::stream::iter(["one\n", "two\n"].map(|text| Bytes::from_static(text.as_bytes())));
            let read = async {
                let socket = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
                let messages = socket.filter_map(|message| async { message.ok() });
                let messages = messages.filter(|message| std::future::ready(!message.is_close()));
                messages.collect::<Vec<_>>().await
            };
            let ((), messages) = futures::join!(serve_text(Box::new(server), is_base64, text), read);
            assert_eq!(messages, expected);
        }
    }
}
