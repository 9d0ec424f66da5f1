//! The service: from an HTTP request to an HTTP response.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use evenkeel_env::Env;
use evenkeel_store::Store;
use http::request::Parts;
use http::{Method, Response};
use tokio::time::Instant;

use crate::access::Authorizer;
use crate::admission_registration::AdmissionRegistrations;
use crate::allocate::Allocator;
use crate::audit::{Audit, Refused};
use crate::authenticate::Authentication;
use crate::body::Body;
use crate::completion::Completion;
use crate::conversion::Converter;
use crate::crd::Definitions;
use crate::metrics::{InFlight, Metrics};
use crate::node_api::{Destination, NodeApi};
use crate::object_cache::ObjectCache;
use crate::openapi::OpenApi;
use crate::panics::Panics;
use crate::request::{Caller, Request, Submitted};
use crate::services::Services;
use crate::webhook_client::WebhookClient;
use crate::{
    Header, Rbac, Registry, SigningKey, Status, TokenAuthenticator, User, WebhookCaller, deadline,
    destination, metrics, respond, resume, route,
};

/// Options of an [`ApiServer`].
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Options {
    /// Decides which requests are allowed. The default is RBAC with the roles in the store.
    pub authorizer: Option<Arc<dyn Authorizer>>,
    /// Signs service account tokens. The default is a new key that is lost when the process ends.
    pub signing_key: Option<Arc<SigningKey>>,
    /// Calls admission and conversion webhooks. Without it, all calls fail.
    pub webhooks: Option<Arc<dyn WebhookCaller>>,
    /// The audit log. Without it, nothing is recorded.
    pub audit: Option<Audit>,
    /// The settings that `/flagz` shows, by name. They have no effect.
    pub flags: BTreeMap<String, String>,
    /// The nodes, which are asked what containers print and do. Without them, such requests are refused.
    pub nodes: Option<Arc<dyn NodeApi>>,
}

/// A Kubernetes API server. Clones are cheap and share the same server.
///
/// The [`User`] in a request's extensions makes the request.
#[derive(Clone)]
pub struct ApiServer {
    inner: Arc<Inner>,
}

/// The state that all clones of a server share.
struct Inner {
    services: Services,
    /// The audit log, if requests are audited.
    audit: Option<Audit>,
}

impl ApiServer {
    /// Creates a server for this store, and serves the custom resources of all stored CRDs.
    ///
    /// If another server has written to the store before, [`ApiServer::resume`] completes what that server
    /// left unfinished.
    pub fn new(store: Store<Header>, env: Env, options: Options) -> Self {
        let authorizer = options.authorizer.unwrap_or_else(|| Arc::new(Rbac::new(store.clone())));
        let registry = Arc::new(Registry::new());
        let webhooks = Arc::new(WebhookClient::new(store.clone(), options.webhooks));
        let services = Services {
            requests: env.ledger().station("apiserver requests"),
            registry: registry.clone(),
            openapi: OpenApi::default(),
            authorizer,
            authentication: Authentication::new(store.clone(), env.clone(), options.signing_key),
            registrations: AdmissionRegistrations::default(),
            converter: Converter::new(webhooks.clone(), env.clone(), registry.clone()),
            webhooks,
            allocator: Allocator::load(&store),
            events: Arc::default(),
            objects: ObjectCache::default(),
            definitions: Definitions::new(store.clone(), env.clone(), registry),
            panics: Panics::new(),
            metrics: Metrics::default(),
            started: env.now(),
            flags: options.flags,
            nodes: options.nodes,
            pages: Default::default(),
            store,
            env,
        };
        services.definitions.load();
        Self { inner: Arc::new(Inner { services, audit: options.audit }) }
    }

    /// Completes operations that the previous server left unfinished between two writes: the lifecycle of
    /// CRDs, and the deletion of pods. Call it once at startup, with a store on disk. If nothing is
    /// unfinished, it writes nothing.
    ///
    /// # Errors
    /// If the store accepts no writes.
    pub async fn resume(&self) -> Result<(), Status> {
        resume::resume(&self.inner.services.definitions, &self.inner.services.store).await
    }

    /// Returns the user of a bearer token; `None` if the token is invalid or has expired.
    pub fn authenticate(&self, token: &str) -> Option<User> {
        self.inner.services.authentication.authenticate(token, &[]).ok().map(|it| it.user)
    }

    /// Adds an authenticator for bearer tokens. It is used by TokenReviews and [`ApiServer::authenticate`].
    pub fn trust(&self, tokens: Arc<dyn TokenAuthenticator>) {
        self.inner.services.authentication.trust(tokens);
    }

