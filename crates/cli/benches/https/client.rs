//! A minimal client: HTTP/1.1 by hand over TLS.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) config: Arc<rustls::ClientConfig>,
}

pub(crate) struct Connection {
    stream: TlsStream<TcpStream>,
    buffer: Vec<u8>,
    /// How many lines of a watch were received.
    pub(crate) lines: usize,
}

impl Client {
    pub(crate) async fn connect(&self) -> Connection {
        let stream = TcpStream::connect(self.address).await.expect("the server listens");
        stream.set_nodelay(true).expect("it is a socket");
        let name = ServerName::try_from("localhost").expect("it is a name");
        let stream =
            TlsConnector::from(self.config.clone()).connect(name, stream).await.expect("a handshake");
        Connection { stream, buffer: vec![0; 1 << 20], lines: 0 }
    }
}

impl Connection {
    pub(crate) async fn send(&mut self, request: &[u8]) {
        self.stream.write_all(request).await.expect("the server reads");
        self.stream.flush().await.expect("the server reads");
    }

    /// Sends a request and reads the whole response, which must be a success with a `Content-Length`.
    pub(crate) async fn exchange(&mut self, request: &[u8]) {
        self.send(request).await;
        let mut filled = 0;
        let (head, length) = loop {
            filled += self.read(filled).await;
            let text = &self.buffer[..filled];
            if let Some(end) = text.windows(4).position(|four| four == b"\r\n\r\n") {
                break (end + 4, length(&text[..end]));
            }
        };
        let mut left = (head + length).saturating_sub(filled);
        while left > 0 {
            left = left.saturating_sub(self.read(0).await);
        }
    }

    async fn read(&mut self, at: usize) -> usize {
        let read = self.stream.read(&mut self.buffer[at..]).await.expect("the server answers");
        assert!(read > 0, "the server closed the connection");
        read
    }

    /// Counts the lines of a watch until it ends.
    pub(crate) async fn count_lines(&mut self) {
        while let Ok(read @ 1..) = self.stream.read(&mut self.buffer).await {
            // Each event is one line. The lengths of chunks are on separate lines that end with \r\n.
            self.lines += memchr::memmem::find_iter(&self.buffer[..read], b"}\n").count();
        }
    }
}

fn length(head: &[u8]) -> usize {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 2"), "{head}");
    let value = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    value.and_then(|value| value.trim().parse().ok()).expect("an answer has a length")
}
