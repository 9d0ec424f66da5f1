//! An audit event and its encoding as a line of JSON.

use std::collections::BTreeMap;
use std::net::IpAddr;

use evenkeel_request_info::query_decode;
use evenkeel_schema::time::{self, Precision};
use http::request::Parts;
use http::{HeaderMap, header};
use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use super::policy::{Level, Stage};
use crate::User;
use crate::access::Target;

/// The number of bytes of a User-Agent that are recorded, as in kube-apiserver.
const USER_AGENT_MAX: usize = 1024;
const TRUNCATED: &str = "...TRUNCATED";
/// The query parameter in which some clients send a bearer token.
const ACCESS_TOKEN: &str = "access_token";
const REDACTED: &str = "REDACTED";

/// An audit event. The fields stand in the order in which kube-apiserver writes them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event {
    kind: &'static str,
    api_version: &'static str,
    #[serde(serialize_with = "level_name")]
    pub(super) level: Level,
    #[serde(rename = "auditID")]
    pub(super) audit_id: String,
    #[serde(serialize_with = "stage_name")]
    pub(super) stage: Stage,
    #[serde(rename = "requestURI")]
    request_uri: String,
    verb: String,
    user: UserInfo,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) impersonated_user: Option<UserInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) authentication_metadata: Option<AuthenticationMetadata>,
    #[serde(rename = "sourceIPs", skip_serializing_if = "Vec::is_empty")]
    source_ips: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    user_agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) object_ref: Option<ObjectReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_status: Option<ResponseStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) request_object: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_object: Option<Box<RawValue>>,
    #[serde(serialize_with = "micro_time")]
    pub(super) request_received_timestamp: Timestamp,
    #[serde(serialize_with = "micro_time")]
    pub(super) stage_timestamp: Timestamp,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) annotations: BTreeMap<String, String>,
}

/// A user in the form of `authentication.k8s.io/v1` UserInfo.
#[derive(Debug, Default, Serialize)]
pub(super) struct UserInfo {
    #[serde(skip_serializing_if = "String::is_empty")]
    username: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: BTreeMap<String, Vec<String>>,
}

/// How a request was authenticated, beyond the user.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AuthenticationMetadata {
    /// The verb that allowed a constrained impersonation.
    pub(super) impersonation_constraint: String,
}

/// A reference to the object or collection that a request addresses.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectReference {
    #[serde(skip_serializing_if = "String::is_empty")]
    resource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    api_group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) resource_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    subresource: String,
}

/// The response to a request, without its object.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ResponseStatus {
    /// Always empty, but always written, as in kube-apiserver.
    #[serde(skip_deserializing)]
    pub(super) metadata: Empty,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) status: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) details: Option<Box<RawValue>>,
    pub(super) code: u16,
}

/// A JSON object without fields.
#[derive(Debug, Default, Serialize)]
pub(super) struct Empty {}

/// The facts of a request that are known at its first stage.
pub(super) struct Beginning<'a> {
    pub(super) level: Level,
    pub(super) head: &'a Parts,
    /// The authenticated user; `None` if authentication failed.
    pub(super) user: Option<&'a User>,
    /// The client's address, if the request came over the network.
    pub(super) remote: Option<IpAddr>,
    pub(super) verb: &'a str,
    pub(super) target: Target<'a>,
    pub(super) received: Timestamp,
}

impl Event {
    pub(super) fn new(beginning: &Beginning<'_>) -> Self {
        let Beginning { level, head, user, remote, verb, target, received } = *beginning;
        Self {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level,
            audit_id: text(&head.headers, super::AUDIT_ID.as_str()),
            stage: Stage::RequestReceived,
            request_uri: request_uri(head),
            verb: verb.to_owned(),
            user: user.map(UserInfo::of).unwrap_or_default(),
            impersonated_user: None,
            authentication_metadata: None,
            source_ips: source_ips(&head.headers, remote),
            user_agent: user_agent(&head.headers),
            object_ref: ObjectReference::of(&target),
            response_status: None,
            request_object: None,
            response_object: None,
            request_received_timestamp: received,
            stage_timestamp: received,
            annotations: BTreeMap::new(),
        }
    }

    /// Whether the body of the request contains secrets or tokens.
    pub(super) fn is_about_credentials(&self) -> bool {
        let Some(reference) = &self.object_ref else { return false };
        matches!(
            (&*reference.api_group, &*reference.resource, &*reference.subresource),
            ("", "secrets", _)
                | ("", "serviceaccounts", "token")
                | ("authentication.k8s.io", "tokenreviews", _)
        )
    }

