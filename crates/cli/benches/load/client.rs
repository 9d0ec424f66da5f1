//! A client for the load test: requests and watches over HTTP/1.1 and HTTP/2.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A client with the credentials of one user.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    /// The TLS configurations for HTTP/1.1 and for HTTP/2.
    pub(crate) configs: [Arc<rustls::ClientConfig>; 2],
    /// The bearer token. `None` for a client with a certificate.
    pub(crate) token: Option<String>,
}

/// An open connection.
pub(crate) struct Connection {
    sender: Sender,
    token: Option<String>,
}

enum Sender {
    H1(http1::SendRequest<Full<Bytes>>),
    H2(http2::SendRequest<Full<Bytes>>),
}

/// An open watch.
pub(crate) struct Watcher {
    body: Incoming,
    /// Complete lines that have arrived, and the beginning of the next line.
    lines: VecDeque<Vec<u8>>,
    rest: Vec<u8>,
    /// Keeps the connection open.
    _sender: Option<http2::SendRequest<Full<Bytes>>>,
}

impl Client {
    pub(crate) async fn connect_h1(&self) -> Result<Connection, String> {
        let stream = TokioIo::new(self.connect(0).await?);
        let (sender, driver) = http1::handshake(stream).await.map_err(told("HTTP/1.1"))?;
        tokio::spawn(driver);
        Ok(Connection { sender: Sender::H1(sender), token: self.token.clone() })
    }

    pub(crate) async fn connect_h2(&self) -> Result<Connection, String> {
        let stream = TokioIo::new(self.connect(1).await?);
        let (sender, driver) =
            http2::handshake(TokioExecutor::new(), stream).await.map_err(told("HTTP/2"))?;
        tokio::spawn(driver);
        Ok(Connection { sender: Sender::H2(sender), token: self.token.clone() })
    }

    async fn connect(&self, protocol: usize) -> Result<TlsStream<TcpStream>, String> {
        let stream = TcpStream::connect(self.address).await.map_err(told("connect"))?;
        stream.set_nodelay(true).map_err(told("connect"))?;
        let name = ServerName::try_from("localhost").map_err(told("connect"))?;
        let connector = TlsConnector::from(self.configs[protocol].clone());
        connector.connect(name, stream).await.map_err(told("handshake"))
    }
}

impl Connection {
    async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: String,
    ) -> Result<http::Response<Incoming>, String> {
        let uri = match self.sender {
            Sender::H1(_) => path.to_owned(),
            Sender::H2(_) => format!("https://localhost{path}"),
        };
        let content_type = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let mut request =
            Request::builder().method(method).uri(uri).header(header::CONTENT_TYPE, content_type);
        if matches!(self.sender, Sender::H1(_)) {
            request = request.header(header::HOST, "localhost");
        }
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Full::new(body.into())).map_err(told("request"))?;
        match &mut self.sender {
            Sender::H1(sender) => {
                sender.ready().await.map_err(told(path))?;
                sender.send_request(request).await.map_err(told(path))
            }
            Sender::H2(sender) => {
                sender.ready().await.map_err(told(path))?;
                sender.send_request(request).await.map_err(told(path))
            }
        }
    }

    /// Sends a request, and expects this status.
    pub(crate) async fn expect(
        &mut self,
        method: Method,
        path: &str,
        body: String,
        status: StatusCode,
    ) -> Result<(), String> {
        let answer = self.send(method.clone(), path, body).await?;
        let got = answer.status();
        let body = answer.into_body().collect().await.map_err(told(path))?.to_bytes();
        if got != status {
            return Err(format!("{method} {path}: {got} {}", String::from_utf8_lossy(&body)));
        }
        Ok(())
    }

    pub(crate) async fn watch(&mut self, path: &str) -> Result<Watcher, String> {
        let answer = self.send(Method::GET, path, String::new()).await?;
        if answer.status() != StatusCode::OK {
            return Err(format!("GET {path}: {}", answer.status()));
        }
        let _sender = match &self.sender {
            Sender::H1(_) => None,
            Sender::H2(sender) => Some(sender.clone()),
        };
        Ok(Watcher { body: answer.into_body(), lines: VecDeque::new(), rest: Vec::new(), _sender })
    }
}

impl Watcher {
    /// The next line. `None` if the server has ended the watch.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Ok(Some(line));
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            let Ok(data) = frame.map_err(told("watch"))?.into_data() else { continue };
            self.rest.extend_from_slice(&data);
            while let Some(end) = memchr::memchr(b'\n', &self.rest) {
                let after = self.rest.split_off(end + 1);
                self.lines.push_back(std::mem::replace(&mut self.rest, after));
            }
        }
    }
}

fn told<E: std::fmt::Debug>(what: &str) -> impl FnOnce(E) -> String {
    let what = what.to_owned();
    move |error| format!("{what}: {error:?}")
}
