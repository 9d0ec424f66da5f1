//! Carries the API server's calls to webhooks, to a service in this process or over the network. The test kit observes
//! and breaks them here.
//!
//! A call passes: ledger ▸ record ▸ faults ▸ service in this process, or network ▸ record.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use evenkeel_apiserver::{WebhookAnswer, WebhookCaller, WebhookQuestion};
use evenkeel_env::{Env, Station};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tower::{BoxError, ServiceExt as _};

use super::record::{Outcome, OutgoingRequest, Recorder};
use crate::webhooks::{self, ANSWER_BYTES_MAX, Webhooks, content_type};

/// The port of a webhook whose URL has none.
const HTTPS_PORT: u16 = 443;
/// The API server's name in the record, as the caller of webhooks.
const API_SERVER: &str = "kube-apiserver";
/// The response to a call with the fault [`WebhookFault::Nonsense`]: valid HTTP with a body that is not a review.
const NONSENSE: &[u8] = b"<html>nonsense (injected)</html>";

/// The place of a webhook: the host and port to which the API server sends its reviews.
///
/// ```
/// use evenkeel_cluster::WebhookAddress;
/// let by_url = WebhookAddress::url("https://hooks.example.com/validate");
/// assert_eq!(by_url, WebhookAddress::url("https://hooks.example.com:443/"), "the path does not matter");
/// let by_service = WebhookAddress::service("operators", "hooks", 443);
/// assert_eq!(by_service, WebhookAddress::url("https://hooks.operators.svc"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WebhookAddress(String);

impl WebhookAddress {
    /// Makes the address of the `clientConfig.url` of a webhook. The path and the query are ignored, so the webhook
    /// gets the requests for all paths.
    ///
    /// # Panics
    /// Panics if this is not a URL with a host.
    #[track_caller]
    pub fn url(url: &str) -> Self {
        let uri: Option<Uri> = url.parse().ok();
        let Some((uri, host)) = uri.as_ref().and_then(|uri| Some((uri, uri.host()?))) else {
            panic!("{url} is not a URL with a host, such as https://hooks.example.com/validate")
        };
        Self(format!("{host}:{}", uri.port_u16().unwrap_or(HTTPS_PORT)))
    }

    /// Makes the address of the Service in the `clientConfig.service` of a webhook. The Service object need not exist.
    pub fn service(namespace: &str, name: &str, port: u16) -> Self {
        Self(format!("{name}.{namespace}.svc:{port}"))
    }
}

/// A failure of a webhook, which a test injects by `Cluster::fail_webhook`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WebhookFault {
    /// Nothing listens at the webhook's address: the connection is refused.
    Down,
    /// The webhook gets the request after this delay. If the delay is longer than the webhook's timeout, the API server
    /// gives up.
    Slow(Duration),
    /// The webhook responds with status 200 and a body that is not a review.
    Nonsense,
}

/// A webhook in this process.
type Handler = Arc<dyn Fn(Request<Full<Bytes>>) -> BoxFuture<'static, HandlerAnswer> + Send + Sync>;
type HandlerAnswer = Result<WebhookAnswer, BoxError>;

/// The handlers of one address, one for each replica.
#[derive(Default)]
struct Backends {
    handlers: Vec<(u64, Handler)>,
    /// The number of calls so far, from which the next backend is chosen in turn.
    calls: usize,
}

#[derive(Default)]
struct Routes {
    by_destination: Mutex<BTreeMap<String, Backends>>,
    next_id: AtomicU64,
}

/// Keeps a webhook in this process reachable. When it is dropped, connections to the webhook are refused, as if its
/// process had ended.
#[must_use = "the webhook is served until this is dropped"]
pub struct ServedWebhook(Serving);

/// How a webhook is served.
enum Serving {
    /// By a handler in the transport.
    Handler { routes: Arc<Routes>, address: WebhookAddress, id: u64 },
    /// By a server on a port.
    Server(JoinHandle<()>),
}

impl ServedWebhook {
    /// Webhooks that are served by a server on a port, which runs in this task.
    pub(crate) fn server(task: JoinHandle<()>) -> Self {
        Self(Serving::Server(task))
    }
}

impl std::fmt::Debug for ServedWebhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("ServedWebhook");
        if let Serving::Handler { address, .. } = &self.0 {
            shown.field("address", address);
        }
        shown.finish_non_exhaustive()
    }
}

impl Drop for ServedWebhook {
    fn drop(&mut self) {
        match &self.0 {
            Serving::Handler { routes, address, id } => {
                let mut routes = routes.by_destination.lock();
                if let Some(backends) = routes.get_mut(&address.0) {
                    backends.handlers.retain(|(other, _)| other != id);
                }
            }
            Serving::Server(task) => task.abort(),
        }
    }
}

/// Carries the API server's calls to webhooks.
pub(crate) struct WebhookTransport {
    network: Webhooks,
    routes: Arc<Routes>,
    faults: Mutex<Vec<Armed>>,
    recorder: Arc<Recorder>,
    /// Whether calls are recorded.
    records: bool,
    calls: Station,
    by: Arc<str>,
}

/// A fault that has not been injected often enough yet.
struct Armed {
    url_part: String,
    fault: WebhookFault,
    left: usize,
}

impl WebhookTransport {
    pub(crate) fn new(env: &Env, records: bool) -> Self {
        Self {
            network: Webhooks::new(),
            routes: Arc::default(),
            faults: Mutex::default(),
            recorder: Arc::new(Recorder::new()),
            records,
            calls: env.ledger().station("webhook calls"),
            by: API_SERVER.into(),
        }
    }

    /// The record that the calls are entered into, shared with the clients' transport.
    pub(crate) fn recorder(&self) -> &Arc<Recorder> {
        &self.recorder
    }

