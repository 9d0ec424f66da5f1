//! Bad input end to end: the server answers as Kubernetes does, writes nothing, and continues to serve.

use std::io::Write as _;
use std::time::Duration;

use evenkeel_cluster::serve::ServeOptions;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::wire::Wire;

const MAPS: &str = "POST /api/v1/namespaces/default/configmaps";
const JSON: &str = "application/json";

/// Sends a body and expects one of these statuses, and a server that continues to serve and has stored nothing.
async fn check(wire: &Wire, what: &str, content_type: &str, body: &[u8], expected: &[u16]) {
    let answer = wire.request(MAPS, content_type, body).await;
    let text: String = answer.text.chars().take(600).collect();
    assert!(expected.contains(&answer.status), "{what}: {} is none of {expected:?}\n{text}", answer.status);
    expect_untouched(wire, what).await;
}

async fn expect_untouched(wire: &Wire, what: &str) {
    let maps = wire.cluster.list::<ConfigMap>().await.expect("the server still serves");
    let names: Vec<_> = maps.into_iter().filter_map(|map| map.metadata.name).collect();
    assert!(names.iter().all(|name| name == "kube-root-ca.crt"), "{what} has written {names:?}");
    let health = wire.request("GET /readyz", JSON, b"").await;
    assert_eq!(health.status, 200, "after {what}: {}", health.text);
}

fn named(name: &str) -> Vec<u8> {
    format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}}}}"#).into_bytes()
}

#[tokio::test]
async fn bodies_that_are_no_objects() {
    let wire = Wire::start(ServeOptions::default()).await;
    let whole = named("a");
    check(&wire, "malformed JSON", JSON, b"{\"apiVersion\": nonsense}", &[400]).await;
    check(&wire, "half an object", JSON, &whole[..whole.len() / 2], &[400]).await;
    check(&wire, "no body", JSON, b"", &[400]).await;
    check(&wire, "a list", JSON, b"[]", &[400]).await;
    check(&wire, "deep nesting", JSON, &[b"[".repeat(200_000), b"]".repeat(200_000)].concat(), &[400]).await;
    let deep = [b"{\"a\":".repeat(200_000), b"1".to_vec(), b"}".repeat(200_000)].concat();
    check(&wire, "deep objects", JSON, &deep, &[400]).await;
    check(&wire, "deep YAML", "application/yaml", &b"[".repeat(200_000), &[400]).await;
    check(&wire, "a wrong type", "text/plain", &whole, &[415]).await;
    check(&wire, "no type at all", "", b"\x00\x01\x02", &[400, 415]).await;
}

#[tokio::test]
async fn bodies_that_are_too_large() {
    let wire = Wire::start(ServeOptions::default()).await;
    let large = [b"{\"a\":\"".to_vec(), vec![b'x'; 3 << 20], b"\"}".to_vec()].concat();
    check(&wire, "more than 3 MiB", JSON, &large, &[413]).await;
    let name = "a".repeat(100_000);
    check(&wire, "a name of 100,000 characters", JSON, &named(&name), &[422]).await;
    let labels = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a","labels":{{"{name}":"x"}}}}}}"#
    );
    check(&wire, "a label of 100,000 characters", JSON, labels.as_bytes(), &[422]).await;
}

#[tokio::test]
async fn bombs() {
    let wire = Wire::start(ServeOptions::default()).await;
    check(&wire, "a YAML alias bomb", "application/yaml", alias_bomb().as_bytes(), &[400]).await;
    let protobuf = "application/vnd.kubernetes.protobuf";
    // A length of 2⁶³ bytes without the bytes.
    let lengths = [b"k8s\0\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f".to_vec(), vec![0; 16]].concat();
    check(&wire, "a protobuf length bomb", protobuf, &lengths, &[400]).await;
    let nested = b"\x0a\x80\x80\x01".repeat(5_000);
    check(&wire, "nested protobuf", protobuf, &[b"k8s\0".to_vec(), nested].concat(), &[400]).await;
    check(&wire, "no protobuf at all", protobuf, &named("a"), &[400]).await;

    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&vec![b' '; 8 << 20]).expect("memory takes it");
    let bomb = gzip.finish().expect("memory takes it");
    let headers = "Content-Type: application/json\r\nContent-Encoding: gzip\r\n";
    let answer = wire.request_with(MAPS, headers, &bomb).await;
    assert!([400, 413, 415].contains(&answer.status), "a compressed bomb: {}", answer.text);
    expect_untouched(&wire, "a compressed bomb").await;
}

fn alias_bomb() -> String {
    let mut text =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nl0: &l0 [x, x, x, x, x, x, x, x, x]\n"
            .to_owned();
    for level in 1..12 {
        let before = format!("*l{}, ", level - 1).repeat(9);
        text.push_str(&format!("l{level}: &l{level} [{}]\n", before.trim_end_matches(", ")));
    }
    text
}

