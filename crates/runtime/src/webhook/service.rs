//! All webhooks of a manager as one service, from an HTTP request to its response.
//!
//! The service has no sockets and no certificates. A server provides them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use serde::Deserialize as _;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::conversion::Converter;
use super::function::Unreviewed;
use super::options::TIMEOUT_MAX;
use super::review::{self, ADMISSION, Admitted, CONVERSION, ConversionRequest};
use super::{Action, Webhook};
use crate::error::chain;
use crate::flight::Flight;
use crate::metrics::Metrics;

/// The largest admission review: controller-runtime's limit. A review has at most two objects of 3 MiB, which is the
/// largest body that the API server accepts, and less than 1 MiB of other fields.
pub(crate) const ADMISSION_BYTES_MAX: usize = 7 * 1024 * 1024;

/// The largest conversion review, enough for 10,000 objects of 10 KB: the API server converts a list in one call.
pub(crate) const CONVERSION_BYTES_MAX: usize = 100 * 1024 * 1024;

/// How many reviews may run at once. By default, kube-apiserver serves at most 200 writes at once, and each calls a
/// webhook once at a time, so this is enough for five API servers.
const CONCURRENT_MAX: usize = 1000;

/// The path of the conversion webhook, as in kubebuilder.
pub(crate) const CONVERT_PATH: &str = "/convert";

/// The response to a request whose body cannot be read.
pub(crate) type Refusal = Box<Response<Bytes>>;

/// All webhooks of a manager: a [`tower::Service`] from requests to responses.
///
/// [`Manager::take_webhooks`](crate::Manager::take_webhooks) returns it to a caller that serves the webhooks itself.
/// Cloning is cheap, and clones share all counters.
///
/// ```
/// use evenkeel_runtime::webhook::Endpoint;
/// use evenkeel_runtime::{BoxError, Manager};
///
/// # fn example(mut manager: Manager) -> Result<(), BoxError> {
/// if let Some(webhooks) = manager.take_webhooks()? {
///     // Serve `webhooks` with your own server, and apply these objects:
///     let configurations = webhooks.configurations("sites", &Endpoint::service("operators", "sites-webhook"));
/// #   drop(configurations);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Webhooks {
    inner: Arc<Inner>,
}

struct Inner {
    /// The admission webhooks by path.
    hooks: BTreeMap<String, Arc<Webhook>>,
    /// The conversions by group and kind.
    converters: BTreeMap<(String, String), Converter>,
    running: Semaphore,
    metrics: Metrics,
    /// Records the reviews, if the webhooks belong to a manager.
    flight: OnceLock<Flight>,
}

/// Two webhooks with one path or one name.
#[derive(Debug, thiserror::Error)]
#[error("two webhooks have the {what} {value}; give one of them another by `Webhook::{what}`")]
pub(crate) struct Ambiguous {
    what: &'static str,
    value: String,
}

impl Webhooks {
    pub(crate) fn new(
        list: Vec<Webhook>,
        converters: Vec<Converter>,
        metrics: Metrics,
    ) -> Result<Self, Ambiguous> {
        let (mut hooks, mut names) = (BTreeMap::new(), std::collections::BTreeSet::new());
        for hook in list {
            let (path, name) = (hook.url_path(), hook.qualified_name());
            if !names.insert((hook.action, name.clone())) {
                return Err(Ambiguous { what: "name", value: name });
            }
            // Creates the metrics of the webhook before its first request.
            drop(metrics.webhook(&path));
            if path == CONVERT_PATH || hooks.insert(path.clone(), Arc::new(hook)).is_some() {
                return Err(Ambiguous { what: "path", value: path });
            }
        }
        if !converters.is_empty() {
            drop(metrics.webhook(CONVERT_PATH));
        }
        let converters = converters
            .into_iter()
            .map(|converter| ((converter.group.clone(), converter.kind.clone()), converter));
        let (converters, running) = (converters.collect(), Semaphore::new(CONCURRENT_MAX));
        let flight = OnceLock::new();
        Ok(Self { inner: Arc::new(Inner { hooks, converters, running, metrics, flight }) })
    }

