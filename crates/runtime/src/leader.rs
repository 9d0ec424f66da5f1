//! Leader election on a Lease: of several managers, one works.
//!
//! The protocol is that of client-go, so that both kinds of operators can compete for one lease: whoever holds it
//! renews it every retry period; whoever does not looks at it as often, and takes it when it has not changed for a
//! lease duration by its own clock. No wall clocks are compared, so that clocks that differ or jump do no harm. Stricter
//! than there: a lease that was deleted under its holder is not free before its time, and what a candidate saw counts
//! from the answer, not from the question.
//!
//! What a leader sends is fenced: no request starts after the renew deadline (10 s after the write of the last renewal
//! began), and none is waited for beyond the lease duration (15 s), before which nobody else takes the lease. No request
//! of the election itself is waited for beyond half of the deadline, so that one that is never answered costs no
//! leader its lease.
//!
//! **What a frozen process can still send.** A process that is stopped and woken (SIGSTOP, a paused container, a
//! machine that swaps) asks the clock before each request and sends nothing once the deadline has passed. What remains
//! is the request that each of its tasks was in the middle of sending: it was allowed when it was checked, and the
//! rest of it may leave on waking. A *suspended machine* is worse: the monotonic clock of Linux stands still with it,
//! so that on waking the lease seems fresh until the next renewal fails, at most a retry period (2 s) later.
//! Kubernetes has no fencing tokens. Whoever cannot bear either writes with preconditions: updates and finalizers of
//! the [`Context`](crate::Context) carry a resource version or a test, and are refused if a new leader wrote first;
//! applies are idempotent, and the new leader puts right what an old one applied.

use std::time::Duration;

use evenkeel_env::Env;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::core::params::{GetParams, PostParams};
use kube::{Client, Resource};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::chain;
use crate::fence::Fence;
use crate::wire;

/// How to elect a leader. The times are controller-runtime's: 15, 10 and 2 seconds.
///
/// ```
/// use std::time::Duration;
/// use evenkeel_runtime::LeaderElection;
///
/// let election = LeaderElection::new("operators", "my-operator").identity("pod-7");
///
/// // Slower, for a server far away; the lease is kept when this process stops.
/// let [lease, renew, retry] = [60, 40, 5].map(Duration::from_secs);
/// let patient = LeaderElection::new("operators", "my-operator").times(lease, renew, retry).keep_on_stop();
/// ```
#[derive(Clone, Debug)]
pub struct LeaderElection {
    namespace: String,
    name: String,
    identity: Option<String>,
    lease_duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
    release: bool,
}

/// Leadership was lost, or never could be had: what a [`Manager`](crate::Manager) that was elected ends with.
///
/// ```
/// use evenkeel_runtime::ManagerError;
/// use evenkeel_runtime::leader::LostLeadership;
///
/// /// Whether a restart is all that is needed.
/// fn was_replaced(error: &ManagerError) -> bool {
///     error.source.downcast_ref::<LostLeadership>().is_some()
/// }
/// ```
#[derive(Debug, thiserror::Error)]
#[error("lead as holder of lease {lease}: the lease could not be renewed within {within:?}: {cause}")]
#[non_exhaustive]
pub struct LostLeadership {
    /// The lease.
    pub lease: String,
    /// The renew deadline.
    pub within: Duration,
    /// What the last attempt failed with.
    pub cause: String,
}

impl LeaderElection {
    /// An election by the lease of this name.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: None,
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            release: true,
        }
    }

    /// Who this candidate is; a random uid unless set. Two candidates must not share one.
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// How long others wait before they take a lease that is not renewed; after how long without a renewal the
    /// holder stops; how often either tries. Each is raised or lowered so that the lease outlasts the deadline, and
    /// the deadline the period.
    pub fn times(mut self, lease: Duration, renew: Duration, retry: Duration) -> Self {
        self.retry_period = retry.max(Duration::from_millis(1));
        self.renew_deadline = renew.max(self.retry_period.mul_f64(1.2));
        self.lease_duration = lease.max(self.renew_deadline.mul_f64(1.2));
        self
    }

    /// How long one request of the election may take.
    fn request_timeout(&self) -> Duration {
        (self.renew_deadline / 2).max(Duration::from_secs(1))
    }

    /// Namespace and name of the lease.
    pub(crate) fn key(&self) -> (String, String) {
        (self.namespace.clone(), self.name.clone())
    }

    /// Keeps the lease when the manager stops, so that the next one waits for it to pass.
    pub fn keep_on_stop(mut self) -> Self {
        self.release = false;
        self
    }
}

/// A request of the election was given up.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {0:?}")]
struct NoAnswer(Duration);

