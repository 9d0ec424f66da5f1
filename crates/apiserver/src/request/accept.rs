//! Content negotiation: the format and the shape of a response.

use std::borrow::Cow;

use http::header::ACCEPT;

use super::Request;
use crate::status::{Details, Result, Status};

/// The media type in which a response is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Yaml,
    Protobuf,
}

/// How a response represents objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Whole objects.
    Object,
    /// A Table; `beta` if the client asked for the old `v1beta1` form.
    Table { beta: bool },
    /// The metadata of one object, as a PartialObjectMetadata.
    Metadata { beta: bool },
    /// The metadata of a list's objects, as a PartialObjectMetadataList.
    MetadataList { beta: bool },
}

/// The negotiated format and shape of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accept {
    pub(crate) format: Format,
    pub(crate) shape: Shape,
}

impl Accept {
    /// Plain JSON.
    pub(crate) const JSON: Self = Self { format: Format::Json, shape: Shape::Object };
}

const MEDIA_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const STREAM_TYPES: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

struct Clause<'a> {
    media: &'a str,
    params: Vec<(&'a str, &'a str)>,
    quality: f32,
}

impl Clause<'_> {
    fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }
}

/// Negotiates the representation of a response by the `Accept` header, or fails with 406. `streams` says
/// whether the route supports watch, which the error message mentions.
pub(crate) fn negotiate(request: &Request<'_>, streams: bool) -> Result<Accept> {
    negotiate_for(request, streams, false)
}

/// Negotiates like [`negotiate`], for a resource that may be custom. In Kubernetes, custom resources have no
/// static routes that refuse a media type up front, so the error differs.
pub(crate) fn negotiate_for(request: &Request<'_>, streams: bool, custom: bool) -> Result<Accept> {
    let mut values = request.headers.get_all(ACCEPT).iter();
    if values.next().is_some_and(|it| it == "application/json") && values.next().is_none() {
        return Ok(Accept::JSON);
    }
    let mut values = request.headers.get_all(ACCEPT).iter().filter_map(|it| it.to_str().ok());
    let (first, second) = (values.next().unwrap_or_default(), values.next());
    let text = match second {
        None => Cow::Borrowed(first),
        Some(second) => [first, second].into_iter().chain(values).collect::<Vec<_>>().join(",").into(),
    };
    if text.trim().is_empty() {
        return Ok(Accept::JSON);
    }
    // Without quality values, the first clause that is supported wins.
    let first = text.split(',').next().and_then(parse_clause);
    let serve = |clause: &Clause<'_>| serve(clause, custom);
    if let Some(accept) = first.filter(|_| !text.contains("q=")).as_ref().and_then(serve) {
        return Ok(accept);
    }
    let mut clauses: Vec<Clause<'_>> = text.split(',').filter_map(parse_clause).collect();
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    if !custom && !clauses.iter().any(|it| is_produced(it.media)) {
        return Err(no_route(streams));
    }
    clauses.iter().find_map(serve).ok_or_else(|| {
        Status::not_acceptable(format!("only the following media types are accepted: {MEDIA_TYPES}"))
    })
}

fn no_route(streams: bool) -> Status {
    let more = if streams { format!(", {STREAM_TYPES}") } else { String::new() };
    let message = format!("406: Not Acceptable\n\nAvailable representations: {MEDIA_TYPES}{more}");
    Status::not_acceptable(message).with(Details::default())
}

fn parse_clause(text: &str) -> Option<Clause<'_>> {
    let mut parts = text.split(';').map(str::trim);
    let media = parts.next().filter(|it| !it.is_empty())?;
    let mut clause = Clause { media, params: Vec::new(), quality: 1.0 };
    for (key, value) in parts.filter_map(|it| it.split_once('=')) {
        let (key, value) = (key.trim(), value.trim());
        if key == "q" {
            clause.quality = value.parse().unwrap_or(1.0);
        } else {
            clause.params.push((key, value));
        }
    }
    Some(clause)
}

fn is_produced(media: &str) -> bool {
    matches!(
        media,
        "*/*"
            | "*"
            | "application/*"
            | "application/json"
            | "application/yaml"
            | "application/vnd.kubernetes.protobuf"
    )
}

/// Returns the representation that a clause asks for, or `None` if it is not served. Custom resources and Tables have
/// no protobuf form.
fn serve(clause: &Clause<'_>, custom: bool) -> Option<Accept> {
    let format = match clause.media {
        "*/*" | "*" | "application/*" | "application/json" => Format::Json,
        "application/yaml" => Format::Yaml,
        "application/vnd.kubernetes.protobuf" => Format::Protobuf,
        _ => return None,
    };
    let Some(kind) = clause.param("as") else {
        let served = !custom || format != Format::Protobuf;
        return served.then_some(Accept { format, shape: Shape::Object });
    };
    let beta = match (clause.param("g"), clause.param("v")) {
        (Some("meta.k8s.io"), Some("v1")) => false,
        (Some("meta.k8s.io"), Some("v1beta1")) => true,
        _ => return None,
    };
    let shape = match kind {
        "Table" if format != Format::Protobuf => Shape::Table { beta },
        "PartialObjectMetadata" => Shape::Metadata { beta },
        "PartialObjectMetadataList" => Shape::MetadataList { beta },
        _ => return None,
    };
    Some(Accept { format, shape })
}