    /// Records the reviews in this flight recorder.
    pub(crate) fn recorded_by(self, flight: Flight) -> Self {
        // Only the manager that creates the webhooks calls this, and only once.
        let _ = self.inner.flight.set(flight);
        self
    }

    /// The admission webhooks, ordered by path.
    pub(crate) fn hooks(&self) -> impl Iterator<Item = &Webhook> {
        self.inner.hooks.values().map(|hook| &**hook)
    }

    pub(crate) fn converters(&self) -> impl Iterator<Item = &Converter> {
        self.inner.converters.values()
    }

    /// The largest accepted body for this path.
    pub(crate) fn body_bytes_max(&self, path: &str) -> usize {
        if path == CONVERT_PATH { CONVERSION_BYTES_MAX } else { ADMISSION_BYTES_MAX }
    }

    /// Answers a request. Every request gets a response: if it cannot be reviewed, a `Status` says why.
    pub async fn answer(&self, request: Request<Bytes>) -> Response<Bytes> {
        let (head, body) = request.into_parts();
        self.answer_when_read(&head, move |_| std::future::ready(Ok(body))).await
    }

    /// Answers a request whose body has not been read yet. `read` gets the limit in bytes, and is not called if the
    /// head of the request is already refused.
    pub(crate) async fn answer_when_read<F>(
        &self,
        head: &Parts,
        read: impl FnOnce(usize) -> F,
    ) -> Response<Bytes>
    where
        F: Future<Output = Result<Bytes, Refusal>>,
    {
        let path = head.uri.path();
        let known = self.inner.hooks.contains_key(path)
            || (path == CONVERT_PATH && !self.inner.converters.is_empty());
        if !known {
            return refused(StatusCode::NOT_FOUND, "NotFound", &format!("no webhook has the path {path}"));
        }
        let (counted, begun) = (self.inner.metrics.webhook(path), Instant::now());
        let response = self.serve(path, head, read).await;
        counted.ended(response.status());
        if let Some(flight) = self.inner.flight.get() {
            flight.reviewed(path, begun, response.status().as_u16());
        }
        response
    }

