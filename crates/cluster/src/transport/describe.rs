//! The resource and verb of a request, from its method, path and body.

use std::borrow::Cow;

use bytes::Bytes;
use evenkeel_request_info::RequestInfo;
use http::Method;
use serde::Deserialize;
use serde_json::Value;

/// The media type of a server-side apply. PATCH requests of other types are plain patches.
const APPLY: &str = "application/apply-patch";

/// The verb of a request, with `apply` for the patches that are applies. RBAC's word for both is `patch`.
pub(crate) fn verb(method: &Method, path_and_query: &str, content_type: Option<&[u8]>) -> &'static str {
    match RequestInfo::parse(method, path_and_query).map_or("", |info| info.verb) {
        "patch" if is_apply(content_type) => "apply",
        verb => verb,
    }
}

/// Whether this is the content type of a server-side apply.
pub(crate) fn is_apply(content_type: Option<&[u8]>) -> bool {
    content_type.is_some_and(|it| it.starts_with(APPLY.as_bytes()))
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

/// Returns a summary of a review, in parentheses: the operation and the object, or the number of objects to convert.
pub(crate) fn review_summary(body: &Bytes) -> Option<String> {
    let review: Value = serde_json::from_slice(body).ok()?;
    let request = &review["request"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if let Some(objects) = request["objects"].as_array() {
        let (count, version) = (objects.len(), text(&request["desiredAPIVersion"]));
        return Some(format!(" (converts {count} to {version})"));
    }
    let (operation, resource) = (text(&request["operation"]), text(&request["resource"]["resource"]));
    let name = request["name"].as_str().map(|name| format!("/{name}")).unwrap_or_default();
    Some(format!(" ({operation} {resource}{name})"))
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
