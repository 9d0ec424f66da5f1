//! What the test kit needs to know of a cluster that is not in this process: what a request wrote, and whether a
//! namespace is quiet.

use std::collections::BTreeMap;

use bytes::Bytes;
use evenkeel_apiserver::{Committed, User};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use kube::api::{Api, ListParams};
use kube::client::Body;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, PartialObjectMeta};
use kube::{Client, ResourceExt as _};
use serde::Deserialize;
use tower::BoxError;

/// The kinds that Kubernetes' own controllers write on an operator's behalf, beside those that it watches itself.
const STIRRING: [(&str, &str, &str); 9] = [
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

/// Sends a request and finds out whether it wrote something, which its answer alone does not say: an apply that
/// changes nothing is answered like one that does. So the object is looked at before and after.
pub(crate) async fn send(
    client: &Client,
    mut request: Request<Full<Bytes>>,
) -> Result<Response<Body>, BoxError> {
    if let Some(user) = request.extensions_mut().remove::<User>() {
        impersonate(&user, request.headers_mut())?;
    }
    let target = (!request.method().is_safe()).then(|| object_path(request.uri().path()));
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
        // A collection: something was created in it, or all of it deleted.
        None => true,
    };
    if changed {
        parts.extensions.insert(Committed(revision(&bytes).unwrap_or_default()));
    }
    Ok(Response::from_parts(parts, Body::from(bytes)))
}

/// What tells one state of a namespace from another: the newest version of everything that Kubernetes' controllers
/// write in it. What cannot be read does not count.
pub(crate) async fn fingerprint(client: &Client, namespace: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (group, version, kind) in STIRRING {
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

/// The version of the object at this path, where there is one.
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

/// The path of the object that a request is about, without its subresource; none for a collection.
fn object_path(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let group = if parts.first() == Some(&"api") { 2 } else { 3 };
    let in_namespace = parts.get(group) == Some(&"namespaces") && parts.len() > group + 2;
    // Of a namespace itself, what follows its name is a subresource.
    let in_namespace = in_namespace && !["status", "finalize"].contains(&parts[group + 2]);
    let name = group + if in_namespace { 3 } else { 1 };
    (parts.len() > name).then(|| format!("/{}", parts[..=name].join("/")))
}

/// Asks a cluster elsewhere to take us for this user; the administrator is whoever the client is.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_found_behind_its_subresource() {
        let check = |path: &str, wanted: Option<&str>| assert_eq!(object_path(path).as_deref(), wanted);
        check("/api/v1/namespaces/a/pods/x", Some("/api/v1/namespaces/a/pods/x"));
        check("/api/v1/namespaces/a/pods/x/status", Some("/api/v1/namespaces/a/pods/x"));
        check("/api/v1/namespaces/a/pods", None);
        check("/api/v1/namespaces/a/finalize", Some("/api/v1/namespaces/a"));
        check("/api/v1/namespaces", None);
        check(
            "/apis/apps/v1/namespaces/a/deployments/x/scale",
            Some("/apis/apps/v1/namespaces/a/deployments/x"),
        );
        check("/apis/x.io/v1/crs/x", Some("/apis/x.io/v1/crs/x"));
    }
}
