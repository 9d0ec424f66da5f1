//! Wall-clock time: that of the operating system, or virtual time that moves with `tokio::time`.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// The start of virtual wall-clock time: 2026-01-01T00:00:00Z.
pub const EPOCH: Timestamp = Timestamp::constant(1_767_225_600, 0);

#[derive(Debug)]
pub(crate) enum Clock {
    System,
    /// `EPOCH` plus the `tokio::time` that has passed since `start`.
    Virtual {
        start: Instant,
    },
}

impl Clock {
    pub(crate) fn virtual_from_now() -> Self {
        Self::Virtual { start: Instant::now() }
    }

    #[expect(clippy::disallowed_methods, reason = "this crate is the one place that may use it")]
    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Self::System => Timestamp::now(),
            Self::Virtual { start } => {
                let passed = SignedDuration::try_from(start.elapsed()).unwrap_or(SignedDuration::ZERO);
                EPOCH.checked_add(passed).unwrap_or(Timestamp::MAX)
            }
        }
    }
}

/// Whether time is paused in this tokio runtime, as in tests.
///
/// Tokio cannot be asked. Its clock is paused if it has not moved while the OS clock has.
#[expect(clippy::disallowed_methods, reason = "this crate is the one place that may use it")]
pub fn time_is_paused() -> bool {
    let before = Instant::now();
    let start = std::time::Instant::now();
    while start.elapsed() < std::time::Duration::from_micros(1) {
        std::hint::spin_loop();
    }
    Instant::now() == before
}

/// Measures real time, also where time is paused: for reports about code that blocks its thread, never for decisions.
///
/// ```
/// use evenkeel_env::Stopwatch;
///
/// let watch = Stopwatch::start();
/// assert!(watch.elapsed() <= watch.elapsed());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(std::time::Instant);

impl Stopwatch {
    /// Begins to measure.
    #[expect(clippy::disallowed_methods, reason = "this crate is the one place that may use it")]
    pub fn start() -> Self {
        Self(std::time::Instant::now())
    }

    /// The real time since the start.
    pub fn elapsed(&self) -> std::time::Duration {
        self.0.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn paused_time_is_seen() {
        assert!(time_is_paused());
    }

    #[tokio::test]
    async fn running_time_is_seen() {
        assert!(!time_is_paused());
    }
}
