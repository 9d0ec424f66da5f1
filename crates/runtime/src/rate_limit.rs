//! A rate limit by token bucket, on tokio's clock, which is virtual in tests.

use std::time::Duration;

use tokio::time::Instant;

/// A token bucket: `rate` tokens a second, at most `burst` at once.
#[derive(Debug)]
pub(crate) struct RateLimit {
    rate: f64,
    burst: f64,
    /// Negative if tokens were taken before they were there: their takers wait.
    tokens: f64,
    filled_at: Option<Instant>,
}

impl RateLimit {
    pub(crate) fn new(per_second: f64, burst: u32) -> Self {
        let burst = f64::from(burst.max(1));
        Self { rate: per_second.max(f64::MIN_POSITIVE), burst, tokens: burst, filled_at: None }
    }

    /// Takes one token. Returns how long to wait until the token is there.
    pub(crate) fn take(&mut self, now: Instant) -> Duration {
        let passed = self.filled_at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.tokens = (self.tokens + passed.as_secs_f64() * self.rate).min(self.burst) - 1.0;
        self.filled_at = Some(now);
        if self.tokens >= 0.0 {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(-self.tokens / self.rate).unwrap_or(Duration::MAX)
    }
}
