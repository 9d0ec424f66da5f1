//! One SPDY connection, whose streams are pipes.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use evenkeel_env::Station;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::mpsc;

use super::compression::{Headers, Inflater, deflate};
use super::frame::{Control, FrameHead, HEAD_BYTES, Outgoing};
use crate::Io;
use crate::channels::chunks;
use crate::idle::Idle;
use crate::limits::{CHUNK_BYTES, CLOSING, STREAMS_MAX};
use crate::pipe::{Pipe, pipe};

/// How many frames wait to be sent. Writers of streams wait for room.
const OUTGOING_MAX: usize = 16;

/// A stream that a client has opened.
#[derive(Debug)]
pub(crate) struct SpdyStream {
    pub(crate) number: u32,
    pub(crate) headers: Headers,
    /// What the client sends.
    pub(crate) reader: Pipe,
    /// What the client gets. The stream ends in this direction when it is dropped.
    pub(crate) writer: Pipe,
}

/// The streams that a client opens, in their order.
pub(crate) type Opened = mpsc::Receiver<SpdyStream>;

/// Serves a connection until `serve` has completed and everything that it wrote is sent, or until the client goes away.
pub(crate) async fn connection<F>(io: Io, station: Option<&Station>, serve: impl FnOnce(Opened) -> F)
where
    F: Future<Output = ()>,
{
    let idle = Idle::new();
    let (read, write) = tokio::io::split(io);
    let (opened_sender, opened) = mpsc::channel(STREAMS_MAX);
    let (frames, to_send) = mpsc::channel(OUTGOING_MAX);
    let (pumps, mut to_pump) = mpsc::unbounded_channel();
    let reader = Reader {
        read,
        inflater: Inflater::new(),
        inputs: BTreeMap::new(),
        last: 0,
        replied: false,
        open: OpenStreams {
            opened: opened_sender,
            frames: frames.clone(),
            pumps,
            station: station.cloned(),
            unsent: Arc::default(),
        },
    };
    let work = async {
        let mut pumping = FuturesUnordered::new();
        let pump_one = |pumped| pump(pumped, frames.clone());
        let mut serving = std::pin::pin!(serve(opened));
        loop {
            tokio::select! {
                biased;
                () = &mut serving => break,
                Some(next) = to_pump.recv() => pumping.push(pump_one(next)),
                Some(()) = pumping.next() => {}
            }
        }
        while let Ok(next) = to_pump.try_recv() {
            pumping.push(pump_one(next));
        }
        let closing = async {
            while pumping.next().await.is_some() {}
            let _ = frames.send(Outgoing::GoAway(0)).await;
            std::future::pending::<()>().await;
        };
        let _ = tokio::time::timeout(CLOSING, closing).await;
    };
    let mut received = std::pin::pin!(reader.receive(&idle));
    tokio::select! {
        biased;
        _ = send(write, to_send, &idle) => {}
        () = work => return,
        _ = &mut received => return,
        () = idle.expired() => return,
    }
    // The client closes the connection when it has read everything. Closing the connection with unread bytes would
    // reset it, and the client might lose the last messages.
    let _ = tokio::time::timeout(CLOSING, received).await;
}

/// Sends the bytes of a stream's pipe, and then its end.
async fn pump(pumped: Pumped, frames: mpsc::Sender<Outgoing>) {
    let Pumped { stream, pipe, _unsent } = pumped;
    let mut chunks = std::pin::pin!(chunks(pipe));
    while let Some(bytes) = chunks.next().await {
        if frames.send(Outgoing::Data(stream, bytes)).await.is_err() {
            return;
        }
    }
    let _ = frames.send(Outgoing::Fin(stream)).await;
}

/// Sends frames until the last one.
async fn send(mut write: WriteHalf<Io>, mut frames: mpsc::Receiver<Outgoing>, idle: &Idle) -> io::Result<()> {
    while let Some(frame) = frames.recv().await {
        idle.note();
        write.write_all(&frame.encode()).await?;
        write.flush().await?;
        if matches!(frame, Outgoing::GoAway(_)) {
            return write.shutdown().await;
        }
    }
    Ok(())
}

/// Reads the frames of a client.
struct Reader {
    read: ReadHalf<Io>,
    inflater: Inflater,
    /// The pipes to which the client's data go. A stream is removed when the client has sent its end.
    inputs: BTreeMap<u32, Pipe>,
    /// The number of the last stream that was opened.
    last: u32,
    /// Whether a stream was accepted, so that the compressed headers have begun.
    replied: bool,
    open: OpenStreams,
}

