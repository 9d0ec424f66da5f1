//! Fuzzes upgraded connections: a client sends any bytes over WebSocket channels, SPDY, and SPDY in a WebSocket. The first
//! byte chooses the protocol.
#![no_main]

use std::sync::{Arc, LazyLock};

use evenkeel_streams::{Command, Connector, Io, Offer, Streams, duplex};
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().expect("a runtime without IO needs nothing from the system")
});

const WEB_SOCKET: [(&str, &str); 4] = [
    ("connection", "Upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
];
const SPDY: [(&str, &str); 2] = [("connection", "Upgrade"), ("upgrade", "SPDY/3.1")];

/// The headers of a request with one protocol.
fn headers(fixed: &[(&'static str, &'static str)], name: &'static str, protocol: &'static str) -> HeaderMap {
    let pairs = fixed.iter().copied().chain([(name, protocol)]);
    pairs.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
}

/// A command that prints what is typed.
fn cat() -> Command {
    Box::new(|process| {
        Box::pin(async move {
            if let (Some(mut stdin), Some(mut stdout)) = (process.stdin, process.stdout) {
                let _ = tokio::io::copy(&mut stdin, &mut stdout).await;
            }
            Ok(3)
        })
    })
}

/// Port 80 echoes; no other port listens.
fn connector() -> Connector {
    Arc::new(|port| {
        Box::pin(async move {
            if port != 80 {
                return Err("connection refused".to_owned());
            }
            let (near, far) = duplex(None);
            let (mut read, mut write) = tokio::io::split(far);
            tokio::spawn(async move {
                let _ = tokio::io::copy(&mut read, &mut write).await;
                let _ = write.shutdown().await;
            });
            Ok(Box::new(near) as Io)
        })
    })
}

async fn serve(choice: u8, io: Io) {
    let channels = |protocol| headers(&WEB_SOCKET, "sec-websocket-protocol", protocol);
    let streams = |protocol| headers(&SPDY, "x-stream-protocol-version", protocol);
    let wanted = Streams { stdin: true, stdout: true, stderr: true, tty: choice >= 128 };
    let command = |headers| Offer::for_command(&headers).expect("the protocol is known");
    let ports = |headers| Offer::for_ports(&headers).expect("the protocol is known");
    match choice % 7 {
        0 => command(channels("v5.channel.k8s.io")).serve_command(io, wanted, cat(), None).await,
        1 => command(channels("base64.channel.k8s.io")).serve_command(io, wanted, cat(), None).await,
        2 => command(streams("v4.channel.k8s.io")).serve_command(io, wanted, cat(), None).await,
        3 => command(streams("channel.k8s.io")).serve_command(io, wanted, cat(), None).await,
        4 => ports(channels("v4.channel.k8s.io")).serve_ports(io, "p", vec![80, 81], connector(), None).await,
        5 => ports(streams("portforward.k8s.io")).serve_ports(io, "p", Vec::new(), connector(), None).await,
        _ => ports(channels("SPDY/3.1+portforward.k8s.io")).serve_ports(io, "p", Vec::new(), connector(), None).await,
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((choice, sent)) = bytes.split_first() else { return };
    RUNTIME.block_on(async {
        let (client, server) = duplex(None);
        let (mut read, mut write) = tokio::io::split(client);
        let talking = async {
            let _ = write.write_all(sent).await;
            let _ = write.shutdown().await;
        };
        let reading = async {
            let mut got = Vec::new();
            let _ = read.read_to_end(&mut got).await;
            assert!(got.len() < 64 * (sent.len() + 1024), "{} bytes for {}", got.len(), sent.len());
        };
        tokio::join!(serve(*choice, Box::new(server)), talking, reading);
    });
});
