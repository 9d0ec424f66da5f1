//! Metrics over TLS, for clients whom the API server allows to read them.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use evenkeel_cluster::{Cluster, Fault, Matcher};
use evenkeel_runtime::{Manager, SecuredServer};
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenReview};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::PostParams;
use serde_json::json;
use tokio::net::TcpStream;

use crate::managing::{embedded, manager};

/// A manager that serves securely, as the account of its manifests.
struct Secured {
    cluster: Cluster,
    address: SocketAddr,
    _running: tokio::task::JoinHandle<()>,
}

async fn secured(seed: u64) -> Secured {
    let cluster = embedded(seed).await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = |manager: Manager| {
        manager.serve_secured(SecuredServer::on(listener)).secured_page("/debug/own", |request| async move {
            Response::new(Bytes::from(format!("own {}", request.uri.path())))
        })
    };
    let manager = serve(manager(&cluster));
    // The operator asks as its own account: the rules of its manifests are enough.
    cluster.install(&manager.manifests("op", "default")).await.unwrap();
    let running = tokio::spawn(async move { manager.run_until(std::future::pending()).await.unwrap() });
    Secured { cluster, address, _running: running }
}

impl Secured {
    /// A token of a new ServiceAccount with this name, which may get these paths.
    async fn token(&self, account: &str, paths: &[&str]) -> String {
        let cluster = &self.cluster;
        let new: ServiceAccount = serde_json::from_value(json!({ "metadata": { "name": account } })).unwrap();
        cluster.apply(new).await.unwrap();
        let role: ClusterRole = serde_json::from_value(json!({
            "metadata": { "name": account }, "rules": [{ "nonResourceURLs": paths, "verbs": ["get"] }],
        }))
        .unwrap();
        let binding: ClusterRoleBinding = serde_json::from_value(json!({
            "metadata": { "name": account },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": account },
            "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": "default" }],
        }))
        .unwrap();
        if !paths.is_empty() {
            cluster.apply(role).await.unwrap();
            cluster.apply(binding).await.unwrap();
        }
        let request: TokenRequest = serde_json::from_value(json!({ "spec": { "audiences": [] } })).unwrap();
        let api = cluster.api::<ServiceAccount>();
        let made = api.create_token_request(account, &PostParams::default(), &request).await;
        // The field is not an `Option` in the types of older versions.
        let status = serde_json::to_value(made.unwrap().status).unwrap();
        status["token"].as_str().unwrap().to_owned()
    }

    /// Requests a page over TLS. Returns its status and text.
    async fn page(&self, path: &str, token: Option<&str>) -> (StatusCode, String) {
        self.send("GET", path, token).await
    }

    async fn send(&self, method: &str, path: &str, token: Option<&str>) -> (StatusCode, String) {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let config = trusting_everybody();
        let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
        let tls = tokio_rustls::TlsConnector::from(config).connect(name, stream).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(tls)).await.unwrap();
        let _connection = tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let response = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
        let code = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    /// How many reviews the API server was sent: tokens, and permissions.
    fn reviews(&self) -> (usize, usize) {
        let requests = self.cluster.requests();
        let count = |resource: &str| requests.iter().filter(|it| it.path.contains(resource)).count();
        (count("/tokenreviews"), count("/subjectaccessreviews"))
    }
}

/// Accepts every certificate: the server makes its own, which nobody signs.
#[derive(Debug)]
struct AnyCertificate(Arc<rustls::crypto::CryptoProvider>);

