//! A replica of the operator: a process behind a proxy that can cut its network.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::proxy::Proxy;

/// How long a replica may take to end after it has lost the lease or was killed: on a busy machine many times what it
/// takes.
const END: Duration = Duration::from_secs(60);

/// One of the two replicas. Each start of the process has another identity.
pub(crate) struct Replica {
    name: &'static str,
    starts: u32,
    folder: PathBuf,
    kubeconfig: PathBuf,
    child: Option<Child>,
    pub(crate) proxy: Proxy,
}

impl Replica {
    /// A replica that reaches the server at `server` through a proxy, with the credentials of a kubeconfig.
    pub(crate) async fn new(
        name: &'static str,
        server: &str,
        kubeconfig: &Path,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let proxy = Proxy::start(server.to_owned()).await?;
        let text = std::fs::read_to_string(kubeconfig)?.replace(server, &proxy.address().to_string());
        let kubeconfig = folder.join(format!("kubeconfig-{name}"));
        std::fs::write(&kubeconfig, text)?;
        Ok(Self { name, starts: 0, folder: folder.to_owned(), kubeconfig, child: None, proxy })
    }

    /// Returns the name that the present process has in the election and in its writes.
    pub(crate) fn identity(&self) -> String {
        format!("{}-{}", self.name, self.starts)
    }

    /// Starts the process, unless it is running.
    pub(crate) fn ensure_running(&mut self) -> anyhow::Result<()> {
        if let Some(child) = &mut self.child
            && child.try_wait()?.is_none()
        {
            return Ok(());
        }
        self.starts += 1;
        let log = self.folder.join(format!("log-{}", self.identity()));
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("operator").arg("--kubeconfig").arg(&self.kubeconfig);
        command.arg("--identity").arg(self.identity());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(std::fs::File::create(log)?);
        self.child = Some(command.kill_on_drop(true).spawn().context("cannot start a replica")?);
        Ok(())
    }

    /// Restarts the process whenever it has ended. Returns only if a start fails.
    pub(crate) async fn supervise(&mut self) -> anyhow::Error {
        loop {
            if let Err(error) = self.ensure_running() {
                return error;
            }
            if let Some(child) = &mut self.child
                && let Err(error) = child.wait().await
            {
                return error.into();
            }
        }
    }

    /// Sends a signal to the process, unless it has ended.
    pub(crate) async fn signal(&mut self, signal: &str) -> anyhow::Result<()> {
        let Some(child) = &mut self.child else { return Ok(()) };
        // The kernel does not reuse the number of a process before its parent has waited for it.
        let Some(pid) = child.id() else { return Ok(()) };
        let sent = Command::new("kill").arg(format!("-{signal}")).arg(pid.to_string()).status().await?;
        if !sent.success() && child.try_wait()?.is_none() {
            bail!("cannot send {signal} to the replica {}", self.identity());
        }
        Ok(())
    }

    /// Kills the process with SIGKILL and waits until it is gone.
    pub(crate) async fn kill(&mut self) -> anyhow::Result<()> {
        match self.child.take() {
            Some(mut child) => {
                let killed = timeout(END, child.kill()).await;
                let killed =
                    killed.with_context(|| format!("{} is not gone after SIGKILL", self.identity()))?;
                killed.context("cannot kill a replica")
            }
            None => Ok(()),
        }
    }

    /// Waits until the process has ended by itself.
    pub(crate) async fn ended(&mut self) -> anyhow::Result<()> {
        let Some(child) = &mut self.child else { return Ok(()) };
        let status = timeout(END, child.wait()).await;
        status.with_context(|| format!("{} has not ended after it lost the lease", self.identity()))??;
        self.child = None;
        Ok(())
    }
}
