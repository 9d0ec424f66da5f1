//! The ceiling: a hyper server with TLS that answers every request with the same bytes.

use std::convert::Infallible;
use std::io::Write as _;
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// The environment variable that is set in the server's process.
const CHILD: &str = "EVENKEEL_BENCH_CONSTANT";
/// The length of the response to a GET of a measured ConfigMap.
const ANSWER_BYTES: usize = 1300;

pub(crate) fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

pub(crate) fn command() -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a program knows its file"));
    command.env(CHILD, "1");
    command
}

pub(crate) fn serve() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(accept());
}

async fn accept() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let config =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring knows them")
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .expect("they fit");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    announce(&format!("https://{}\n{}", listener.local_addr().expect("it is bound"), made.cert.pem()));
    let acceptor = TlsAcceptor::from(Arc::new(config));
    while let Ok((stream, _)) = listener.accept().await {
        stream.set_nodelay(true).expect("it is a socket");
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let answer = Bytes::from(vec![b'x'; ANSWER_BYTES]);
            let service = service_fn(move |_| {
                let answer = answer.clone();
                async move { Ok::<_, Infallible>(hyper::Response::new(Full::new(answer))) }
            });
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// Prints the URL and the certificate of the server. The certificate is padded to the 4096 bytes that the reader
/// expects.
fn announce(text: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).expect("somebody reads");
    let padding = 4096usize.saturating_sub(text.len() - text.find('\n').unwrap_or_default() - 1);
    out.write_all(&vec![b'\n'; padding]).and_then(|()| out.flush()).expect("somebody reads");
}
