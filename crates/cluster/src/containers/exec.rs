//! Commands in containers.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;

use evenkeel_apiserver::CommandCall;
use evenkeel_controllers::node::rules::Selector;
use evenkeel_streams::{Command, Pipe, Process, Sizes};
use futures::future::BoxFuture;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{names_and_images, selects, text};

/// How many bytes [`Exec::read_stdin`] reads at most: more than any configuration or dump of a test.
const STDIN_MAX_BYTES: u64 = 256 << 20;

/// A command that a client runs in a container, or a client that attaches to one, as a handler sees it.
#[non_exhaustive]
pub struct Exec {
    /// The namespace of the pod.
    pub namespace: String,
    /// The name of the pod.
    pub pod: String,
    /// The labels of the pod.
    pub labels: BTreeMap<String, String>,
    /// The name of the container.
    pub container: String,
    /// The image of the container.
    pub image: String,
    /// The command and its arguments; empty for a client that attaches.
    pub command: Vec<String>,
    /// What the client types; `None` if it types nothing. It ends when the client closes it.
    pub stdin: Option<Pipe>,
    /// Where to print; `None` if the client does not read it.
    pub stdout: Option<Pipe>,
    /// Where to print errors; `None` if the client does not read them, or if the command has a terminal.
    pub stderr: Option<Pipe>,
    /// The sizes of the client's terminal; `None` without a terminal.
    pub sizes: Option<Sizes>,
    /// Whether the command has a terminal.
    pub tty: bool,
}

impl fmt::Debug for Exec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, pod, container, command, .. } = self;
        write!(f, "Exec({namespace}/{pod}/{container}: {command:?})")
    }
}

impl Exec {
    fn new(call: CommandCall, process: Process) -> Self {
        let CommandCall { pod, container, command, .. } = call;
        let labels = pod["metadata"]["labels"].as_object().into_iter().flatten();
        let labels = labels.filter_map(|(key, value)| Some((key.to_string(), value.as_str()?.to_owned())));
        let image = names_and_images(&pod).find(|(name, _)| *name == container);
        Self {
            namespace: text(&pod, "/metadata/namespace").to_owned(),
            pod: text(&pod, "/metadata/name").to_owned(),
            labels: labels.collect(),
            image: image.map(|(_, image)| image.to_owned()).unwrap_or_default(),
            container,
            command: command.unwrap_or_default(),
            stdin: process.stdin,
            stdout: process.stdout,
            stderr: process.stderr,
            sizes: process.sizes,
            tty: process.tty,
        }
    }

    /// Prints to stdout. What a client does not read is dropped.
    pub async fn print(&mut self, text: impl AsRef<[u8]>) {
        print(&mut self.stdout, text.as_ref()).await;
    }

    /// Prints to stderr, or to the terminal. What a client does not read is dropped.
    pub async fn print_error(&mut self, text: impl AsRef<[u8]>) {
        let to = if self.tty { &mut self.stdout } else { &mut self.stderr };
        print(to, text.as_ref()).await;
    }

    /// Reads all that the client types, until it closes stdin. Empty if it types nothing.
    ///
    /// # Errors
    /// Fails if it is more than 256 MiB.
    pub async fn read_stdin(&mut self) -> io::Result<Vec<u8>> {
        let Some(stdin) = self.stdin.take() else { return Ok(Vec::new()) };
        let mut bytes = Vec::new();
        let mut limited = stdin.take(STDIN_MAX_BYTES + 1);
        limited.read_to_end(&mut bytes).await?;
        match bytes.len() as u64 > STDIN_MAX_BYTES {
            true => Err(io::Error::other("stdin has more than 256 MiB")),
            false => Ok(bytes),
        }
    }
}

async fn print(to: &mut Option<Pipe>, bytes: &[u8]) {
    if let Some(pipe) = to
        && pipe.write_all(bytes).await.is_err()
    {
        *to = None;
    }
}

/// How a command ended: with an exit code, or not run at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit(pub(crate) Result<i32, String>);

impl Exit {
    /// The command could not be run, for this reason.
    pub fn not_run(why: impl Into<String>) -> Self {
        Self(Err(why.into()))
    }
}

impl From<i32> for Exit {
    fn from(code: i32) -> Self {
        Self(Ok(code))
    }
}

impl From<()> for Exit {
    fn from((): ()) -> Self {
        Self(Ok(0))
    }
}

/// A function that carries out commands.
pub(crate) type ExecHandler = Arc<dyn Fn(Exec) -> BoxFuture<'static, Exit> + Send + Sync>;

/// What a handler answers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// New commands.
    Exec,
    /// Clients that attach to what runs.
    Attach,
}

/// A handler with the containers that it answers for.
pub(crate) struct ExecRule {
    pub(crate) kind: CallKind,
    pub(crate) selector: Selector,
    pub(crate) handler: ExecHandler,
}

impl ExecRule {
    pub(crate) fn matches(&self, call: &CommandCall) -> bool {
        let kind = if call.command.is_some() { CallKind::Exec } else { CallKind::Attach };
        let mut containers = names_and_images(&call.pod);
        let image = containers.find(|(name, _)| *name == call.container).map_or("", |(_, image)| image);
        self.kind == kind && selects(&self.selector, &call.pod, &call.container, image)
    }
}

/// The command of a call that a handler carries out.
pub(crate) fn command(handler: ExecHandler, call: CommandCall) -> Command {
    Box::new(move |process| {
        let running = handler(Exec::new(call, process));
        Box::pin(async move { running.await.0 })
    })
}
