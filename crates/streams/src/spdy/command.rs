//! A command over SPDY: a stream for each of its streams, one for its end, and one for the size of the terminal.

use bytes::Bytes;
use evenkeel_env::Station;
use tokio::io::{AsyncWriteExt as _, copy};

use super::connection::{Opened, SpdyStream, connection};
use crate::Io;
use crate::command::{self, Command, EndForm, Process, Streams};
use crate::limits::STREAM_CREATION;
use crate::pipe::Pipe;

/// What a client asked for in its request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandRequest {
    pub(crate) streams: Streams,
    pub(crate) form: EndForm,
    /// Whether the protocol tells the size of the terminal.
    pub(crate) resizes: bool,
}

/// The streams of a command that a client has opened.
#[derive(Debug, Default)]
struct Ends {
    error: Option<SpdyStream>,
    stdin: Option<SpdyStream>,
    stdout: Option<SpdyStream>,
    stderr: Option<SpdyStream>,
    resize: Option<SpdyStream>,
}

pub(crate) async fn serve_command(
    io: Io,
    asked: CommandRequest,
    command: Command,
    station: Option<&Station>,
) {
    connection(io, station, |opened| serve(asked, command, opened, station)).await;
}

async fn serve(asked: CommandRequest, command: Command, mut opened: Opened, station: Option<&Station>) {
    let ends = match tokio::time::timeout(STREAM_CREATION, collect(asked, &mut opened)).await {
        Ok(Some(ends)) => ends,
        _ => return,
    };
    let (process, client) = Process::new(asked.streams, station);
    let input = [(ends.stdin, client.stdin), (ends.resize, client.sizes)].map(|(from, to)| async {
        if let (Some(mut from), Some(mut to)) = (from, to) {
            let _ = copy(&mut from.reader, &mut to).await;
        }
    });
    let output = [(ends.stdout, client.stdout), (ends.stderr, client.stderr)].map(|(to, from)| async {
        if let (Some(mut to), Some(mut from)) = (to, from) {
            let _ = copy(&mut from, &mut to.writer).await;
        }
    });
    let [stdin, sizes] = input;
    let [stdout, stderr] = output;
    let running = command::run(command, process, asked.form);
    let ended = async { futures::join!(running, stdout, stderr).0 };
    // Input does not keep a command alive.
    let typed = async {
        futures::join!(stdin, sizes);
        std::future::pending::<()>().await;
    };
    let told: Option<Bytes> = tokio::select! {
        biased;
        told = ended => told,
        () = typed => None,
    };
    if let (Some(error), Some(told)) = (ends.error, told) {
        say(error.writer, &told).await;
    }
}

async fn say(mut writer: Pipe, text: &[u8]) {
    let _ = writer.write_all(text).await;
}

/// Waits for the streams that the request announced.
async fn collect(asked: CommandRequest, opened: &mut Opened) -> Option<Ends> {
    let Streams { stdin, stdout, stderr, tty } = asked.streams;
    let mut missing =
        1 + [stdin, stdout, stderr && !tty, tty && asked.resizes].iter().filter(|it| **it).count();
    let mut ends = Ends::default();
    while missing > 0 {
        let stream = opened.recv().await?;
        let slot = match stream.headers.get("streamtype") {
            "error" => &mut ends.error,
            "stdin" => &mut ends.stdin,
            "stdout" => &mut ends.stdout,
            "stderr" => &mut ends.stderr,
            "resize" => &mut ends.resize,
            _ => continue,
        };
        if slot.replace(stream).is_none() {
            missing -= 1;
        }
    }
    Some(ends)
}
