//! The measured server, in a process of its own.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use evenkeel::kube::config::Kubeconfig;

use crate::client::Client;
use crate::{constant, now, tls};

/// The unit in which Linux reports processor time to programs: 0.01 s.
const TICKS_PER_SECOND: u64 = 100;

pub(crate) struct Server {
    child: Child,
    url: String,
    config: Arc<rustls::ClientConfig>,
    pub(crate) ready_after: Duration,
    _folder: tempfile::TempDir,
}

impl Server {
    /// Starts `evenkeel up` with these options.
    pub(crate) fn up(options: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let kubeconfig = folder.path().join("kubeconfig");
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        command.args(["up", "--bind", "127.0.0.1:0", "--kubeconfig"]).arg(&kubeconfig).args(options);
        let before = now();
        let (child, line) = start(command);
        let ready_after = before.elapsed();
        let url = line.trim().strip_prefix("ready: ").expect("it becomes ready").to_owned();
        let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("it was written");
        let config = Arc::new(tls::admin(&kubeconfig));
        Self { child, url, config, ready_after, _folder: folder }
    }

    /// Starts the ceiling, which answers with constant bytes.
    pub(crate) fn constant() -> Self {
        let before = now();
        let (mut child, line) = start(constant::command());
        let mut certificate = String::new();
        let stdout = child.stdout.as_mut().expect("it is piped");
        stdout.take(4096).read_to_string(&mut certificate).expect("it is text");
        let config = tls::trusting(certificate.as_bytes()).with_no_client_auth();
        let folder = tempfile::tempdir().expect("a folder");
        let (url, ready_after) = (line.trim().to_owned(), before.elapsed());
        Self { child, url, config: Arc::new(config), ready_after, _folder: folder }
    }

    pub(crate) fn client(&self) -> Client {
        let address = self.url.trim_start_matches("https://").parse().expect("it is an address");
        Client { address, config: self.config.clone() }
    }

    /// The processor time that the server has used.
    pub(crate) fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("it runs");
        // The name may contain spaces, and ends with the last parenthesis. User and system time are fields 14 and 15.
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND)
    }

    pub(crate) fn resident_mb(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the kernel says it");
        let kib: f64 = line.trim().trim_end_matches(" kB").parse().expect("it is a number");
        kib / 1024.0
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server and waits for its first line.
fn start(mut command: Command) -> (Child, String) {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary runs");
    let mut line = String::new();
    // With a buffer of one byte, nothing is read beyond the line.
    let stdout = child.stdout.as_mut().expect("it is piped");
    BufReader::with_capacity(1, stdout).read_line(&mut line).expect("it is text");
    (child, line)
}
