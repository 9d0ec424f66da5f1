//! Leader election on a Lease: of several managers, one works.
//!
//! The protocol is that of client-go, so that both kinds of operators can compete for one lease: whoever holds it
//! renews it every retry period; whoever does not looks at it as often, and takes it when it has not changed for a
//! lease duration by its own clock. No wall clocks are compared, so that clocks that differ or jump do no harm. Stricter
//! than there: a lease that was deleted under its holder is not free before its time, and what a candidate saw counts
//! from the answer, not from the question.
//!
//! What a leader sends is fenced: no request starts after the renew deadline (10 s after the last renewal began), and
//! none is waited for beyond the lease duration (15 s), before which nobody else takes the lease.
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

/// One candidate of an election.
pub(crate) struct Candidate {
    election: LeaderElection,
    identity: String,
    client: Client,
    env: Env,
    fence: Fence,
    /// The lease as last seen, and when it was seen to change: when the answer came, since it may have changed until
    /// then.
    observed: Option<(Lease, Instant)>,
}

impl Candidate {
    pub(crate) fn new(election: LeaderElection, client: Client, env: Env, fence: Fence) -> Self {
        let identity = election.identity.clone().unwrap_or_else(|| env.uid());
        Self { election, identity, client, env, fence, observed: None }
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
        let mut renewed = Instant::now();
        let mut cause = String::from("no attempt was made");
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(self.election.retry_period) => {}
            }
            let started = Instant::now();
            let deadline = renewed + self.election.renew_deadline;
            match tokio::time::timeout_at(deadline, self.attempt()).await {
                Ok(Ok(true)) => {
                    renewed = started;
                    continue;
                }
                Ok(Ok(false)) => {
                    return Err(self.lost("another holds it"));
                }
                Ok(Err(error)) => cause = chain(&error),
                Err(_) => cause = format!("no answer by the deadline; before: {cause}"),
            }
            if Instant::now() >= deadline {
                return Err(self.lost(&cause));
            }
        }
    }

    /// Gives the lease back, once all work has ended, so that another may lead at once.
    pub(crate) async fn release(&mut self) {
        self.fence.close();
        if !self.election.release {
            return;
        }
        let Some((lease, _)) = self.observed.take() else { return };
        if holder(&lease) != Some(&self.identity) {
            return;
        }
        let mut lease = lease;
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
        if let Err(error) = self.replace(&lease).await {
            tracing::warn!(lease = self.lease(), error = chain(&error), "release the lease");
        }
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
        let started = Instant::now();
        let found = self.get().await?;
        let seen = Instant::now();
        let held = match found {
            // Whoever held it a moment ago does not know yet that it is gone, and goes on working.
            None if !self.is_free() => return Ok(false),
            None => self.create().await?,
            Some(found) => {
                self.observe(found.clone(), seen);
                if holder(&found) != Some(&self.identity) && !self.has_passed() {
                    return Ok(false);
                }
                self.replace(&self.claim(found)).await?
            }
        };
        self.observed = Some((held, started));
        self.fence.renewed(started, self.election.renew_deadline, self.election.lease_duration);
        Ok(true)
    }

    fn observe(&mut self, found: Lease, now: Instant) {
        let same = self.observed.as_ref().is_some_and(|(seen, _)| seen.spec == found.spec);
        if !same {
            self.observed = Some((found, now));
        }
    }

    /// Whether nobody else may still take itself for the holder of a lease that is not there.
    fn is_free(&self) -> bool {
        let ours = self.observed.as_ref().is_some_and(|(lease, _)| holder(lease) == Some(&self.identity));
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
        let ours = holder(&found) == Some(&self.identity);
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
        let request = self.requests().get(&self.election.name, &GetParams::default());
        match wire::send(&self.client, request.map_err(kube::Error::BuildRequest)?).await {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(kube::Error::SerdeError),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn create(&self) -> kube::Result<Lease> {
        let mut lease = Lease::default();
        lease.metadata.name = Some(self.election.name.clone());
        lease.metadata.namespace = Some(self.election.namespace.clone());
        let body = serde_json::to_vec(&self.claim(lease)).map_err(kube::Error::SerdeError)?;
        let request = self.requests().create(&PostParams::default(), body);
        let bytes = wire::send(&self.client, request.map_err(kube::Error::BuildRequest)?).await?;
        serde_json::from_slice(&bytes).map_err(kube::Error::SerdeError)
    }

    async fn replace(&self, lease: &Lease) -> kube::Result<Lease> {
        let body = serde_json::to_vec(lease).map_err(kube::Error::SerdeError)?;
        let request = self.requests().replace(&self.election.name, &PostParams::default(), body);
        let bytes = wire::send(&self.client, request.map_err(kube::Error::BuildRequest)?).await?;
        serde_json::from_slice(&bytes).map_err(kube::Error::SerdeError)
    }
}

fn holder(lease: &Lease) -> Option<&String> {
    lease.spec.as_ref()?.holder_identity.as_ref()
}

#[cfg(test)]
mod tests;
