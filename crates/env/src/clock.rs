//! Wall-clock time: the operating system's, or a virtual one that moves with `tokio::time`.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Where virtual wall-clock time begins: 2026-01-01T00:00:00Z.
pub const EPOCH: Timestamp = Timestamp::constant(1_767_225_600, 0);

#[derive(Debug)]
pub(crate) enum Clock {
    System,
    /// `EPOCH` plus what `tokio::time` says has passed since `start`.
    Virtual {
        start: Instant,
    },
}

impl Clock {
    pub(crate) fn virtual_from_now() -> Self {
        Self::Virtual { start: Instant::now() }
    }

    #[expect(clippy::disallowed_methods, reason = "this is the door")]
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

/// Whether `tokio::time` stands still in this runtime unless everything waits, as in tests with paused time.
///
/// Tokio has no such question. A clock that has not moved while the OS clock did is a paused one.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub fn time_is_paused() -> bool {
    let before = Instant::now();
    let start = std::time::Instant::now();
    while start.elapsed() < std::time::Duration::from_micros(1) {
        std::hint::spin_loop();
    }
    Instant::now() == before
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