    /// Serves the webhook at an address by a service in this process, until the returned value is dropped. Several
    /// services at one address take turns, like replicas behind a Service.
    pub(crate) fn serve<S, B>(&self, address: WebhookAddress, service: S) -> ServedWebhook
    where
        S: tower::Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        // Services need not be `Sync`; each call gets its own clone.
        let service = Mutex::new(service);
        let handler: Handler = Arc::new(move |request| {
            let service = service.lock().clone();
            Box::pin(async move {
                let response = service.oneshot(request).await.map_err(Into::into)?;
                let code = response.status().as_u16();
                let content_type = content_type(response.headers());
                let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await?.to_bytes();
                Ok(WebhookAnswer { code, content_type, body })
            })
        });
        let id = self.routes.next_id.fetch_add(1, Ordering::Relaxed);
        let mut routes = self.routes.by_destination.lock();
        routes.entry(address.0.clone()).or_default().handlers.push((id, handler));
        ServedWebhook(Serving::Handler { routes: self.routes.clone(), address, id })
    }

    /// Makes the next `times` calls fail to webhooks whose URL contains `url_part`.
    pub(crate) fn arm(&self, url_part: String, fault: WebhookFault, times: usize) {
        if times > 0 {
            self.faults.lock().push(Armed { url_part, fault, left: times });
        }
    }

    /// Takes one injection of the first fault that matches this URL.
    fn strike(&self, url: &str) -> Option<WebhookFault> {
        let mut armed = self.faults.lock();
        let at = armed.iter().position(|it| url.contains(&it.url_part))?;
        let fault = armed[at].fault;
        armed[at].left -= 1;
        if armed[at].left == 0 {
            armed.remove(at);
        }
        Some(fault)
    }

    /// Returns the next backend of an address in this process, or `None` if the address was never served here.
    fn next_backend(&self, destination: &str) -> Option<Result<Handler, String>> {
        let mut routes = self.routes.by_destination.lock();
        let backends = routes.get_mut(destination)?;
        let turn = backends.calls;
        backends.calls = backends.calls.wrapping_add(1);
        let handlers = &backends.handlers;
        let chosen = turn.checked_rem(handlers.len()).and_then(|at| handlers.get(at));
        Some(chosen.map(|(_, handler)| handler.clone()).ok_or_else(|| refused(destination)))
    }

    async fn carry(&self, question: WebhookQuestion) -> Result<WebhookAnswer, String> {
        let url = format!("https://{}{}", question.authority, question.path);
        let _work = self.calls.enter_with(format!("POST {url}"));
        let fault = self.strike(&url);
        let mut call = Call { transport: self, number: self.note(&url, &question.body), fault };
        let answer = match fault {
            Some(WebhookFault::Down) => Err(refused(&question.address)),
            Some(WebhookFault::Nonsense) => Ok(WebhookAnswer {
                code: 200,
                content_type: String::new(),
                body: Bytes::from_static(NONSENSE),
            }),
            Some(WebhookFault::Slow(delay)) => {
                tokio::time::sleep(delay).await;
                self.send(question).await
            }
            None => self.send(question).await,
        };
        call.end(&answer);
        answer
    }

    async fn send(&self, question: WebhookQuestion) -> Result<WebhookAnswer, String> {
        match self.next_backend(&question.destination) {
            Some(handler) => ask(handler?, question).await,
            None => self.network.send(question).await,
        }
    }

    fn note(&self, url: &str, body: &Bytes) -> Option<u64> {
        self.records.then(|| {
            let method = &http::Method::POST;
            self.recorder.called(OutgoingRequest { by: &self.by, verb: "call", method, path: url, body })
        })
    }
}

impl WebhookCaller for WebhookTransport {
    fn post(&self, question: WebhookQuestion) -> BoxFuture<'_, Result<WebhookAnswer, String>> {
        Box::pin(self.carry(question))
    }

    fn serves(&self, destination: &str) -> bool {
        self.routes.by_destination.lock().contains_key(destination)
    }
}

/// Calls a webhook in this process.
async fn ask(handler: Handler, question: WebhookQuestion) -> Result<WebhookAnswer, String> {
    let request = webhooks::request(question)?;
    // The panic of a webhook must not reach the API server, which sees a broken connection.
    match AssertUnwindSafe(async move { handler(request).await }).catch_unwind().await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("EOF".to_owned()),
    }
}

/// Returns the error of a refused connection, in Go's words.
fn refused(address: &str) -> String {
    format!("dial tcp {address}: connect: connection refused")
}

/// A recorded call. If it is dropped before its end, the API server has given up.
struct Call<'a> {
    transport: &'a WebhookTransport,
    /// The number of the call in the record, until its outcome is recorded.
    number: Option<u64>,
    fault: Option<WebhookFault>,
}

impl Call<'_> {
    fn end(&mut self, answer: &Result<WebhookAnswer, String>) {
        let injected = self.fault.map(|_| "injected".to_owned());
        let outcome = match answer {
            Ok(answer) => Outcome::Answered { status: answer.code, wrote: None, fault: injected },
            Err(why) if injected.is_some() => {
                Outcome::Lost { wrote: None, fault: format!("{why} (injected)") }
            }
            Err(why) => Outcome::Lost { wrote: None, fault: why.clone() },
        };
        self.record(outcome);
    }

    fn record(&mut self, outcome: Outcome) {
        if let Some(number) = self.number.take() {
            self.transport.recorder.answered(number, outcome);
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let injected = if self.fault.is_some() { " (injected)" } else { "" };
        self.record(Outcome::Lost { wrote: None, fault: format!("the API server gave up{injected}") });
    }
}
