//! The resource and verb of a request, from its method, path and body.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use http::Method;
use serde::Deserialize;

/// The media type of a server-side apply. PATCH requests of other types are plain patches.
const APPLY: &str = "application/apply-patch";

/// The resource or object that a request addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Target<'a> {
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The namespace, if the path names one.
    pub namespace: Option<&'a str>,
    /// The plural name of the resource.
    pub plural: &'a str,
    /// The name of the object, if the path names one.
    pub name: Option<&'a str>,
    /// The subresource, such as `status` or `binding`.
    pub subresource: Option<&'a str>,
}

impl<'a> Target<'a> {
    /// Parses `/api/v1/…` and `/apis/group/version/…`, with or without `namespaces/ns`. `None` for other paths.
    pub(crate) fn parse(path: &'a str) -> Option<Self> {
        let path = path.split('?').next().unwrap_or(path);
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        let group = match parts.next()? {
            "api" => "",
            "apis" => parts.next()?,
            _ => return None,
        };
        let _version = parts.next()?;
        let all: Vec<&'a str> = parts.collect();
        let (namespace, rest) = match all.as_slice() {
            // A path that ends with a namespace's name, or with a subresource of it, addresses the namespace itself.
            ["namespaces", namespace, rest @ ..] if !matches!(rest, [] | ["status" | "finalize"]) => {
                (Some(*namespace), rest)
            }
            all => (None, all),
        };
        let (plural, rest) = rest.split_first()?;
        Some(Self {
            group,
            namespace,
            plural,
            name: rest.first().copied(),
            subresource: rest.get(1).copied(),
        })
    }
}

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.plural)?;
        [self.name, self.subresource].into_iter().flatten().try_for_each(|part| write!(f, "/{part}"))
    }
}

/// Kubernetes' verb for a request, with `apply` for a server-side apply.
pub(crate) fn verb(method: &Method, path: &str, content_type: Option<&[u8]>) -> &'static str {
    let named = Target::parse(path).is_some_and(|target| target.name.is_some());
    match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH if content_type.is_some_and(|it| it.starts_with(APPLY.as_bytes())) => "apply",
        Method::PATCH => "patch",
        Method::DELETE if named => "delete",
        Method::DELETE => "deletecollection",
        _ if path.contains("watch=true") || path.contains("watch=1") => "watch",
        _ if named => "get",
        _ => "list",
    }
}

/// The name of the object in a body, or its `generateName` followed by an ellipsis.
pub(crate) fn name_in(body: &Bytes) -> Option<Cow<'static, str>> {
    #[derive(Deserialize)]
    struct Named {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        name: Option<String>,
        generate_name: Option<String>,
    }
    let Metadata { name, generate_name } = serde_json::from_slice::<Named>(body).ok()?.metadata;
    name.or_else(|| generate_name.map(|prefix| format!("{prefix}…"))).map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_says_what_it_is_about() {
        let target = |path| Target::parse(path).map(|target| target.to_string());
        assert_eq!(target("/api/v1/namespaces/default/pods/a/binding").as_deref(), Some("pods/a/binding"));
        assert_eq!(target("/apis/apps/v1/namespaces/x/deployments?limit=1").as_deref(), Some("deployments"));
        assert_eq!(target("/api/v1/namespaces/x").as_deref(), Some("namespaces/x"));
        assert_eq!(target("/api/v1/namespaces/x/finalize").as_deref(), Some("namespaces/x/finalize"));
        assert_eq!(Target::parse("/api/v1/namespaces/x/pods").and_then(|target| target.namespace), Some("x"));
        assert_eq!(target("/version"), None);
        assert_eq!(Target::parse("/apis/apps/v1/deployments").map(|target| target.group), Some("apps"));
    }

    #[test]
    fn a_request_has_kubernetes_verb() {
        let pod = "/api/v1/namespaces/default/pods/a";
        assert_eq!(verb(&Method::PATCH, pod, Some(b"application/apply-patch+yaml")), "apply");
        assert_eq!(verb(&Method::PATCH, pod, Some(b"application/merge-patch+json")), "patch");
        assert_eq!(verb(&Method::GET, pod, None), "get");
        assert_eq!(verb(&Method::GET, "/api/v1/pods", None), "list");
        assert_eq!(verb(&Method::GET, "/api/v1/pods?watch=true", None), "watch");
        assert_eq!(verb(&Method::DELETE, "/api/v1/namespaces/x/pods", None), "deletecollection");
    }

    #[test]
    fn a_body_names_its_object() {
        let name = |body: &'static str| name_in(&Bytes::from_static(body.as_bytes()));
        assert_eq!(name(r#"{"metadata":{"name":"a"}}"#).as_deref(), Some("a"));
        assert_eq!(name(r#"{"metadata":{"generateName":"a-"}}"#).as_deref(), Some("a-…"));
        assert_eq!(name("k8s\0"), None);
    }
}
