//! The audit record of one request, from its first stage to its last.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use evenkeel_env::Env;
use evenkeel_request_info::ApiPath;
use evenkeel_schema::json::Value;
use futures::Stream;
use http::header::CONTENT_TYPE;
use http::{Response, StatusCode};
use parking_lot::Mutex;
use serde_json::value::RawValue;

use super::AuditSink;
use super::event::{AuthenticationMetadata, Event, ResponseStatus, UserInfo};
use super::policy::{Level, Recording, Stage};
use crate::access::Decision;
use crate::body::Body;
use crate::request::{Request, negotiate};
use crate::status::Status;
use crate::{User, decode};
use evenkeel_schema::protobuf;

const DECISION: &str = "authorization.k8s.io/decision";
const FORBID: &str = "forbid";
const REASON: &str = "authorization.k8s.io/reason";
const DEPRECATED: &str = "k8s.io/deprecated";

/// The first bytes of every `Status` that this server sends.
const STATUS_BEGINNING: &[u8] = br#"{"kind":"Status","apiVersion":"v1","#;

/// The audit record of one request.
///
/// Dropping the trail records the last stage if nothing has recorded it before, as for a request whose client
/// has gone away.
pub(crate) struct Trail {
    sink: Arc<dyn AuditSink>,
    env: Env,
    recording: Recording,
    /// Whether the stage `ResponseStarted` is recorded.
    long_running: bool,
    state: Mutex<TrailState>,
}

struct TrailState {
    event: Event,
    /// Whether the last stage was recorded.
    finished: bool,
    /// Annotations that appear in the event of the last stage only.
    final_annotations: Vec<(&'static str, String)>,
}

/// The status codes whose error messages never quote the request body.
const QUOTES_NO_BODY: [u16; 5] = [401, 404, 405, 409, 429];
const CONCEALED: &str = "not recorded at this level, because it may quote the request body";

impl Trail {
    pub(super) fn new(
        sink: Arc<dyn AuditSink>,
        env: Env,
        recording: Recording,
        long_running: bool,
        event: Event,
    ) -> Self {
        let state = Mutex::new(TrailState { event, finished: false, final_annotations: Vec::new() });
        Self { sink, env, recording, long_running, state }
    }

    fn keeps(&self, level: Level) -> bool {
        self.recording.level >= level
    }

    /// Records a stage. The sink accepts the line at once; the returned future waits until the line is
    /// written.
    pub(super) fn stage(&self, stage: Stage) -> impl Future<Output = ()> + Send + use<> {
        let written = (!self.recording.omit_stages.contains(stage)).then(|| {
            let mut state = self.state.lock();
            state.event.stage = stage;
            if stage != Stage::RequestReceived {
                state.event.stage_timestamp = self.env.now();
            }
            self.sink.record(state.event.to_line())
        });
        async move {
            if let Some(written) = written {
                written.await;
            }
        }
    }

    /// Notes the impersonated user, and the verb that allowed a constrained impersonation (empty if it was
    /// not constrained).
    pub(crate) fn note_impersonation(&self, user: &User, constraint: &str) {
        let mut state = self.state.lock();
        state.event.impersonated_user = Some(UserInfo::of(user));
        state.event.authentication_metadata = (!constraint.is_empty())
            .then(|| AuthenticationMetadata { impersonation_constraint: constraint.to_owned() });
    }

    /// Notes the decision of the authorizer.
    pub(crate) fn note_decision(&self, decision: &Decision) {
        let (decision, reason) = match decision {
            Decision::Allow(reason) => ("allow", reason),
            Decision::Deny(reason) => (FORBID, reason),
        };
        self.annotate(DECISION, decision);
        self.annotate(REASON, reason);
    }

    /// Notes that the resource is deprecated. As in kube-apiserver, only the event of the last stage says so.
    pub(crate) fn note_deprecation(&self) {
        self.state.lock().final_annotations.push((DEPRECATED, "true".to_owned()));
    }

    /// Adds an annotation; an existing one with the same key stays.
    pub(crate) fn annotate(&self, key: &str, value: &str) {
        self.state.lock().event.annotations.entry(key.to_owned()).or_insert_with(|| value.to_owned());
    }

    /// Adds an annotation that contains a part of the request's object, at the level `Request` and above.
    pub(crate) fn annotate_request(&self, key: &str, value: &str) {
        if self.keeps(Level::Request) {
            self.annotate(key, value);
        }
    }

