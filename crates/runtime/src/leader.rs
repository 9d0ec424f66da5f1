//! Leader election on a Lease: of several managers, one works.
//!
//! The protocol is that of client-go, so that both kinds of operators can compete for one lease: whoever holds it
//! renews it every retry period; whoever does not looks at it as often, and takes it when it has not changed for a
//! lease duration by its own clock. No wall clocks are compared, so that clocks that differ or jump do no harm. What a
//! candidate saw counts from the answer, not from the question. No request of the election itself is waited for beyond
//! half of the deadline, so that one that is never answered costs no leader its lease.
//!
//! **A deleted lease.** client-go's candidates create a lease that is missing and lead at once. Here a standby that has
//! seen the holder waits for the lease to pass, as if it were still there. A candidate that has never seen the lease
//! cannot tell a first start from a deletion: it creates the lease, and leads after one and a half retry periods, within
//! which a holder renews and is refused. A holder sends nothing between the answer that its lease is gone and its own
//! creation of a new one, and if another comes first, it has lost.
//!
//! **The fence.** While a leader is elected, [`Manager::client`](crate::Manager::client) and every
//! [`Ctx`](crate::Ctx) send under these rules:
//!
//! 1. No request starts after the renew deadline (10 s after the write of the last renewal began), nor after a refused
//!    renewal.
//! 2. No request goes on after the lease duration (15 s after that write), before which nobody else takes the lease. The clock is
//!    asked whenever the request is worked on and, with [`Manager::infer`](crate::Manager::infer) and
//!    [`Manager::from_config`](crate::Manager::from_config), right before each write to a socket.
//! 3. With those two constructors, sockets are closed by a reset, so that the kernel does not go on delivering the last
//!    request of a leader that is gone: on a cut network it would, for minutes.
//!
//! **What is not promised.** Kubernetes has no fencing tokens, so that no client can take back what it has sent:
//!
//! * A request that has left this machine and is held up for the rest of the lease, by the network, a proxy or the
//!   server, is served after another has taken over.
//! * A process can be frozen between its last look at the clock and the system call that follows, some hundred
//!   nanoseconds later.
//! * While a *machine* is suspended, the monotonic clock of Linux stands still with it: on waking the lease seems fresh
//!   until the next renewal is refused, at most a retry period (2 s) later.
//! * [`Manager::new`](crate::Manager::new) is given a client with sockets of its own: of the second rule only the first
//!   half holds, and the third does not.
//!
//! Whoever cannot bear these writes with preconditions: updates and finalizers of the [`Ctx`](crate::Ctx) carry
//! a resource version or a test, and are refused if a new leader wrote first; applies are idempotent, and the new leader
//! puts right what an old one applied. `just failover` plays two processes against each other and looks for late writes.

mod election;
mod requests;

use std::time::Duration;

use evenkeel_env::Env;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Client;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::chain;
use crate::fence::Fence;

pub use election::LeaderElection;

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

/// How many retry periods a candidate waits after it has created a lease whose last holder it does not know. A holder
/// renews within one period; the half is for its request.
const PROVING_PERIODS: f64 = 1.5;

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
    /// Whether a write of the lease got no answer since, or one that does not say whether it was served.
    unanswered: bool,
    /// Whether we created the lease without knowing who held it before: we do not lead yet.
    unproven: bool,
}

impl Candidate {
    pub(crate) fn new(election: LeaderElection, client: Client, env: Env, fence: Fence) -> Self {
        let identity = election.identity.clone().unwrap_or_else(|| env.uid());
        Self {
            election,
            identity,
            client,
            env,
            fence,
            observed: None,
            renewed: None,
            unanswered: false,
            unproven: false,
        }
    }

