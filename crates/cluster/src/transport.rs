//! The transport between clients in this process and the API server. The test kit observes and breaks requests here.
//!
//! A request passes: ledger ▸ seeded delay ▸ crash points ▸ record ▸ faults ▸ server ▸ record.

mod backend;
mod crash;
mod describe;
mod direct;
mod entry;
mod fault;
mod held;
mod record;
mod registrations;
mod stale;
mod upgrade;
mod watches;
mod webhooks;

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use evenkeel_apiserver::{Committed, User};
use evenkeel_env::{Env, Footprint, Station};
use evenkeel_request_info::{RequestInfo, ResourcePath};
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use tower::BoxError;

use crate::serve::{Certificate, Tokens, identify};

pub(crate) use self::backend::Backend;
pub use self::crash::CrashPoint;
pub(crate) use self::crash::OperatorProcess;
pub(crate) use self::direct::Direction;
pub use self::direct::{CrashMoment, Directed, Director, Verdict};
pub use self::fault::{Fault, Matcher};
pub(crate) use self::record::{DEFAULT_NAMESPACE, Followed, OutgoingRequest};
pub use self::record::{Exchange, Mark, Moment, Outcome, Reconcile, Write};
pub(crate) use self::registrations::{Probe, Reach, Registered, Registration};
pub(crate) use self::webhooks::WebhookTransport;
pub use self::webhooks::{ServedWebhook, WebhookAddress, WebhookFault};

use self::backend::{ResponseBody, boxed};
use self::crash::Fate;
use self::describe::{is_apply, name_in, verb};
use self::fault::{Faults, is_write};
use self::held::{Beginning, HeldWatches};
use self::record::Recorder;
use self::registrations::{Registrations, written_definition};
use self::watches::Watches;

/// With a seed, a request yields to other tasks less than this many times before it is served. A small number reorders
/// requests that are close together, which is where races are; a large one only costs time.
const MOST_YIELDS: u64 = 4;

/// How long an operator lives on after the response that it is to crash after. In virtual time this is long enough for
/// everything that waits for no timer, because time does not pass until all of that is done.
const CRASH_DELAY: std::time::Duration = std::time::Duration::from_millis(1);

/// The client name for registering the webhooks of operators, which stands for the tool that applies manifests on a
/// real cluster.
const INSTALLER: &str = "kubectl";

/// What the clients of one cluster share.
pub(crate) struct Wire {
    pub(crate) env: Env,
    pub(crate) backend: Backend,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) faults: Faults,
    pub(crate) watches: Watches,
    pub(crate) held: HeldWatches,
    /// Decides what happens to requests, if a test has set a director.
    pub(crate) direction: Direction,
    /// Carries the API server's calls to webhooks.
    pub(crate) webhooks: Arc<WebhookTransport>,
    /// Registers the webhooks of operators with the API server.
    pub(crate) registrations: Arc<Registrations>,
    pub(crate) requests: Station,
    /// Whether requests are recorded for `writes()` and the timeline.
    pub(crate) records: bool,
}

/// The transport of one client.
#[derive(Clone)]
pub(crate) struct Transport {
    pub(crate) wire: Arc<Wire>,
    /// The client's name in the record and in its User-Agent.
    pub(crate) by: Arc<str>,
    /// The user that the API server sees. `None` for a client without credentials.
    pub(crate) user: Option<User>,
    /// The simulated process of an operator, which can be crashed. `None` for other clients.
    pub(crate) process: Option<Arc<OperatorProcess>>,
    /// Whether this client registers the webhooks of operators. Its own requests do not wait for registrations.
    pub(crate) installs: bool,
    /// Whether the requests of this client are left out of the record.
    pub(crate) quiet: bool,
}

impl tower::Service<Request<kube::client::Body>> for Transport {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<ResponseBody>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let transport = self.clone();
        let work =
            self.wire.requests.enter_with(format!("{} {} {}", self.by, request.method(), request.uri()));
        Box::pin(async move {
            let Some(process) = &transport.process else {
                let answer = transport.carry(request).await;
                drop(work);
                return answer;
            };
            tokio::select! {
                biased;
                answer = transport.carry(request) => {
                    drop(work);
                    answer
                }
                // A task that outlives its process waits for ever, and nobody waits for it.
                () = process.ended() => {
                    drop(work);
                    std::future::pending().await
                }
            }
        })
    }
}

