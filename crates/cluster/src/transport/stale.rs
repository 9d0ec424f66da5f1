//! Watches that begin with a list at an older revision, as an API server serves them whose view lags behind the store.

use std::collections::VecDeque;

use bytes::Bytes;
use evenkeel_apiserver::User;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower::BoxError;

use super::backend::{Backend, ResponseBody};

/// The query parameters that say where a watch begins, which a list lacks or has with other values.
const REPLACED: [&str; 6] = [
    "watch",
    "sendInitialEvents",
    "resourceVersion",
    "resourceVersionMatch",
    "allowWatchBookmarks",
    "timeoutSeconds",
];

/// A watch that begins with a list at an older revision: its first events, and the watch from there on.
pub(super) struct StaleWatch {
    pub(super) first: VecDeque<Bytes>,
    pub(super) rest: Response<ResponseBody>,
}

/// Opens a watch that begins with the list at this revision. Returns `None` if the server no longer has the revision.
pub(super) async fn open(
    backend: &Backend,
    request: &Request<Full<Bytes>>,
    revision: u64,
) -> Result<Option<StaleWatch>, BoxError> {
    let list =
        backend.serve(with_query(request, &format!("resourceVersion={revision}&resourceVersionMatch=Exact")));
    let list = list.await?;
    if list.status() != StatusCode::OK {
        return Ok(None);
    }
    let list: Value = serde_json::from_slice(&list.into_body().collect().await?.to_bytes())?;
    let watch = format!("watch=true&allowWatchBookmarks=true&resourceVersion={revision}");
    let rest = backend.serve(with_query(request, &watch)).await?;
    Ok((rest.status() == StatusCode::OK).then(|| StaleWatch { first: events(&list, revision), rest }))
}

/// Serves a list as of this revision. Returns `None` if the server no longer has the revision.
pub(super) async fn list(
    backend: &Backend,
    request: &Request<Full<Bytes>>,
    revision: u64,
) -> Result<Option<Response<ResponseBody>>, BoxError> {
    let query = format!("resourceVersion={revision}&resourceVersionMatch=Exact");
    let list = backend.serve(with_query(request, &query)).await?;
    Ok((list.status() == StatusCode::OK).then_some(list))
}

/// Returns the request with these query parameters in place of those that say where the watch begins.
fn with_query(request: &Request<Full<Bytes>>, query: &str) -> Request<Full<Bytes>> {
    let kept = request.uri().query().unwrap_or_default().split('&');
    let kept = kept.filter(|pair| !REPLACED.contains(&pair.split('=').next().unwrap_or_default()));
    let kept: Vec<&str> = kept.filter(|pair| !pair.is_empty()).chain([query]).collect();
    let uri = format!("{}?{}", request.uri().path(), kept.join("&"));
    let mut copy = Request::new(Full::default());
    *copy.uri_mut() = uri.parse().unwrap_or_else(|_| request.uri().clone());
    *copy.headers_mut() = request.headers().clone();
    if !query.starts_with("watch") {
        as_list(copy.headers_mut());
    }
    if let Some(user) = request.extensions().get::<User>() {
        copy.extensions_mut().insert(user.clone());
    }
    copy
}

/// Sets the media type of a list of metadata, which differs from that of single metadata objects.
fn as_list(headers: &mut http::HeaderMap) {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let list = accept.map(|it| it.replace("as=PartialObjectMetadata;", "as=PartialObjectMetadataList;"));
    if let Some(list) = list.and_then(|list| HeaderValue::from_str(&list).ok()) {
        headers.insert(header::ACCEPT, list);
    }
}

/// Returns the events of a streamed list: the objects, and the bookmark that ends the list.
fn events(list: &Value, revision: u64) -> VecDeque<Bytes> {
    let version = list["apiVersion"].as_str().unwrap_or_default();
    let kind = list["kind"].as_str().unwrap_or_default();
    let kind = kind.strip_suffix("List").unwrap_or(kind);
    let added = list["items"].as_array().into_iter().flatten().map(|item| {
        let mut object = item.clone();
        object["apiVersion"] = version.into();
        object["kind"] = kind.into();
        line("ADDED", &object)
    });
    let metadata = json!({
        "resourceVersion": revision.to_string(),
        "annotations": {"k8s.io/initial-events-end": "true"},
    });
    let bookmark = json!({"apiVersion": version, "kind": kind, "metadata": metadata});
    added.chain([line("BOOKMARK", &bookmark)]).collect()
}

fn line(kind: &str, object: &Value) -> Bytes {
    format!("{}\n", json!({"type": kind, "object": object})).into()
}
