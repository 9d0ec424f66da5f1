//! Reviews a second over TLS on 32 kept connections, and what an admission webhook in this process adds to a write.
//! `cargo bench -p evenkeel-runtime --bench reviews`.
//!
//! Each server is a process of its own, and the clients are in this one. `benches/reviews/run` builds a webhook server of
//! controller-runtime that does the same work, and names it in `REVIEWS_SERVER`: then both are measured in turn. On a
//! machine with few processors, the clients take most of the time of a review. So the processor time of each server is
//! printed, too.

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot go on fails")]
#![allow(missing_docs, reason = "a program")]

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel_cluster::{Cluster, WebhookAddress};
use evenkeel_runtime::webhook::{Admission, Endpoint, Verdict, Webhook, WebhookServer, Webhooks};
use evenkeel_runtime::{Manager, Result};
use http::{Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::ConfigMap;
use rustls::pki_types::CertificateDer;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::time::Instant;

/// How many clients send at once, each on a connection of its own.
const CLIENTS: usize = 32;
/// How long each server is measured in one round.
const RUN: Duration = Duration::from_secs(3);
/// How often the servers are measured in turn; the median counts.
const ROUNDS: usize = 5;
/// The argument that makes this program a server.
const SERVE: &str = "serve";
/// How many objects are written for each side of the comparison of writes.
const WRITES: usize = 5000;
const PATH: &str = "/validate--v1-configmap?timeout=10s";

async fn check(map: Arc<ConfigMap>, _: Admission<ConfigMap>) -> Result<Verdict> {
    Ok(if map.data.is_some() { Verdict::allow() } else { Verdict::deny("no data") })
}

fn manager() -> Manager {
    let nobody = tower::service_fn(|_: Request<kube::client::Body>| async {
        Ok::<_, std::io::Error>(http::Response::new(kube::client::Body::empty()))
    });
    Manager::new(kube::Client::new(nobody, "default")).webhook(Webhook::validate(check))
}

fn review() -> Bytes {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m", "namespace": "default", "uid": "u" },
        "data": { "a": "x".repeat(500), "b": "y".repeat(500) },
    });
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "operation": "UPDATE", "name": "m",
            "namespace": "default", "kind": { "group": "", "version": "v1", "kind": "ConfigMap" },
            "resource": { "group": "", "version": "v1", "resource": "configmaps" },
            "userInfo": { "username": "ada", "groups": ["system:authenticated"] },
            "object": map, "oldObject": map, "dryRun": false,
        },
    });
    review.to_string().into()
}

fn request() -> Request<Full<Bytes>> {
    let request = Request::post(PATH).header(header::HOST, "localhost");
    request.header(header::CONTENT_TYPE, "application/json").body(Full::new(review())).unwrap()
}

/// Runs a client in each of [`CLIENTS`] tasks for [`RUN`]. Returns how many reviews they made in a second.
async fn rate<F: Future<Output = usize> + Send + 'static>(client: impl Fn(Instant) -> F) -> f64 {
    let start = Instant::now();
    let clients: Vec<_> = (0..CLIENTS).map(|_| tokio::spawn(client(start + RUN))).collect();
    let mut reviews = 0;
    for client in clients {
        reviews += client.await.unwrap();
    }
    reviews as f64 / start.elapsed().as_secs_f64()
}

/// Serves with the certificate in a folder until the process is killed, and prints its address.
async fn serve(folder: &str) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap());
    let server = WebhookServer::new("default", "op").listener(listener).certificates_in_folder(folder);
    manager().webhook_server(server).run_until(std::future::pending()).await.unwrap();
}

/// A server in a process of its own, which is killed with this value.
struct Server {
    name: &'static str,
    process: Child,
    address: SocketAddr,
    /// Reviews a second, and microseconds of the server's processor time for each, by round.
    measured: Vec<(f64, f64)>,
}

impl Server {
    fn start(name: &'static str, command: &mut Command, folder: &Path) -> Self {
        let mut process = command.arg(folder).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().parse().unwrap();
        Self { name, process, address, measured: Vec::new() }
    }