/// One candidate of an election.
pub(crate) struct Candidate {
    election: LeaderElection,
    identity: String,
    client: Client,
    env: Env,
    fence: Fence,
    /// The lease as last seen, and when it was seen to change: when the answer came, since it may have changed until
    /// then; or, if we wrote it, when we began to.
    observed: Option<(Lease, Instant)>,
    /// When the write began that last made the lease ours.
    renewed: Option<Instant>,
}

impl Candidate {
    pub(crate) fn new(election: LeaderElection, client: Client, env: Env, fence: Fence) -> Self {
        let identity = election.identity.clone().unwrap_or_else(|| env.uid());
        Self { election, identity, client, env, fence, observed: None, renewed: None }
    }

    /// Waits until it leads; none if it was told to stop before.
    pub(crate) async fn acquire(&mut self, stop: &CancellationToken) -> Option<()> {
        loop {
            match self.attempt().await {
                Ok(true) => {
                    tracing::info!(lease = self.lease(), identity = self.identity, "leading");
                    return Some(());
                }
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(lease = self.lease(), error = chain(&error), "acquire the lease")
                }
            }
            // Up to a fifth of jitter, so that candidates do not meet at every attempt.
            let pause = self.election.retry_period.mul_f64(1.0 + 0.2 * self.env.random_fraction());
            tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Renews until told to stop, then gives the lease back; fails when it could not be renewed in time.
    pub(crate) async fn lead(&mut self, stop: &CancellationToken) -> Result<(), LostLeadership> {
        let mut cause = String::from("no attempt was made");
        let mut renewed = self.renewed.unwrap_or_else(Instant::now);
        let mut next = renewed + self.election.retry_period;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep_until(next) => {}
            }
            let deadline = renewed + self.election.renew_deadline;
            let late = Instant::now().saturating_duration_since(next);
            if Instant::now() >= deadline {
                if late > self.election.retry_period {
                    cause = format!("this process did not run for {late:?}; before: {cause}");
                }
                return Err(self.lost(&cause));
            }
            next = Instant::now() + self.election.retry_period;
            match tokio::time::timeout_at(deadline, self.attempt()).await {
                Ok(Ok(true)) => renewed = self.renewed.unwrap_or(renewed),
                Ok(Ok(false)) => return Err(self.lost("another holds it")),
                Ok(Err(error)) => {
                    cause = chain(&error);
                    tracing::warn!(lease = self.lease(), error = cause, "renew the lease");
                }
                Err(_) => return Err(self.lost(&format!("no answer by the deadline; before: {cause}"))),
            }
        }
    }

    /// Gives the lease back, once all work has ended, so that another may lead at once.
    pub(crate) async fn release(&mut self) {
        self.fence.close();
        if !self.election.release {
            return;
        }
        let released = tokio::time::timeout(self.election.renew_deadline, self.give_back()).await;
        let error = match released {
            Ok(Ok(())) => return,
            Ok(Err(error)) => chain(&error),
            Err(_) => NoAnswer(self.election.renew_deadline).to_string(),
        };
        tracing::warn!(lease = self.lease(), error, "release the lease");
    }

    async fn give_back(&mut self) -> kube::Result<()> {
        let mut last = self.observed.take().map(|(lease, _)| lease);
        while let Some(lease) = last.filter(|lease| self.is_ours(lease)) {
            match self.replace(&self.given_back(lease)).await {
                // A renewal that was given up without an answer may have been served after all.
                Err(kube::Error::Api(status)) if status.code == 409 => last = self.get().await?,
                result => return result.map(drop),
            }
        }
        Ok(())
    }

    fn given_back(&self, mut lease: Lease) -> Lease {
        let now = MicroTime(self.env.now());
        let transitions = lease.spec.as_ref().and_then(|spec| spec.lease_transitions);
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: transitions,
            ..LeaseSpec::default()
        });
        lease
    }

    fn lost(&self, cause: &str) -> LostLeadership {
        self.fence.close();
        LostLeadership { lease: self.lease(), within: self.election.renew_deadline, cause: cause.to_owned() }
    }

    /// The name of the lease, by which client-go's metrics know it.
    pub(crate) fn lease_name(&self) -> String {
        self.election.name.clone()
    }

    fn lease(&self) -> String {
        format!("{}/{}", self.election.namespace, self.election.name)
    }

    /// Creates, renews or takes the lease; says whether it is ours now.
    async fn attempt(&mut self) -> kube::Result<bool> {
        if self.renew().await? {
            return Ok(true);
        }
        let found = self.get().await?;
        let seen = Instant::now();
        let claim = match found {
            // Whoever held it a moment ago does not know yet that it is gone, and goes on working.
            None if !self.is_free() => return Ok(false),
            None => None,
            Some(found) => {
                self.observe(found.clone(), seen);
                if !self.is_ours(&found) && !self.has_passed() {
                    return Ok(false);
                }
                Some(self.claim(found))
            }
        };
        let started = Instant::now();
        let held = match claim {
            None => self.create().await?,
            Some(claim) => self.replace(&claim).await?,
        };
        self.hold(held, started);
        Ok(true)
    }

    /// Renews the lease as we last wrote it, without a look at it; says whether that is still what it was.
    async fn renew(&mut self) -> kube::Result<bool> {
        let Some((lease, _)) = self.observed.as_ref().filter(|(lease, _)| self.is_ours(lease)) else {
            return Ok(false);
        };
        let started = Instant::now();
        match self.replace(&self.claim(lease.clone())).await {
            Ok(held) => {
                self.hold(held, started);
                Ok(true)
            }
            Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The lease is ours by a write that began at `started`.
    fn hold(&mut self, lease: Lease, started: Instant) {
        self.observed = Some((lease, started));
        self.renewed = Some(started);
        self.fence.renewed(started, self.election.renew_deadline, self.election.lease_duration);
    }

    fn is_ours(&self, lease: &Lease) -> bool {
        holder(lease) == Some(&self.identity)
    }

    fn observe(&mut self, found: Lease, now: Instant) {
        let same = self.observed.as_ref().is_some_and(|(seen, _)| seen.spec == found.spec);
        if !same {
            self.observed = Some((found, now));
        }
    }

    /// Whether nobody else may still take itself for the holder of a lease that is not there.
    fn is_free(&self) -> bool {
        let ours = self.observed.as_ref().is_some_and(|(lease, _)| self.is_ours(lease));
        ours || self.has_passed()
    }

    /// Whether the lease is free, or has not changed for its duration by our own clock.
    fn has_passed(&self) -> bool {
        let Some((lease, since)) = &self.observed else { return true };
        if holder(lease).is_none_or(|holder| holder.is_empty()) {
            return true;
        }
        let seconds = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds).unwrap_or(0);
        let theirs = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        since.elapsed() >= theirs.max(self.election.lease_duration)
    }

    /// The lease as we would hold it, on the condition that it is still the one that was found.
    fn claim(&self, found: Lease) -> Lease {
        let now = MicroTime(self.env.now());
        let ours = self.is_ours(&found);
        let new = found.spec.is_none();
        let spec = found.spec.unwrap_or_default();
        let transitions = spec.lease_transitions.unwrap_or(0);
        let spec = LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(self.lease_seconds()),
            acquire_time: if ours { spec.acquire_time } else { Some(now.clone()) },
            renew_time: Some(now),
            lease_transitions: Some(if ours || new { transitions } else { transitions + 1 }),
            ..LeaseSpec::default()
        };
        Lease { metadata: found.metadata, spec: Some(spec) }
    }

    fn lease_seconds(&self) -> i32 {
        i32::try_from(self.election.lease_duration.as_secs_f64().ceil() as i64).unwrap_or(i32::MAX)
    }

    fn requests(&self) -> kube::core::Request {
        kube::core::Request::new(Lease::url_path(&(), Some(&self.election.namespace)))
    }

    async fn get(&self) -> kube::Result<Option<Lease>> {
        match self.send(self.requests().get(&self.election.name, &GetParams::default())).await {
            Ok(lease) => Ok(Some(lease)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn create(&self) -> kube::Result<Lease> {
        let mut lease = Lease::default();
        lease.metadata.name = Some(self.election.name.clone());
        lease.metadata.namespace = Some(self.election.namespace.clone());
        let body = serde_json::to_vec(&self.claim(lease)).map_err(kube::Error::SerdeError)?;
        self.send(self.requests().create(&PostParams::default(), body)).await
    }

    async fn replace(&self, lease: &Lease) -> kube::Result<Lease> {
        let body = serde_json::to_vec(lease).map_err(kube::Error::SerdeError)?;
        self.send(self.requests().replace(&self.election.name, &PostParams::default(), body)).await
    }

    /// Sends a request, and waits no longer for its answer than the election allows.
    async fn send(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> kube::Result<Lease> {
        let sending = wire::send(&self.client, request.map_err(kube::Error::BuildRequest)?);
        let within = self.election.request_timeout();
        let bytes = tokio::time::timeout(within, sending)
            .await
            .map_err(|_| kube::Error::Service(Box::new(NoAnswer(within))))??;
        serde_json::from_slice(&bytes).map_err(kube::Error::SerdeError)
    }
}

fn holder(lease: &Lease) -> Option<&String> {
    lease.spec.as_ref()?.holder_identity.as_ref()
}

#[cfg(test)]
mod tests;
