//! HTTP responses: status codes, content types, warnings, compression.

use std::io::Write as _;

use bytes::Bytes;
use evenkeel_schema::protobuf;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::{Stream, StreamExt as _};
use http::header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, VARY};
use http::{HeaderMap, HeaderName, Method, Response, StatusCode};

use crate::body::{Body, PIECE_BYTES};
use crate::encode::print_yaml;
use crate::request::{Format, Request, negotiate};
use crate::status::{Result, Status};

/// The smallest body that is compressed, as in Kubernetes.
const GZIP_MIN: usize = 128 * 1024;

/// The fastest level, as in Kubernetes: better compression takes longer than it saves on the network.
const GZIP_LEVEL: Compression = Compression::new(1);
/// The largest body that is compressed at once. A larger one is compressed while the client reads it, so that
/// a client that does not read costs no more than one piece.
const GZIP_WHOLE_MAX: usize = 1 << 20;

/// The header that links a request to its audit events. The server generates a value if the client sends
/// none, and repeats it in the response.
pub(crate) const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const PROTOBUF_WATCH: &str = "application/vnd.kubernetes.protobuf;stream=watch";
const WARNING: HeaderName = HeaderName::from_static("warning");

/// Builds a JSON response.
pub(crate) fn json(code: u16, body: impl Into<Body>) -> Response<Body> {
    with_type(code, JSON, body.into())
}

/// Builds a response in the negotiated format from JSON bytes.
pub(crate) fn formatted(code: u16, format: Format, body: impl Into<Body>) -> Result<Response<Body>> {
    match format {
        Format::Json => Ok(json(code, body)),
        Format::Yaml => {
            let body = body.into().whole().unwrap_or_default();
            let value = serde_json::from_slice(&body).map_err(Status::internal)?;
            Ok(with_type(code, "application/yaml", print_yaml(&value).into()))
        }
        Format::Protobuf => {
            let body = body.into().whole().unwrap_or_default();
            let value = serde_json::from_slice(&body).map_err(Status::internal)?;
            let bytes = protobuf::encode(&value).ok_or_else(|| {
                Status::not_acceptable(
                    "only the following media types are accepted: application/json, application/yaml",
                )
            })?;
            Ok(with_type(code, PROTOBUF, bytes.into()))
        }
    }
}

/// Builds the response of a watch from a stream of events as JSON, one in each item.
pub(crate) fn watch(format: Format, events: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    match format {
        Format::Protobuf => with_type(200, PROTOBUF_WATCH, Body::stream(events.filter_map(protobuf_event))),
        _ => json(200, Body::stream(events)),
    }
}

/// Encodes an event of a watch as a frame. Returns `None` if it has no protobuf form, which is never the case for kinds
/// that have one.
async fn protobuf_event(event: Bytes) -> Option<Bytes> {
    let event = serde_json::from_slice(&event).ok()?;
    protobuf::encode_event(&event).map(Bytes::from)
}

/// Builds a response in plain text.
pub(crate) fn text(code: u16, text: impl Into<String>) -> Response<Body> {
    with_type(code, "text/plain; charset=utf-8", text.into().into())
}

/// Builds a response in plain text whose pieces are made while it is read.
pub(crate) fn text_lazily(pieces: impl Iterator<Item = Bytes> + Send + 'static) -> Response<Body> {
    with_type(200, "text/plain", Body::lazy(None, pieces))
}

/// Builds a response in plain text that goes on as long as the stream does.
pub(crate) fn text_stream(pieces: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    with_type(200, "text/plain", Body::stream(pieces))
}

fn with_type(code: u16, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if content_type != JSON {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    response
}

/// Adds a `Warning` header.
fn warn(response: &mut Response<Body>, message: &str) {
    let text = format!("299 - \"{}\"", message.replace('\\', "\\\\").replace('"', "\\\""));
    if let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) {
        response.headers_mut().append(WARNING, value);
    }
}

