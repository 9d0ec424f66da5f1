//! Decoding of request bodies into objects: media type, size, syntax, duplicate keys, and the check that the
//! object has the kind that the path serves.

mod json;
mod syntax;
mod yaml;

use std::pin::pin;

use bytes::{Bytes, BytesMut};
use evenkeel_schema::api_resources::{self, split_api_version};
use evenkeel_schema::depth;
use evenkeel_schema::field::FieldError;
use evenkeel_schema::json::Value;
use evenkeel_schema::json::go_kind;
use evenkeel_schema::protobuf;
use evenkeel_schema::strict_decoding;
use evenkeel_schema::types::Schema;
use http_body::Body as HttpBody;

use crate::ResourceInfo;
use crate::request::FieldValidation;
use crate::status::{Result, Status, quote};

pub(crate) use json::parse as parse_json;
pub(crate) use yaml::parse as parse_yaml;

/// The largest request body, as in Kubernetes: twice what etcd accepts in a request (1.5 MiB).
pub(crate) const BODY_MAX: usize = 3 * 1024 * 1024;
/// How many bytes of a too large body are read before the connection is abandoned.
const DRAINED_MAX: usize = 16 * BODY_MAX;

/// A media type of request bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    Json,
    Yaml,
    Protobuf,
}

/// Warnings about a body that was decoded nevertheless, in the words of strict decoding.
#[derive(Debug, Default)]
pub(crate) struct Oddities(pub(crate) Vec<String>);

/// A decoded body.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) object: Value,
    pub(crate) oddities: Oddities,
}

/// Reads a body to its end.
///
/// Bytes beyond [`BODY_MAX`] are read but dropped: a client that writes its whole request before it reads
/// would lose the response if the connection were closed with bytes unread.
pub(crate) async fn read_body<B>(body: B) -> Result<Bytes>
where
    B: HttpBody,
{
    let too_large = || Status::too_large(format!("Request entity too large: limit is {BODY_MAX}"));
    if body.size_hint().lower() > DRAINED_MAX as u64 {
        return Err(too_large());
    }
    let mut body = pin!(body);
    let (mut whole, mut size) = (BytesMut::new(), 0);
    while let Some(frame) = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        let frame = frame.map_err(|_| Status::bad_request("unexpected EOF"))?;
        let Ok(data) = frame.into_data() else { continue };
        size += bytes::Buf::remaining(&data);
        if size > DRAINED_MAX {
            return Err(too_large());
        }
        if size > BODY_MAX {
            whole = BytesMut::new();
        } else {
            bytes::BufMut::put(&mut whole, data);
        }
    }
    if size > BODY_MAX { Err(too_large()) } else { Ok(whole.freeze()) }
}

/// Returns the media type that a Content-Type header names.
pub(crate) fn media(content_type: &str) -> Result<Media> {
    match content_type.split(';').next().unwrap_or_default().trim() {
        "" | "application/json" => Ok(Media::Json),
        "application/yaml" => Ok(Media::Yaml),
        "application/vnd.kubernetes.protobuf" => Ok(Media::Protobuf),
        _ => Err(Status::unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json, application/yaml, application/vnd.kubernetes.protobuf",
        )),
    }
}

/// Decodes an object of the kind that `info` serves. It neither applies defaults nor looks for unknown
/// fields.
pub(crate) fn object(
    info: &ResourceInfo,
    kind: &Expected<'_>,
    media: Media,
    body: &[u8],
    validation: FieldValidation,
) -> Result<Decoded> {
    let decoded = parse(kind, media, body, validation)?;
    check_object(info, kind, decoded, body)
}

/// Decodes a JSON object of a built-in kind by its schema in one pass. Also returns the error with which Go
/// would refuse to decode it, if any.
pub(crate) fn typed(
    info: &ResourceInfo,
    kind: &Expected<'_>,
    schema: &Schema,
    body: &[u8],
) -> Result<(Decoded, Option<String>)> {
    let (object, findings) = match strict_decoding::decode(schema, &info.kind, body) {
        Ok(read) => read,
        // The body is not JSON; this parser words the error as Go does.
        Err(_) => return object(info, kind, Media::Json, body, FieldValidation::Ignore).map(|it| (it, None)),
    };
    let decoded = Decoded { object, oddities: Oddities(findings.strict) };
    Ok((check_object(info, kind, decoded, body)?, findings.refusal))
}

