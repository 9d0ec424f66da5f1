use evenkeel_schema::json::{Value, json};
use evenkeel_schema::protobuf;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt as _;

use crate::api::Api;

const MEDIA: &str = "application/vnd.kubernetes.protobuf";
const MAPS: &str = "/api/v1/namespaces/a/configmaps";

/// Sends a request that accepts protobuf. Returns the status, the media type and the body.
async fn send(api: &Api, path: &str, accept: &str) -> (u16, String, Vec<u8>) {
    let response = api.send("GET", path, &[("accept", accept)], Vec::new()).await;
    let media = response.headers().get(CONTENT_TYPE).map(|it| it.to_str().unwrap().to_owned());
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes().to_vec();
    (status, media.unwrap_or_default(), body)
}

async fn with_map() -> Api {
    let api = Api::start().await;
    let map = serde_json::json!({"metadata": {"name": "m"}, "data": {"k": "v"}});
    assert_eq!(api.post(MAPS, map).await.status, 201);
    api
}

#[tokio::test(start_paused = true)]
async fn objects_lists_and_errors_are_sent_as_protobuf() {
    let api = with_map().await;
    // Go clients list both; the first that is served wins.
    for accept in [MEDIA.to_owned(), format!("{MEDIA},application/json")] {
        let (status, media, body) = send(&api, &format!("{MAPS}/m"), &accept).await;
        assert_eq!((status, media.as_str()), (200, MEDIA));
        assert_eq!(
            serde_json::Value::from(protobuf::decode(&body).unwrap()),
            api.get(&format!("{MAPS}/m")).await.body
        );
    }
    let (_, _, body) = send(&api, MAPS, MEDIA).await;
    let list = protobuf::decode(&body).unwrap();
    assert_eq!(list["kind"], "ConfigMapList");
    assert_eq!(list["items"][0]["data"], json!({"k": "v"}));
    let (status, media, body) = send(&api, &format!("{MAPS}/none"), MEDIA).await;
    assert_eq!((status, media.as_str()), (404, MEDIA));
    assert_eq!(protobuf::decode(&body).unwrap()["reason"], "NotFound");
    let partial = format!("{MEDIA};as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
    let (_, _, body) = send(&api, &format!("{MAPS}/m"), &partial).await;
    let partial = protobuf::decode(&body).unwrap();
    assert_eq!(
        (&partial["kind"], &partial["metadata"]["name"]),
        (&json!("PartialObjectMetadata"), &json!("m"))
    );
}

#[tokio::test(start_paused = true)]
async fn what_has_no_protobuf_form_is_sent_as_json_or_refused() {
    let api = with_map().await;
    let table = format!("{MEDIA};as=Table;g=meta.k8s.io;v=v1");
    assert_eq!(send(&api, MAPS, &table).await.0, 406);
    let (status, media, _) = send(&api, MAPS, &format!("{table},application/json")).await;
    assert_eq!((status, media.as_str()), (200, "application/json"));
}

#[tokio::test(start_paused = true)]
async fn a_watch_sends_frames() {
    let api = with_map().await;
    let path = format!("{MAPS}?watch=1&timeoutSeconds=1");
    let (status, media, body) = send(&api, &path, MEDIA).await;
    assert_eq!((status, media.as_str()), (200, "application/vnd.kubernetes.protobuf;stream=watch"));
    // A frame has its length in front; the event has its type and the object, which has the envelope of any body.
    let length = u32::from_be_bytes(body[..4].try_into().unwrap()) as usize;
    assert_eq!(body.len(), 4 + length);
    assert_eq!(&body[4..11], b"\x0a\x05ADDED");
    let begin = body.windows(4).position(|bytes| bytes == protobuf::MAGIC).unwrap();
    assert_eq!(protobuf::decode(&body[begin..]).unwrap()["metadata"]["name"], "m");
}

#[tokio::test(start_paused = true)]
async fn openapi_documents_are_sent_as_protobuf() {
    let api = Api::start().await;
    for (path, version) in [("/openapi/v2", "v2"), ("/openapi/v3/api/v1", "v3")] {
        for sign in ['@', '.'] {
            let accept = format!("application/com.github.proto-openapi.spec.{version}{sign}v1.0+protobuf");
            let (status, media, body) = send(&api, path, &accept).await;
            let expected = format!("application/com.github.proto-openapi.spec.{version}.v1.0+protobuf");
            assert_eq!((status, media), (200, expected), "{path}");
            // The first field of a document is the version of OpenAPI.
            assert!(
                body.starts_with(if version == "v2" { b"\x0a\x032.0" } else { b"\x0a\x053.0" }),
                "{path}"
            );
        }
    }
    let (status, _, body) = send(&api, "/openapi/v2", "text/html").await;
    assert_eq!((status, body.len()), (406, 0));
    let json: Value = serde_json::from_slice(&send(&api, "/openapi/v2", "").await.2).unwrap();
    assert_eq!(json["swagger"], "2.0");
}
