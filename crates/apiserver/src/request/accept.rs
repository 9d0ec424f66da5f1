//! Content negotiation: in which format, and in which shape, an answer is wanted.

use std::borrow::Cow;

use http::header::ACCEPT;

use super::Request;
use crate::status::{Details, Result, Status};

/// How the answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Yaml,
}

/// What the answer shows of the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Whole objects.
    Object,
    /// Rows; whether the old `v1beta1` form was asked for.
    Table { beta: bool },
    /// The metadata of an object.
    Metadata { beta: bool },
    /// The metadata of the objects of a list.
    MetadataList { beta: bool },
}

/// What a client accepts, after negotiation.
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

/// What of `Accept` is served; or 406. `streams` is whether the route can watch, which the refusal lists.
pub(crate) fn negotiate(request: &Request<'_>, streams: bool) -> Result<Accept> {
    negotiate_for(request, streams, false)
}

/// The same where the resource may be a custom one: those have no routes that refuse a media type beforehand.
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
    // Where nothing is said of quality, the first clause that is served wins, and what follows is not looked at.
    let first = text.split(',').next().and_then(parse_clause);
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

fn serve(clause: &Clause<'_>) -> Option<Accept> {
    let format = match clause.media {
        "*/*" | "*" | "application/*" | "application/json" => Format::Json,
        "application/yaml" => Format::Yaml,
        _ => return None,
    };
    let Some(kind) = clause.param("as") else {
        return Some(Accept { format, shape: Shape::Object });
    };
    let beta = match (clause.param("g"), clause.param("v")) {
        (Some("meta.k8s.io"), Some("v1")) => false,
        (Some("meta.k8s.io"), Some("v1beta1")) => true,
        _ => return None,
    };
    let shape = match kind {
        "Table" => Shape::Table { beta },
        "PartialObjectMetadata" => Shape::Metadata { beta },
        "PartialObjectMetadataList" => Shape::MetadataList { beta },
        _ => return None,
    };
    Some(Accept { format, shape })
}
