//! Discovery: the groups, versions and resources that are served, and the server's version.
//!
//! There are two forms. The legacy form has one document for each group and version. The aggregated form is
//! one document with everything; kubectl asks for it in the `Accept` header and recognizes it by the
//! parameters of the `Content-Type`.
//!
//! ETags and the aggregated form follow Kubernetes v1.36, which no longer serves `v2beta1`.

mod aggregated;
mod groups;
mod legacy;

use evenkeel_schema::json::{Value, json};
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, VARY};
use http::{Method, Response};
use sha2::{Digest, Sha512};

use crate::body::Body;
use crate::registry::Registry;
use crate::request::{Format, Request, negotiate};
use crate::respond;
use crate::status::{Result, Status};

pub(crate) use groups::{Group, Version, groups};

const AGGREGATED_TYPE: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The Kubernetes version whose API is served.
const VERSION: &str = "v1.36.4";

/// Answers a discovery request; `None` if the path is not a discovery path.
pub(crate) fn answer(registry: &Registry, request: &Request<'_>) -> Option<Result<Response<Body>>> {
    let path = request.path.trim_end_matches('/');
    let mut parts = path.split('/').skip(1);
    let place = (parts.next(), parts.next(), parts.next(), parts.next());
    let document = match place {
        (None, ..) => Document::Paths,
        (Some("version"), None, ..) => Document::Version,
        (Some("api"), None, ..) => Document::Core,
        (Some("apis"), None, ..) => Document::Groups,
        (Some("api"), Some(version), None, _) => Document::Resources("", version),
        (Some("apis"), Some(group), None, _) => Document::Group(group),
        (Some("apis"), Some(group), Some(version), None) => Document::Resources(group, version),
        _ => return None,
    };
    Some(document.answer(registry, request))
}

/// A discovery document, by its path.
#[derive(Clone, Copy)]
enum Document<'a> {
    Paths,
    Version,
    Core,
    Groups,
    Group(&'a str),
    Resources(&'a str, &'a str),
}

impl Document<'_> {
    fn answer(self, registry: &Registry, request: &Request<'_>) -> Result<Response<Body>> {
        let groups = groups(registry);
        let value = match self {
            Self::Paths => json!({ "paths": paths(&groups) }),
            Self::Version => version(),
            Self::Core | Self::Groups if wants_aggregated(request) => {
                let core = matches!(self, Self::Core);
                return aggregated(request, aggregated::document(&groups, core));
            }
            Self::Core => legacy::versions(request),
            Self::Groups => legacy::groups(&groups),
            Self::Group(name) => legacy::group(find(&groups, name).ok_or_else(Status::page_not_found)?),
            Self::Resources(group, version) => resources(&groups, group, version)?,
        };
        // In Kubernetes, the handler that serves these documents ignores the method.
        let any_method = matches!(self, Self::Paths | Self::Groups | Self::Group(_));
        if request.method != Method::GET && !any_method {
            return Err(Status::method_not_allowed());
        }
        let accept = negotiate(request, false)?;
        // A document without a kind has no protobuf form. Clients that prefer protobuf read it as JSON.
        let format = match accept.format {
            Format::Protobuf if value.get("kind").is_none() && accepts_json(request) => Format::Json,
            format => format,
        };
        respond::formatted(200, format, value.to_string().into_bytes())
    }
}

/// Whether a client reads JSON, whatever it prefers.
fn accepts_json(request: &Request<'_>) -> bool {
    let accepted = request.header(ACCEPT.as_str());
    let mut media = accepted.split(',').map(|clause| clause.split(';').next().unwrap_or_default().trim());
    media.any(|media| matches!(media, "*/*" | "application/*" | "application/json"))
}

fn find<'a>(groups: &'a [Group], name: &str) -> Option<&'a Group> {
    groups.iter().find(|group| !name.is_empty() && group.name == name)
}

/// The resources of a version. An unknown version of a built-in group gives a `Status`; an unknown group or
/// custom version gives a plain `404 page not found`.
fn resources(groups: &[Group], group: &str, version: &str) -> Result<Value> {
    let group = groups.iter().find(|it| it.name == group).ok_or_else(Status::page_not_found)?;
    match group.versions.iter().find(|it| it.name == version) {
        Some(version) => Ok(legacy::resources(group, version)),
        None if group.custom => Err(Status::page_not_found()),
        None => Err(Status::no_such_resource()),
    }
}

fn aggregated(request: &Request<'_>, document: aggregated::Document) -> Result<Response<Body>> {
    if request.method != Method::GET {
        return Err(Status::method_not_allowed());
    }
    let mut response = cached(request, document);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(AGGREGATED_TYPE));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    Ok(response)
}

/// Builds a response with an ETag; its body is empty (304) if the client already has the document.
fn cached(
    request: &Request<'_>,
    aggregated::Document { body, etag }: aggregated::Document,
) -> Response<Body> {
    let known = request.header(IF_NONE_MATCH.as_str()).split(',').any(|it| it.trim() == etag);
    let mut response = if known { respond::json(304, Body::empty()) } else { respond::json(200, body) };
    if let Ok(value) = HeaderValue::from_str(&etag) {
        response.headers_mut().insert(ETAG, value);
    }
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    response
}

/// The SHA-512 of a document in upper-case hexadecimal, as in Kubernetes.
pub(crate) fn hash(bytes: &[u8]) -> String {
    let digest = Sha512::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// Whether the client prefers the aggregated form to the legacy form.
fn wants_aggregated(request: &Request<'_>) -> bool {
    let accept = request.header("accept");
    let mut clauses = accept.split(',').map(|clause| {
        let mut parts = clause.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let params: Vec<_> = parts.collect();
        (media, params)
    });
    let served = clauses.find_map(|(media, params)| {
        let has = |param: &str| params.contains(&param);
        let is_aggregated = has("g=apidiscovery.k8s.io") && has("v=v2") && has("as=APIGroupDiscoveryList");
        let is_plain = !params.iter().any(|param| param.starts_with("as="));
        match media {
            "application/json" if is_aggregated => Some(true),
            "application/json" | "application/yaml" | "*/*" | "application/*" if is_plain => Some(false),
            _ => None,
        }
    });
    served.unwrap_or(false)
}

fn version() -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, go_architecture()),
    })
}

/// The architecture under Go's name, which clients compare.
fn go_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Every path that does not belong to an object, as `/` lists them.
fn paths(groups: &[Group]) -> Vec<String> {
    let fixed =
        ["/healthz", "/healthz/ping", "/livez", "/livez/ping", "/openapi/v2", "/openapi/v3", "/readyz"];
    let fixed = fixed.into_iter().chain(["/api", "/apis", "/apis/", "/readyz/ping", "/version"]);
    let mut paths: Vec<String> = fixed.map(str::to_owned).collect();
    for group in groups {
        let root = if group.name.is_empty() { "/api".to_owned() } else { format!("/apis/{}", group.name) };
        paths.extend(group.versions.iter().map(|version| format!("{root}/{}", version.name)));
        if !group.name.is_empty() {
            paths.push(root);
        }
    }
    paths.sort();
    paths
}

#[cfg(test)]
mod tests;
