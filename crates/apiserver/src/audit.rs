//! The audit log: who requested what, when, and how the server answered.
//!
//! Events have the form of Kubernetes' `audit.k8s.io/v1`, one line of JSON each. An [`AuditPolicy`] decides
//! how much of each request is recorded, and a [`Trail`] records the stages of one request:
//!
//! ```text
//! RequestReceived ▸ (ResponseStarted, for watches) ▸ ResponseComplete, or Panic
//! ```
//!
//! An [`AuditSink`], which the cluster provides, writes the lines; this crate writes no files.
//!
//! Below the level `Request` no body of a request or response is recorded, so that an event cannot contain a
//! Secret's data. No event contains a bearer token: headers are not recorded, and the query parameter
//! `access_token` is redacted.

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
use evenkeel_request_info::ApiPath;
use futures::future::BoxFuture;
use http::request::Parts;
use http::{HeaderValue, Response};

use self::event::{Beginning, Event};
use self::policy::Stage;
use crate::body::Body;
use crate::request::{Caller, Request};
use crate::respond::{self, AUDIT_ID};

/// A destination for audit events, such as a file.
pub trait AuditSink: Send + Sync {
    /// Records one event: a line of JSON that ends with a newline.
    ///
    /// The call itself accepts the line, so that lines keep the order of the calls. The future only waits: it
    /// completes when the line is written, or when it is lost to an error that the sink has reported. A
    /// request waits for the future, as in kube-apiserver's mode `blocking`; nothing waits for the last event
    /// of a watch.
    fn record(&self, line: Vec<u8>) -> BoxFuture<'static, ()>;
}

/// An audit log: the policy that decides what is recorded, and the sink that writes it.
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
    /// Creates an audit log that records in `sink` what `policy` demands.
    pub fn new(policy: AuditPolicy, sink: Arc<dyn AuditSink>) -> Self {
        Self { policy: Arc::new(policy), sink }
    }

    /// Begins the record of a request: gives the request an audit ID and records `RequestReceived`. Returns
    /// `None` if the policy does not record the request.
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

    /// Records a request that failed authentication. As in Kubernetes, this is one event without a user.
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

    /// Records a request that was refused before it reached the API server, such as one beyond the limit of
    /// requests in flight.
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
        // kube-apiserver refuses these requests before it evaluates the policy.
        if request.malformed || request.route == ApiPath::VerbOnly {
            return None;
        }
        let verb = request.verb();
        let selected = request.selected_name();
        let target = request.target(selected.as_deref());
        let recording = self.policy.evaluate(user, verb, &target)?;
        let received = env.now();
        let beginning = Beginning { level: recording.level, head, user, remote, verb, target, received };
        let long_running = request.is_long_running();
        Some(Arc::new(Trail::new(
            self.sink.clone(),
            env.clone(),
            recording,
            long_running,
            Event::new(&beginning),
        )))
    }
}

/// A request that failed authentication, with its response.
pub(crate) struct Refused<'a> {
    pub(crate) head: &'a mut Parts,
    pub(crate) remote: Option<IpAddr>,
    pub(crate) answer: &'a mut Response<Body>,
}

/// Gives a request an audit ID unless its client sent one.
fn identify(env: &Env, head: &mut Parts) {
    if head.headers.get(AUDIT_ID).is_some_and(|id| !id.is_empty()) {
        return;
    }
    if let Ok(id) = HeaderValue::try_from(env.uid()) {
        head.headers.insert(AUDIT_ID, id);
    }
}
