//! Leader election by a Lease: of several managers, only one works.
//!
//! The protocol is client-go's, so that operators in Go and in Rust can compete for one lease. The holder renews the
//! lease every retry period. The other candidates read it as often, and take it when it has not changed for a lease
//! duration by their own clock. No wall clocks are compared, so that clocks that differ or jump do no harm. The time of
//! an observation is when the answer arrived, not when the request was sent. A request of the election is given up
//! after half of the renew deadline, so that a request that is never answered does not cost a leader its lease.
//!
//! **A deleted lease.** A candidate of client-go creates a missing lease and leads at once. Here, a candidate that has
//! seen the holder waits until the lease would have expired, as if the lease were still there. A candidate that has
//! never seen the lease cannot tell a first start from a deletion: it creates the lease, and leads after two retry
//! periods. By then a previous holder has been refused a renewal, or has been without one for so long that its requests
//! wait. A holder that learns that its lease is gone sends no requests until it has created a new one; if another
//! candidate creates it first, leadership is lost.
//!
//! **The fence.** While a leader is elected, [`Manager::client`](crate::Manager::client) and every
//! [`Ctx`](crate::Ctx) send under these rules:
//!
//! 1. No request starts more than one and a half retry periods (3 s) after the last renewal was sent, and half a period
//!    after its answer: it waits for the next renewal. It fails at the renew deadline (10 s after the last renewal was
//!    sent), or when a renewal is refused. With [`Manager::infer`](crate::Manager::infer) and
//!    [`Manager::from_config`](crate::Manager::from_config), the clock is checked again right before each write to a
//!    socket, which fails in doubt.
//! 2. No request continues after the lease duration (15 s after the last renewal was sent), before which no other
//!    candidate takes the lease. The clock is checked whenever the request is polled.
//! 3. With those two constructors, sockets are closed by a reset, so that the kernel does not continue to deliver the
//!    last request of a leader that is gone: on a cut network it would, for minutes.
//!
//! **What is not promised.** Kubernetes has no fencing tokens: no client can take back a request that it has sent.
//!
//! * A request that has left this machine and is delayed for the rest of the lease, by the network, a proxy or the
//!   server, is served after another process has taken over.
//! * If a renewal took longer than a retry period, and the lease was deleted meanwhile, a candidate that has never seen
//!   the lease may lead for up to half a period before the holder stops.
//! * A process can be frozen between its last look at the clock and the system call that follows, some hundred
//!   nanoseconds later. It sends the request when it continues, and logs an error if another process may lead by then.
//! * While a *machine* is suspended, the monotonic clock of Linux stops too: after waking, the lease seems fresh until
//!   the next renewal is refused, at most a retry period (2 s) later.
//! * [`Manager::new`](crate::Manager::new) takes a client with sockets of its own: the clock is not checked before writes
//!   to sockets, and the third rule does not hold. The same is true if the kubeconfig names a proxy.
//!
//! If a late write would do harm, write with preconditions. Updates and finalizers through the [`Ctx`](crate::Ctx) carry
//! a resource version or a test, and are refused if a new leader wrote first; applies are idempotent, and the new leader
//! corrects what an old one applied. `just failover` runs two processes against each other and looks for late writes.

mod election;
mod requests;

use std::time::Duration;

use evenkeel_env::{Env, Work};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Client;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::chain;
use crate::fence::Fence;

pub use election::LeaderElection;

/// Leadership was lost: the error that ends a [`Manager`](crate::Manager) which cannot renew its lease in time.
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
    /// The namespace and name of the lease.
    pub lease: String,
    /// The renew deadline.
    pub within: Duration,
    /// The error of the last attempt to renew.
    pub cause: String,
}

