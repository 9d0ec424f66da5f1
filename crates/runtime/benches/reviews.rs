//! Reviews a second: over TLS on 32 kept connections, compared with the same reviews without a socket; and what an admission
//! webhook in this process adds to a write. `cargo bench -p evenkeel-runtime --bench reviews`.

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot go on fails")]
#![allow(missing_docs, reason = "a program")]

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
/// How long each side is measured.
const RUN: Duration = Duration::from_secs(5);
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

async fn over_tls() -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(folder.path().join("tls.crt"), made.cert.pem()).unwrap();
    std::fs::write(folder.path().join("tls.key"), made.signing_key.serialize_pem()).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = WebhookServer::new("default", "op").listener(listener).certificates_in_folder(folder.path());
    let _running = tokio::spawn(manager().webhook_server(server).run_until(std::future::pending()));
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(made.cert.der().to_vec())).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
    // The certificate is loaded in the background.
    while connect(address, config.clone()).await.is_err() {
        tokio::task::yield_now().await;
    }
    rate(|end| {
        let config = config.clone();
        async move {
            let io = TokioIo::new(connect(address, config).await.unwrap());
            let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
            tokio::spawn(connection);
            let mut count = 0;
            while Instant::now() < end {
                let response = sender.send_request(request()).await.unwrap();
                assert_eq!(response.status(), 200);
                response.into_body().collect().await.unwrap();
                count += 1;
            }
            count
        }
    })
    .await
}

async fn connect(
    address: std::net::SocketAddr,
    config: Arc<rustls::ClientConfig>,
) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    tokio_rustls::TlsConnector::from(config).connect("localhost".try_into().unwrap(), stream).await
}

async fn without_a_socket() -> f64 {
    let webhooks = manager().take_webhooks().unwrap().unwrap();
    rate(|end| {
        let webhooks = webhooks.clone();
        async move {
            let mut count = 0;
            while Instant::now() < end {
                assert_eq!(answer(&webhooks, request()).await.status(), 200);
                count += 1;
            }
            count
        }
    })
    .await
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

async fn in_process() -> (f64, f64) {
    let cluster = Cluster::builder().controllers(false).records(false).start().await.unwrap();
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

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (tls, direct) = (over_tls().await, without_a_socket().await);
        println!(
            "reviews over TLS, {CLIENTS} at once: {tls:.0}/s; without a socket {direct:.0}/s: {:.2}",
            tls / direct
        );
        let (plain, reviewed) = in_process().await;
        println!(
            "a write: {plain:.1} µs; with a webhook in process {reviewed:.1} µs: {:.1} µs more, {:.2} times",
            reviewed - plain,
            reviewed / plain
        );
    });
}
