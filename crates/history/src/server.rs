//! `evenkeel up` as a process, which can be killed and started again.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, bail};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use crate::client::Client;

/// `evenkeel up` in a folder of its own, on the port that it had first.
#[derive(Debug)]
pub struct Server {
    evenkeel: PathBuf,
    folder: TempDir,
    /// Where it listens; port 0 until it was started once.
    bind: String,
    /// How many bytes of the newest log are lost with each kill.
    lose_tail: Option<u64>,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
    ready: bool,
}

impl Server {
    /// A server that is not started yet. With each kill, it loses this many bytes of its newest log.
    ///
    /// # Errors
    /// When no folder can be made.
    pub fn new(evenkeel: &Path, lose_tail: Option<u64>) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a folder")?;
        let (evenkeel, bind) = (evenkeel.to_owned(), "127.0.0.1:0".into());
        Ok(Self { evenkeel, folder, bind, lose_tail, running: None })
    }

    /// Starts the process, or goes on to wait for one that was started, and waits until it serves.
    ///
    /// # Errors
    /// When the process ends before.
    pub async fn start(&mut self) -> anyhow::Result<Client> {
        if self.running.is_none() {
            self.running = Some(self.spawn()?);
        }
        let Some(running) = &mut self.running else { bail!("it was just started") };
        let mut line = String::new();
        running.stdout.read_line(&mut line).await?;
        let Some(address) = line.trim().strip_prefix("ready: https://") else {
            bail!("the server did not become ready ({line:?}); its log:\n{}", self.log());
        };
        running.ready = true;
        self.bind = address.to_owned();
        self.client()
    }

    /// Whether the process serves.
    pub fn is_ready(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.ready)
    }

    /// Where the process listens.
    pub fn address(&self) -> &str {
        &self.bind
    }

    /// The kubeconfig that the process has written.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// A client of the process, once that serves.
    ///
    /// # Errors
    /// When the kubeconfig cannot be read.
    pub fn client(&self) -> anyhow::Result<Client> {
        Client::new(&self.bind, &self.kubeconfig())
    }

    fn spawn(&self) -> anyhow::Result<Running> {
        let log = std::fs::File::options().create(true).append(true).open(self.folder.path().join("log"))?;
        let mut command = Command::new(&self.evenkeel);
        command.args(["up", "--bind", &self.bind, "--nodes", "0", "--data-dir"]);
        command.arg(self.folder.path().join("data"));
        command.arg("--kubeconfig").arg(self.kubeconfig());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).kill_on_drop(true);
        let mut child = command.spawn().with_context(|| format!("cannot run {}", self.evenkeel.display()))?;
        let stdout = child.stdout.take().context("it is piped")?;
        Ok(Running { child, stdout: BufReader::new(stdout), ready: false })
    }

    /// SIGKILL; returns when the process is gone.
    ///
    /// # Errors
    /// When it had ended by itself.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        let Some(mut running) = self.running.take() else { return Ok(()) };
        if let Some(status) = running.child.try_wait()? {
            bail!("the server ended by itself ({status}); its log:\n{}", self.log());
        }
        running.child.kill().await.context("cannot kill the server")?;
        self.lose_tail.map_or(Ok(()), |bytes| self.cut(bytes))
    }

    /// Cuts bytes off the newest log.
    fn cut(&self, bytes: u64) -> anyhow::Result<()> {
        let entries = std::fs::read_dir(self.folder.path().join("data"))?;
        let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
        let is_log = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"log-"))
        };
        let newest = paths.into_iter().filter(is_log).max().context("there is no log")?;
        let log = std::fs::File::options().write(true).open(newest)?;
        Ok(log.set_len(log.metadata()?.len().saturating_sub(bytes))?)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Keeps the folder, and says where it is.
    pub fn keep(self) -> PathBuf {
        self.folder.keep()
    }
}