/// Refuses a body that is not an object of the expected kind.
fn check_object(
    info: &ResourceInfo,
    kind: &Expected<'_>,
    mut decoded: Decoded,
    body: &[u8],
) -> Result<Decoded> {
    // In Go, decoding null into a struct leaves the struct empty.
    if decoded.object.is_null() && !info.is_custom() {
        decoded.object = Value::Object(evenkeel_schema::json::Map::new());
    }
    if !decoded.object.is_object() {
        return Err(unrecognized(kind, body, &not_an_object(&decoded.object)));
    }
    if depth::check(&decoded.object).is_err() {
        return Err(unrecognized(kind, body, &json_refusal("exceeded max depth")));
    }
    check_kind(info, kind, &mut decoded.object, body)?;
    Ok(decoded)
}

/// The kind of object that an endpoint takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
}

impl Expected<'_> {
    fn api_version(&self) -> String {
        api_resources::api_version(self.group, self.version)
    }
}

fn parse(kind: &Expected<'_>, media: Media, body: &[u8], validation: FieldValidation) -> Result<Decoded> {
    let strict = validation != FieldValidation::Ignore;
    match media {
        Media::Json => json::parse(body, strict).map_err(|why| unrecognized(kind, body, &json_refusal(&why))),
        Media::Yaml => yaml::parse(body, strict).map_err(|why| unrecognized(kind, body, &why)),
        Media::Protobuf => protobuf(kind, body),
    }
}

fn json_refusal(why: &str) -> String {
    format!("couldn't get version/kind; json parse error: {why}")
}

fn protobuf(kind: &Expected<'_>, body: &[u8]) -> Result<Decoded> {
    let object = protobuf::decode(body).map_err(|error| unrecognized(kind, body, &error.to_string()))?;
    Ok(Decoded { object, oddities: Oddities::default() })
}

/// Decodes a protobuf body of the given kind.
pub(crate) fn parse_protobuf(group: &str, version: &str, kind: &str, body: &[u8]) -> Result<Decoded> {
    protobuf(&Expected { group, version, kind }, body)
}

/// Go's error for decoding a value that is not an object into a struct.
pub(crate) fn not_an_object(value: &Value) -> String {
    let what = match value {
        Value::Null | Value::Object(_) => return format!("Object 'Kind' is missing in '{value}'"),
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
    };
    format!(
        "couldn't get version/kind; json parse error: json: cannot unmarshal {what} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
    )
}

fn unrecognized(kind: &Expected<'_>, body: &[u8], why: &str) -> Status {
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {why} ({})",
        kind.kind,
        summary(body)
    ))
}

/// The beginning of a body as error messages quote it: JSON as it is, anything else in hexadecimal.
fn summary(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    let shown = &body[..body.len().min(SHOWN)];
    let more = if body.len() > SHOWN { " ..." } else { "" };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(shown)),
        Some(_) => shown.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + more,
    }
}

/// Checks `apiVersion` and `kind` against the path and fills them in if they are missing.
fn check_kind(info: &ResourceInfo, expected: &Expected<'_>, object: &mut Value, body: &[u8]) -> Result<()> {
    let given_kind = type_text(object, "kind").map_err(|why| unrecognized(expected, body, &why))?;
    let given_version = type_text(object, "apiVersion").map_err(|why| unrecognized(expected, body, &why))?;
    if info.is_custom() && given_kind.is_empty() {
        let why = format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(body));
        return Err(unrecognized(expected, body, &why));
    }
    if given_version.matches('/').count() > 1 {
        let why = format!("unexpected GroupVersion string: {given_version}");
        return Err(unrecognized(expected, body, &why));
    }
    let kind = if given_kind.is_empty() { expected.kind } else { &given_kind };
    let wanted_version = expected.api_version();
    let api_version = if given_version.is_empty() { &wanted_version } else { &given_version };
    if kind != expected.kind || *api_version != wanted_version {
        mismatch(info, expected, kind, api_version, object["metadata"]["name"].as_str().unwrap_or_default())?;
    }
    object["apiVersion"] = wanted_version.into();
    object["kind"] = expected.kind.into();
    Ok(())
}

fn type_text(object: &Value, field: &str) -> std::result::Result<String, String> {
    match &object[field] {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone().to_string()),
        other => Err(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go struct field .{field} of type string",
            go_kind(other)
        )),
    }
}