#[tokio::test]
async fn hostile_paths() {
    let wire = Wire::start(ServeOptions::default()).await;
    let long = "a".repeat(100_000);
    let paths = [
        ("/../../etc/passwd".to_owned(), &[301, 404][..]),
        // Kubernetes detects this in its storage, and reports an internal error.
        ("/api/v1/namespaces/../secrets".to_owned(), &[500]),
        ("/api/v1/namespaces/%2e%2e/secrets".to_owned(), &[500]),
        ("/api/v1/namespaces/default/configmaps/%00".to_owned(), &[400, 404]),
        ("/api/v1/namespaces/default/configmaps/%ff%fe".to_owned(), &[400, 404]),
        ("/api/v1/namespaces/default/configmaps/a%2Fb".to_owned(), &[400, 404]),
        ("/api/v1//configmaps".to_owned(), &[301, 404]),
        ("/api/v1/configmaps?labelSelector=%3D%3D%3D".to_owned(), &[400]),
        ("/api/v1/configmaps?fieldSelector=no.such%3Dfield".to_owned(), &[400]),
        ("/api/v1/configmaps?limit=-1&continue=garbage".to_owned(), &[400]),
        (format!("/api/v1/namespaces/default/configmaps/{long}"), &[400, 404, 414]),
        (format!("/api/v1/configmaps?labelSelector={long}"), &[400, 414]),
    ];
    // The list of a namespace that does not exist is empty, whatever its name.
    for (path, expected) in paths {
        let answer = wire.request(&format!("GET {path}"), JSON, b"").await;
        let shown: String = path.chars().take(80).collect();
        assert!(expected.contains(&answer.status), "{shown}: {} is none of {expected:?}", answer.status);
        expect_untouched(&wire, &shown).await;
    }
    let answer = wire.send(b"THIS IS NO HTTP\r\n\r\n").await;
    assert_eq!(answer.status, 400, "{}", answer.text);
    expect_untouched(&wire, "no HTTP").await;
}

/// An invalid UTF-8 sequence inside a string is replaced, as Go's decoder does. Outside of strings it is an error.
#[tokio::test]
async fn invalid_utf8() {
    let wire = Wire::start(ServeOptions::default()).await;
    check(&wire, "invalid UTF-8 between tokens", JSON, b"{\xff\xfe}", &[400]).await;
    check(&wire, "invalid UTF-8 in YAML", "application/yaml", b"\xff\xfe: \xc3\x28", &[400]).await;
    let answer = wire.request(MAPS, JSON, b"{\"apiVersion\":\"v1\",\"kind\":\"Conf\xffig\"}").await;
    assert_eq!(answer.status, 400, "{}", answer.text);
    expect_untouched(&wire, "invalid UTF-8 in a kind").await;
}

#[tokio::test]
async fn slow_clients_are_cut_off() {
    let mut options = ServeOptions::default();
    options.handshake_timeout = Duration::from_millis(300);
    options.head_timeout = Duration::from_millis(300);
    let wire = Wire::start(options).await;
    let mut silent = Vec::new();
    for _ in 0..64 {
        silent.push(TcpStream::connect(wire.address).await.expect("the server listens"));
    }
    let mut slow = wire.connect().await;
    slow.write_all(b"GET /readyz HTTP/1.1\r\nHost: loc").await.expect("the server reads");
    expect_untouched(&wire, "slow clients").await;
    let mut rest = Vec::new();
    let cut = Duration::from_secs(10);
    let _ = tokio::time::timeout(cut, slow.read_to_end(&mut rest)).await.expect("a slow head is cut off");
    for mut stream in silent {
        let read = stream.read_to_end(&mut rest);
        let _ = tokio::time::timeout(cut, read).await.expect("a slow handshake is cut off");
    }
    expect_untouched(&wire, "slow clients").await;
}

#[tokio::test]
async fn a_quiet_watch_is_no_slow_client_and_an_idle_one_is() {
    let bound = Duration::from_millis(200);
    let mut options = ServeOptions::default();
    (options.head_timeout, options.idle_timeout) = (bound, bound);
    let wire = Wire::start(options).await;
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes();
    let (mut idle, mut watch) = (wire.connect().await, wire.connect().await);
    idle.write_all(&get("/readyz")).await.expect("the server reads");
    let path = "/api/v1/namespaces/default/configmaps?watch=true";
    watch.write_all(&get(path)).await.expect("the server reads");
    let mut answer = Vec::new();
    let read = idle.read_to_end(&mut answer);
    let _ = tokio::time::timeout(bound * 50, read).await.expect("an idle client is cut off");
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    let mut room = [0; 4096];
    let head = watch.read(&mut room).await.expect("the watch is answered");
    assert!(room[..head].starts_with(b"HTTP/1.1 200"));
    let read = tokio::time::timeout(bound * 5, watch.read(&mut room)).await;
    assert!(read.is_err(), "the watch goes on: {read:?}");
    let map = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new"}}"#;
    assert_eq!(wire.request(MAPS, JSON, map).await.status, 201);
    let event = watch.read(&mut room).await.expect("the watch goes on");
    assert!(String::from_utf8_lossy(&room[..event]).contains("ADDED"), "{event} bytes");
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let mut options = ServeOptions::default();
    options.body_timeout = Duration::from_millis(200);
    let wire = Wire::start(options).await;
    let mut slow = wire.connect().await;
    let head = format!("{MAPS} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{{\"apiVersion\"");
    slow.write_all(head.as_bytes()).await.expect("the server reads");
    let mut answer = Vec::new();
    let cut = Duration::from_secs(10);
    let read = slow.read_to_end(&mut answer);
    let _ = tokio::time::timeout(cut, read).await.expect("a slow body is cut off");
    assert!(answer.starts_with(b"HTTP/1.1 504"), "{}", String::from_utf8_lossy(&answer));
    expect_untouched(&wire, "a slow body").await;
}

/// The client disconnects in the middle of the body, so no response is needed.
#[tokio::test]
async fn a_client_that_goes_away() {
    let wire = Wire::start(ServeOptions::default()).await;
    let mut stream = wire.connect().await;
    let head = format!("{MAPS} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{{\"apiVersion\"");
    stream.write_all(head.as_bytes()).await.expect("the server reads");
    drop(stream);
    expect_untouched(&wire, "half a body").await;
}