/// A request of the election that was given up after this time.
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
    /// The lease as last seen, and when its last change was seen: when the answer arrived, because the lease may have
    /// changed until then; or, for our own write, when the write began.
    observed: Option<(Lease, Instant)>,
    /// When the last write began that made or kept the lease ours.
    renewed: Option<Instant>,
    /// Whether a later write of the lease got no answer, or an answer that does not say whether the write was served.
    unanswered: bool,
    /// Whether we created the lease without knowing its previous holder, and so do not lead yet.
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

    /// Waits until this candidate leads. Returns the pending work of the election, which the caller holds until the
    /// leader's own work has begun. Returns `None` if this candidate was told to stop first.
    pub(crate) async fn acquire(&mut self, stop: &CancellationToken) -> Option<Work> {
        // Waiting while another process holds the lease is not pending work. Attempts to hold the lease, the wait after
        // creating it, and the retry after a failed request are pending work: each ends soon, or at a known time.
        let ledger = self.env.ledger();
        let attempts = ledger.station(format!("leader election: attempts to hold {}", self.lease()));
        let retry = ledger.deadline(format!("leader election: next attempt to hold {}", self.lease()));
        loop {
            // Held from before the request until the next deadline is set, so that the cluster does not count as at
            // rest between the response and the deadline.
            let work = attempts.enter();
            retry.set(None);
            let attempt = self.attempt().await;
            let created = std::mem::take(&mut self.unproven);
            let failed = attempt.is_err();
            match attempt {
                Ok(true) if !created => {
                    tracing::info!(lease = self.lease(), identity = self.identity, "leading");
                    return Some(work);
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(lease = self.lease(), error = chain(&error), "cannot acquire the lease")
                }
            }
            // Up to a fifth of jitter, so that candidates do not collide at every attempt.
            let pause = match created {
                true => self.election.proving_time(),
                false => self.election.retry_period.mul_f64(1.0 + 0.2 * self.env.random_fraction()),
            };
            let next = Instant::now() + pause;
            retry.set((created || failed).then_some(next));
            drop(work);
            tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    /// Renews the lease until told to stop. Fails if the lease could not be renewed in time.
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
                    tracing::warn!(lease = self.lease(), error = cause, "cannot renew the lease");
                }
                Err(_) => return Err(self.lost(&format!("no answer by the deadline; before: {cause}"))),
            }
        }
    }

    /// Releases the lease after all work has ended, so that another candidate can lead at once.
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
        tracing::warn!(lease = self.lease(), error, "cannot release the lease");
    }

    async fn give_back(&mut self) -> kube::Result<()> {
        let mut last = self.observed.take().map(|(lease, _)| lease);
        while let Some(lease) = last.filter(|lease| self.is_ours(lease)) {
            match self.replace(&self.given_back(lease)).await {
                // A renewal that was given up without an answer may have been served.
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

    /// The name of the lease, as in client-go's metrics.
    pub(crate) fn lease_name(&self) -> String {
        self.election.name.clone()
    }

    fn lease(&self) -> String {
        format!("{}/{}", self.election.namespace, self.election.name)
    }

    /// Creates, renews or takes the lease. Returns whether it is ours now.
    async fn attempt(&mut self) -> kube::Result<bool> {
        if self.renew().await? {
            return Ok(true);
        }
        match self.take().await {
            // Another process wrote the lease after we read it: reading it again tells whether we still hold it.
            Err(kube::Error::Api(status)) if status.code == 409 => self.take().await,
            result => result,
        }
    }

    /// Reads the lease, and creates or takes it if that is allowed now.
    async fn take(&mut self) -> kube::Result<bool> {
        let found = self.get().await?;
        let seen = Instant::now();
        let claim = match found {
            // The previous holder may not know yet that the lease is gone, and may still work.
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

    /// Renews the lease as we last wrote it, without reading it first. Returns whether it is still ours.
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
                // The lease is gone or another's, unless the conflict is with an unanswered renewal of our own. If it is
                // certain, work stops at once, without reading the lease first.
                if status.code == 404 || !unanswered {
                    self.fence.close();
                }
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Notes whether a write of the lease was answered.
    fn write(&mut self, written: kube::Result<Lease>) -> kube::Result<Lease> {
        match &written {
            Ok(_) => self.unanswered = false,
            Err(kube::Error::Api(status)) if status.code < 500 => {}
            Err(_) => self.unanswered = true,
        }
        written
    }

    /// Notes that the lease is ours since a write that began at `started`, and opens the fence if we lead.
    fn hold(&mut self, lease: Lease, started: Instant) {
        self.observed = Some((lease, started));
        self.renewed = Some(started);
        if !self.unproven {
            self.fence.renewed(started, self.election.terms());
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

    /// Whether no other process can still believe that it holds a lease which does not exist any more.
    fn is_free(&self) -> bool {
        let ours = self.observed.as_ref().is_some_and(|(lease, _)| self.is_ours(lease));
        ours || self.has_passed()
    }

    /// Whether we know the last holder of a lease which does not exist any more, and that its time has passed or that it
    /// was us.
    fn knows_last_holder(&self) -> bool {
        let last = self.observed.as_ref().and_then(|(lease, _)| holder(lease));
        last.is_some_and(|holder| !holder.is_empty())
    }

    /// Whether the lease has no holder, or has not changed for its duration by our own clock.
    fn has_passed(&self) -> bool {
        let Some((lease, since)) = &self.observed else { return true };
        if holder(lease).is_none_or(|holder| holder.is_empty()) {
            return true;
        }
        let seconds = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds).unwrap_or(0);
        let theirs = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        since.elapsed() >= theirs.max(self.election.lease_duration)
    }

    /// The lease with us as its holder. Its resource version makes the write fail if another process wrote it meanwhile.
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
