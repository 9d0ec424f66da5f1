//! Forwarded ports over SPDY: two streams for each connection, one for its data and one for an error.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_env::Station;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, sleep_until};

use super::connection::{Opened, SpdyStream, connection};
use crate::Io;
use crate::limits::STREAM_CREATION;
use crate::ports::{Connector, forward};

pub(crate) async fn serve_ports(io: Io, pod: Arc<str>, connector: Connector, station: Option<&Station>) {
    connection(io, station, |opened| serve(pod, connector, opened)).await;
}

/// A connection of which one stream is there.
struct Half {
    stream: SpdyStream,
    since: Instant,
}

async fn serve(pod: Arc<str>, connector: Connector, mut opened: Opened) {
    let mut halves: BTreeMap<String, Half> = BTreeMap::new();
    let mut forwarded: FuturesUnordered<BoxFuture<'static, ()>> = FuturesUnordered::new();
    loop {
        let oldest = halves.values().map(|half| half.since).min();
        let expires = async {
            match oldest {
                Some(since) => sleep_until(since + STREAM_CREATION).await,
                None => std::future::pending().await,
            }
        };
        let stream = tokio::select! {
            biased;
            stream = opened.recv() => stream,
            Some(()) = forwarded.next() => continue,
            () = expires => {
                halves.retain(|_, half| half.since + STREAM_CREATION > Instant::now());
                continue;
            }
        };
        let Some(stream) = stream else { return };
        let port = match port_of(&stream) {
            Ok(port) => port,
            Err(why) => {
                forwarded.push(Box::pin(tell(stream, why)));
                continue;
            }
        };
        let name = request_name(&stream);
        let Some(other) = halves.remove(&name) else {
            halves.insert(name, Half { stream, since: Instant::now() });
            continue;
        };
        // Two streams of one type are dropped, which ends both.
        if let Some((data, error)) = pair(other.stream, stream) {
            let forward = forward(connector.clone(), pod.clone(), port, data.reader, data.writer);
            forwarded.push(Box::pin(async move {
                if let Err(why) = forward.await {
                    tell(error, why).await;
                }
            }));
        }
    }
}

async fn tell(mut stream: SpdyStream, why: String) {
    let _ = stream.writer.write_all(why.as_bytes()).await;
}

fn port_of(stream: &SpdyStream) -> Result<u16, String> {
    let port = match stream.headers.get("port") {
        "" => return Err("\"port\" header is required".to_owned()),
        text => text.parse::<u16>().map_err(|_| format!("unable to parse {text:?} as a port"))?,
    };
    match (port, stream.headers.get("streamtype")) {
        (0, _) => Err("port \"0\" must be > 0".to_owned()),
        (_, "data" | "error") => Ok(port),
        (_, "") => Err("\"streamType\" header is required".to_owned()),
        (_, other) => Err(format!("invalid stream type {other:?}")),
    }
}

/// What the two streams of a connection have in common. Clients that do not say it open the error stream first, and the
/// data stream next.
fn request_name(stream: &SpdyStream) -> String {
    match (stream.headers.get("requestid"), stream.headers.get("streamtype")) {
        ("", "data") => stream.number.saturating_sub(2).to_string(),
        ("", _) => stream.number.to_string(),
        (name, _) => name.to_owned(),
    }
}

/// The data stream and the error stream of a connection.
fn pair(one: SpdyStream, other: SpdyStream) -> Option<(SpdyStream, SpdyStream)> {
    match (one.headers.get("streamtype"), other.headers.get("streamtype")) {
        ("data", "error") => Some((one, other)),
        ("error", "data") => Some((other, one)),
        _ => None,
    }
}