    /// Waits until it leads; none if it was told to stop before.
    pub(crate) async fn acquire(&mut self, stop: &CancellationToken) -> Option<()> {
        // Waiting for another's lease is no pending work. Waiting to lead by one's own is: it ends at a known time.
        let proving = self.env.ledger().deadline(format!("leader election: {} was created", self.lease()));
        loop {
            let attempt = self.attempt().await;
            proving.set(None);
            let created = std::mem::take(&mut self.unproven);
            match attempt {
                Ok(true) if !created => {
                    tracing::info!(lease = self.lease(), identity = self.identity, "leading");
                    return Some(());
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(lease = self.lease(), error = chain(&error), "acquire the lease")
                }
            }
            // Up to a fifth of jitter, so that candidates do not meet at every attempt.
            let periods = if created { PROVING_PERIODS } else { 1.0 + 0.2 * self.env.random_fraction() };
            let next = Instant::now() + self.election.retry_period.mul_f64(periods);
            proving.set(created.then_some(next));
            tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                () = tokio::time::sleep_until(next) => {}
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
        match self.take().await {
            // Another wrote the lease after our look at it: one more look tells whether that was the end of our term.
            Err(kube::Error::Api(status)) if status.code == 409 => self.take().await,
            result => result,
        }
    }

    /// Looks at the lease, and creates or takes it if it may be ours.
    async fn take(&mut self) -> kube::Result<bool> {
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
        match claim {
            None => {
                let unproven = !self.knows_last_holder();
                let held = self.write(self.create().await)?;
                self.unproven = unproven;
                self.hold(held, started);
            }
            Some(claim) => {
                let held = self.write(self.replace(&claim).await)?;
                self.hold(held, started);
            }
        }
        Ok(true)
    }

    /// Renews the lease as we last wrote it, without a look at it; says whether that is still what it was.
    async fn renew(&mut self) -> kube::Result<bool> {
        let Some((lease, _)) = self.observed.as_ref().filter(|(lease, _)| self.is_ours(lease)) else {
            return Ok(false);
        };
        let started = Instant::now();
        let unanswered = self.unanswered;
        let replaced = self.replace(&self.claim(lease.clone())).await;
        match self.write(replaced) {
            Ok(held) => {
                self.hold(held, started);
                Ok(true)
            }
            Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => {
                // The lease is gone or another's, unless the conflict is with a renewal of our own that was served
                // unseen. Whoever knows that stops at once, and does not wait for a look at the lease.
                if status.code == 404 || !unanswered {
                    self.fence.close();
                }
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Remembers whether a write of the lease was answered.
    fn write(&mut self, written: kube::Result<Lease>) -> kube::Result<Lease> {
        match &written {
            Ok(_) => self.unanswered = false,
            Err(kube::Error::Api(status)) if status.code < 500 => {}
            Err(_) => self.unanswered = true,
        }
        written
    }

    /// The lease is ours by a write that began at `started`; we lead by it, unless that is not proven yet.
    fn hold(&mut self, lease: Lease, started: Instant) {
        self.observed = Some((lease, started));
        self.renewed = Some(started);
        if !self.unproven {
            self.fence.renewed(started, self.election.renew_deadline, self.election.lease_duration);
        }
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

    /// Whether we know who held a lease that is not there, and that its time has passed or is our own.
    fn knows_last_holder(&self) -> bool {
        let last = self.observed.as_ref().and_then(|(lease, _)| holder(lease));
        last.is_some_and(|holder| !holder.is_empty())
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
            lease_transitions: Some(if ours || new { transitions } else { transitions.saturating_add(1) }),
            ..LeaseSpec::default()
        };
        Lease { metadata: found.metadata, spec: Some(spec) }
    }

    fn lease_seconds(&self) -> i32 {
        i32::try_from(self.election.lease_duration.as_secs_f64().ceil() as i64).unwrap_or(i32::MAX)
    }
}

fn holder(lease: &Lease) -> Option<&String> {
    lease.spec.as_ref()?.holder_identity.as_ref()
}

#[cfg(test)]
mod tests;
