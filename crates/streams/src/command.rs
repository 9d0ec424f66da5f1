//! A command in a container, whatever the protocol by which a client reaches it.

use std::future::Future;

use bytes::{Bytes, BytesMut};
use evenkeel_env::Station;
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;
use tokio::io::AsyncReadExt as _;

use crate::limits::SIZE_MAX_BYTES;
use crate::pipe::{Pipe, pipe};

/// Runs a command. It returns the exit code, or why the command could not be run.
///
/// The future is dropped if the client goes away.
pub type Command = Box<dyn FnOnce(Process) -> BoxFuture<'static, Result<i32, String>> + Send>;

/// Which streams of a command a client asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    /// What the client types.
    pub stdin: bool,
    /// What the command prints.
    pub stdout: bool,
    /// The errors that the command prints. With a terminal they are a part of the output.
    pub stderr: bool,
    /// Whether the command has a terminal.
    pub tty: bool,
}

/// A running command, as its implementation sees it. A stream that the client does not ask for is `None`.
#[derive(Debug)]
pub struct Process {
    /// What the client types. It ends when the client closes it.
    pub stdin: Option<Pipe>,
    /// Where to print.
    pub stdout: Option<Pipe>,
    /// Where to print errors.
    pub stderr: Option<Pipe>,
    /// The sizes of the client's terminal.
    pub sizes: Option<Sizes>,
    /// Whether the command has a terminal.
    pub tty: bool,
}

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct TerminalSize {
    /// The number of columns.
    pub width: u16,
    /// The number of rows.
    pub height: u16,
}

/// The sizes of a client's terminal: the first one, and one for each change.
#[derive(Debug)]
pub struct Sizes {
    pipe: Pipe,
    unread: BytesMut,
}

impl Sizes {
    /// Waits for the next size. `None` if the client sends no more.
    pub async fn next(&mut self) -> Option<TerminalSize> {
        loop {
            let mut sizes = serde_json::Deserializer::from_slice(&self.unread).into_iter::<TerminalSize>();
            if let Some(Ok(size)) = sizes.next() {
                let read = sizes.byte_offset();
                let _ = self.unread.split_to(read);
                return Some(size);
            }
            if self.unread.len() >= SIZE_MAX_BYTES
                || !matches!(self.pipe.read_buf(&mut self.unread).await, Ok(1..))
            {
                return None;
            }
        }
    }
}

/// The client's ends of the streams of a process.
#[derive(Debug, Default)]
pub(crate) struct ClientEnds {
    pub(crate) stdin: Option<Pipe>,
    pub(crate) stdout: Option<Pipe>,
    pub(crate) stderr: Option<Pipe>,
    pub(crate) sizes: Option<Pipe>,
}

impl Process {
    /// Creates a process with the streams that a client asks for, and the client's ends of them.
    pub(crate) fn new(streams: Streams, station: Option<&Station>) -> (Self, ClientEnds) {
        let to_process = |wanted: bool| wanted.then(|| pipe(station)).unzip();
        let from_process = |wanted: bool| {
            let (process, client) = wanted.then(|| pipe(station)).unzip();
            (client, process)
        };
        let (stdin, own_stdin) = to_process(streams.stdin);
        let (stdout, own_stdout) = from_process(streams.stdout);
        let (stderr, own_stderr) = from_process(streams.stderr && !streams.tty);
        let (sizes, own_sizes) = to_process(streams.tty);
        let own_sizes = own_sizes.map(|pipe| Sizes { pipe, unread: BytesMut::new() });
        let process = Self {
            stdin: own_stdin,
            stdout: own_stdout,
            stderr: own_stderr,
            sizes: own_sizes,
            tty: streams.tty,
        };
        (process, ClientEnds { stdin, stdout, stderr, sizes })
    }
}

/// How a client is told how a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndForm {
    /// A `Status` object, since version 4 of the protocols.
    Status,
    /// A text, if the command failed.
    Text,
}

/// Runs a command to its end, and returns what its client is told about it: nothing if it succeeded and the protocol has
/// no word for that.
pub(crate) fn run(
    command: Command,
    process: Process,
    form: EndForm,
) -> impl Future<Output = Option<Bytes>> + Send {
    let running = command(process);
    async move {
        let ended = running.await;
        match form {
            EndForm::Status => Some(status(&ended).into()),
            EndForm::Text => match ended {
                Ok(0) => None,
                Ok(code) => Some(exited(code).into()),
                Err(why) => Some(not_run(&why).into()),
            },
        }
    }
}

fn exited(code: i32) -> String {
    format!("command terminated with non-zero exit code: exit status {code}")
}

fn not_run(why: &str) -> String {
    format!("error executing command in container: {why}")
}

fn status(ended: &Result<i32, String>) -> Vec<u8> {
    let status = match ended {
        Ok(0) => json!({"metadata": {}, "status": "Success"}),
        Ok(code) => json!({
            "metadata": {},
            "status": "Failure",
            "message": exited(*code),
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
        Err(why) => json!({
            "metadata": {},
            "status": "Failure",
            "message": format!("Internal error occurred: {}", not_run(why)),
            "reason": "InternalError",
            "details": {"causes": [{"message": not_run(why)}]},
            "code": 500,
        }),
    };
    status.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test]
    async fn sizes_may_arrive_in_pieces() {
        let (mut writer, pipe) = pipe(None);
        let mut sizes = Sizes { pipe, unread: BytesMut::new() };
        writer.write_all(br#"{"Width":80,"Height":24}{"Wid"#).await.unwrap();
        assert_eq!(sizes.next().await, Some(TerminalSize { width: 80, height: 24 }));
        writer.write_all(br#"th":1,"Height":2}"#).await.unwrap();
        assert_eq!(sizes.next().await, Some(TerminalSize { width: 1, height: 2 }));
        writer.write_all(&[b' '; 2 * SIZE_MAX_BYTES]).await.unwrap();
        assert_eq!(sizes.next().await, None);
    }

    #[test]
    fn the_end_of_a_command_is_told_in_the_words_of_kubernetes() {
        let status = |ended| serde_json::from_slice::<serde_json::Value>(&status(&ended)).unwrap();
        assert_eq!(status(Ok(0)), json!({"metadata": {}, "status": "Success"}));
        let failed = status(Ok(3));
        assert_eq!(failed["reason"], "NonZeroExitCode");
        assert_eq!(failed["details"]["causes"], json!([{"reason": "ExitCode", "message": "3"}]));
        assert_eq!(status(Err("no such file".into()))["reason"], "InternalError");
    }
}