    async fn serve<F>(&self, path: &str, head: &Parts, read: impl FnOnce(usize) -> F) -> Response<Bytes>
    where
        F: Future<Output = Result<Bytes, Refusal>>,
    {
        if head.method != Method::POST {
            let why = format!("{} is not allowed: a review is sent by POST", head.method);
            return refused(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", &why);
        }
        if let Some(why) = wrong_media_type(head) {
            return refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", &why);
        }
        let Ok(_running) = self.inner.running.try_acquire() else {
            let why = format!("{CONCURRENT_MAX} reviews are running already");
            return busy(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", &why);
        };
        let bytes_max = self.body_bytes_max(path);
        let body = match read(bytes_max).await {
            Ok(body) if body.len() > bytes_max => return too_large(bytes_max),
            Ok(body) => body,
            Err(response) => return *response,
        };
        let limit = time_limit(head.uri.query().unwrap_or_default());
        // The review future is created inside this future, so that a panic at any point is caught.
        let review = AssertUnwindSafe(async { self.review(path, &body).await }).catch_unwind();
        match tokio::time::timeout(limit, review).await {
            Ok(Ok(response)) => response,
            Ok(Err(panic)) => self.panicked(path, &*panic),
            Err(_) => {
                let why = format!("the webhook gave no verdict within {limit:?}");
                tracing::warn!(path, ?limit, "a webhook took too long");
                refused(StatusCode::GATEWAY_TIMEOUT, "Timeout", &why)
            }
        }
    }

    async fn review(&self, path: &str, body: &Bytes) -> Response<Bytes> {
        match self.inner.hooks.get(path) {
            Some(hook) => admit(hook, path, body).await,
            None => self.convert(body),
        }
    }

    fn panicked(&self, path: &str, panic: &(dyn std::any::Any + Send)) -> Response<Bytes> {
        self.inner.metrics.webhook_panicked(path == CONVERT_PATH);
        let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        tracing::error!(path, panic = text, "a webhook panicked");
        refused(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", &format!("the webhook panicked: {text}"))
    }

    fn convert(&self, body: &Bytes) -> Response<Bytes> {
        let request: ConversionRequest<'_> = match review::read(body, CONVERSION) {
            Ok(request) => request,
            Err(why) => return bad_request(&why),
        };
        let converted = self.convert_all(&request.objects, &request.desired_api_version);
        if let Err(error) = &converted {
            tracing::warn!(error, to = request.desired_api_version, "a conversion failed");
        }
        reviewed(&review::conversion_answer(&request.uid, converted))
    }

    fn convert_all(&self, objects: &[&RawValue], desired: &str) -> Result<Vec<Value>, String> {
        let (group, version) = desired.split_once('/').unwrap_or(("", desired));
        let one = |object: &&RawValue| {
            let kind = kind_of(object).map_err(|error| format!("an object cannot be read: {error}"))?;
            let converter = self.inner.converters.get(&(group.to_owned(), kind.clone()));
            let converter = converter.ok_or_else(|| format!("{kind} of {group} has no conversion here"))?;
            converter.convert(object, version).map_err(|error| error.to_string())
        };
        objects.iter().map(one).collect()
    }
}

/// Calls the function of a webhook.
async fn admit(hook: &Webhook, path: &str, body: &Bytes) -> Response<Bytes> {
    let about: Arc<Admitted> = match review::read(body, ADMISSION) {
        Ok(about) => Arc::new(about),
        Err(why) => return bad_request(&why),
    };
    match (hook.review)(about.clone(), Arc::new(())).await {
        Ok(done) => {
            let patch = done.patch.filter(|_| hook.action == Action::Mutate);
            reviewed(&review::admission_answer(&about, &done.verdict, patch))
        }
        Err(Unreviewed::Undecodable(why)) => bad_request(&why),
        Err(Unreviewed::Failed(error)) => {
            let why = chain(&*error);
            tracing::warn!(path, error = why, "a webhook failed");
            refused(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", &why)
        }
    }
}

impl tower::Service<Request<Bytes>> for Webhooks {
    type Response = Response<Bytes>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let webhooks = self.clone();
        async move { Ok(webhooks.answer(request).await) }.boxed()
    }
}

fn kind_of(object: &RawValue) -> serde_json::Result<String> {
    #[derive(serde::Deserialize)]
    struct Kind {
        kind: String,
    }
    Kind::deserialize(&mut serde_json::Deserializer::from_str(object.get())).map(|it| it.kind)
}

/// Returns why the `Content-Type` is not accepted, if so. controller-runtime accepts exactly `application/json`; a
/// charset is harmless.
fn wrong_media_type(head: &Parts) -> Option<String> {
    let given = head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let given = given.unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim();
    let json = essence.eq_ignore_ascii_case("application/json");
    (!json).then(|| format!("Content-Type is {given:?}, and must be application/json"))
}

/// Returns how long the caller waits, from the query `timeout=10s` that the API server sends, or else the longest
/// allowed time.
fn time_limit(query: &str) -> Duration {
    let given = query.split('&').find_map(|pair| pair.strip_prefix("timeout="));
    let seconds = given.and_then(|text| text.strip_suffix('s')?.parse::<u64>().ok());
    seconds.map_or(TIMEOUT_MAX, |seconds| Duration::from_secs(seconds).min(TIMEOUT_MAX))
}

fn reviewed(review: &Value) -> Response<Bytes> {
    respond(StatusCode::OK, review)
}

fn bad_request(why: &str) -> Response<Bytes> {
    refused(StatusCode::BAD_REQUEST, "BadRequest", why)
}

/// Returns a refusal that asks the caller to retry after a second.
pub(crate) fn busy(code: StatusCode, reason: &str, why: &str) -> Response<Bytes> {
    let mut response = refused(code, reason, why);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

pub(crate) fn too_large(limit: usize) -> Response<Bytes> {
    let why = format!("the review is larger than {limit} bytes");
    refused(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", &why)
}

/// Returns a response other than a review: a `Status`, whose message the API server shows to the user.
pub(crate) fn refused(code: StatusCode, reason: &str, message: &str) -> Response<Bytes> {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code.as_u16(),
    });
    respond(code, &status)
}

fn respond(code: StatusCode, body: &Value) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body.to_string()));
    *response.status_mut() = code;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths: Vec<&String> = self.inner.hooks.keys().collect();
        f.debug_struct("Webhooks").field("paths", &paths).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
