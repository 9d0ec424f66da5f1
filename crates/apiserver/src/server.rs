//! The service: from an HTTP request to an HTTP response.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use evenkeel_env::{Env, Station, Work};
use evenkeel_schema::time::{self, Precision};
use evenkeel_store::Store;
use http::request::Parts;
use http::{Method, Response};
use jiff::Timestamp;

use crate::access::Authorizer;
use crate::admission::{Plugin, Policies, plugins};
use crate::allocate::Allocator;
use crate::audit::{Audit, Refused};
use crate::authenticate::Authentication;
use crate::body::Body;
use crate::completion::{Completion, Submitted};
use crate::object_cache::ObjectCache;
use crate::openapi::OpenApi;
use crate::panics::Panics;
use crate::read::SharedEvents;
use crate::request::{Caller, Request};
use crate::{
    Header, Rbac, Registry, SigningKey, Status, TokenAuthenticator, User, WebhookCaller, crd, deadline,
    respond, resume, route,
};

/// What a server can be told.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Options {
    /// Who decides what is allowed; RBAC over the store's own roles unless set.
    pub authorizer: Option<Arc<dyn Authorizer>>,
    /// What tokens of service accounts are signed with; a new key, which nobody will know after this process, unless
    /// set.
    pub signing_key: Option<Arc<SigningKey>>,
    /// Who carries questions to admission webhooks; without it none can be reached.
    pub webhooks: Option<Arc<dyn WebhookCaller>>,
    /// The audit log; without it nothing is recorded.
    pub audit: Option<Audit>,
}

/// A Kubernetes API server. Cloning is cheap and shares the same server.
///
/// Who asks is the [`User`](crate::User) in the request's extensions.
#[derive(Clone)]
pub struct ApiServer {
    inner: Arc<Inner>,
}

/// What every request has at hand.
pub(crate) struct Inner {
    pub(crate) store: Store<Header>,
    pub(crate) env: Env,
    pub(crate) registry: Registry,
    pub(crate) openapi: OpenApi,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    /// Who knows tokens, and makes those of service accounts.
    pub(crate) authentication: Authentication,
    /// Admission, in its order.
    pub(crate) plugins: Vec<Box<dyn Plugin>>,
    /// The policies that writes are held to.
    pub(crate) policies: Policies,
    /// Who carries questions to admission webhooks.
    pub(crate) webhooks: Option<Arc<dyn WebhookCaller>>,
    /// The audit log, where requests are recorded.
    audit: Option<Audit>,
    /// Who gives out the addresses and ports of services.
    pub(crate) allocator: Allocator,
    /// Events as they were encoded for watchers.
    pub(crate) events: Arc<SharedEvents>,
    /// Objects that were written lately, parsed.
    pub(crate) objects: ObjectCache,
    /// Whose turn it is to follow up on the write of a definition.
    pub(crate) definitions: tokio::sync::Mutex<()>,
    /// Requests whose head is not answered yet.
    requests: Station,
    /// Panics that requests have caused.
    pub(crate) panics: Panics,
}

impl ApiServer {
    /// A server over this store. Definitions of custom resources that the store has are served at once.
    ///
    /// Where another server has written to the store before, [`ApiServer::resume`] takes up what its end cut off.
    pub fn new(store: Store<Header>, env: Env, options: Options) -> Self {
        let requests = env.ledger().station("apiserver requests");
        let authorizer = options.authorizer.unwrap_or_else(|| Arc::new(Rbac::new(store.clone())));
        let allocator = Allocator::load(&store);
        let authentication = Authentication::new(store.clone(), env.clone(), options.signing_key);
        let inner = Inner {
            authentication,
            store,
            env,
            registry: Registry::new(),
            openapi: OpenApi::default(),
            authorizer,
            plugins: plugins(),
            policies: Policies::default(),
            webhooks: options.webhooks,
            audit: options.audit,
            allocator,
            events: Arc::default(),
            objects: ObjectCache::default(),
            definitions: tokio::sync::Mutex::default(),
            requests,
            panics: Panics::new(),
        };
        let server = Self { inner: Arc::new(inner) };
        crd::load(&server);
        server
    }

    /// Takes up what the end of the server before this one cut between two writes: the lifecycle of definitions, and
    /// the deletion of pods. Call it once at start, over a store that lasts; where nothing was cut it writes nothing.
    ///
    /// # Errors
    /// Fails where the store takes no writes.
    pub async fn resume(&self) -> Result<(), Status> {
        resume::resume(self).await
    }

    /// Whom a bearer token proves to this API; none where it proves nobody, or no longer.
    pub fn authenticate(&self, token: &str) -> Option<User> {
        self.inner.authentication.authenticate(token, &[]).ok().map(|it| it.user)
    }

    /// Lets somebody else say whose a token is, in reviews of tokens and in [`ApiServer::authenticate`].
    pub fn trust(&self, tokens: Arc<dyn TokenAuthenticator>) {
        self.inner.authentication.trust(tokens);
    }