    /// Notes the decoded object of a request: completes the object reference, and keeps the object at the
    /// level `Request` and above.
    pub(crate) fn note_object(&self, object: &Value) {
        let mut state = self.state.lock();
        if let Some(reference) = &mut state.event.object_ref {
            let metadata = &object["metadata"];
            for (field, name) in [
                (&mut reference.namespace, "namespace"),
                (&mut reference.name, "name"),
                (&mut reference.uid, "uid"),
                (&mut reference.resource_version, "resourceVersion"),
            ] {
                if field.is_empty() {
                    *field = metadata[name].as_str().unwrap_or_default().to_owned();
                }
            }
        }
        if self.keeps(Level::Request) {
            state.event.request_object = self.event_object(object);
        }
    }

    /// Notes a request body that is not an API object with metadata: delete options or a patch.
    pub(crate) fn note_body(&self, body: impl FnOnce() -> Option<Box<RawValue>>) {
        if self.keeps(Level::Request)
            && let Some(body) = body()
        {
            self.state.lock().event.request_object = Some(body);
        }
    }

    /// Notes the response. `refusal` is the status from which an error response was made.
    pub(crate) fn note_answer(
        &self,
        request: &Request<'_>,
        refusal: Option<&Status>,
        response: &mut Response<Body>,
    ) {
        let object = sent_object(request, refusal, response, self.keeps(Level::RequestResponse));
        let status = object.as_deref().filter(|json| json.starts_with(STATUS_BEGINNING));
        let mut status: ResponseStatus =
            status.and_then(|json| serde_json::from_slice(json).ok()).unwrap_or_default();
        status.code = response.status().as_u16();
        let mut state = self.state.lock();
        if self.hides_message(&state.event, status.code) && !status.message.is_empty() {
            status = status.without_message(CONCEALED);
        }
        state.event.response_status = Some(status);
        if self.keeps(Level::RequestResponse) {
            state.event.response_object = object.and_then(|json| self.event_object_from_json(json));
        }
    }

    /// Whether the message of an error response stays out of the event.
    ///
    /// At the level `Metadata` an event must not contain any part of a secret or token, but the error about
    /// an invalid body may quote it.
    fn hides_message(&self, event: &Event, code: u16) -> bool {
        let is_forbidden = event.annotations.get(DECISION).is_some_and(|it| it == FORBID);
        let may_quote = code >= 400 && !QUOTES_NO_BODY.contains(&code) && !is_forbidden;
        may_quote && !self.keeps(Level::Request) && event.is_about_credentials()
    }

    /// Records the stages of a response that is about to be sent. The last stage of a watch is recorded when
    /// the watch ends.
    pub(crate) async fn respond(self: Arc<Self>, response: &mut Response<Body>) {
        if self.long_running {
            self.stage(Stage::ResponseStarted).await;
        }
        if response.body().is_watch() {
            let body = std::mem::take(response.body_mut());
            *response.body_mut() = Body::stream(AuditedWatch { body, trail: Some(self) });
            return;
        }
        self.complete().await;
    }

    /// Records that the server panicked while it served the request. The panic message is left out because it
    /// may quote an object; the server's log has it.
    pub(crate) async fn panicked(&self) {
        if !self.finish() {
            return;
        }
        self.state.lock().event.response_status = Some(ResponseStatus {
            status: "Failure".to_owned(),
            message: "APIServer panic'd: see the server's log for the cause".to_owned(),
            reason: "InternalError".to_owned(),
            code: StatusCode::INTERNAL_SERVER_ERROR.as_u16(),
            ..ResponseStatus::default()
        });
        self.stage(Stage::Panic).await;
    }

    /// Claims the right to record the last stage; `false` if it was claimed before.
    pub(super) fn finish(&self) -> bool {
        !std::mem::replace(&mut self.state.lock().finished, true)
    }

    fn complete(&self) -> impl Future<Output = ()> + Send + use<> {
        let written = self.finish().then(|| {
            let mut state = self.state.lock();
            for (key, value) in std::mem::take(&mut state.final_annotations) {
                state.event.annotations.insert(key.to_owned(), value);
            }
            drop(state);
            self.stage(Stage::ResponseComplete)
        });
        async move {
            if let Some(written) = written {
                written.await;
            }
        }
    }

    /// Encodes an object for an event, without `managedFields` if the policy omits them.
    fn event_object(&self, object: &Value) -> Option<Box<RawValue>> {
        if self.recording.omit_managed_fields {
            let mut object = object.clone();
            remove_managed_fields(&mut object);
            return serde_json::value::to_raw_value(&object).ok();
        }
        serde_json::value::to_raw_value(object).ok()
    }