    /// Encodes the event as one line of JSON, as Go's encoder would.
    pub(super) fn to_line(&self) -> Vec<u8> {
        let json = serde_json::to_vec(self).expect("writing an event to memory cannot fail");
        let mut line = compact(&json);
        line.push(b'\n');
        line
    }
}

impl ResponseStatus {
    /// Replaces the message and drops the details, which belong to the old message.
    pub(super) fn without_message(self, message: &str) -> Self {
        Self { message: message.to_owned(), details: None, ..self }
    }
}

impl UserInfo {
    pub(super) fn of(user: &User) -> Self {
        let User { name, uid, groups, extra } = user.clone();
        Self { username: name, uid, groups, extra }
    }
}

impl ObjectReference {
    fn of(target: &Target<'_>) -> Option<Self> {
        let Target::Resource { group, version, resource, subresource, namespace, name } = *target else {
            return None;
        };
        Some(Self {
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            api_group: group.to_owned(),
            api_version: version.to_owned(),
            subresource: subresource.to_owned(),
            ..Self::default()
        })
    }
}

/// Returns the path and query of a request, with the value of `access_token` redacted.
fn request_uri(head: &Parts) -> String {
    let Some(query) = head.uri.query() else { return head.uri.path().to_owned() };
    let shown = |pair: &str| match pair.split_once('=') {
        Some((name, _)) if query_decode(name).as_deref() == Some(ACCESS_TOKEN) => {
            format!("{name}={REDACTED}")
        }
        _ => pair.to_owned(),
    };
    let pairs: Vec<String> = query.split('&').map(shown).collect();
    format!("{}?{}", head.uri.path(), pairs.join("&"))
}

/// Returns the addresses that a request passed: those that proxies wrote into headers, then the client's
/// address.
///
/// A client can forge all of them but the last.
fn source_ips(headers: &HeaderMap, remote: Option<IpAddr>) -> Vec<String> {
    let parse = |text: &str| text.trim().parse::<IpAddr>().ok();
    let mut ips: Vec<IpAddr> = text(headers, "x-forwarded-for").split(',').filter_map(parse).collect();
    ips.extend(parse(&text(headers, "x-real-ip")).filter(|ip| !ips.contains(ip)));
    ips.extend(remote.filter(|ip| ips.last() != Some(ip)));
    ips.iter().map(IpAddr::to_string).collect()
}

fn user_agent(headers: &HeaderMap) -> String {
    let agent = text(headers, header::USER_AGENT.as_str());
    if agent.len() <= USER_AGENT_MAX {
        return agent;
    }
    let end = (0..=USER_AGENT_MAX).rev().find(|at| agent.is_char_boundary(*at)).unwrap_or_default();
    format!("{}{TRUNCATED}", &agent[..end])
}

fn text(headers: &HeaderMap, name: &str) -> String {
    headers.get(name).map(|it| String::from_utf8_lossy(it.as_bytes()).into_owned()).unwrap_or_default()
}

/// Removes the whitespace from JSON and escapes the characters that Go escapes for HTML.
///
/// The JSON may contain line breaks that a client sent, but an event must be one line.
fn compact(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() + 1);
    let (mut in_text, mut escaped) = (false, false);
    for (at, &byte) in json.iter().enumerate() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' if !in_text => continue,
            b'<' => out.extend_from_slice(b"\\u003c"),
            b'>' => out.extend_from_slice(b"\\u003e"),
            b'&' => out.extend_from_slice(b"\\u0026"),
            // JavaScript treats U+2028 (E2 80 A8) and U+2029 (E2 80 A9) as line breaks.
            0xA8 | 0xA9 if json[..at].ends_with(&[0xE2, 0x80]) => {
                out.truncate(out.len() - 2);
                out.extend_from_slice(if byte == 0xA8 { b"\\u2028" } else { b"\\u2029" });
            }
            _ => out.push(byte),
        }
        in_text ^= byte == b'"' && !escaped;
        escaped = in_text && byte == b'\\' && !escaped;
    }
    out
}

fn level_name<S: Serializer>(level: &Level, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(level.name())
}

fn stage_name<S: Serializer>(stage: &Stage, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(stage.name())
}

fn micro_time<S: Serializer>(at: &Timestamp, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&time::print(*at, Precision::Micros))
}

#[cfg(test)]
mod tests;
