//! Abuse of HTTP/2: it ends its own connection or is limited, and other clients are served.

use std::time::Duration;

use evenkeel_cluster::serve::ServeOptions;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use crate::h2::{self, H2};
use crate::wire::Wire;

const LIST: &str = "/api/v1/namespaces/default/configmaps";
/// The timeouts of these tests: short, because the tests wait for them.
const SHORT: Duration = Duration::from_millis(300);
/// Shorter than the pause before the server's first ping. A client that does not answer the ping is cut off as well, which
/// is not what a test of another bound wants to see.
const BEFORE_PING: Duration = Duration::from_secs(20);

async fn serve(change: impl FnOnce(&mut ServeOptions)) -> Wire {
    let mut options = ServeOptions::default();
    change(&mut options);
    Wire::start(options).await
}

/// Asserts that another client is served over HTTP/1.1 and HTTP/2.
async fn expect_served(wire: &Wire, after: &str) {
    let answer = wire.request("GET /api/v1/namespaces", "application/json", b"").await;
    assert_eq!(answer.status, 200, "after {after}: {}", answer.text);
    let mut h2 = H2::start(wire, &[]).await;
    h2.get(1, "/api/v1/namespaces", &[]).await;
    let head = h2.read_until(h2::HEADERS, 1).await.unwrap_or_else(|| panic!("no answer after {after}"));
    assert_eq!(h2::status(&head), 200, "after {after}");
}

/// Creates objects whose list is longer than what the kernel buffers for a client that does not read.
async fn fill(wire: &Wire) {
    for index in 0..12 {
        let map =
            json!({"metadata": {"name": format!("large-{index}")}, "data": {"k": "x".repeat(1_000_000)}});
        let map: ConfigMap = serde_json::from_value(map).expect("it is one");
        wire.cluster.apply(map).await.expect("it is small enough");
    }
}

#[tokio::test]
async fn silent_clients_are_cut_off() {
    let wire = serve(|options| options.head_timeout = SHORT).await;
    let mut silent = Vec::new();
    for _ in 0..16 {
        silent.push(H2::silent(&wire).await);
        silent.push(H2::stranger(&wire).await);
    }
    // A preface and responses to pings do not count as a request.
    let mut polite = H2::start(&wire, &[]).await;
    expect_served(&wire, "silent clients").await;
    polite.read_to_end().await;
    for mut client in silent {
        client.read_to_end().await;
    }
}

#[tokio::test]
async fn an_idle_client_is_cut_off_and_one_with_a_quiet_watch_is_not() {
    let wire = serve(|options| (options.head_timeout, options.idle_timeout) = (SHORT, SHORT)).await;
    let mut watch = H2::start(&wire, &[]).await;
    watch.get(1, &format!("{LIST}?watch=true"), &[]).await;
    assert_eq!(h2::status(&watch.read_until(h2::HEADERS, 1).await.expect("it is answered")), 200);
    let mut idle = H2::start(&wire, &[]).await;
    idle.get(1, "/readyz", &[]).await;
    assert_eq!(h2::status(&idle.read_until(h2::HEADERS, 1).await.expect("it is answered")), 200);
    // Pings do not count as activity.
    let pinged = async {
        while idle.send(h2::PING, 0, 0, &[0; 8]).await.is_ok() && idle.read().await.is_some() {
            tokio::time::sleep(SHORT / 10).await;
        }
    };
    tokio::time::timeout(BEFORE_PING, pinged).await.expect("an idle client is cut off");
    wire.cluster.apply(map("new")).await.expect("it is written");
    let event = loop {
        let data = watch.read_until(h2::DATA, 1).await.expect("the watch goes on");
        let text = String::from_utf8_lossy(&data.payload).into_owned();
        if text.contains("\"new\"") {
            break text;
        }
    };
    assert!(event.contains("ADDED"), "{event}");
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).expect("it is one")
}

/// Silent connections in all slots used to shut out every other client.
#[tokio::test]
async fn clients_that_take_every_place_shut_nobody_out() {
    let never = Duration::from_secs(3600);
    let wire = serve(|options| {
        options.connections_max = 16;
        // Only the lack of places may close a connection.
        (options.handshake_timeout, options.head_timeout, options.idle_timeout) = (never, never, never);
    })
    .await;
    let mut watch = H2::start(&wire, &[]).await;
    watch.get(1, &format!("{LIST}?watch=true"), &[]).await;
    assert!(watch.read_until(h2::HEADERS, 1).await.is_some());
    let mut silent = Vec::new();
    for _ in 0..64 {
        silent.push(H2::stranger(&wire).await);
    }
    expect_served(&wire, "64 silent clients in 16 places").await;
    let closed = async {
        for mut client in silent.drain(..60) {
            client.read_to_end().await;
        }
    };
    tokio::time::timeout(BEFORE_PING, closed).await.expect("the oldest connections are closed for new ones");
    expect_served(&wire, "60 of them were closed").await;
    wire.cluster.apply(map("new")).await.expect("it is written");
    assert!(watch.read_until(h2::DATA, 1).await.is_some(), "who was known before is not touched");
}

