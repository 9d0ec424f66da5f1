//! Requests to a remote cluster, and what its answers alone do not tell: whether a request changed an object, and
//! whether a namespace is at rest.

use std::collections::BTreeMap;

use bytes::Bytes;
use evenkeel_apiserver::{Committed, User};
use evenkeel_request_info::ResourcePath;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use kube::api::{Api, ListParams};
use kube::client::Body;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, PartialObjectMeta};
use kube::{Client, ResourceExt as _};
use serde::Deserialize;
use tower::BoxError;

/// The kinds that Kubernetes' built-in controllers write as a consequence of what an operator does.
const CONTROLLER_KINDS: [(&str, &str, &str); 9] = [
    ("", "v1", "Pod"),
    ("", "v1", "PersistentVolumeClaim"),
    ("apps", "v1", "DaemonSet"),
    ("apps", "v1", "Deployment"),
    ("apps", "v1", "ReplicaSet"),
    ("apps", "v1", "StatefulSet"),
    ("batch", "v1", "CronJob"),
    ("batch", "v1", "Job"),
    ("discovery.k8s.io", "v1", "EndpointSlice"),
];

/// Sends a request and finds out whether it changed an object. The answer alone does not say so: an apply that changes
/// nothing is answered like one that does. So the object is read before and after the request.
pub(crate) async fn send(
    client: &Client,
    mut request: Request<Full<Bytes>>,
) -> Result<Response<Body>, BoxError> {
    if let Some(user) = request.extensions_mut().remove::<User>() {
        impersonate(&user, request.headers_mut())?;
    }
    let target =
        (!request.method().is_safe()).then(|| ResourcePath::parse(request.uri().path())?.object_path());
    let before = match &target {
        Some(Some(path)) => version(client, path).await,
        _ => None,
    };
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_or_else(|never| match never {}, |body| body.to_bytes());
    let answer = client.send(Request::from_parts(parts, body.into())).await?;
    let Some(target) = target.filter(|_| answer.status().is_success()) else {
        return Ok(answer);
    };
    let (mut parts, body) = answer.into_parts();
    let bytes = body.collect().await?.to_bytes();
    let changed = match &target {
        Some(path) => version(client, path).await != before,
        // A request to a collection creates an object or deletes all of them.
        None => true,
    };
    if changed {
        parts.extensions.insert(Committed(revision(&bytes).unwrap_or_default()));
    }
    Ok(Response::from_parts(parts, Body::from(bytes)))
}

/// The resource versions of all objects of [`CONTROLLER_KINDS`] in a namespace: if they are unchanged, the built-in
/// controllers have written nothing. Kinds that cannot be listed are left out.
pub(crate) async fn fingerprint(client: &Client, namespace: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (group, version, kind) in CONTROLLER_KINDS {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api: Api<PartialObjectMeta<DynamicObject>> =
            Api::namespaced_with(client.clone(), namespace, &resource);
        let Ok(list) = api.list_metadata(&ListParams::default()).await else { continue };
        for object in list {
            let version = object.resource_version().unwrap_or_default();
            found.insert(format!("{kind} {}", object.name_any()), version);
        }
    }
    found
}

/// The resource version of the object at this path, or `None` if it does not exist.
async fn version(client: &Client, path: &str) -> Option<u64> {
    let request = Request::get(path).body(Vec::new()).ok()?;
    let answer = client.send(request.map(Body::from)).await.ok()?;
    match answer.status().is_success() {
        true => revision(&answer.into_body().collect_bytes().await.ok()?),
        false => None,
    }
}

fn revision(object: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        resource_version: String,
    }
    #[derive(Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    serde_json::from_slice::<Object>(object).ok()?.metadata.resource_version.parse().ok()
}

/// Adds the headers that impersonate this user. The administrator is the client's own user and needs none.
fn impersonate(user: &User, headers: &mut HeaderMap) -> Result<(), http::header::InvalidHeaderValue> {
    if *user == User::admin() {
        return Ok(());
    }
    headers.insert("Impersonate-User", HeaderValue::from_str(&user.name)?);
    for group in &user.groups {
        headers.append("Impersonate-Group", HeaderValue::from_str(group)?);
    }
    Ok(())
}
