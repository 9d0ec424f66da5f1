//! Which pods a ReplicaSet creates and deletes, as a function of the pods that it has.

use std::sync::Arc;

use jiff::Timestamp;

use super::ranking;
use crate::kinds::Pod;
use crate::pod;

/// The most pods that one reconcile creates or deletes. The next one does the rest.
pub(crate) const BURST: usize = 500;

/// The active and terminating pods of a ReplicaSet, each in the order of their names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pods {
    /// The pods that count as replicas.
    pub(crate) active: Vec<Arc<Pod>>,
    /// The pods that are being deleted.
    pub(crate) terminating: Vec<Arc<Pod>>,
}

impl Pods {
    /// Sorts pods into active and terminating ones. Finished pods are left out.
    pub(crate) fn of(pods: impl IntoIterator<Item = Arc<Pod>>) -> Self {
        let mut sorted = Self::default();
        for pod in pods {
            if pod::is_active(&pod) {
                sorted.active.push(pod);
            } else if pod::is_terminating(&pod) {
                sorted.terminating.push(pod);
            }
        }
        sorted
    }
}

/// The difference between the wanted and the present pods.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scale {
    /// There are as many pods as wanted.
    Enough,
    /// Create this many pods.
    Create(usize),
    /// Delete these pods.
    Delete(Vec<Arc<Pod>>),
}

/// Computes what to do to reach `wanted` pods. `related` returns the pods of the whole Deployment, and is called only
/// if needed.
pub(crate) fn scale(
    wanted: usize,
    active: &[Arc<Pod>],
    related: impl FnOnce() -> Vec<Arc<Pod>>,
    now: Timestamp,
) -> Scale {
    if active.len() <= wanted {
        return scale_up(wanted, active.len());
    }
    let count = (active.len() - wanted).min(BURST);
    let related = if count < active.len() { related() } else { Vec::new() };
    Scale::Delete(ranking::victims(active, &related, count, now))
}

/// Computes what to do to reach `wanted` pods, if no more than that exist.
pub(crate) fn scale_up(wanted: usize, active: usize) -> Scale {
    match wanted.saturating_sub(active).min(BURST) {
        0 => Scale::Enough,
        missing => Scale::Create(missing),
    }
}

/// Returns the sizes of the batches in which `count` pods are created: 1, 2, 4 … A quota that forbids all of them causes
/// one failed request, not `count`.
pub(crate) fn batches(count: usize) -> impl Iterator<Item = usize> {
    let mut left = count;
    let mut next = 1;
    std::iter::from_fn(move || {
        let batch = left.min(next);
        left -= batch;
        next *= 2;
        (batch > 0).then_some(batch)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::tests::ready_pod;

    #[test]
    fn batches_double() {
        assert_eq!(batches(10).collect::<Vec<_>>(), [1, 2, 4, 3]);
        assert_eq!(batches(0).count(), 0);
    }

    #[test]
    fn the_difference_is_made_up() {
        let pods: Vec<_> = ["a", "b"].map(|name| Arc::new(ready_pod(name, "2026-01-01T00:00:00Z"))).into();
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let scale = |wanted| scale(wanted, &pods, || pods.clone(), now);
        assert_eq!(scale(2), Scale::Enough);
        assert_eq!(scale(5), Scale::Create(3));
        assert!(matches!(scale(1), Scale::Delete(pods) if pods.len() == 1));
        assert!(matches!(scale(0), Scale::Delete(pods) if pods.len() == 2));
        assert_eq!(scale(10_000), Scale::Create(BURST));
    }
}
