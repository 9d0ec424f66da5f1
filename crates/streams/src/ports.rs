//! Forwarded ports: connections of a client to the ports of a pod.

use std::sync::Arc;

use futures::future::{BoxFuture, join_all};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

use crate::Io;
use crate::limits::PORTS_MAX;

/// Connects to a port of a pod. The error is the reason, such as "connection refused".
pub type Connector = Arc<dyn Fn(u16) -> BoxFuture<'static, Result<Io, String>> + Send + Sync>;

/// Connects to a port, and carries bytes in both directions until the connection ends. Returns what its client is told if
/// that fails.
pub(crate) async fn forward(
    connector: Connector,
    pod: Arc<str>,
    port: u16,
    from_client: impl AsyncRead + Unpin,
    to_client: impl AsyncWrite + Unpin,
) -> Result<(), String> {
    let failed = |why: &str| format!("error forwarding port {port} to pod {pod}, uid : {why}");
    let io = connector(port).await.map_err(|why| failed(&why))?;
    carry(io, from_client, to_client).await.map_err(|error| failed(&error.to_string()))
}

/// Carries bytes between a client and a pod until the pod ends the connection. A client that has sent everything may
/// still read.
async fn carry(
    io: Io,
    mut from_client: impl AsyncRead + Unpin,
    mut to_client: impl AsyncWrite + Unpin,
) -> std::io::Result<()> {
    let (mut from_pod, mut to_pod) = tokio::io::split(io);
    let there = async {
        tokio::io::copy(&mut from_client, &mut to_pod).await?;
        to_pod.shutdown().await
    };
    let back = async {
        tokio::io::copy(&mut from_pod, &mut to_client).await?;
        to_client.shutdown().await
    };
    let (mut there, mut back) = (std::pin::pin!(there), std::pin::pin!(back));
    tokio::select! {
        biased;
        ended = &mut back => ended,
        // A pod that takes no more bytes may still have sent an answer.
        _ = &mut there => back.await,
    }
}

/// Waits for several forwarded ports.
pub(crate) async fn all(ports: impl IntoIterator<Item = impl Future<Output = ()>>) {
    join_all(ports).await;
}

/// Why the ports in the query of a request cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidPorts {
    /// No port is named.
    #[error("query parameter \"port\" is required")]
    Missing,
    /// The parameter is empty.
    #[error("query parameter \"port\" cannot be empty")]
    Empty,
    /// A value is not the number of a port.
    #[error("unable to parse {0:?} as a port")]
    NoPort(String),
    /// Port 0 cannot be forwarded.
    #[error("port {0:?} must be > 0")]
    Zero(String),
    /// The request names more than [`PORTS_MAX`] ports.
    #[error("at most {PORTS_MAX} ports can be forwarded by one request")]
    TooMany,
}

/// Reads the values of the query parameter `ports`, each of which may have several ports.
///
/// # Errors
/// Fails if a value is not a list of ports, or if there are none or too many.
pub fn parse_ports<'a>(values: impl IntoIterator<Item = &'a str>) -> Result<Vec<u16>, InvalidPorts> {
    let mut ports = Vec::new();
    for value in values {
        if value.is_empty() {
            return Err(InvalidPorts::Empty);
        }
        for port in value.split(',') {
            match port.parse::<u16>() {
                Ok(0) => return Err(InvalidPorts::Zero(value.to_owned())),
                Ok(port) => ports.push(port),
                Err(_) => return Err(InvalidPorts::NoPort(value.to_owned())),
            }
        }
    }
    match ports.len() {
        0 => Err(InvalidPorts::Missing),
        1..=PORTS_MAX => Ok(ports),
        _ => Err(InvalidPorts::TooMany),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_lists_of_numbers() {
        assert_eq!(parse_ports(["80,443", "8080"]), Ok(vec![80, 443, 8080]));
        assert_eq!(parse_ports([]), Err(InvalidPorts::Missing));
        assert_eq!(parse_ports(["80", ""]), Err(InvalidPorts::Empty));
        assert_eq!(parse_ports(["0"]), Err(InvalidPorts::Zero("0".into())));
        for wrong in ["65536", "-1", "80,", "http"] {
            assert_eq!(parse_ports([wrong]), Err(InvalidPorts::NoPort(wrong.into())));
        }
        let many = vec!["1"; PORTS_MAX + 1];
        assert_eq!(parse_ports(many), Err(InvalidPorts::TooMany));
    }
}
