//! A proxy between one replica and the server that can cut the network.
//!
//! A cut is silent. Bytes that a replica sends during a cut stay in its kernel, as on a network that drops packets. They
//! arrive after the cut, even if the replica has closed its socket in the meantime. They do not arrive if the replica has
//! *reset* the connection, because its kernel then discards what was not delivered.

use std::net::SocketAddr;

use anyhow::Context as _;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// How many bytes are forwarded at a time: more than a request of the replicas has.
const CHUNK: usize = 16 << 10;

/// A proxy to the server that can be cut.
pub(crate) struct Proxy {
    address: SocketAddr,
    /// Whether bytes are forwarded.
    open: watch::Sender<bool>,
}

impl Proxy {
    /// Listens, and forwards every connection to `server`.
    pub(crate) async fn start(server: String) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("cannot listen")?;
        let address = listener.local_addr()?;
        let (open, is_open) = watch::channel(true);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, server.clone(), is_open.clone()));
            }
        });
        Ok(Self { address, open })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn cut(&self) {
        self.open.send_replace(false);
    }

    pub(crate) fn heal(&self) {
        self.open.send_replace(true);
    }
}

/// Forwards one connection in both directions until either side ends it.
async fn carry(client: TcpStream, server: String, is_open: watch::Receiver<bool>) {
    // A connection that is opened during a cut is forwarded after it.
    if is_open.clone().wait_for(|open| *open).await.is_err() {
        return;
    }
    let Ok(server) = TcpStream::connect(server).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let (up, down) = (is_open.clone(), is_open);
    tokio::select! {
        () = upwards(from_client, to_server, up) => {}
        () = downwards(from_server, to_client, down) => {}
    }
}

/// Forwards bytes from the replica to the server.
async fn upwards(
    mut from: OwnedReadHalf,
    mut to: impl AsyncWrite + Unpin,
    mut is_open: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; CHUNK];
    loop {
        if from.readable().await.is_err() || is_open.wait_for(|open| *open).await.is_err() {
            return;
        }
        // The kernel of a replica that reset its connection has discarded what was not delivered.
        let was_reset = from.as_ref().take_error().is_ok_and(|error| error.is_some());
        let read = if was_reset { 0 } else { from.read(&mut buffer).await.unwrap_or(0) };
        if read == 0 || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

/// Forwards bytes from the server to the replica.
async fn downwards(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut is_open: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; CHUNK];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if is_open.wait_for(|open| *open).await.is_err() || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
