//! The server of the webhooks, over TLS on a port, called by the API server and by clients that do not behave.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel_cluster::Cluster;
use evenkeel_runtime::webhook::{Admission, FieldErrors, Verdict, Webhook, WebhookServer};
use evenkeel_runtime::{Manager, Result};
use http::{Request, Version, header};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::managing::embedded;
use crate::{map, value};

/// Held by a review of the value `slow`: the test lets it end.
#[derive(Clone)]
struct Gate {
    entered: Arc<Semaphore>,
    leave: Arc<Semaphore>,
}

async fn check(map: Arc<ConfigMap>, request: Admission<ConfigMap, Gate>) -> Result<Verdict> {
    let mut errors = FieldErrors::default();
    match value(&map) {
        "bad" => drop(errors.invalid("data.value", "bad", "must be good")),
        "panic" => panic!("planned"),
        "slow" => {
            request.state().entered.add_permits(1);
            request.state().leave.acquire().await?.forget();
        }
        _ => {}
    }
    Ok(errors.into())
}

async fn own(mut map: ConfigMap, request: Admission<ConfigMap>) -> Result<ConfigMap> {
    let user = request.user().username.clone().unwrap_or_default();
    map.metadata.annotations.get_or_insert_default().insert("owner".into(), user);
    Ok(map)
}

/// A running manager with webhooks on a port.
struct Served {
    cluster: Cluster,
    webhooks: SocketAddr,
    probes: SocketAddr,
    gate: Gate,
    stop: CancellationToken,
    running: tokio::task::JoinHandle<Result<(), evenkeel_runtime::ManagerError>>,
}

/// A manager by the clock of the system, which the clients of this test verify certificates with.
fn manager(cluster: &Cluster) -> Manager {
    Manager::new(cluster.client()).namespaces([cluster.namespace()])
}

const VALIDATE: &str = "/validate--v1-configmap";

fn hooks(manager: Manager, gate: &Gate) -> Manager {
    manager.webhook(Webhook::validate(check).state(gate.clone())).webhook(Webhook::mutate(own))
}

/// Starts a manager on a cluster whose configurations lead to it by URL.
async fn serve(seed: u64) -> Served {
    let cluster = embedded(seed).await;
    let [webhooks, probes] = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let [at, probes_at] = [&webhooks, &probes].map(|listener| listener.local_addr().unwrap());
    let gate = Gate { entered: Arc::new(Semaphore::new(0)), leave: Arc::new(Semaphore::new(0)) };
    let server = WebhookServer::new("default", "op").url(format!("https://{at}")).listener(webhooks);
    let mut other = hooks(manager(&cluster), &gate);
    for object in other.take_webhooks().unwrap().unwrap().configurations("op", server.endpoint()) {
        cluster.apply_yaml(&object.to_string()).await.unwrap();
    }
    let stop = CancellationToken::new();
    let manager = hooks(manager(&cluster), &gate).serve_on(probes).webhook_server(server);
    let running = tokio::spawn(manager.run_until(stop.clone().cancelled_owned()));
    let served = Served { cluster, webhooks: at, probes: probes_at, gate, stop, running };
    while !ready(&served).await {
        tokio::task::yield_now().await;
    }
    served
}

async fn ready(served: &Served) -> bool {
    let page = crate::serving::page(served.probes, "/readyz").await;
    assert!(page.contains("webhooks"), "{page}");
    page.starts_with("HTTP/1.1 200")
}

/// A client that trusts the CA in the Secret.
async fn tls(served: &Served, protocol: &str) -> tokio_rustls::client::TlsStream<TcpStream> {
    let secret: Secret = served.cluster.get("op-webhook-cert").await.unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&secret.data.unwrap()["ca.crt"].0).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let stream = TcpStream::connect(served.webhooks).await.unwrap();
    let name = "127.0.0.1".try_into().unwrap();
    tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