/// What is needed to open a stream.
struct OpenStreams {
    opened: mpsc::Sender<SpdyStream>,
    frames: mpsc::Sender<Outgoing>,
    pumps: mpsc::UnboundedSender<Pumped>,
    station: Option<Station>,
    /// Counts, by its references, the streams whose end was not sent yet.
    unsent: Arc<()>,
}

/// A stream that has a pipe from which its data are sent.
struct Pumped {
    stream: u32,
    pipe: Pipe,
    _unsent: Arc<()>,
}

impl Reader {
    /// Reads frames until the connection ends or a frame violates the protocol.
    async fn receive(mut self, idle: &Idle) -> io::Result<()> {
        loop {
            let mut head = [0; HEAD_BYTES];
            self.read.read_exact(&mut head).await?;
            idle.note();
            match FrameHead::parse(head).map_err(io::Error::other)? {
                FrameHead::Data { stream, fin, length } => {
                    self.data(stream, length).await?;
                    if fin {
                        self.inputs.remove(&stream);
                    }
                }
                FrameHead::Control { kind, flags, length } => {
                    let mut payload = vec![0; length];
                    self.read.read_exact(&mut payload).await?;
                    let control = Control::parse(kind, flags, &payload, &mut self.inflater);
                    self.control(control.map_err(io::Error::other)?).await?;
                }
            }
        }
    }

    /// Carries the data of a frame into the stream's pipe. Data of a stream that is gone are dropped.
    async fn data(&mut self, stream: u32, length: usize) -> io::Result<()> {
        let mut left = length;
        while left > 0 {
            let mut buffer = BytesMut::with_capacity(left.min(CHUNK_BYTES));
            let read = (&mut self.read).take(left as u64).read_buf(&mut buffer).await?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            left -= read;
            let unread = match self.inputs.get_mut(&stream) {
                Some(pipe) => pipe.write_all(&buffer).await.is_err(),
                None => false,
            };
            if unread {
                self.inputs.remove(&stream);
            }
        }
        Ok(())
    }

