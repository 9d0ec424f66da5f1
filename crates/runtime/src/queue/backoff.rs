//! The backoff of failed keys.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_env::Env;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::rate_limit::RateLimit;

/// An exponential backoff for each key, with an optional rate limit over all keys.
///
/// The default is controller-runtime's: 5 ms, doubled with each failure in a row, at most 1000 s. Up to 10 % of jitter
/// is added, so that keys that failed together do not come back together.
///
/// ```
/// use std::time::Duration;
/// use evenkeel_runtime::{Backoff, Env, Queue, Request};
///
/// let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60)).jitter(0.2).overall(10.0, 100);
/// let queue: Queue<Request> = Queue::with_backoff("pods", &Env::seeded(1), backoff);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Backoff {
    base: Duration,
    max: Duration,
    jitter: f64,
    limit: Option<Arc<Mutex<RateLimit>>>,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new(Duration::from_millis(5), Duration::from_secs(1000))
    }
}

impl Backoff {
    /// A backoff that starts at `base`, doubles with each failure in a row, and ends at `max`.
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { base, max, jitter: 0.1, limit: None }
    }

    /// Adds a random part of up to this fraction to each delay. The default is 0.1.
    pub fn jitter(mut self, fraction: f64) -> Self {
        self.jitter = fraction.max(0.0);
        self
    }

    /// Limits rate-limited adds over all keys: at most `burst` at once, and `per_second` in the long run.
    pub fn overall(mut self, per_second: f64, burst: u32) -> Self {
        self.limit = Some(Arc::new(Mutex::new(RateLimit::new(per_second, burst))));
        self
    }

    /// The delay after this many failures in a row, the first being 1.
    pub(crate) fn delay(&self, failures: u32, env: &Env, now: Instant) -> Duration {
        let exponent = failures.saturating_sub(1).min(62);
        let grown = self.base.as_secs_f64() * (1u64 << exponent) as f64;
        let capped = grown.min(self.max.as_secs_f64());
        // Users read the maximum as a bound: jitter must not exceed it.
        let jittered = (capped * (1.0 + self.jitter * env.random_fraction())).min(self.max.as_secs_f64());
        let own = Duration::try_from_secs_f64(jittered).unwrap_or(self.max);
        match &self.limit {
            Some(limit) => own.max(limit.lock().take(now)),
            None => own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_delay_doubles_up_to_its_maximum() {
        let env = Env::seeded(1);
        let backoff = Backoff::default();
        let exact = backoff.clone().jitter(0.0);
        let now = Instant::now();
        assert_eq!(exact.delay(1, &env, now), Duration::from_millis(5));
        assert_eq!(exact.delay(4, &env, now), Duration::from_millis(40));
        assert_eq!(exact.delay(500, &env, now), Duration::from_secs(1000));
        let jittered = backoff.delay(4, &env, now);
        assert!(
            jittered > Duration::from_millis(40) && jittered <= Duration::from_millis(44),
            "{jittered:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_rate_limit_delays_what_exceeds_it() {
        let env = Env::seeded(1);
        let backoff = Backoff::default().jitter(0.0).overall(10.0, 2);
        let now = Instant::now();
        let delays: Vec<_> = (0..4).map(|_| backoff.delay(1, &env, now).as_millis()).collect();
        assert_eq!(delays, [5, 5, 100, 200]);
        // Three tenths of a second pay what was taken ahead, and a long rest fills it: up to its burst.
        tokio::time::advance(Duration::from_millis(300)).await;
        assert_eq!(backoff.delay(1, &env, Instant::now()).as_millis(), 5);
        tokio::time::advance(Duration::from_secs(1000)).await;
        let delays: Vec<_> = (0..3).map(|_| backoff.delay(1, &env, Instant::now()).as_millis()).collect();
        assert_eq!(delays, [5, 5, 100]);
    }

    #[tokio::test(start_paused = true)]
    async fn jitter_comes_from_the_environment_and_stays_below_the_maximum() {
        let delays = |seed: u64| {
            let (env, backoff, now) = (Env::seeded(seed), Backoff::default(), Instant::now());
            (1..30).map(|failures| backoff.delay(failures, &env, now)).collect::<Vec<_>>()
        };
        assert_eq!(delays(1), delays(1));
        assert_ne!(delays(1), delays(2));
        assert!(delays(1).iter().all(|delay| *delay <= Duration::from_secs(1000)));
    }
}