/// Builds the response of a refused request, in a format that the client accepts.
pub(crate) fn refusal(request: &Request<'_>, status: &Status) -> Response<Body> {
    if status.plain {
        return text(status.code, status.message.clone());
    }
    let format = negotiate(request, false).map_or(Format::Json, |it| it.format);
    let body = status.to_json();
    let mut response =
        formatted(status.code, format, body).unwrap_or_else(|status| json(500, status.to_json()));
    let retry = status.details.as_ref().map_or(0, |it| it.retry_after_seconds);
    if retry > 0 {
        response.headers_mut().insert(http::header::RETRY_AFTER, retry.into());
    }
    response
}

/// Builds the final response: errors become statuses, warnings become headers, large bodies are compressed,
/// and a HEAD has no body.
pub(crate) fn finish(
    request: &Request<'_>,
    answer: Result<Response<Body>>,
    note: impl FnOnce(Option<&Status>, &mut Response<Body>),
) -> Response<Body> {
    let (mut response, refused) = match answer {
        Ok(response) => (response, None),
        Err(status) => (refusal(request, &status), Some(status)),
    };
    note(refused.as_ref(), &mut response);
    if let Some(committed) = request.committed() {
        response.extensions_mut().insert(committed);
    }
    request.warnings().iter().for_each(|warning| warn(&mut response, warning));
    repeat_audit_id(&mut response, request.headers);
    if *request.method == Method::HEAD {
        *response.body_mut() = Body::empty();
    } else {
        compress(request, &mut response);
    }
    response
}

/// Copies the audit ID of a request into its response.
pub(crate) fn repeat_audit_id(response: &mut Response<Body>, headers: &HeaderMap) {
    if let Some(id) = headers.get(AUDIT_ID) {
        response.headers_mut().insert(AUDIT_ID, id.clone());
    }
}

/// Marks an answer that has neither a body nor a type, in its extensions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Untyped;

/// Adds the headers that nearly all responses have, unless the response sets them itself.
///
/// The header map is that of the request, which is no longer needed. hyper reuses the map for the next
/// request of the connection, so that headers need no allocation.
pub(crate) fn dress(response: &mut Response<Body>, mut headers: HeaderMap) {
    headers.clear();
    // These answers have neither a body nor a type; others without a body keep the type.
    let is_untyped = matches!(response.status(), http::StatusCode::NO_CONTENT | http::StatusCode::FOUND)
        || response.extensions().get::<Untyped>().is_some();
    if !is_untyped {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    let own = std::mem::replace(response.headers_mut(), headers);
    if !own.is_empty() {
        response.headers_mut().extend(own);
    }
}

fn compress(request: &Request<'_>, response: &mut Response<Body>) {
    if response.body().whole_len().is_none_or(|len| len < GZIP_MIN) {
        return;
    }
    let accepts = request.headers.get(ACCEPT_ENCODING).and_then(|it| it.to_str().ok()).unwrap_or_default();
    if !accepts.split(',').any(|it| it.split(';').next().is_some_and(|it| it.trim() == "gzip")) {
        return;
    }
    let body = std::mem::take(response.body_mut());
    // A short body is compressed at once, so that its length is known; a long one while it is read.
    let is_short = body.whole_len().is_some_and(|len| len <= GZIP_WHOLE_MAX);
    let Some(pieces) = body.into_pieces() else { return };
    let mut zipped = Gzipped { pieces, encoder: Some(GzEncoder::new(Vec::new(), GZIP_LEVEL)) };
    response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    response.headers_mut().append(VARY, HeaderValue::from_static("Accept-Encoding"));
    *response.body_mut() = match is_short {
        true => Body::slices(zipped.by_ref()),
        false => Body::lazy(None, zipped),
    };
}

/// Compresses pieces while they are read.
struct Gzipped {
    pieces: Box<dyn Iterator<Item = Bytes> + Send>,
    /// The encoder; `None` at the end.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Iterator for Gzipped {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let encoder = self.encoder.as_mut()?;
        for piece in self.pieces.by_ref() {
            encoder.write_all(&piece).expect("writing to memory cannot fail");
            if encoder.get_ref().len() >= PIECE_BYTES {
                return Some(std::mem::take(encoder.get_mut()).into());
            }
        }
        let last = self.encoder.take()?.finish().expect("writing to memory cannot fail");
        Some(last.into())
    }
}
