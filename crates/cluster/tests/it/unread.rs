//! A client that requests a long list and does not read it holds some pieces of the list in memory, not a copy.

use evenkeel_cluster::serve::ServeOptions;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::child;
use crate::wire::Wire;

const LIST: &str = "/api/v1/namespaces/default/configmaps";
const OBJECTS: usize = 100;
const OBJECT_BYTES: usize = 100_000;
const CLIENTS: usize = 200;
/// The memory that each client may cost, with both ends of its connection in this process: TLS and HTTP buffers of some
/// 100 KiB at each end, and the 16 pieces of 64 KiB that hyper buffers before the socket. A copy would take 10 MB.
const CLIENT_MAX_BYTES: usize = 2_000_000;

#[test]
fn a_list_is_not_copied_for_each_reader() {
    let test = "unread::child_reads_nothing_of_a_long_list";
    let played = child::play(test, &[]);
    assert!(played.passed, "{}", played.told);
}

/// Runs in a process of its own, whose memory is measured.
#[tokio::test]
async fn child_reads_nothing_of_a_long_list() {
    if !child::is_this() {
        return;
    }
    let wire = Wire::start(ServeOptions::default()).await;
    for index in 0..OBJECTS {
        let map = json!({"metadata": {"name": format!("m{index}")}, "data": {"k": "x".repeat(OBJECT_BYTES)}});
        let map: ConfigMap = serde_json::from_value(map).expect("it is one");
        wire.cluster.apply(map).await.expect("it is small enough");
    }
    let before = resident_bytes();
    let mut clients = Vec::new();
    for index in 0..CLIENTS {
        let mut client = wire.connect().await;
        let encoding = if index % 2 == 0 { "Accept-Encoding: gzip\r\n" } else { "" };
        let request = format!("GET {LIST} HTTP/1.1\r\nHost: localhost\r\n{encoding}\r\n");
        client.write_all(request.as_bytes()).await.expect("the server reads");
        // The head of the response: the server has begun to send.
        client.read_exact(&mut [0; 12]).await.expect("the server answers");
        clients.push(client);
    }
    let each = resident_bytes().saturating_sub(before) / CLIENTS;
    println!("{each} bytes for each client that does not read");
    assert!(each < CLIENT_MAX_BYTES, "{each} bytes for each client");
    let answer = wire.request(&format!("GET {LIST}"), "application/json", b"").await;
    assert!(answer.status == 200 && answer.text.len() > OBJECTS * OBJECT_BYTES, "others are served whole");
}

/// The resident memory of this process.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux says it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the kernel says it");
    let kib: usize = line.trim().trim_end_matches(" kB").parse().expect("it is a number");
    kib * 1024
}