fn mismatch(
    info: &ResourceInfo,
    expected: &Expected<'_>,
    kind: &str,
    api_version: &str,
    name: &str,
) -> Result<()> {
    let (group, version) = split_api_version(api_version);
    let wanted = expected.api_version();
    if info.is_custom() {
        return if api_version != wanted {
            Err(Status::bad_request(format!(
                "the API version in the data ({api_version}) does not match the expected API version ({wanted})"
            )))
        } else {
            let error = FieldError::invalid("kind", kind, format!("must be {}", expected.kind));
            Err(Status::invalid(expected.group, kind, name, &[error]))
        };
    }
    let known = api_resources::by_kind(group, version, kind).is_some() || is_retired(group, version, kind);
    let why = if !known {
        not_registered(kind, api_version)
    } else if kind != expected.kind {
        let (from, to) = (version, go_package(expected.group));
        format!("converting ({from}.{kind}) to ({to}.{}): unknown conversion", expected.kind)
    } else {
        return Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({wanted})"
        )));
    };
    let version = quote(version);
    let as_kind = expected.kind;
    Err(Status::bad_request(format!("{kind} in version {version} cannot be handled as a {as_kind}: {why}")))
}

/// The error for a kind that Kubernetes does not know.
pub(crate) fn not_registered(kind: &str, api_version: &str) -> String {
    let (kind, version) = (quote(kind), quote(api_version));
    format!(
        "no kind {kind} is registered for version {version} in scheme \"pkg/api/legacyscheme/scheme.go:30\""
    )
}

/// Versions that Kubernetes can still decode but no longer serves, with their kinds.
const RETIRED: &[(&str, &str, &[&str])] = &[
    (
        "extensions",
        "v1beta1",
        &["Deployment", "DaemonSet", "ReplicaSet", "Ingress", "NetworkPolicy", "Scale"],
    ),
    ("apps", "v1beta1", &["Deployment", "StatefulSet", "ControllerRevision", "Scale"]),
    (
        "apps",
        "v1beta2",
        &["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ControllerRevision", "Scale"],
    ),
    ("batch", "v1beta1", &["CronJob"]),
    ("policy", "v1beta1", &["PodDisruptionBudget", "Eviction"]),
    ("networking.k8s.io", "v1beta1", &["Ingress", "IngressClass"]),
    ("autoscaling", "v2beta1", &["HorizontalPodAutoscaler"]),
    ("autoscaling", "v2beta2", &["HorizontalPodAutoscaler"]),
    ("discovery.k8s.io", "v1beta1", &["EndpointSlice"]),
    ("events.k8s.io", "v1beta1", &["Event"]),
    ("coordination.k8s.io", "v1beta1", &["Lease"]),
    ("rbac.authorization.k8s.io", "v1alpha1", &["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"]),
    ("rbac.authorization.k8s.io", "v1beta1", &["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"]),
    ("storage.k8s.io", "v1beta1", &["StorageClass", "CSIDriver", "CSINode"]),
];

fn is_retired(group: &str, version: &str, kind: &str) -> bool {
    RETIRED.iter().any(|it| it.0 == group && it.1 == version && it.2.contains(&kind))
}

/// The name of the Go package of a group's internal types, which Kubernetes' messages contain.
pub(crate) fn go_package(group: &str) -> &str {
    match group {
        "" => "core",
        "rbac.authorization.k8s.io" => "rbac",
        "internal.apiserver.k8s.io" => "apiserverinternal",
        "flowcontrol.apiserver.k8s.io" => "flowcontrol",
        "admissionregistration.k8s.io" => "admissionregistration",
        other => other.split('.').next().unwrap_or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Body;

    /// Reads a body of `pieces` MiB. Returns the result and the number of pieces that were read.
    async fn read(pieces: usize) -> (Result<Bytes>, usize) {
        let read = std::cell::Cell::new(0);
        let piece = Bytes::from(vec![b'x'; 1 << 20]);
        let mut body = Body::stream(futures::stream::iter(vec![piece; pieces]));
        let body = http_body_util::BodyExt::map_frame(std::pin::Pin::new(&mut body), |frame| {
            read.set(read.get() + 1);
            frame
        });
        let taken = read_body(body).await;
        (taken, read.get())
    }

    #[tokio::test]
    async fn a_body_that_is_too_large_is_read_before_it_is_refused() {
        let (taken, read_of_it) = read(3).await;
        assert_eq!((taken.unwrap().len(), read_of_it), (BODY_MAX, 3));
        let (taken, read_of_it) = read(4).await;
        assert_eq!((taken.unwrap_err().code, read_of_it), (413, 4));
        let (taken, read_of_it) = read(100).await;
        assert_eq!((taken.unwrap_err().code, read_of_it), (413, 49));
    }
}