impl rustls::client::danger::ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &[rustls::pki_types::CertificateDer<'_>],
        _: &rustls::pki_types::ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &rustls::pki_types::CertificateDer<'_>,
        signed: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &rustls::pki_types::CertificateDer<'_>,
        signed: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

fn trusting_everybody() -> Arc<rustls::ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider.clone());
    let config = config.with_safe_default_protocol_versions().unwrap();
    let verifier = Arc::new(AnyCertificate(provider));
    Arc::new(config.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

#[tokio::test]
async fn metrics_are_shown_to_those_who_may_read_them() {
    let secured = secured(31).await;
    let (reader, stranger) =
        (secured.token("reader", &["/metrics"]).await, secured.token("other", &[]).await);
    let (code, text) = secured.page("/metrics", Some(&reader)).await;
    assert_eq!(code, StatusCode::OK);
    assert!(text.contains("rest_client_requests_total") && text.ends_with("# EOF\n"), "{text}");
    assert!(text.contains("evenkeel_certificate_expiry_timestamp_seconds{server=\"metrics\"}"), "{text}");
    for (token, wanted) in [
        (None, (StatusCode::UNAUTHORIZED, "Unauthorized\n")),
        (Some("made-up"), (StatusCode::UNAUTHORIZED, "Unauthorized\n")),
        (
            Some(stranger.as_str()),
            (StatusCode::FORBIDDEN, "Authorization denied for user system:serviceaccount:default:other\n"),
        ),
    ] {
        let (code, text) = secured.page("/metrics", token).await;
        assert_eq!((code, text.as_str()), wanted, "{token:?}");
    }
    // The permission is for a verb and a path.
    assert_eq!(secured.send("POST", "/metrics", Some(&reader)).await.0, StatusCode::FORBIDDEN);
    assert_eq!(secured.page("/debug/own", Some(&reader)).await.0, StatusCode::FORBIDDEN);
    // The answers are remembered.
    let before = secured.reviews();
    for _ in 0..3 {
        assert_eq!(secured.page("/metrics", Some(&reader)).await.0, StatusCode::OK);
        assert_eq!(secured.page("/metrics", Some(&stranger)).await.0, StatusCode::FORBIDDEN);
        assert_eq!(secured.page("/metrics", Some("made-up")).await.0, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(secured.reviews(), before);
    assert!(before.0 >= 3 && before.1 >= 4, "{before:?}");
}

#[tokio::test]
async fn an_operator_may_add_pages() {
    let secured = secured(32).await;
    let token = secured.token("debugger", &["/debug/*"]).await;
    let (code, text) = secured.page("/debug/own/queue", Some(&token)).await;
    assert_eq!((code, text.as_str()), (StatusCode::OK, "own /debug/own/queue"));
    assert_eq!(secured.page("/debug/else", Some(&token)).await.0, StatusCode::NOT_FOUND);
    assert_eq!(secured.page("/debug/own", None).await.0, StatusCode::UNAUTHORIZED);
}

/// If the API server cannot be asked, nothing is shown, and the failure is not remembered.
#[tokio::test]
async fn nothing_is_shown_if_the_api_server_cannot_be_asked() {
    let secured = secured(33).await;
    let token = secured.token("reader", &["/metrics"]).await;
    secured.cluster.fail(Matcher::any().kind::<TokenReview>(), Fault::InternalError, 1);
    let (code, text) = secured.page("/metrics", Some(&token)).await;
    assert_eq!((code, text.as_str()), (StatusCode::INTERNAL_SERVER_ERROR, "Authentication failed\n"));
    secured.cluster.fail(Matcher::any().kind::<SubjectAccessReview>(), Fault::InternalError, 1);
    let (code, text) = secured.page("/metrics", Some(&token)).await;
    let wanted = "Authorization for user system:serviceaccount:default:reader failed\n";
    assert_eq!((code, text.as_str()), (StatusCode::INTERNAL_SERVER_ERROR, wanted));
    assert_eq!(secured.page("/metrics", Some(&token)).await.0, StatusCode::OK);
}

/// A client that does not use TLS is told so.
#[tokio::test]
async fn plain_http_is_refused() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let secured = secured(34).await;
    let mut stream = TcpStream::connect(secured.address).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("HTTP/1.0 400") && text.contains("HTTP request to an HTTPS server"), "{text}");
}
