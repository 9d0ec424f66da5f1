//! Limits on requests in flight: one too many gets kube-apiserver's response, and administrators are always served.

use evenkeel_cluster::serve::{ServeOptions, Tokens};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use crate::h2::{self, H2};
use crate::wire::Wire;

const LIST: &str = "/api/v1/namespaces/default/configmaps";
const ALICE: (&str, &str) = ("authorization", "Bearer alices-token");
const BOB: (&str, &str) = ("authorization", "Bearer bobs-token");

/// A server that allows four requests of each class, three of them to a single user, and has two users who may do
/// everything.
async fn serve() -> Wire {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("tokens");
    std::fs::write(&file, "alices-token,alice,1\nbobs-token,bob,2\n").expect("it can be written");
    let mut options = ServeOptions::default();
    options.tokens = Tokens::read(&file).expect("it is well formed");
    (options.reads_max, options.writes_max, options.watches_max) = (4, 4, 4);
    let wire = Wire::start(options).await;
    let subjects = ["alice", "bob"].map(|name| json!({"kind": "User", "name": name, "apiGroup": GROUP}));
    let role = json!({"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": GROUP});
    let binding = json!({"metadata": {"name": "users"}, "subjects": subjects, "roleRef": role});
    let binding: ClusterRoleBinding = serde_json::from_value(binding).expect("it is one");
    wire.cluster.apply(binding).await.expect("it is written");
    wire
}

const GROUP: &str = "rbac.authorization.k8s.io";

/// Creates objects whose list takes more than one piece.
async fn fill(wire: &Wire) {
    for index in 0..4 {
        let map = json!({"metadata": {"name": format!("large-{index}")}, "data": {"k": "x".repeat(100_000)}});
        let map: ConfigMap = serde_json::from_value(map).expect("it is one");
        wire.cluster.apply(map).await.expect("it is small enough");
    }
}

/// A client without a certificate that reads no responses until it opens its flow-control window.
async fn client(wire: &Wire) -> H2 {
    let mut client = H2::stranger(wire).await;
    client.begin(&[(h2::INITIAL_WINDOW, 0)]).await;
    client
}

async fn status(client: &mut H2, stream: u32, path: &str, who: (&str, &str)) -> u16 {
    client.get(stream, path, &[who]).await;
    h2::status(&client.read_until(h2::HEADERS, stream).await.expect("it is answered"))
}

#[tokio::test]
async fn reads_are_bounded_until_their_answers_are_read() {
    let wire = serve().await;
    fill(&wire).await;
    let mut alice = client(&wire).await;
    for stream in [1, 3, 5] {
        assert_eq!(status(&mut alice, stream, LIST, ALICE).await, 200);
    }
    assert_eq!(status(&mut alice, 7, LIST, ALICE).await, 429, "a fourth of alice's");
    let mut bob = client(&wire).await;
    assert_eq!(status(&mut bob, 1, LIST, BOB).await, 200, "the fourth of all is bob's");
    assert_eq!(status(&mut bob, 3, LIST, BOB).await, 429, "a fifth of all");
    let admin = wire.request(&format!("GET {LIST}"), "application/json", b"").await;
    assert_eq!(admin.status, 200, "administrators are always served");
    // When the response has been sent, the request is no longer in flight.
    let room = (1u32 << 20).to_be_bytes();
    bob.send(h2::WINDOW_UPDATE, 0, 0, &room).await.expect("the server reads");
    bob.send(h2::WINDOW_UPDATE, 0, 1, &room).await.expect("the server reads");
    while bob.read_until(h2::DATA, 1).await.expect("the answer comes").flags & h2::END_STREAM == 0 {}
    assert_eq!(status(&mut bob, 5, LIST, BOB).await, 200);
}

#[tokio::test]
async fn a_refusal_is_that_of_kube_apiserver() {
    let wire = serve().await;
    let mut waiting = Vec::new();
    let head = |length: usize| {
        format!(
            "POST {LIST} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {}\r\nContent-Length: {length}\r\n",
            ALICE.1
        )
    };
    for _ in 0..3 {
        let mut client = wire.connect_stranger().await;
        client.write_all(format!("{}\r\n{{", head(100)).as_bytes()).await.expect("the server reads");
        waiting.push(client);
    }
    // The last request may not have arrived yet while those before it are in flight.
    let refused = loop {
        let answer =
            wire.send_as_stranger(format!("{}Connection: close\r\n\r\n{{}}", head(2)).as_bytes()).await;
        if answer.status != 422 {
            break answer;
        }
    };
    assert_eq!(refused.status, 429, "{}", refused.text);
    let (head, body) = refused.text.split_once("\r\n\r\n").expect("it has a head");
    let head = head.to_ascii_lowercase();
    assert!(head.contains("retry-after: 1\r\n"), "{head}");
    assert!(head.contains("content-type: text/plain; charset=utf-8"), "{head}");
    assert_eq!(body, "Too many requests, please try again later.\n");
    let map = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new"}}"#;
    let admin = wire.request(&format!("POST {LIST}"), "application/json", map).await;
    assert_eq!(admin.status, 201, "administrators are always served: {}", admin.text);
}

#[tokio::test]
async fn watches_are_bounded() {
    let wire = serve().await;
    let mut alice = client(&wire).await;
    let watch = format!("{LIST}?watch=true");
    for stream in [1, 3, 5] {
        assert_eq!(status(&mut alice, stream, &watch, ALICE).await, 200);
    }
    assert_eq!(status(&mut alice, 7, &watch, ALICE).await, 429);
    assert_eq!(status(&mut alice, 9, LIST, ALICE).await, 200, "watches take no place of reads");
    drop(alice);
    let mut again = client(&wire).await;
    // The server may not have noticed yet that she has disconnected.
    let mut stream = 1;
    while status(&mut again, stream, &watch, ALICE).await == 429 {
        stream += 2;
    }
}