#[tokio::test]
async fn answers_that_are_not_read_are_cut_off() {
    let wire = serve(|options| options.unread_timeout = SHORT).await;
    fill(&wire).await;
    // A flow-control window that is never opened, one that is opened byte by byte, and a socket that is not read.
    let mut closed = H2::start(&wire, &[(h2::INITIAL_WINDOW, 0)]).await;
    closed.get(1, LIST, &[]).await;
    let mut tiny = H2::start(&wire, &[(h2::INITIAL_WINDOW, 1)]).await;
    tiny.get(1, LIST, &[]).await;
    let mut unread = wire.connect().await;
    let request = format!("GET {LIST} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    tokio::io::AsyncWriteExt::write_all(&mut unread, request.as_bytes()).await.expect("the server reads");
    let mut whole = 0;
    let cut_off = async {
        while let Some(frame) = tiny.read().await {
            whole += if frame.kind == h2::DATA { frame.payload.len() } else { 0 };
            let _ = tiny.send(h2::WINDOW_UPDATE, 0, 1, &1u32.to_be_bytes()).await;
        }
        closed.read_to_end().await;
    };
    tokio::time::timeout(BEFORE_PING, cut_off).await.expect("windows that stay closed are cut off");
    assert!(whole < 64 * 1024, "{whole} bytes, one by one");
    // Read nothing of the third until the server has had time to close it.
    tokio::time::sleep(SHORT * 4).await;
    let mut received = Vec::new();
    let read = tokio::io::AsyncReadExt::read_to_end(&mut unread, &mut received);
    let _ = tokio::time::timeout(h2::HANG, read).await.expect("it is cut off");
    assert!(received.len() < 12_000_000, "the answer was cut off: {} bytes", received.len());
    expect_served(&wire, "answers that were not read").await;
}

/// A request that is reset frees its permit at once.
#[tokio::test]
async fn a_flood_of_resets_ends_its_connection() {
    let wire = serve(|_| {}).await;
    for path in ["/api/v1/namespaces/default", "/readyz", LIST, "/api/v1/configmaps?watch=true"] {
        let mut flood = H2::start(&wire, &[]).await;
        let block = h2::head("GET", path, &[]);
        let cancel = 8u32.to_be_bytes();
        let mut sent = 0;
        for stream in (1u32..60_000).step_by(2) {
            let request = h2::frame(h2::HEADERS, h2::END_STREAM | h2::END_HEADERS, stream, &block);
            let reset = h2::frame(h2::RST_STREAM, 0, stream, &cancel);
            if flood.send_raw(&[request, reset].concat()).await.is_err() {
                break;
            }
            sent += 1;
        }
        let code = flood.read_to_end().await;
        assert!(sent < 30_000, "{path}: {sent} requests were reset, and it ended with {code:?}");
        expect_served(&wire, "a flood of resets").await;
    }
}

#[tokio::test]
async fn more_streams_than_allowed_are_refused() {
    let wire = serve(|_| {}).await;
    let mut flood = H2::start(&wire, &[]).await;
    // The limit is known to the client once it has acknowledged the server's settings.
    let settings = flood.read_until(h2::SETTINGS, 0).await.expect("the server speaks first");
    assert!(settings.payload.chunks(6).any(|it| it[..2] == [0, 3] && it[2..] == 100u32.to_be_bytes()));
    flood.send(h2::SETTINGS, 1, 0, &[]).await.expect("the server reads");
    for stream in (1u32..400).step_by(2) {
        flood.get(stream, &format!("{LIST}?watch=true"), &[]).await;
    }
    let refused = flood.read_until(h2::RST_STREAM, 0).await.expect("it is refused");
    assert_eq!(refused.payload, 7u32.to_be_bytes(), "REFUSED_STREAM");
    expect_served(&wire, "a flood of streams").await;
}

#[tokio::test]
async fn floods_of_headers_end_their_connection() {
    let wire = serve(|_| {}).await;
    // A header block that never ends.
    let mut endless = H2::start(&wire, &[]).await;
    let block = h2::head("GET", "/readyz", &[]);
    endless.send(h2::HEADERS, h2::END_STREAM, 1, &block).await.expect("the server reads");
    let more = h2::header("x-more", &"x".repeat(1000));
    let mut sent = 0;
    while sent < 100_000 && endless.send(h2::CONTINUATION, 0, 1, &more).await.is_ok() {
        sent += 1;
    }
    endless.read_to_end().await;
    assert!(sent < 100_000, "{sent} frames");
    // Empty frames cost nothing but time.
    let mut empty = H2::start(&wire, &[]).await;
    empty.send(h2::HEADERS, h2::END_STREAM, 1, &block).await.expect("the server reads");
    let mut sent = 0;
    while sent < 100_000 && empty.send(h2::CONTINUATION, 0, 1, &[]).await.is_ok() {
        sent += 1;
    }
    empty.read_to_end().await;
    assert!(sent < 100_000, "{sent} empty frames");
    expect_served(&wire, "floods of headers").await;
}

/// A header list above the limit leads to status 431, a reset stream or a closed connection; one below it is served.
#[tokio::test]
async fn header_lists_are_bounded() {
    let wire = serve(|_| {}).await;
    for (headers, fits) in [(20, true), (3000, false)] {
        let mut client = H2::start(&wire, &[]).await;
        let mut block = h2::head("GET", "/readyz", &[]);
        (0..headers).for_each(|index| block.extend(h2::header(&format!("x-{index}"), &"x".repeat(900))));
        let mut frames = Vec::new();
        let parts: Vec<_> = block.chunks(16_000).collect();
        for (index, part) in parts.iter().enumerate() {
            let kind = if index == 0 { h2::HEADERS } else { h2::CONTINUATION };
            let end = if index + 1 == parts.len() { h2::END_HEADERS } else { 0 };
            let flags = end | if index == 0 { h2::END_STREAM } else { 0 };
            frames.extend(h2::frame(kind, flags, 1, part));
        }
        let _ = client.send_raw(&frames).await;
        let answer = client.read_until(h2::HEADERS, 1).await.map(|head| h2::status(&head));
        assert_eq!(answer == Some(200), fits, "{headers} headers: {answer:?}");
    }
    expect_served(&wire, "long header lists").await;
}

#[tokio::test]
async fn frames_that_are_wrong_end_their_connection() {
    let wire = serve(|_| {}).await;
    let window = |size: u32| h2::frame(h2::WINDOW_UPDATE, 0, 0, &size.to_be_bytes());
    let wrong = [
        ("a frame of 16 MiB", [&[0xff, 0xff, 0xff, h2::DATA, 0, 0, 0, 0, 1][..], &[0; 64]].concat()),
        ("a frame that is one byte too long", h2::frame(h2::DATA, 0, 1, &vec![0; (16 << 10) + 1])),
        ("a window beyond what there can be", window(0x7fff_ffff)),
        ("a window update of nothing", window(0)),
        ("a setting that cannot be", h2::frame(h2::SETTINGS, 0, 0, &[0, 4, 0xff, 0xff, 0xff, 0xff])),
        ("half a setting", h2::frame(h2::SETTINGS, 0, 0, &[0, 4, 0])),
        ("data on no stream", h2::frame(h2::DATA, 0, 0, b"x")),
        ("data on a stream that is not open", h2::frame(h2::DATA, 0, 99, b"x")),
        ("a request with an even number", h2::frame(h2::HEADERS, 5, 2, &h2::head("GET", "/readyz", &[]))),
        ("a continuation of nothing", h2::frame(h2::CONTINUATION, 4, 1, b"")),
        ("no header block at all", h2::frame(h2::HEADERS, 5, 1, &[0xff; 100])),
        ("a ping that is too short", h2::frame(h2::PING, 0, 0, b"x")),
    ];
    for (what, bytes) in wrong {
        let mut client = H2::start(&wire, &[]).await;
        let _ = client.send_raw(&bytes).await;
        let code = client.read_to_end().await;
        assert_ne!(code, Some(0), "{what}");
        expect_served(&wire, what).await;
    }
}

/// Settings and pings are answered, but a client that does not read the answers is not read any more.
#[tokio::test]
async fn floods_of_settings_and_pings_are_bounded() {
    let wire = serve(|options| options.unread_timeout = SHORT).await;
    for (what, frame) in [
        ("settings", h2::frame(h2::SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0])),
        ("pings", h2::frame(h2::PING, 0, 0, &[7; 8])),
    ] {
        let mut flood = H2::start(&wire, &[]).await;
        let many = frame.repeat(1000);
        let mut sent = 0;
        let flooded = async {
            while sent < 100_000 && flood.send_raw(&many).await.is_ok() {
                sent += 1;
            }
        };
        // The loop ends when the server closes the connection.
        let ended = tokio::time::timeout(BEFORE_PING, flooded).await;
        assert!(ended.is_ok() && sent < 100_000, "{what}: {sent} thousand frames were taken");
        expect_served(&wire, what).await;
    }
}
