//! The resource and verb of a request, from its method, path and body.

use std::borrow::Cow;

use bytes::Bytes;
use evenkeel_request_info::RequestInfo;
use http::Method;
use serde::Deserialize;

/// The media type of a server-side apply. PATCH requests of other types are plain patches.
const APPLY: &str = "application/apply-patch";

/// The verb of a request, with `apply` for the patches that are applies. RBAC's word for both is `patch`.
pub(crate) fn verb(method: &Method, path_and_query: &str, content_type: Option<&[u8]>) -> &'static str {
    match RequestInfo::parse(method, path_and_query).map_or("", |info| info.verb) {
        "patch" if content_type.is_some_and(|it| it.starts_with(APPLY.as_bytes())) => "apply",
        verb => verb,
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
    fn a_request_has_kubernetes_verb() {
        let pod = "/api/v1/namespaces/default/pods/a";
        assert_eq!(verb(&Method::PATCH, pod, Some(b"application/apply-patch+yaml")), "apply");
        assert_eq!(verb(&Method::PATCH, pod, Some(b"application/merge-patch+json")), "patch");
        assert_eq!(verb(&Method::GET, pod, None), "get");
        assert_eq!(verb(&Method::GET, "/api/v1/pods", None), "list");
        assert_eq!(verb(&Method::GET, "/api/v1/pods?watch=true", None), "watch");
        assert_eq!(verb(&Method::GET, "/api/v1/pods?labelSelector=watch=true", None), "list");
        assert_eq!(verb(&Method::GET, "/version", None), "get");
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
