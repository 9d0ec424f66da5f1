//! What the dashboard costs the server: processor time of a create with the page open and the record on, and without.
//!
//! `cargo bench -p evenkeel-cli --bench page` starts two servers, one with `--dashboard` and a follower of the record as
//! the open page has one, and creates ConfigMaps in both in turn. It prints the processor time of a create for both, and
//! the median of the rounds' ratios. The goal is 5 %. `CREATES` and `ROUNDS` change how much is measured.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time and reads its environment")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::kube::api::{Api, PostParams};
use evenkeel::kube::config::{KubeConfigOptions, Kubeconfig};
use evenkeel::kube::{Client, Config};
use futures::StreamExt as _;

/// The largest part by which the page may make a create more expensive, in percent.
const GOAL: f64 = 5.0;

/// How many creates are in flight at once.
const AT_ONCE: usize = 8;

/// The length of a tick in `/proc`, which is the same on all architectures.
const MICROS_PER_TICK: f64 = 10_000.0;

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|it| it.parse().ok()).unwrap_or(default)
}

fn main() -> ExitCode {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    runtime.block_on(measure())
}

async fn measure() -> ExitCode {
    let (creates, rounds) = (number("CREATES", 4000), number("ROUNDS", 9));
    let folder = tempfile::tempdir().expect("a folder");
    let mut plain = Server::start(folder.path(), "plain", &[]);
    let mut shown = Server::start(folder.path(), "shown", &["--dashboard", "127.0.0.1:0"]);
    shown.open_page();
    let (of_plain, of_shown) = (plain.client().await, shown.client().await);
    let mut ratios = Vec::new();
    let mut each = [Vec::new(), Vec::new()];
    for round in 0..=rounds {
        let mut spent = [0.0, 0.0];
        // Whoever comes second in a round may meet a warmer machine.
        for side in [round % 2, (round + 1) % 2] {
            let (server, client) = [(&plain, &of_plain), (&shown, &of_shown)][side];
            let before = server.micros();
            create(client, round, creates).await;
            spent[side] = (server.micros() - before) / creates as f64;
        }
        // The first round warms up.
        if round > 0 {
            ratios.push(spent[1] / spent[0]);
            each.iter_mut().zip(spent).for_each(|(all, it)| all.push(it));
        }
    }
    let [without, with] = each.map(median);
    let part = (median(ratios) - 1.0) * 100.0;
    let missed = if part <= GOAL { "" } else { ", missed" };
    println!(
        "a create: {with:.0} µs of processor time with the page open and the record on, {without:.0} µs without: {part:+.1} % \
         by the median of {rounds} rounds of {creates} (goal {GOAL} %{missed})"
    );
    plain.stop();
    shown.stop();
    if part <= GOAL { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn create(client: &Client, round: usize, creates: usize) {
    let api: &Api<ConfigMap> = &Api::default_namespaced(client.clone());
    let requests = (0..creates).map(|at| async move {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(format!("m-{round}-{at}"));
        map.data = Some([("value".to_owned(), "x".repeat(100))].into());
        api.create(&PostParams::default(), &map).await.expect("it is created");
    });
    futures::stream::iter(requests).buffer_unordered(AT_ONCE).for_each(|()| async {}).await;
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A running `evenkeel up`.
struct Server {
    child: Child,
    kubeconfig: PathBuf,
    /// The one-time link of the dashboard, if there is one.
    link: Option<String>,
}

impl Server {
    fn start(folder: &Path, name: &str, more: &[&str]) -> Self {
        let kubeconfig = folder.join(name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        command.args(["up", "--bind", "127.0.0.1:0", "--no-controllers", "--nodes", "0", "--kubeconfig"]);
        let mut child =
            command.arg(&kubeconfig).args(more).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("its output is read")).lines();
        let wanted = if more.is_empty() { "export " } else { "dashboard: " };
        let line =
            lines.find_map(|line| line.ok()?.strip_prefix(wanted).map(str::to_owned)).expect("it is ready");
        let link = (!more.is_empty()).then_some(line);
        Self { child, kubeconfig, link }
    }

    async fn client(&self) -> Client {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig).expect("it is one");
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        Client::try_from(config.expect("it is valid")).expect("it is valid")
    }

    /// The processor time that the server has used.
    fn micros(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("it runs");
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |at: usize| fields[at].parse::<f64>().expect("a number");
        (ticks(11) + ticks(12)) * MICROS_PER_TICK
    }

    /// Logs in, and follows the record as the page does.
    fn open_page(&self) {
        let link = self.link.as_deref().expect("there is a dashboard");
        let (base, code) = link.split_once("#code=").expect("the link has a code");
        let host = base.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let begin = |head: &str, body: &str| {
            let mut stream = TcpStream::connect(&host).expect("the dashboard listens");
            let length = body.len();
            let request = format!(
                "{head} HTTP/1.1\r\nHost: {host}\r\nx-evenkeel-page: 1\r\nContent-Length: {length}\r\n\r\n{body}"
            );
            stream.write_all(request.as_bytes()).expect("it is sent");
            stream
        };
        let mut stream = begin("POST /login", &format!("{{\"code\":\"{code}\"}}"));
        let mut answer = [0; 4096];
        let length = stream.read(&mut answer).expect("it answers");
        let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
        let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("it logs in");
        let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        let host = host.clone();
        std::thread::spawn(move || {
            let mut stream = TcpStream::connect(&host).expect("the dashboard listens");
            let request = format!(
                "GET /record/stream HTTP/1.1\r\nHost: {host}\r\nx-evenkeel-page: 1\r\nCookie: {cookie}\r\n\r\n"
            );
            stream.write_all(request.as_bytes()).expect("it is sent");
            let mut piece = vec![0; 64 << 10];
            let read = stream.read(&mut piece).unwrap_or(0);
            assert!(piece[..read].starts_with(b"HTTP/1.1 200"), "the record is followed");
            while stream.read(&mut piece).is_ok_and(|read| read > 0) {}
        });
    }

    fn stop(&mut self) {
        // The server has nothing to lose.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
