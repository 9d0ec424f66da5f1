//! The OpenAPI documents from which kubectl validates, explains and applies objects.
//!
//! OpenAPI v3 has one document for each group and version. Its URL contains the hash of the document: a
//! request with the wrong hash is redirected, and a response with the right hash may be cached forever.
//! Documents of built-in groups are built once per process, on first use; documents of custom resources are
//! rebuilt when a CRD changes.

mod custom;
mod descriptions;
mod document;
mod operations;
mod protobuf;
mod swagger;
mod types;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use evenkeel_schema::json::{Value, json};
use http::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, EXPIRES, HeaderValue, IF_NONE_MATCH, LOCATION, VARY};
use jiff::{Timestamp, ToSpan as _};
use parking_lot::Mutex;

use crate::body::Body;
use crate::discovery::groups;
use crate::registry::Registry;
use crate::request::Request;
use crate::respond;
use crate::status::{Result, Status};
use descriptions::Describer;
use document::Document;

pub use descriptions::describe_types;

/// The OpenAPI documents of one server.
#[derive(Debug, Default)]
pub(crate) struct OpenApi {
    /// The documents of custom resources, with the registry generation from which they were built.
    custom: Mutex<Option<(u64, Documents)>>,
}

/// Documents by their path below `/openapi/v3/`: `api/v1`, `apis/apps/v1`.
type Documents = Arc<BTreeMap<String, Arc<Document>>>;

impl OpenApi {
    /// Answers a request for a path below `/openapi`; `None` if the path is not an OpenAPI path.
    pub(crate) fn answer(
        &self,
        registry: &Registry,
        request: &Request<'_>,
        now: Timestamp,
    ) -> Option<Result<Response<Body>>> {
        let path = request.path.trim_end_matches('/').strip_prefix("/openapi/")?;
        let answer = match path.split_once('/') {
            None if path == "v3" => self.index(registry),
            None if path == "v2" => self.swagger(registry, request),
            Some(("v3", path)) => self.document(registry, request, path, now),
            _ => return None,
        };
        Some(answer)
    }

    fn index(&self, registry: &Registry) -> Result<Response<Body>> {
        let mut paths = evenkeel_schema::json::Map::new();
        for (path, document) in built_in().iter().chain(self.custom(registry).iter()) {
            let url = format!("/openapi/v3/{path}?hash={}", document.hash);
            paths.insert(path.clone().into(), json!({ "serverRelativeURL": url }));
        }
        // Kubernetes sends this JSON with the content type `text/plain`.
        Ok(respond::text(200, json!({ "paths": paths }).to_string()))
    }

    fn document(
        &self,
        registry: &Registry,
        request: &Request<'_>,
        path: &str,
        now: Timestamp,
    ) -> Result<Response<Body>> {
        let custom = self.custom(registry);
        let Some(document) = built_in().get(path).or_else(|| custom.get(path)) else {
            // Kubernetes sends neither a text nor its type.
            let mut response = Response::new(Body::empty());
            *response.status_mut() = http::StatusCode::NOT_FOUND;
            response.extensions_mut().insert(respond::Untyped);
            return Ok(response);
        };
        let format = accepted(request, "v3")?;
        let asked = request.query.text("hash");
        if !asked.is_empty() && asked != document.hash {
            let mut response = respond::json(301, Body::empty());
            let url = format!("/openapi/v3/{path}?hash={}", document.hash);
            set(&mut response, LOCATION, &url);
            return Ok(response);
        }
        let mut response = match format {
            Format::Json => with_etag(request, &document.hash, document.bytes.clone()),
            Format::Protobuf => {
                let value = serde_json::from_slice(&document.bytes).map_err(Status::internal)?;
                as_protobuf(request, protobuf::v3(&value), "v3")
            }
        };
        set(&mut response, VARY, "Accept");
        if !asked.is_empty() {
            let expires = now.checked_add(YEAR_HOURS.hours()).unwrap_or(now);
            set(&mut response, CACHE_CONTROL, "public, immutable");
            set(&mut response, EXPIRES, &expires.strftime("%a, %d %b %Y %H:%M:%S UTC").to_string());
        }
        Ok(response)
    }

    fn swagger(&self, registry: &Registry, request: &Request<'_>) -> Result<Response<Body>> {
        let format = accepted(request, "v2")?;
        let custom = self.custom(registry);
        let documents = built_in().values().chain(custom.values());
        let swagger = swagger::of(documents.filter_map(|it| serde_json::from_slice(&it.bytes).ok()));
        let mut response = match format {
            Format::Json => {
                let bytes = swagger.to_string().into_bytes();
                let hash = crate::discovery::hash(&bytes);
                with_etag(request, &hash, bytes.into())
            }
            Format::Protobuf => as_protobuf(request, protobuf::v2(&swagger), "v2"),
        };
        set(&mut response, VARY, "Accept");
        Ok(response)
    }

