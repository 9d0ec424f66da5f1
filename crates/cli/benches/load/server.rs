//! The server under load, in a process of its own.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel::kube::config::Kubeconfig;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

use super::{Client, tls};

/// The users of the clients. Each has a quarter of the load.
const USERS: [&str; 4] = ["alice", "bob", "carol", "dave"];

pub(crate) struct Server {
    child: Child,
    url: String,
    kubeconfig: Kubeconfig,
    _folder: tempfile::TempDir,
}

/// Samples the server's memory and open files while it runs.
pub(crate) struct Sampled {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<(u64, usize)>,
}

impl Server {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (kubeconfig, tokens) = (folder.path().join("kubeconfig"), folder.path().join("tokens"));
        let lines: String = USERS.iter().map(|user| format!("token-of-{user},{user},{user}\n")).collect();
        std::fs::write(&tokens, lines).expect("it can be written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        command.args(["up", "--bind", "127.0.0.1:0", "--kubeconfig"]).arg(&kubeconfig);
        command.arg("--token-auth-file").arg(&tokens).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the binary runs");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("it is piped")).read_line(&mut line).expect("it is text");
        let url = line.trim().strip_prefix("ready: ").expect("it becomes ready").to_owned();
        let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("it was written");
        Self { child, url, kubeconfig, _folder: folder }
    }

    /// A client with the administrator's certificate.
    pub(crate) fn admin(&self) -> Client {
        self.client(None)
    }

    /// A client for each user.
    pub(crate) fn clients(&self) -> Arc<[Client]> {
        USERS.iter().map(|user| self.client(Some(format!("token-of-{user}")))).collect()
    }

    fn client(&self, token: Option<String>) -> Client {
        let address = self.url.trim_start_matches("https://").parse().expect("it is an address");
        let config = match token {
            None => tls::admin(&self.kubeconfig),
            Some(_) => tls::trusting(&tls::authority(&self.kubeconfig)).with_no_client_auth(),
        };
        let mut over_h2 = config.clone();
        over_h2.alpn_protocols = vec![b"h2".to_vec()];
        let configs = [config, over_h2].map(Arc::new);
        Client { address, configs, token }
    }

    /// Starts sampling.
    pub(crate) fn sample(&self) -> Sampled {
        let (process, stop) = (format!("/proc/{}", self.child.id()), Arc::new(AtomicBool::new(false)));
        let thread = std::thread::spawn({
            let stop = stop.clone();
            move || {
                let (mut resident, mut files) = (0, 0);
                while !stop.load(Ordering::Relaxed) {
                    resident = resident.max(resident_mb(&process));
                    files = files.max(std::fs::read_dir(format!("{process}/fd")).map_or(0, Iterator::count));
                    std::thread::park_timeout(Duration::from_millis(250));
                }
                (resident, files)
            }
        });
        Sampled { stop, thread }
    }

    /// Sends SIGTERM, and waits for the end of the server.
    pub(crate) fn terminate(mut self) -> (Option<i32>, Duration) {
        let before = Instant::now();
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("it runs");
        let code = super::wait(&mut self.child);
        (code, before.elapsed())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Sampled {
    /// The maximum of resident memory in MB, and of open files.
    pub(crate) fn finish(self) -> (u64, usize) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().expect("it only reads files")
    }
}

fn resident_mb(process: &str) -> u64 {
    let status = std::fs::read_to_string(format!("{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or_default() / 1024
}

/// A ClusterRoleBinding that lets the users do everything.
pub(crate) fn binding() -> String {
    let group = "rbac.authorization.k8s.io";
    let subjects = USERS.map(|user| serde_json::json!({"kind": "User", "name": user, "apiGroup": group}));
    let role = serde_json::json!({"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": group});
    serde_json::json!({"metadata": {"name": "load"}, "subjects": subjects, "roleRef": role}).to_string()
}