    /// The resources that are served.
    pub fn registry(&self) -> &Registry {
        &self.inner.registry
    }

    /// How many panics requests have caused since this server was made. Each was answered with status 500, or ended its
    /// watch, and is in the log with its backtrace.
    ///
    /// To have the backtrace, the first server of a process sets a panic hook, which passes on the panics of all other
    /// code.
    pub fn panics(&self) -> u64 {
        self.inner.panics.count()
    }

    /// The store behind it.
    pub fn store(&self) -> &Store<Header> {
        &self.inner.store
    }

    /// The world it lives in.
    pub fn env(&self) -> &Env {
        &self.inner.env
    }

    /// The time now, as objects carry it.
    pub(crate) fn now(&self) -> String {
        self.time(self.inner.env.now())
    }

    /// A time, as objects carry it: to the second.
    pub(crate) fn time(&self, at: Timestamp) -> String {
        time::print(at, Precision::Seconds)
    }

    /// Enters a piece of work that outlives its request's head.
    pub(crate) fn hold(&self, what: &str) -> Work {
        self.inner.requests.enter_with(what.to_owned())
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// Answers a request of this caller, whatever its extensions say. The headers of the request are taken.
    ///
    /// It is no work in the ledger, unlike one that comes by [`tower::Service::call`]: who asks is outside of this
    /// world, and nobody waits for it to come to rest.
    ///
    /// The future may be dropped at any time. A request that has begun to write is then finished by the runtime, with
    /// everything that its writes entail; any other has changed nothing.
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
                None => deadline::missed(self, caller, head, false).await,
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
        let completion = Completion::new(self.clone(), submitted.clone(), whole);
        match deadline::within(limit, completion).await {
            Some((response, own)) => {
                *head = own;
                response
            }
            None => {
                *head = kept.unwrap_or_else(|| http::Request::new(()).into_parts().0);
                deadline::missed(self, caller, head, submitted.is_noted()).await
            }
        }
    }

    /// Answers a request that lives as long as it must; its first write is noted in `submitted`.
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
            Some(audit) => audit.begin(&self.inner.env, caller, head).await,
            None => None,
        };
        let (parts, noted): (&Parts, _) = (head, trail.clone());
        let answered = async {
            let request = Request::new(parts, caller).noting(submitted).audited(noted);
            let answer = route::answer(self, &request, body).await;
            respond::finish(&request, answer)
        };
        let mut answered = self.inner.panics.guard_future(&|| describe(parts), answered).await;
        match (trail, &mut answered) {
            (Some(trail), Some(response)) => trail.respond(response).await,
            (Some(trail), None) => trail.panicked().await,
            (None, _) => {}
        }
        dressed(answered, head)
    }

    /// Answers a request that need wait for nothing, as most that read an object do. Returns `None` for any other
    /// request, which is left as it is.
    pub fn serve_now(&self, caller: &Caller, head: &mut Parts) -> Option<Response<Body>> {
        // A request that is recorded waits for its event to be written.
        if head.method != Method::GET || self.inner.audit.is_some() {
            return None;
        }
        let answered = self.inner.panics.guard(&|| describe(head), || {
            let request = Request::new(head, caller);
            let answer = route::answer_now(self, &request)?;
            Some(respond::finish(&request, answer))
        });
        match answered {
            Some(None) => None,
            Some(Some(response)) => Some(dressed(Some(response), head)),
            None => Some(dressed(None, head)),
        }
    }
}

/// What the log calls a request. The query is left out, as it may be long.
fn describe(head: &Parts) -> String {
    format!("{} {}", head.method, head.uri.path())
}

/// The last touch on an answer; none is that of a request that panicked.
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

/// Records refusals that are made before a request reaches the server.
impl ApiServer {
    /// Records that a request was refused because its credentials are wrong, and gives its answer the audit id. Does
    /// nothing without an audit log.
    pub async fn audit_unauthenticated(
        &self,
        head: &mut Parts,
        remote: Option<IpAddr>,
        answer: &mut Response<Body>,
    ) {
        if let Some(audit) = &self.inner.audit {
            audit.unauthenticated(&self.inner.env, Refused { head, remote, answer }).await;
        }
    }

    /// Records that a request of this caller was refused for another reason, and gives its answer the audit id. Does
    /// nothing without an audit log.
    pub async fn audit_refusal(&self, caller: &Caller, head: &mut Parts, answer: &mut Response<Body>) {
        if let Some(audit) = &self.inner.audit {
            audit.refusal(&self.inner.env, caller, head, answer).await;
        }
    }

    /// Whether there is an audit log.
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
            let _work = server.inner.requests.enter();
            let caller = Caller::of(&mut head.extensions);
            Ok(server.serve(&caller, &mut head, body).await)
        })
    }
}
