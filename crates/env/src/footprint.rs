//! Footprints: how many changes a piece of code makes in the cluster while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

tokio::task_local! {
    static CURRENT: Footprint;
}

/// Counts the changes that one future makes in the cluster, such as those of one reconcile. The server of an embedded
/// cluster knows which requests changed something, and notes each change here. Clones share one count.
///
/// A change is attributed to the future that awaits the request. A task that the future spawns has no footprint.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use evenkeel_env::Footprint;
///
/// let footprint = Footprint::default();
/// footprint.follow(async { Footprint::note_write() }).await;
/// Footprint::note_write();                                  // outside: nobody asks
/// assert_eq!(footprint.writes(), 1);
/// # });
/// ```
#[derive(Clone, Debug, Default)]
pub struct Footprint {
    writes: Arc<AtomicUsize>,
}

impl Footprint {
    /// Runs a future, and counts the changes that it makes.
    pub async fn follow<F: Future>(&self, future: F) -> F::Output {
        CURRENT.scope(self.clone(), future).await
    }

    /// Notes that the current future has changed an object. Does nothing outside of a footprint.
    pub fn note_write() {
        // Most code runs outside of a footprint, and nobody counts its changes.
        let _ = CURRENT.try_with(|footprint| footprint.writes.fetch_add(1, Ordering::Relaxed));
    }

    /// Returns how many changes were noted.
    pub fn writes(&self) -> usize {
        self.writes.load(Ordering::Relaxed)
    }
}