    /// Serves a page at this path, which is not that of a resource. Its readers need permission to `get` the path as a
    /// `nonResourceURL`. The function makes the media type and the body for each request.
    pub fn add_page(
        &self,
        path: impl Into<String>,
        page: impl Fn() -> (&'static str, Body) + Send + Sync + 'static,
    ) {
        self.inner.services.pages.write().insert(path.into(), Arc::new(page));
    }

    /// The served resources.
    pub fn registry(&self) -> &Registry {
        &self.inner.services.registry
    }

    /// The number of panics that requests have caused in this server. Each was answered with status 500, or
    /// ended its watch, and was logged with its backtrace.
    ///
    /// To get the backtrace, the first server of a process sets a panic hook, which passes on the panics of
    /// all other code.
    pub fn panics(&self) -> u64 {
        self.inner.services.panics.count()
    }

    /// Finds what answers for a port of a Service: a ready pod behind it. The port is given by its number or its name.
    ///
    /// # Errors
    /// Fails with status 404 if the Service does not exist, and with 503 if no ready endpoint answers for the port.
    pub fn service_destination(
        &self,
        namespace: &str,
        name: &str,
        port: &str,
    ) -> Result<Destination, Status> {
        destination::of_service(&self.inner.services, namespace, name, port)
    }

    /// Finds a port of a pod by the pod's host name, which is its name, and its subdomain, which is a headless Service.
    ///
    /// # Errors
    /// Fails with status 404 if there is no such pod, and with 503 if it is not ready.
    pub fn pod_destination(
        &self,
        namespace: &str,
        subdomain: &str,
        pod: &str,
        port: u16,
    ) -> Result<Destination, Status> {
        destination::of_pod(&self.inner.services, (namespace, subdomain, pod), port)
    }

    /// Finds what answers for a port of an IP address, which is that of a pod or of a Service.
    ///
    /// # Errors
    /// Fails with status 503 if nothing has the address.
    pub fn address_destination(&self, address: &str, port: u16) -> Result<Destination, Status> {
        destination::of_address(&self.inner.services, address, port)
    }

    /// The server's store.
    pub fn store(&self) -> &Store<Header> {
        &self.inner.services.store
    }

    /// The server's environment: clock, randomness and ledger.
    pub fn env(&self) -> &Env {
        &self.inner.services.env
    }

    /// Answers a request of this caller, whatever the request's extensions say. Takes the headers of the
    /// request.
    ///
    /// Unlike a request through [`tower::Service::call`], the request is not entered as work in the ledger,
    /// because its client is outside of the simulated world and nothing waits for it to settle.
    ///
    /// The future may be dropped at any time. If the request has begun to write, the runtime then completes
    /// it with all its consequences; otherwise it has changed nothing.
    pub async fn serve<B>(&self, caller: &Caller, head: &mut Parts, body: B) -> Response<Body>
    where
        B: http_body::Body + Send + 'static,
        B::Data: Send,
    {
        let limit = deadline::of(head, caller);
        if matches!(head.method, Method::GET | Method::HEAD) {
            let answered =
                deadline::within(limit, self.answer(caller, head, body, Submitted::default())).await;
            return match answered {
                Some(response) => response,
                None => self.answer_late(caller, head, false).await,
            };
        }
        let kept = limit.map(|_| head.clone());
        let mut own = std::mem::replace(head, http::Request::new(()).into_parts().0);
        let (server, by, submitted) = (self.clone(), caller.clone(), Submitted::not_yet());
        let noting = submitted.clone();
        let whole = async move {
            let response = server.answer(&by, &mut own, body, noting).await;
            (response, own)
        };
        let requests = self.inner.services.requests.clone();
        let completion = Completion::new(requests, submitted.clone(), whole);
        match deadline::within(limit, completion).await {
            Some((response, own)) => {
                *head = own;
                response
            }
            None => {
                *head = kept.unwrap_or_else(|| http::Request::new(()).into_parts().0);
                self.answer_late(caller, head, submitted.is_noted()).await
            }
        }
    }

    /// Answers a request that missed its deadline. `is_recorded` says that the request has begun to write, so
    /// that it continues and records its own audit event.
    async fn answer_late(&self, caller: &Caller, head: &mut Parts, is_recorded: bool) -> Response<Body> {
        let mut response = deadline::missed(&head.method);
        match is_recorded {
            true => respond::repeat_audit_id(&mut response, &head.headers),
            false => self.audit_refusal(caller, head, &mut response).await,
        }
        respond::dress(&mut response, std::mem::take(&mut head.headers));
        response
    }

    /// Answers a request, and notes its first write in `submitted`.
    async fn answer<B>(
        &self,
        caller: &Caller,
        head: &mut Parts,
        body: B,
        submitted: Submitted,
    ) -> Response<Body>
    where
        B: http_body::Body + Send + 'static,
        B::Data: Send,
    {
        let trail = match &self.inner.audit {
            Some(audit) => audit.begin(&self.inner.services.env, caller, head).await,
            None => None,
        };
        let (parts, audit): (&Parts, _) = (head, trail.as_deref());
        let answered = async {
            let request = Request::new(parts, caller).noting(submitted);
            let counted = Counted::new(&self.inner.services, &request);
            let answer = route::answer(&self.inner.services, &request, audit, body).await;
            let response = respond::finish(&request, answer, |refusal, response| {
                if let Some(trail) = audit {
                    trail.note_answer(&request, refusal, response);
                }
            });
            counted.end(&request, &response);
            response
        };
        let mut answered = self.inner.services.panics.guard_future(&|| describe(parts), answered).await;
        match (trail, &mut answered) {
            (Some(trail), Some(response)) => trail.respond(response).await,
            (Some(trail), None) => trail.panicked().await,
            (None, _) => {}
        }
        dressed(answered, head)
    }

    /// Answers a request that never has to wait, as most GETs of an object. Returns `None` for any other
    /// request, which it leaves unchanged.
    pub fn serve_now(&self, caller: &Caller, head: &mut Parts) -> Option<Response<Body>> {
        // A recorded request waits until its audit event is written.
        if head.method != Method::GET || self.inner.audit.is_some() {
            return None;
        }
        let answered = self.inner.services.panics.guard(&|| describe(head), || {
            let request = Request::new(head, caller);
            let counted = Counted::new(&self.inner.services, &request);
            let answer = route::answer_now(&self.inner.services, &request)?;
            let response = respond::finish(&request, answer, |_, _| {});
            counted.end(&request, &response);
            Some(response)
        });
        match answered {
            Some(None) => None,
            Some(Some(response)) => Some(dressed(Some(response), head)),
            None => Some(dressed(None, head)),
        }
    }
}

/// A request that is counted: as in flight while it is answered, and at its end by what it was.
struct Counted<'a> {
    services: &'a Services,
    began: Instant,
    _in_flight: InFlight<'a>,
}