    fn event_object_from_json(&self, json: Vec<u8>) -> Option<Box<RawValue>> {
        if self.recording.omit_managed_fields {
            return self.event_object(&serde_json::from_slice(&json).ok()?);
        }
        raw(json)
    }
}

impl Drop for Trail {
    /// Records the last stage of a request that ended before its response: the client went away, or the
    /// server shuts down.
    fn drop(&mut self) {
        let state = self.state.get_mut();
        if state.finished {
            return;
        }
        if state.event.response_status.is_none() {
            state.event.response_status = Some(ResponseStatus {
                status: "Success".to_owned(),
                message: "Connection closed early".to_owned(),
                code: StatusCode::OK.as_u16(),
                ..ResponseStatus::default()
            });
            if self.long_running {
                drop(self.stage(Stage::ResponseStarted));
            }
        }
        drop(self.complete());
    }
}

impl std::fmt::Debug for Trail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trail").field("recording", &self.recording).finish_non_exhaustive()
    }
}

/// The body of a watch; its end records the last stage of the request.
struct AuditedWatch {
    body: Body,
    /// Dropped when the body ends, which records the last stage.
    trail: Option<Arc<Trail>>,
}

impl Stream for AuditedWatch {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let polled = self.body.poll_piece(cx);
        if let Poll::Ready(None) = polled {
            self.trail = None;
        }
        polled.map(|piece| piece.map(crate::Piece::into_bytes))
    }
}

/// Returns the API object in a response as JSON: every `Status`, and any other object if `whole` is set. A
/// response that is not an API object gives `None`.
fn sent_object(
    request: &Request<'_>,
    refusal: Option<&Status>,
    response: &mut Response<Body>,
    whole: bool,
) -> Option<Vec<u8>> {
    if let Some(status) = refusal {
        // kube-apiserver does not record the response to a request whose media type cannot be negotiated.
        return (!status.plain && negotiate(request, false).is_ok()).then(|| status.to_json());
    }
    let is_api = match &request.route {
        ApiPath::Resource(_) => true,
        _ => matches!(request.path.split('/').nth(1), Some("api" | "apis")),
    };
    let media = response.headers().get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let media = media.unwrap_or("application/json").split(';').next().unwrap_or_default().to_owned();
    let body = response.body_mut();
    if is_api && media == "application/json" && (whole || body.starts_with(STATUS_BEGINNING)) {
        return body.gathered().map(|json| json.to_vec());
    }
    let object = match media.as_str() {
        _ if !is_api => return None,
        "application/yaml" => decode::parse_yaml(&body.gathered()?, false).ok()?.object,
        "application/vnd.kubernetes.protobuf" => protobuf::decode(&body.gathered()?).ok()?,
        _ => return None,
    };
    let is_status = object["kind"] == "Status" && object["apiVersion"] == "v1";
    if is_status { Some(status_text(&object)) } else { whole.then(|| object.to_string().into_bytes()) }
}

/// Encodes a `Status` with its fields in the order in which this server writes them.
fn status_text(status: &Value) -> Vec<u8> {
    let mut text = STATUS_BEGINNING.to_vec();
    let fields = ["metadata", "status", "message", "reason", "details", "code"];
    let present: Vec<String> = fields
        .iter()
        .filter(|name| !status[**name].is_null())
        .map(|name| format!("\"{name}\":{}", status[*name]))
        .collect();
    text.extend(present.join(",").into_bytes());
    text.push(b'}');
    text
}

pub(crate) fn raw(json: Vec<u8>) -> Option<Box<RawValue>> {
    RawValue::from_string(String::from_utf8(json).ok()?).ok()
}

/// Removes `managedFields` from an object, from the items of a list and from the rows of a Table.
fn remove_managed_fields(object: &mut Value) {
    let remove = |object: &mut Value| {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    };
    remove(object);
    let kind = object["kind"].as_str().unwrap_or_default();
    let (is_list, is_table) = (kind.ends_with("List"), kind == "Table");
    if let Some(items) = object.get_mut("items").and_then(Value::as_array_mut).filter(|_| is_list) {
        items.iter_mut().for_each(remove);
    }
    if let Some(rows) = object.get_mut("rows").and_then(Value::as_array_mut).filter(|_| is_table) {
        rows.iter_mut().filter_map(|row| row.get_mut("object")).for_each(remove);
    }
}
