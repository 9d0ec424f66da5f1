//! The network between one replica and the server: it can be cut and healed.
//!
//! A cut is silent. What a replica sends meanwhile stays in its kernel, which goes on trying, as on a network that drops
//! packets: after the healing it arrives, even if the replica has closed its socket in the meantime. It does not arrive
//! if the replica has *reset* the connection, because its kernel then throws away what was not delivered.

use std::net::SocketAddr;

use anyhow::Context as _;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// How much is carried at a time: a request of the replicas fits.
const CHUNK: usize = 16 << 10;

/// A way to the server that can be cut.
pub(crate) struct Proxy {
    address: SocketAddr,
    /// Whether bytes pass.
    open: watch::Sender<bool>,
}

impl Proxy {
    /// Listens, and carries every connection to `server`.
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

/// Carries one connection, both ways, until either side ends it.
async fn carry(client: TcpStream, server: String, is_open: watch::Receiver<bool>) {
    // A connection that is opened during a cut is made after it.
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

/// From the replica to the server.
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
        // What was reset was never delivered: the kernel of the replica has thrown it away.
        let was_reset = from.as_ref().take_error().is_ok_and(|error| error.is_some());
        let read = if was_reset { 0 } else { from.read(&mut buffer).await.unwrap_or(0) };
        if read == 0 || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

/// From the server to the replica.
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