impl<'a> Counted<'a> {
    fn new(services: &'a Services, request: &Request<'_>) -> Self {
        let in_flight = services.metrics.enter(metrics::is_read(request));
        Self { services, began: Instant::now(), _in_flight: in_flight }
    }

    fn end(self, request: &Request<'_>, response: &Response<Body>) {
        let labels = metrics::labels(&self.services.registry, request);
        self.services.metrics.count(labels, response.status().as_u16(), self.began.elapsed());
    }
}

/// Describes a request for the log. The query is left out, because it may be long.
fn describe(head: &Parts) -> String {
    format!("{} {}", head.method, head.uri.path())
}

/// Adds the common headers to a response; `None` is the response of a request that panicked.
fn dressed(response: Option<Response<Body>>, head: &mut Parts) -> Response<Body> {
    let mut response = response.unwrap_or_else(|| {
        let message = "This request caused apiserver to panic. Look in the logs for details.";
        let mut response = respond::json(500, Status::new(500, "InternalError", message).to_json());
        respond::repeat_audit_id(&mut response, &head.headers);
        response
    });
    respond::dress(&mut response, std::mem::take(&mut head.headers));
    response
}

/// Recording of requests that are refused before they reach the server.
impl ApiServer {
    /// Records that a request failed authentication, and adds the audit ID to its response. Does nothing
    /// without an audit log.
    pub async fn audit_unauthenticated(
        &self,
        head: &mut Parts,
        remote: Option<IpAddr>,
        answer: &mut Response<Body>,
    ) {
        if let Some(audit) = &self.inner.audit {
            audit.unauthenticated(&self.inner.services.env, Refused { head, remote, answer }).await;
        }
    }

    /// Records that a request of this caller was refused for another reason, and adds the audit ID to its
    /// response. Does nothing without an audit log.
    pub async fn audit_refusal(&self, caller: &Caller, head: &mut Parts, answer: &mut Response<Body>) {
        if let Some(audit) = &self.inner.audit {
            audit.refusal(&self.inner.services.env, caller, head, answer).await;
        }
    }

    /// Whether the server has an audit log.
    pub fn is_audited(&self) -> bool {
        self.inner.audit.is_some()
    }
}

impl<B> tower::Service<http::Request<B>> for ApiServer
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let server = self.clone();
        let (mut head, body) = request.into_parts();
        Box::pin(async move {
            let _work = server.inner.services.requests.enter();
            let caller = Caller::of(&mut head.extensions);
            Ok(server.serve(&caller, &mut head, body).await)
        })
    }
}