    /// The processor time that the process has used, in seconds.
    fn processor_time(&self) -> f64 {
        /// Clock ticks in a second, on every Linux.
        const TICKS: f64 = 100.0;
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let ticks = fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<f64>().unwrap());
        ticks.sum::<f64>() / TICKS
    }

    async fn measure(&mut self, config: &Arc<rustls::ClientConfig>) {
        let address = self.address;
        // The certificate is loaded in the background.
        while connect(address, config.clone()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let (before, start) = (self.processor_time(), Instant::now());
        let a_second = rate(|end| send(address, config.clone(), end)).await;
        let reviews = a_second * start.elapsed().as_secs_f64();
        self.measured.push((a_second, (self.processor_time() - before) * 1e6 / reviews));
    }

    /// The medians of the rounds.
    fn medians(&self) -> (f64, f64) {
        let median = |mut of: Vec<f64>| {
            of.sort_by(f64::total_cmp);
            of[of.len() / 2]
        };
        let (rates, times) = self.measured.iter().copied().unzip();
        (median(rates), median(times))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sends reviews on one connection until `end`, and returns how many.
async fn send(address: SocketAddr, config: Arc<rustls::ClientConfig>, end: Instant) -> usize {
    let io = TokioIo::new(connect(address, config).await.unwrap());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    let mut count = 0;
    while Instant::now() < end {
        let response = sender.send_request(request()).await.unwrap();
        assert_eq!(response.status(), 200);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(memchr::memmem::find(&body, b"\"allowed\":true").is_some(), "{body:?}");
        count += 1;
    }
    count
}

async fn over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(folder.path().join("tls.crt"), made.cert.pem()).unwrap();
    std::fs::write(folder.path().join("tls.key"), made.signing_key.serialize_pem()).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(made.cert.der().to_vec())).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
    let own = std::env::current_exe().unwrap();
    let mut servers = vec![Server::start("evenkeel", Command::new(own).arg(SERVE), folder.path())];
    if let Some(other) = std::env::var_os("REVIEWS_SERVER") {
        servers.push(Server::start("controller-runtime", &mut Command::new(other), folder.path()));
    }
    for _ in 0..ROUNDS {
        for server in &mut servers {
            server.measure(&config).await;
        }
    }
    let measured: Vec<(f64, f64)> = servers.iter().map(Server::medians).collect();
    for (server, (rate, time)) in servers.iter().zip(&measured) {
        println!(
            "{}: {rate:.0} reviews/s over TLS, {CLIENTS} at once; {time:.1} µs of the server's processor time for each",
            server.name
        );
    }
    if let [own, other] = measured[..] {
        println!("{:.2} times the reviews, {:.2} of the processor time", own.0 / other.0, own.1 / other.1);
    }
}

async fn connect(
    address: SocketAddr,
    config: Arc<rustls::ClientConfig>,
) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    tokio_rustls::TlsConnector::from(config).connect("localhost".try_into().unwrap(), stream).await
}

async fn answer(webhooks: &Webhooks, request: Request<Full<Bytes>>) -> http::Response<Bytes> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    webhooks.answer(Request::from_parts(head, body)).await
}

/// The time of a write, in microseconds.
async fn write_time(cluster: &Cluster, name: &str) -> f64 {
    let start = Instant::now();
    for number in 0..WRITES {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(format!("{name}-{number}"));
        map.data = Some([("a".to_owned(), "x".repeat(500))].into());
        cluster.api::<ConfigMap>().create(&kube::api::PostParams::default(), &map).await.unwrap();
    }
    start.elapsed().as_secs_f64() * 1e6 / WRITES as f64
}

/// The times of a plain write and of one that a webhook in this process reviews.
async fn in_process() -> (f64, f64) {
    let cluster = Cluster::builder().controllers(false).records(false).start().await.unwrap();
    // Nothing is slow because it is the first.
    write_time(&cluster, "warm").await;
    let plain = write_time(&cluster, "plain").await;
    let webhooks = manager().take_webhooks().unwrap().unwrap();
    let url = "https://webhooks.invalid";
    for object in webhooks.configurations("op", &Endpoint::url(url)) {
        cluster.apply_yaml(&object.to_string()).await.unwrap();
    }
    let service = tower::service_fn(move |request: Request<Full<Bytes>>| {
        let webhooks = webhooks.clone();
        async move { Ok::<_, std::io::Error>(answer(&webhooks, request).await.map(Full::new)) }
    });
    let _served = cluster.serve_webhook(WebhookAddress::url(url), service);
    (plain, write_time(&cluster, "reviewed").await)
}

/// Prints what a webhook adds to a write, in real time and in the time of a test.
fn print_writes(of: &str, (plain, reviewed): (f64, f64)) {
    println!(
        "a write{of}: {plain:.1} µs; with a webhook in process {reviewed:.1} µs: {:.1} µs more, {:.2} times",
        reviewed - plain,
        reviewed / plain
    );
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    if let [word, folder] = args.as_slice()
        && word == SERVE
    {
        return runtime.block_on(serve(folder));
    }
    let wanted = |part: &str| args.is_empty() || args.iter().any(|arg| arg == part);
    if wanted("tls") {
        runtime.block_on(over_tls());
    }
    if wanted("writes") {
        // As in a test: on one thread.
        let test = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        print_writes("", test.block_on(in_process()));
        print_writes(", several threads", runtime.block_on(in_process()));
    }
}