fn review(value: &str) -> String {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u1", "operation": "CREATE", "name": "m", "namespace": "default",
            "userInfo": { "username": "ada" },
            "object": { "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m" }, "data": { "value": value } },
        },
    })
    .to_string()
}

fn post(path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let request = Request::post(format!("https://127.0.0.1{path}"));
    request.header(header::CONTENT_TYPE, "application/json").body(Full::new(body.into())).unwrap()
}

/// Sends a request over HTTP/1.1 on a connection of its own.
async fn send(served: &Served, request: Request<Full<Bytes>>) -> (u16, Value) {
    let io = TokioIo::new(tls(served, "http/1.1").await);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    let response = sender.send_request(request).await.unwrap();
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&body).unwrap_or_default())
}

/// The API server calls the webhooks at their URL, and trusts the certificates that the operator has made.
#[tokio::test]
async fn the_api_server_calls_the_webhooks_with_the_operators_own_certificates() {
    let served = serve(1).await;
    let made = served.cluster.apply(map("a", "good")).await.unwrap();
    assert!(made.metadata.annotations.unwrap().contains_key("owner"));
    let kube::Error::Api(status) = served.cluster.apply(map("b", "bad")).await.unwrap_err() else {
        panic!("no answer of the API server")
    };
    let wanted = "admission webhook \"validate.configmaps.core\" denied the request: ConfigMap \"b\" is invalid: \
                  data.value: Invalid value: \"bad\": must be good";
    assert_eq!((status.code, status.message.as_str()), (422, wanted));
    let error = served.cluster.apply(map("c", "panic")).await.unwrap_err().to_string();
    assert!(error.contains("the webhook panicked: planned"), "{error}");
    let metrics = crate::serving::page(served.probes, "/metrics").await;
    for line in [
        "controller_runtime_webhook_panics_total 1",
        "controller_runtime_webhook_requests_total{code=\"500\",webhook=\"/validate--v1-configmap\"} 1",
    ] {
        assert!(metrics.lines().any(|found| found.replace(".0", "") == line), "{line}:\n{metrics}");
    }
    let logged = format!("{:?}", WebhookServer::new("default", "op"));
    assert!(!logged.contains("PRIVATE"), "{logged}");
}

#[tokio::test]
async fn http_2_is_spoken_with_many_requests_on_one_connection() {
    let served = serve(2).await;
    let io = TokioIo::new(tls(&served, "h2").await);
    let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let requests = (0..100).map(|number| {
        let mut sender = sender.clone();
        async move {
            let value = if number % 2 == 0 { "good" } else { "bad" };
            let response = sender.send_request(post(VALIDATE, review(value))).await.unwrap();
            assert_eq!((response.status().as_u16(), response.version()), (200, Version::HTTP_2));
            let body = response.into_body().collect().await.unwrap().to_bytes();
            let answer: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(answer["response"]["allowed"], number % 2 == 0);
        }
    });
    futures::future::join_all(requests).await;
}

#[tokio::test]
async fn bad_input_gets_a_clear_answer() {
    let served = serve(3).await;
    let good = review("good");
    let cases = [
        (post("/else", good.clone()), 404, "no webhook has the path /else"),
        (post(VALIDATE, ""), 400, "the request has no body"),
        (post(VALIDATE, good[..good.len() / 2].to_owned()), 400, "the body is not a review: EOF"),
        (post(VALIDATE, good.replace("AdmissionReview", "Pod")), 400, "got kind \"Pod\""),
        (post(VALIDATE, vec![b' '; 10_000_000]), 413, "the review is larger than 7340032 bytes"),
        (post("/convert", good.clone()), 404, "no webhook has the path /convert"),
        (post(VALIDATE, review("panic")), 500, "the webhook panicked: planned"),
    ];
    for (request, code, message) in cases {
        let (path, version) = (request.uri().path().to_owned(), request.version());
        let (found, status) = send(&served, request).await;
        let text = status["message"].as_str().unwrap_or_default();
        assert!(found == code && text.contains(message), "{path} {version:?}: {found} {status}");
    }
    let mut get = post(VALIDATE, good.clone());
    *get.method_mut() = http::Method::GET;
    assert_eq!(send(&served, get).await.0, 405);
    assert_eq!(send(&served, post(VALIDATE, good)).await.0, 200, "the server goes on");
}

