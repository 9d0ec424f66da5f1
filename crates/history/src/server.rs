//! `evenkeel up` as a process that can be killed and started again.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::client::Client;

/// How long a start may take until the server is ready: on a busy machine a hundred times what it takes.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How long a killed process may take to be gone. The kernel ends it only after a sync to a busy disk has returned.
const GONE_WITHIN: Duration = Duration::from_secs(60);

/// `evenkeel up` with a data directory of its own. Every start listens on the port of the first one.
#[derive(Debug)]
pub struct Server {
    evenkeel: PathBuf,
    folder: TempDir,
    /// The address to listen on; its port is 0 until the first start.
    bind: String,
    /// How many bytes to cut off the newest log file after each kill.
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
    /// A server that is not started yet. After each kill, `lose_tail` bytes are cut off its newest log file.
    ///
    /// # Errors
    /// If no folder can be created.
    pub fn new(evenkeel: &Path, lose_tail: Option<u64>) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a folder")?;
        let (evenkeel, bind) = (evenkeel.to_owned(), "127.0.0.1:0".into());
        Ok(Self { evenkeel, folder, bind, lose_tail, running: None })
    }

    /// Starts the process, unless an earlier call has started it, and waits until the server is ready.
    ///
    /// # Errors
    /// If the process ends before it is ready, or is not ready in time.
    pub async fn start(&mut self) -> anyhow::Result<Client> {
        if self.running.is_none() {
            self.running = Some(self.spawn()?);
        }
        let Some(running) = &mut self.running else { bail!("it was just started") };
        let mut line = String::new();
        let Ok(read) = timeout(READY_WITHIN, running.stdout.read_line(&mut line)).await else {
            bail!("the server is not ready {READY_WITHIN:?} after its start; its log:\n{}", self.log());
        };
        read.context("cannot read the output of the server")?;
        let Some(address) = line.trim().strip_prefix("ready: https://") else {
            bail!("the server did not become ready ({line:?}); its log:\n{}", self.log());
        };
        running.ready = true;
        self.bind = address.to_owned();
        self.client()
    }

    /// Whether the server is ready.
    pub fn is_ready(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.ready)
    }

    /// The address that the server listens on.
    pub fn address(&self) -> &str {
        &self.bind
    }

    /// The path of the kubeconfig that the server writes.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// A client of a server that is ready.
    ///
    /// # Errors
    /// If the kubeconfig cannot be read.
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

    /// Kills the process with SIGKILL and waits until it is gone.
    ///
    /// # Errors
    /// If the process had ended by itself, or does not end in time.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        let Some(mut running) = self.running.take() else { return Ok(()) };
        if let Some(status) = running.child.try_wait()? {
            bail!("the server ended by itself ({status}); its log:\n{}", self.log());
        }
        let killed = timeout(GONE_WITHIN, running.child.kill()).await;
        let killed =
            killed.with_context(|| format!("the server is not gone {GONE_WITHIN:?} after SIGKILL"))?;
        killed.context("cannot kill the server")?;
        self.lose_tail.map_or(Ok(()), |bytes| self.cut(bytes))
    }

    /// Cuts bytes off the newest log file.
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

    /// Keeps the folder and returns its path.
    pub fn keep(self) -> PathBuf {
        self.folder.keep()
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// In paused time a bound is reached at once, because nothing else happens.
    #[tokio::test(start_paused = true)]
    async fn a_server_that_never_becomes_ready_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("evenkeel");
        std::fs::write(&script, "#!/bin/sh\nexec sleep 600\n").unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).unwrap();
        let mut server = Server::new(&script, None).unwrap();
        let error = server.start().await.unwrap_err().to_string();
        assert!(error.starts_with("the server is not ready 60s after its start"), "{error}");
        assert!(!server.is_ready());
    }
}
