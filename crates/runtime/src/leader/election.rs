//! The options of a leader election: the lease, the identity and the times.

use std::time::Duration;

use crate::fence::Terms;

/// How long a renewal stays fresh, in retry periods. The next renewal is sent after one period, which leaves half a
/// period for its response.
const FRESH_PERIODS: f64 = 1.5;
/// How long requests may still start after a renewal whose response came when it was no longer fresh, in retry periods.
const AFTER_ANSWER_PERIODS: f64 = 0.5;
/// How long a candidate waits after creating a lease whose previous holder it does not know, in retry periods: until no
/// renewal of a previous holder is fresh, and half a period more for the requests that such a holder has already sent.
const PROVING_PERIODS: f64 = FRESH_PERIODS + 0.5;

/// Options of a leader election. The default times are controller-runtime's: 15, 10 and 2 seconds.
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
#[must_use]
pub struct LeaderElection {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) identity: Option<String>,
    pub(super) lease_duration: Duration,
    pub(super) renew_deadline: Duration,
    pub(super) retry_period: Duration,
    pub(super) release: bool,
}

impl LeaderElection {
    /// An election by the Lease with this namespace and name.
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

    /// Sets the identity of this candidate; a random uid by default. Two candidates must not share an identity.
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// Sets the lease duration (how long other candidates wait before they take a lease that is not renewed), the renew
    /// deadline (how long the holder tries to renew before it gives up) and the retry period (the time between
    /// attempts). Without a renewal for one and a half retry periods, the holder's requests wait for the next one. The
    /// values are adjusted so that the duration is longer than the deadline, and the deadline longer than the period.
    pub fn times(mut self, lease: Duration, renew: Duration, retry: Duration) -> Self {
        self.retry_period = retry.max(Duration::from_millis(1));
        self.renew_deadline = renew.max(self.retry_period.mul_f64(1.2));
        self.lease_duration = lease.max(self.renew_deadline.mul_f64(1.2));
        self
    }

    /// How long one request of the election may take.
    pub(super) fn request_timeout(&self) -> Duration {
        (self.renew_deadline / 2).max(Duration::from_secs(1))
    }

    /// Returns how long a renewal of the lease is valid.
    pub(super) fn terms(&self) -> Terms {
        Terms {
            fresh: self.retry_period.mul_f64(FRESH_PERIODS),
            after_answer: self.retry_period.mul_f64(AFTER_ANSWER_PERIODS),
            renew_deadline: self.renew_deadline,
            lease_duration: self.lease_duration,
        }
    }

    /// Returns how long a candidate waits after creating a lease whose previous holder it does not know.
    pub(super) fn proving_time(&self) -> Duration {
        self.retry_period.mul_f64(PROVING_PERIODS)
    }

    /// The namespace and name of the lease.
    pub(crate) fn key(&self) -> (String, String) {
        (self.namespace.clone(), self.name.clone())
    }

    /// Keeps the lease when the manager stops, so that the next leader waits until it expires.
    pub fn keep_on_stop(mut self) -> Self {
        self.release = false;
        self
    }
}
