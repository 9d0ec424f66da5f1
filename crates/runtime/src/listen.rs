//! Where servers listen, and how they accept connections.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

/// The pause after `accept` fails: short enough for a probe, long enough not to spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The address of a server, or a listener that is already bound.
#[derive(Debug)]
pub(crate) enum Listen {
    Address(SocketAddr),
    On(std::net::TcpListener),
}

impl Listen {
    pub(crate) fn port(&self) -> Option<u16> {
        match self {
            Self::Address(address) => Some(address.port()),
            Self::On(listener) => listener.local_addr().ok().map(|address| address.port()),
        }
    }

    pub(crate) async fn begin(self) -> std::io::Result<TcpListener> {
        match self {
            Self::Address(address) => TcpListener::bind(address).await,
            Self::On(listener) => {
                listener.set_nonblocking(true)?;
                TcpListener::from_std(listener)
            }
        }
    }
}

/// Accepts the next connection. An error does not stop the server: the client has gone away, or too many files are open
/// at the moment.
pub(crate) async fn next_connection(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => tracing::warn!(%error, "cannot accept a connection"),
        }
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}