impl Transport {
    async fn carry(&self, request: Request<kube::client::Body>) -> Result<Response<ResponseBody>, BoxError> {
        if self.process.is_none() && !self.installs {
            self.wire.registrations.done().await;
        }
        let (mut parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let Some(user) = self.identity(&parts.headers) else {
            return Ok(self.wire.backend.refuse_credentials(&mut parts).await);
        };
        parts.extensions.insert(user);
        parts.headers.entry(header::USER_AGENT).or_insert_with(|| user_agent(&self.by));
        self.wire.let_others_go_first().await;
        let fate = self.fate(is_write(&parts.method)).await;
        let request = Request::from_parts(parts, Full::new(body.clone()));
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let verdict = self.verdict(&request, &path);
        let fate = self.sentence(fate, verdict).await;
        if verdict == Verdict::DelayRequest {
            self.wire.wait(Verdict::LATE).await;
        }
        let number = (self.wire.records && !self.quiet).then(|| self.note(&request, &path, &body));
        let is_watch = is_watch(&request);
        let name_in_body = || name_in(&body).map(std::borrow::Cow::into_owned);
        let definition = written_definition(request.method(), &path, name_in_body);
        let struck = match verdict {
            Verdict::Fail(fault) => Some(fault),
            _ => self.wire.faults.strike(&self.by, &request),
        };
        if let Verdict::ViewAt(revision) = verdict
            && is_watch
            && let Some(watch) = stale::open(&self.wire.backend, &request, revision).await?
        {
            number
                .iter()
                .for_each(|number| self.wire.recorder.answered(*number, viewed(&watch.rest, revision)));
            return Ok(self.holdable(watch.rest, path, Beginning::Stale(watch.first)));
        }
        if let Verdict::ViewAt(revision) = verdict
            && !is_watch
            && let Some(list) = stale::list(&self.wire.backend, &request, revision).await?
        {
            // The watch that continues from this list is behind, too.
            let kind = ResourcePath::parse(&path).map(|it| (it.group.to_string(), it.resource.to_string()));
            if let Some((group, plural)) = kind {
                self.wire.held.hold(Matcher::any().by(&*self.by).resource(&group, &plural));
            }
            number.iter().for_each(|number| self.wire.recorder.answered(*number, viewed(&list, revision)));
            return Ok(list);
        }
        let answer = self.serve(request, struck, number).await?;
        if let Some(definition) = definition.filter(|_| answer.status().is_success() && !self.installs) {
            self.wire.registrations.definition_written(&installer(&self.wire), &definition).await;
        }
        match verdict {
            Verdict::DelayAnswer => self.wire.wait(Verdict::LATE).await,
            Verdict::SlowAnswer(time) => self.wire.wait(time).await,
            _ => {}
        }
        self.meet(fate).await;
        if !is_watch || !answer.status().is_success() {
            let mut answer = answer;
            upgrade::connect(&self.wire.env, &mut answer).await?;
            return Ok(answer);
        }
        let listed = path.contains("sendInitialEvents=true");
        Ok(self.holdable(answer, path, if listed { Beginning::Listed } else { Beginning::Resumed }))
    }

    /// Asks the director what happens to a request.
    fn verdict(&self, request: &Request<Full<Bytes>>, path: &str) -> Verdict {
        let content_type = request.headers().get(header::CONTENT_TYPE).map(header::HeaderValue::as_bytes);
        let Some(director) = self.wire.direction.director() else { return Verdict::Serve };
        director.request(&Directed {
            by: &self.by,
            is_operator: self.process.is_some(),
            method: request.method(),
            verb: verb(request.method(), path, content_type),
            path,
        })
    }

    /// Combines the director's verdict with what the crash points decided. If the operator crashes before the request
    /// is sent, this never returns.
    async fn sentence(&self, fate: Fate, verdict: Verdict) -> Fate {
        let (Some(process), Verdict::Crash(moment)) = (&self.process, verdict) else { return fate };
        match moment {
            CrashMoment::Before => {
                process.die();
                std::future::pending().await
            }
            CrashMoment::Unanswered => Fate::DieUnanswered,
            CrashMoment::After => Fate::DieAfter,
        }
    }

    /// Records the request, and returns its number in the record.
    fn note(&self, request: &Request<Full<Bytes>>, path: &str, body: &Bytes) -> u64 {
        let content_type = request.headers().get(header::CONTENT_TYPE).map(header::HeaderValue::as_bytes);
        let verb = verb(request.method(), path, content_type);
        self.wire.recorder.asked(OutgoingRequest { by: &self.by, verb, method: request.method(), path, body })
    }

    /// The client's user, or the user of its bearer token. `None` if the token is wrong.
    fn identity(&self, headers: &http::HeaderMap) -> Option<User> {
        match &self.user {
            Some(user) => Some(user.clone()),
            None => {
                let accounts = |token: &str| self.wire.backend.authenticate(token);
                identify(&Certificate::None, headers, &Tokens::default(), accounts).map(Arc::unwrap_or_clone)
            }
        }
    }

    /// Decides whether the operator crashes at this request. If it has crashed already, or does so before the request
    /// is sent, this never returns: a crashed process waits for nothing.
    async fn fate(&self, is_write: bool) -> Fate {
        let Some(process) = &self.process else { return Fate::Live };
        if !process.is_alive() {
            std::future::pending::<()>().await;
        }
        let fate = if is_write { process.fate() } else { Fate::Live };
        if fate == Fate::DieBefore {
            process.die();
            std::future::pending::<()>().await;
        }
        fate
    }

    async fn meet(&self, fate: Fate) {
        let Some(process) = &self.process else { return };
        match fate {
            Fate::DieUnanswered => {
                process.die();
                std::future::pending::<()>().await;
            }
            Fate::DieAfter => self.wire.crash_soon(process),
            Fate::Live | Fate::DieBefore => {}
        }
    }

    async fn serve(
        &self,
        request: Request<Full<Bytes>>,
        struck: Option<Fault>,
        number: Option<u64>,
    ) -> Result<Response<ResponseBody>, BoxError> {
        let note = |outcome| {
            if let Some(number) = number {
                self.wire.recorder.answered(number, outcome);
            }
        };
        if struck == Some(Fault::Timeout) {
            note(Outcome::Lost { wrote: None, fault: "timed out (injected)".into() });
            tokio::time::sleep(Fault::TIMEOUT).await;
            return Err("the request timed out (injected)".into());
        }
        if let Some(answer) = struck.and_then(Fault::answer) {
            let status = answer.status().as_u16();
            note(Outcome::Answered { status, wrote: None, fault: Some("injected".into()) });
            return Ok(answer.map(boxed));
        }
        // An operator may apply unchanged objects, to ask whether something must change. But it should not have sent
        // any other write that changes nothing.
        let content_type = request.headers().get(header::CONTENT_TYPE).map(header::HeaderValue::as_bytes);
        let rewrites = is_write(request.method()) && !is_apply(content_type);
        let answer = self.wire.backend.serve(request).await?;
        let rewrites = rewrites && answer.status().is_success();
        let wrote = answer.extensions().get::<Committed>().map(|committed| committed.0);
        if wrote.is_some() || rewrites {
            Footprint::note_write();
        }
        if struck == Some(Fault::LostAnswer) {
            note(Outcome::Lost { wrote, fault: "answer lost (injected)".into() });
            return Err("the connection broke before the answer arrived (injected)".into());
        }
        note(Outcome::Answered { status: answer.status().as_u16(), wrote, fault: None });
        if answer.status() != StatusCode::FORBIDDEN {
            return Ok(answer);
        }
        let (parts, body) = answer.into_parts();
        let body = body.collect().await?.to_bytes();
        if let Some(number) = number.filter(|_| is_refused_by_rbac(&body)) {
            self.wire.recorder.forbade(number);
        }
        Ok(Response::from_parts(parts, boxed(Full::new(body))))
    }

    /// Registers a watch, so that a test can cut or hold it.
    fn holdable(
        &self,
        answer: Response<ResponseBody>,
        path: String,
        begin: Beginning,
    ) -> Response<ResponseBody> {
        answer.map(|body| {
            let body = self.wire.held.enter(self.by.clone(), path.clone(), body, begin).boxed_unsync();
            self.wire.watches.enter(self.by.clone(), path, body).boxed_unsync()
        })
    }
}

impl Wire {
    pub(crate) fn new(backend: Backend, env: Env, records: bool, webhooks: Arc<WebhookTransport>) -> Self {
        let reach = if matches!(backend, Backend::Remote(_)) { Reach::Remote } else { Reach::InProcess };
        Self {
            backend,
            recorder: webhooks.recorder().clone(),
            webhooks,
            registrations: Arc::new(Registrations::new(reach)),
            faults: Faults::default(),
            watches: Watches::default(),
            held: HeldWatches::default(),
            direction: Direction::default(),
            requests: env.ledger().station("requests"),
            records,
            env,
        }
    }