    async fn control(&mut self, control: Control) -> io::Result<()> {
        let answer = match control {
            Control::Open { stream, fin, headers } => {
                let is_new = stream > self.last && stream % 2 == 1;
                if !is_new {
                    Outgoing::Violation(stream)
                } else {
                    self.last = stream;
                    match self.open(stream, fin, headers) {
                        true => {
                            let is_first = !std::mem::replace(&mut self.replied, true);
                            Outgoing::Reply(stream, deflate(&[], is_first))
                        }
                        false => Outgoing::Refuse(stream),
                    }
                }
            }
            Control::Reset { stream } => {
                self.inputs.remove(&stream);
                return Ok(());
            }
            // Odd numbers are those of the client's pings; even ones answer the server's, which sends none.
            Control::Ping(number) if number % 2 == 1 => Outgoing::Pong(number),
            Control::Ping(_) | Control::GoAway | Control::Other => return Ok(()),
        };
        self.open.frames.send(answer).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Hands a stream over. Returns `false` if there are too many, or if no more streams are wanted.
    fn open(&mut self, stream: u32, fin: bool, headers: Headers) -> bool {
        let half_open = self.inputs.len().max(Arc::strong_count(&self.open.unsent) - 1);
        if half_open >= STREAMS_MAX {
            return false;
        }
        let station = self.open.station.as_ref();
        let (input, reader) = pipe(station);
        let (writer, output) = pipe(station);
        let new = SpdyStream { number: stream, headers, reader, writer };
        if self.open.opened.try_send(new).is_err() {
            return false;
        }
        let _ = self.open.pumps.send(Pumped { stream, pipe: output, _unsent: self.open.unsent.clone() });
        if !fin {
            self.inputs.insert(stream, input);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::{BufMut as _, Bytes};

    use super::*;
    use crate::limits::{CONTROL_FRAME_MAX_BYTES, IDLE};
    use crate::pipe::duplex;

    /// A control frame of a client.
    fn control(kind: u16, flags: u8, payload: &[u8]) -> Bytes {
        let mut frame = BytesMut::new();
        frame.put_u16(0x8003);
        frame.put_u16(kind);
        frame.put_u32(u32::from(flags) << 24 | payload.len() as u32);
        frame.put_slice(payload);
        frame.freeze()
    }

    fn open(stream: u32, flags: u8) -> Bytes {
        opening(stream, flags, stream == 1)
    }

    /// A frame that opens a stream. `is_first` says that no compressed headers were sent before.
    fn opening(stream: u32, flags: u8, is_first: bool) -> Bytes {
        let mut payload = BytesMut::new();
        payload.put_u32(stream);
        payload.put_slice(&[0; 6]);
        payload.put_slice(&deflate(&[("streamtype", "data")], is_first));
        control(1, flags, &payload)
    }

    /// Echoes what each stream sends, until the first `count` streams have ended.
    async fn echo(count: usize, mut opened: Opened) {
        for _ in 0..count {
            let Some(mut stream) = opened.recv().await else { return };
            let _ = tokio::io::copy(&mut stream.reader, &mut stream.writer).await;
        }
    }

    /// Sends bytes to a server that echoes, and returns what it answers until it closes the connection.
    async fn answer(count: usize, sent: &[Bytes]) -> Bytes {
        let (client, server) = duplex(None);
        let (mut read, mut write) = tokio::io::split(client);
        let serving = connection(Box::new(server), None, |opened| echo(count, opened));
        let mut got = Vec::new();
        let talking = async {
            for bytes in sent {
                let _ = write.write_all(bytes).await;
            }
            let _ = read.read_to_end(&mut got).await;
        };
        tokio::join!(serving, talking);
        got.into()
    }

    fn encoded(frames: &[Outgoing]) -> Bytes {
        frames.iter().flat_map(|frame| frame.encode()).collect()
    }

    fn reply(stream: u32) -> Outgoing {
        Outgoing::Reply(stream, deflate(&[], stream == 1))
    }

    #[tokio::test(start_paused = true)]
    async fn streams_are_echoed_and_the_connection_ends_with_the_last() {
        let data = |text: &'static str| Outgoing::Data(1, Bytes::from_static(text.as_bytes()));
        let sent = [open(1, 0), data("ab").encode(), control(6, 0, &[0, 0, 0, 1]), Outgoing::Fin(1).encode()];
        let got = answer(1, &sent).await;
        let end = encoded(&[Outgoing::Fin(1), Outgoing::GoAway(0)]);
        assert!(got.starts_with(&encoded(&[reply(1)])) && got.ends_with(&end), "{got:?}");
        for frame in [data("ab"), Outgoing::Pong(1)] {
            let frame = frame.encode();
            assert!(got.windows(frame.len()).any(|window| window == frame), "{frame:?} in {got:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_must_have_the_next_odd_number() {
        let got = answer(1, &[open(1, 0), opening(1, 0, false), open(2, 0), Outgoing::Fin(1).encode()]).await;
        for stream in [1, 2] {
            let refusal = Outgoing::Violation(stream).encode();
            assert!(got.windows(refusal.len()).any(|window| window == refusal), "{stream} in {got:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_violation_of_the_protocol_ends_the_connection() {
        let long = control(1, 0, &vec![0; CONTROL_FRAME_MAX_BYTES + 1]);
        let damaged = control(1, 0, &[0; 20]);
        for sent in
            [long, damaged, Bytes::from_static(b"GET / HT"), Bytes::from_static(&[0x80, 2, 0, 1, 0, 0, 0, 0])]
        {
            let (mut client, server) = duplex(None);
            client.write_all(&sent).await.unwrap();
            let serving = connection(Box::new(server), None, |opened| echo(1, opened));
            let within = match sent.starts_with(b"GET") {
                // These bytes look like the beginning of a long data frame.
                true => tokio::time::timeout(IDLE + Duration::from_secs(1), serving).await,
                false => tokio::time::timeout(Duration::from_secs(1), serving).await,
            };
            assert!(within.is_ok(), "{sent:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn there_are_not_more_streams_than_the_limit() {
        let sent: Vec<_> = (0..=STREAMS_MAX as u32).map(|number| open(2 * number + 1, 0)).collect();
        let (client, server) = duplex(None);
        let (mut read, mut write) = tokio::io::split(client);
        let keep = |mut opened: Opened| async move {
            let mut streams = Vec::new();
            while let Some(stream) = opened.recv().await {
                streams.push(stream);
            }
        };
        let serving = connection(Box::new(server), None, keep);
        let last = encoded(&[Outgoing::Refuse(2 * STREAMS_MAX as u32 + 1)]);
        let mut got = Vec::new();
        let talking = async {
            for bytes in &sent {
                write.write_all(bytes).await.unwrap();
            }
            while !got.ends_with(&last) {
                read.read_buf(&mut got).await.unwrap();
            }
        };
        tokio::select! {
            () = serving => panic!("the connection ended"),
            () = talking => {}
        }
    }
}
