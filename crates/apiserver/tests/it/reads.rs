use serde_json::{Value, json};

use crate::api::Api;

const SECRETS: &str = "/api/v1/namespaces/a/secrets";

async fn with_secrets(names: &[&str]) -> Api {
    let api = Api::start().await;
    for name in names {
        let secret = json!({"metadata": {"name": name, "labels": {"first": name[..1]}}});
        assert_eq!(api.post(SECRETS, secret).await.status, 201);
    }
    api
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|it| it["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn pages_are_of_one_snapshot_until_it_expires() {
    let api = with_secrets(&["s1", "s3", "s5"]).await;
    let first = api.get(&format!("{SECRETS}?limit=2")).await.body;
    assert_eq!(names(&first), ["s1", "s3"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 1);
    api.post(SECRETS, json!({"metadata": {"name": "s4"}})).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let rest = api.get(&format!("{SECRETS}?limit=2&continue={token}")).await.body;
    assert_eq!(names(&rest), ["s5"]);
    api.compact();
    let expired = api.get(&format!("{SECRETS}?limit=2&continue={token}")).await;
    assert_eq!(expired.status, 410);
    let token = expired.body["metadata"]["continue"].as_str().unwrap();
    let rest = api.get(&format!("{SECRETS}?limit=2&continue={token}")).await.body;
    assert_eq!(names(&rest), ["s4", "s5"]);
}

#[tokio::test(start_paused = true)]
async fn selectors_are_answered_in_pages_too() {
    let api = with_secrets(&["a1", "b1", "a2", "b2", "a3"]).await;
    let page = api.get(&format!("{SECRETS}?labelSelector=first=a&limit=2")).await.body;
    assert_eq!(names(&page), ["a1", "a2"]);
    assert_eq!(page["metadata"].get("remainingItemCount"), None);
    let token = page["metadata"]["continue"].as_str().unwrap();
    let rest = api.get(&format!("{SECRETS}?labelSelector=first=a&limit=2&continue={token}")).await.body;
    assert_eq!(names(&rest), ["a3"]);
    let one = api.get(&format!("{SECRETS}?fieldSelector=metadata.name=b2")).await.body;
    assert_eq!(names(&one), ["b2"]);
    let none = api.get(&format!("{SECRETS}?fieldSelector=spec.nodeName=x")).await;
    assert_eq!(none.status, 400);
}

#[tokio::test(start_paused = true)]
async fn large_answers_are_compressed_when_asked() {
    let api = Api::start().await;
    let data: String = "x".repeat(200 * 1024);
    let map = json!({"metadata": {"name": "c"}, "data": {"k": data}});
    api.post("/api/v1/namespaces/a/configmaps", map).await;
    let path = "/api/v1/namespaces/a/configmaps/c";
    let zipped = api.send("GET", path, &[("accept-encoding", "gzip")], Vec::new()).await;
    assert_eq!(zipped.headers()["content-encoding"], "gzip");
    assert!(zipped.into_body().whole().unwrap().len() < 10 * 1024);
    let plain = api.send("GET", path, &[], Vec::new()).await;
    assert!(plain.headers().get("content-encoding").is_none());
}

/// A long list is encoded, and compressed, while it is read.
#[tokio::test(start_paused = true)]
async fn a_long_list_is_the_same_however_it_is_sent() {
    let api = Api::start().await;
    let path = "/api/v1/namespaces/a/configmaps";
    for index in 0..30 {
        let map = json!({"metadata": {"name": format!("c{index:02}")}, "data": {"k": "x".repeat(50_000)}});
        api.post(path, map).await;
    }
    let plain = api.send("GET", path, &[], Vec::new()).await.into_body();
    let length = http_body::Body::size_hint(&plain).exact();
    let plain = plain.whole().unwrap();
    assert_eq!(length, Some(plain.len() as u64));
    let list: Value = serde_json::from_slice(&plain).unwrap();
    assert_eq!(names(&list).len(), 30);
    let zipped = api.send("GET", path, &[("accept-encoding", "gzip")], Vec::new()).await;
    assert_eq!(zipped.headers()["content-encoding"], "gzip");
    let zipped = zipped.into_body().whole().unwrap();
    let mut unzipped = Vec::new();
    let mut decoder = flate2::read::GzDecoder::new(&zipped[..]);
    std::io::Read::read_to_end(&mut decoder, &mut unzipped).unwrap();
    assert!(unzipped == plain, "compressed or not, it is the same list");
    for accept in ["application/yaml", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"] {
        let answer = api.send("GET", path, &[("accept", accept)], Vec::new()).await;
        let text = answer.into_body().whole().unwrap();
        assert!(memchr::memmem::find(&text, b"c29").is_some(), "{accept}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_has_two_faces() {
    let api = Api::start().await;
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "a"},
        "reason": "Started", "message": "hello", "type": "Normal"});
    assert_eq!(api.post("/api/v1/namespaces/a/events", event).await.status, 201);
    let face = api.get("/apis/events.k8s.io/v1/namespaces/a/events/e").await.body;
    assert_eq!((&face["note"], &face["regarding"]["name"]), (&json!("hello"), &json!("p")));
    let path = "/apis/events.k8s.io/v1/namespaces/a/events?fieldSelector=regarding.name=p";
    assert_eq!(names(&api.get(path).await.body), ["e"]);
}

#[tokio::test(start_paused = true)]
async fn hostile_paths_are_refused() {
    let api = Api::start().await;
    let long = "x".repeat(60_000);
    for (path, status) in [
        ("/api/v1/namespaces/a/secrets/..%2f..%2fb".to_owned(), 404),
        ("/api/v1//namespaces".to_owned(), 404),
        ("/apis/apps/v1/namespaces/a/deployments/d/nonesuch".to_owned(), 404),
        (format!("{SECRETS}/{long}"), 404),
        (format!("{SECRETS}?labelSelector={long}%3D%3D%3D"), 400),
        (format!("{SECRETS}?limit=-1"), 200),
        ("/%zz".to_owned(), 400),
        (format!("{SECRETS}/.."), 400),
        (format!("{SECRETS}/a%25b"), 400),
        ("/api/v1/namespaces/../secrets".to_owned(), 500),
    ] {
        assert_eq!(api.get(&path).await.status, status, "{}", &path[..path.len().min(80)]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_parts_of_the_cluster_are_well() {
    let api = Api::start().await;
    let list = api.get("/api/v1/componentstatuses").await.body;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(3));
    assert_eq!(api.get("/api/v1/componentstatuses/etcd-0").await.body["conditions"][0]["status"], "True");
    assert_eq!(api.get("/api/v1/componentstatuses/none").await.status, 404);
}