    /// Makes the API server in this process call the webhooks of operators over TLS.
    pub(crate) fn with_webhooks_over_tls(self) -> Self {
        Self { registrations: Arc::new(Registrations::new(Reach::OverTls)), ..self }
    }

    /// Crashes a process at its next request, or when nothing else is left to do.
    pub(crate) fn crash_soon(&self, process: &Arc<OperatorProcess>) {
        process.die_soon();
        let (process, env) = (process.clone(), self.env.clone());
        tokio::spawn(async move {
            let at = tokio::time::Instant::now() + CRASH_DELAY;
            let deadline = env.ledger().deadline("crash after an answer");
            deadline.set(Some(at));
            tokio::time::sleep_until(at).await;
            process.die();
        });
    }

    /// Lets this much time pass for a request that is late. Virtual time passes only after everything else in progress has
    /// happened.
    pub(crate) async fn wait(&self, time: std::time::Duration) {
        let at = tokio::time::Instant::now() + time;
        let deadline = self.env.ledger().deadline("a late request");
        deadline.set(Some(at));
        tokio::time::sleep_until(at).await;
    }

    /// Yields a seeded number of times, so that another seed gives another order of requests.
    async fn let_others_go_first(&self) {
        if self.env.seed().is_some() {
            for _ in 0..self.env.random_below(MOST_YIELDS) {
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Returns the outcome of a request that was answered with an earlier state.
fn viewed<B>(answer: &Response<B>, revision: u64) -> Outcome {
    let fault = Some(format!("the state of revision {revision} (injected)"));
    Outcome::Answered { status: answer.status().as_u16(), wrote: None, fault }
}

/// Returns a client that registers the webhooks of operators, as the administrator.
pub(crate) fn installer(wire: &Arc<Wire>) -> kube::Client {
    let transport = Transport {
        wire: wire.clone(),
        by: INSTALLER.into(),
        user: Some(User::admin()),
        process: None,
        installs: true,
        quiet: false,
    };
    kube::Client::new(transport, DEFAULT_NAMESPACE)
}

fn user_agent(by: &str) -> header::HeaderValue {
    header::HeaderValue::from_str(&format!("{by}/{}", env!("CARGO_PKG_VERSION")))
        .unwrap_or(header::HeaderValue::from_static("evenkeel"))
}

/// Whether the body of a response with status 403 says that the user lacks a permission. Quotas, terminating namespaces
/// and admission respond with status 403 too.
fn is_refused_by_rbac(body: &[u8]) -> bool {
    let status: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    status["message"].as_str().is_some_and(|it| it.contains("forbidden: User ") && it.contains(" cannot "))
}

/// Whether the request is a watch, so that its response is a stream of events.
fn is_watch<B>(request: &Request<B>) -> bool {
    let path = request.uri().path_and_query().map_or("/", |it| it.as_str());
    RequestInfo::parse(request.method(), path).is_some_and(|info| info.verb == "watch")
}