/// A body of which the length is not told in advance is counted while it is read.
#[tokio::test]
async fn a_body_of_unknown_length_is_limited() {
    let served = serve(4).await;
    let mut stream = tls(&served, "http/1.1").await;
    let head = format!(
        "POST {VALIDATE} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = [b"100000\r\n".as_slice(), &[b' '; 0x0010_0000], b"\r\n"].concat();
    for _ in 0..8 {
        stream.write_all(&chunk).await.unwrap();
    }
    stream.write_all(b"0\r\n\r\n").await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
}

#[tokio::test]
async fn plain_http_on_the_port_of_tls_is_told_so() {
    let served = serve(5).await;
    let mut stream = TcpStream::connect(served.webhooks).await.unwrap();
    stream.write_all(b"POST /validate--v1-configmap HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.0 400"), "{answer}");
    assert!(answer.ends_with("Client sent an HTTP request to an HTTPS server.\n"), "{answer}");
    // A connection that speaks neither protocol is closed, and no other one is affected.
    let mut stream = TcpStream::connect(served.webhooks).await.unwrap();
    stream.write_all(&[0; 64]).await.unwrap();
    assert_eq!(stream.read(&mut [0]).await.unwrap_or(0), 0);
    assert_eq!(send(&served, post(VALIDATE, review("good"))).await.0, 200);
}

/// The server turns not ready first, goes on with what it has begun, and ends last.
#[tokio::test]
async fn a_stop_lets_reviews_end() {
    let served = serve(6).await;
    let io = TokioIo::new(tls(&served, "http/1.1").await);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    let slow = tokio::spawn(async move { sender.send_request(post(VALIDATE, review("slow"))).await });
    served.gate.entered.acquire().await.unwrap().forget();
    served.stop.cancel();
    let page = loop {
        let page = crate::serving::page(served.probes, "/readyz").await;
        if page.starts_with("HTTP/1.1 500") {
            break page;
        }
    };
    assert!(page.contains("[-]webhooks failed: stopping"), "{page}");
    assert!(!served.running.is_finished() && !slow.is_finished());
    served.gate.leave.add_permits(1);
    assert_eq!(slow.await.unwrap().unwrap().status(), 200);
    served.running.await.unwrap().unwrap();
    assert!(TcpStream::connect(served.webhooks).await.is_err());
}

/// Without a valid certificate the server is not ready, and says why.
#[tokio::test]
async fn a_server_without_a_certificate_is_not_ready() {
    let cluster = embedded(7).await;
    let folder = tempfile::tempdir().unwrap();
    let [webhooks, probes] = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let probes_at = probes.local_addr().unwrap();
    let server = WebhookServer::new("default", "op").listener(webhooks).certificates_in_folder(folder.path());
    let manager = manager(&cluster).webhook(Webhook::mutate(own)).serve_on(probes).webhook_server(server);
    let _running = tokio::spawn(manager.run_until(std::future::pending()));
    let page = tokio::time::timeout(Duration::from_secs(30), async {
        loop {
            let page = crate::serving::page(probes_at, "/readyz").await;
            if page.contains("tls.crt") {
                break page;
            }
        }
    });
    let page = page.await.unwrap();
    assert!(page.starts_with("HTTP/1.1 500") && page.contains("[-]webhooks failed: cannot read"), "{page}");
}

#[tokio::test]
async fn webhooks_that_nobody_serves_end_the_manager() {
    let cluster = embedded(8).await;
    let error = manager(&cluster).webhook(Webhook::mutate(own)).run_until(std::future::pending()).await;
    assert!(error.unwrap_err().to_string().contains("Manager::webhook_server"));
}