    fn custom(&self, registry: &Registry) -> Documents {
        let generation = registry.generation();
        let mut kept = self.custom.lock();
        if let Some((made, documents)) = &*kept
            && *made == generation
        {
            return documents.clone();
        }
        let mut documents = BTreeMap::new();
        for group in groups(registry).iter().filter(|group| group.custom) {
            for version in &group.versions {
                let path = format!("apis/{}/{}", group.name, version.name);
                documents.insert(path, Arc::new(Document::custom(group, version)));
            }
        }
        let documents = Arc::new(documents);
        *kept = Some((generation, documents.clone()));
        documents
    }
}

/// How long a document may be cached under its hash: one year, as in Kubernetes.
const YEAR_HOURS: i64 = 365 * 24;

/// The documents of the built-in groups, built on first use.
fn built_in() -> &'static BTreeMap<String, Arc<Document>> {
    static BUILT_IN: OnceLock<BTreeMap<String, Arc<Document>>> = OnceLock::new();
    BUILT_IN.get_or_init(|| {
        let describer = Describer::new();
        let mut documents = outer_documents(&describer);
        for group in groups(&Registry::new()) {
            if !group.name.is_empty() {
                let document = Document::of_paths(operations::group_path(&group), &describer);
                documents.insert(format!("apis/{}", group.name), Arc::new(document));
            }
            for version in &group.versions {
                let path = match group.name.as_str() {
                    "" => format!("api/{}", version.name),
                    name => format!("apis/{name}/{}", version.name),
                };
                documents.insert(path, Arc::new(Document::built_in(&group, version, &describer)));
            }
        }
        documents
    })
}

/// The documents of the paths that belong to no group.
fn outer_documents(describer: &Describer) -> BTreeMap<String, Arc<Document>> {
    let text = |media: &str| json!({ media: { "schema": { "type": "string" } } });
    let version = reference("io.k8s.apimachinery.pkg.version.Info");
    let version = json!({ "application/json": { "schema": version } });
    let get = operations::get_operation;
    let documents = [
        ("api", operations::versions_path("/api/", "core", "getCoreAPIVersions", "APIVersions")),
        ("apis", operations::versions_path("/apis/", "apis", "getAPIVersions", "APIGroupList")),
        (
            "version",
            json!({ "/version/": { "get": get("version", "get the version of this server", "getCodeVersion", &version) } }),
        ),
        (
            ".well-known/openid-configuration",
            json!({ "/.well-known/openid-configuration/": { "get": get(
                "WellKnown",
                "get the OpenID configuration of the issuer of service account tokens",
                "getServiceAccountIssuerOpenIDConfiguration",
                &text("application/json"),
            ) } }),
        ),
        (
            "openid/v1/jwks",
            json!({ "/openid/v1/jwks/": { "get": get(
                "openid",
                "get the public keys that verify service account tokens",
                "getServiceAccountIssuerOpenIDKeyset",
                &text("application/jwk-set+json"),
            ) } }),
        ),
    ];
    let documents = documents.into_iter();
    documents.map(|(path, paths)| (path.to_owned(), Arc::new(Document::of_paths(paths, describer)))).collect()
}

/// The encoding of a document.
#[derive(Clone, Copy)]
enum Format {
    Json,
    Protobuf,
}

/// Returns the format that the client prefers, or an empty response with status 406. `version` is the version of
/// OpenAPI, which is part of protobuf's media type.
fn accepted(request: &Request<'_>, version: &str) -> Result<Format> {
    let accept = request.header("accept");
    let mut types = accept.split(',').map(|it| it.split(';').next().unwrap_or_default().trim());
    let found = types.find_map(|media| match media {
        "application/json" | "*/*" | "application/*" => Some(Format::Json),
        media if is_protobuf(media, version) => Some(Format::Protobuf),
        _ => None,
    });
    match found {
        Some(format) => Ok(format),
        None if accept.trim().is_empty() => Ok(Format::Json),
        None => Err(Status { plain: true, ..Status::not_acceptable("") }),
    }
}

/// Whether this is the media type of protobuf, or its deprecated form with `@`.
fn is_protobuf(media: &str, version: &str) -> bool {
    let rest = media.strip_prefix("application/com.github.proto-openapi.spec.");
    let rest = rest.and_then(|rest| rest.strip_prefix(version));
    matches!(rest, Some(".v1.0+protobuf" | "@v1.0+protobuf"))
}

fn as_protobuf(request: &Request<'_>, bytes: Vec<u8>, version: &str) -> Response<Body> {
    let hash = crate::discovery::hash(&bytes);
    let mut response = with_etag(request, &hash, bytes.into());
    if response.status() == http::StatusCode::OK {
        let media = format!("application/com.github.proto-openapi.spec.{version}.v1.0+protobuf");
        set(&mut response, CONTENT_TYPE, &media);
    }
    response
}

fn with_etag(request: &Request<'_>, hash: &str, bytes: bytes::Bytes) -> Response<Body> {
    let etag = format!("\"{hash}\"");
    let known = request.header(IF_NONE_MATCH.as_str()).split(',').any(|it| it.trim() == etag);
    let mut response = if known { respond::json(304, Body::empty()) } else { respond::json(200, bytes) };
    if known {
        response.headers_mut().remove(CONTENT_TYPE);
    }
    set(&mut response, ETAG, &etag);
    response
}

fn set(response: &mut Response<Body>, name: http::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// A `$ref` to a schema of the same document.
fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

#[cfg(test)]
mod tests;
