//! The audit log: who asked for what, when, and how it was answered.
//!
//! Events have the form of Kubernetes' `audit.k8s.io/v1`, one line of JSON each. An [`AuditPolicy`] decides for each
//! request how much of it is recorded, and a [`Trail`] follows the request through its stages:
//!
//! ```text
//! RequestReceived ▸ (ResponseStarted, for watches) ▸ ResponseComplete, or Panic
//! ```
//!
//! Where the lines go is the business of an [`AuditSink`], which the cluster brings: this crate writes no file.
//!
//! Below the level `Request` no body of a request or of a response is kept, so that no secret's data can be in an event.
//! A bearer token is in no event at all: headers are not recorded, and the query parameter `access_token` is masked.

mod event;
mod policy;
mod read;
mod trail;

pub use policy::AuditPolicy;
pub use read::AuditPolicyError;

pub(crate) use trail::Trail;

use std::net::IpAddr;
use std::sync::Arc;

use evenkeel_env::Env;
use futures::future::BoxFuture;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Response};

use self::event::{Beginning, Event};
use self::policy::Stage;
use crate::body::Body;
use crate::request::{Caller, Request, Route};
use crate::{respond, route};

/// The header by which a request and its events are found: taken from the request, else made, and sent with the answer.
pub(crate) const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// Where audit events are written.
pub trait AuditSink: Send + Sync {
    /// Takes one event: a line of JSON with its newline.
    ///
    /// The call itself takes the line, in the order of the calls. The future only waits: it is ready when the line is
    /// written, or when it is lost to an error that the sink has reported. A request waits for it, as with
    /// kube-apiserver's mode `blocking`; the last event of a watch is not waited for.
    fn record(&self, line: Vec<u8>) -> BoxFuture<'static, ()>;
}

/// An audit log: what is recorded, and where to.
#[derive(Clone)]
pub struct Audit {
    policy: Arc<AuditPolicy>,
    sink: Arc<dyn AuditSink>,
}

impl std::fmt::Debug for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Audit").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl Audit {
    /// Records what this policy says in this sink.
    pub fn new(policy: AuditPolicy, sink: Arc<dyn AuditSink>) -> Self {
        Self { policy: Arc::new(policy), sink }
    }

    /// Begins the record of a request: gives it an audit id and records that it arrived. Returns `None` if the policy
    /// does not record the request.
    pub(crate) async fn begin(&self, env: &Env, caller: &Caller, head: &mut Parts) -> Option<Arc<Trail>> {
        identify(env, head);
        let trail = {
            let request = Request::new(head, caller);
            let user = Some(request.user);
            self.trail(env, &request, head, user, caller.remote)?
        };
        trail.stage(Stage::RequestReceived).await;
        Some(trail)
    }

    /// Records a request whose credentials were wrong. As in Kubernetes it is one event, which names no user.
    pub(crate) async fn unauthenticated(&self, env: &Env, refused: Refused<'_>) {
        let Refused { head, remote, answer } = refused;
        identify(env, head);
        respond::repeat_audit_id(answer, &head.headers);
        let nobody = Caller::nobody();
        let trail = {
            let request = Request::new(head, &nobody);
            let Some(trail) = self.trail(env, &request, head, None, remote) else { return };
            trail.note_answer(&request, None, answer);
            trail
        };
        trail.stage(Stage::ResponseStarted).await;
        trail.finish();
    }

    /// Records a request that was refused before the server saw it.
    pub(crate) async fn refusal(
        &self,
        env: &Env,
        caller: &Caller,
        head: &mut Parts,
        answer: &mut Response<Body>,
    ) {
        let trail = self.begin(env, caller, head).await;
        respond::repeat_audit_id(answer, &head.headers);
        if let Some(trail) = trail {
            trail.note_answer(&Request::new(head, caller), None, answer);
            trail.respond(answer).await;
        }
    }

    fn trail(
        &self,
        env: &Env,
        request: &Request<'_>,
        head: &Parts,
        user: Option<&crate::User>,
        remote: Option<IpAddr>,
    ) -> Option<Arc<Trail>> {
        // kube-apiserver refuses these before it looks at the policy.
        if request.malformed || request.route == Route::VerbOnly {
            return None;
        }
        let verb = request.verb();
        let selected = route::selected_name(request);
        let target = route::target(request, selected.as_deref());
        let recording = self.policy.evaluate(user, verb, &target)?;
        let received = env.now();
        let beginning = Beginning { level: recording.level, head, user, remote, verb, target, received };
        let long_running = route::is_long_running(request);
        Some(Arc::new(Trail::new(
            self.sink.clone(),
            env.clone(),
            recording,
            long_running,
            Event::new(&beginning),
        )))
    }
}

/// A request that was refused because its credentials are wrong.
pub(crate) struct Refused<'a> {
    pub(crate) head: &'a mut Parts,
    pub(crate) remote: Option<IpAddr>,
    pub(crate) answer: &'a mut Response<Body>,
}

/// Gives a request an audit id unless its client did.
fn identify(env: &Env, head: &mut Parts) {
    if head.headers.get(AUDIT_ID).is_some_and(|id| !id.is_empty()) {
        return;
    }
    if let Ok(id) = HeaderValue::try_from(env.uid()) {
        head.headers.insert(AUDIT_ID, id);
    }
}
