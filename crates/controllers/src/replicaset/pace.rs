//! Limits how often a large set writes its status.
//!
//! While 10,000 pods start, a set would otherwise write its status for each of them, and so would its Deployment, so
//! that most writes in the cluster would only report the number of ready pods. In Kubernetes, the time that a write
//! takes has the same effect. A small set writes at once.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_runtime::Request;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The number of pods up to which a set writes its status whenever it changes.
const SMALL: usize = 50;

/// The minimum time between two writes of the status, for each pod of the set: a tenth of a second for 1,000 pods.
const PER_POD: Duration = Duration::from_micros(100);

/// When large sets last wrote their status.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    written: Mutex<BTreeMap<Request, Instant>>,
}

impl Pace {
    /// Returns how long a set with this many pods must wait before it writes its status again. Returns `None` if it may
    /// write now, and counts that as a write.
    pub(crate) fn wait(&self, set: &Request, pods: usize) -> Option<Duration> {
        let mut written = self.written.lock();
        if pods <= SMALL {
            written.remove(set);
            return None;
        }
        let now = Instant::now();
        let pace = PER_POD.saturating_mul(u32::try_from(pods).unwrap_or(u32::MAX));
        let left = written.get(set).and_then(|last| (*last + pace).checked_duration_since(now));
        if left.is_none_or(|left| left.is_zero()) {
            written.insert(set.clone(), now);
            return None;
        }
        left
    }

    /// Forgets a deleted set.
    pub(crate) fn forget(&self, set: &Request) {
        self.written.lock().remove(set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_large_set_waits_and_a_small_one_does_not() {
        let pace = Pace::default();
        let (large, small) = (Request::cluster("large"), Request::cluster("small"));
        assert_eq!((pace.wait(&large, 1000), pace.wait(&small, SMALL)), (None, None));
        tokio::time::advance(Duration::from_millis(40)).await;
        assert_eq!(pace.wait(&large, 1000), Some(Duration::from_millis(60)));
        assert_eq!(pace.wait(&small, SMALL), None);
        tokio::time::advance(Duration::from_millis(60)).await;
        assert_eq!(pace.wait(&large, 1000), None);
        assert!(pace.wait(&large, 1000).is_some());
        pace.forget(&large);
        assert_eq!(pace.wait(&large, 1000), None);
    }
}
