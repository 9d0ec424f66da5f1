//! Footprints: how many changes a piece of code makes in the cluster while it runs, and how long it holds its thread.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::Stopwatch;

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
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    writes: AtomicUsize,
    /// The longest time between two awaits, in microseconds of real time.
    held_us: AtomicU64,
}

impl Footprint {
    /// Runs a future, counts the changes that it makes, and measures how long it runs without awaiting.
    pub async fn follow<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        let polled = std::future::poll_fn(|context| {
            let watch = Stopwatch::start();
            let polled = future.as_mut().poll(context);
            let held = u64::try_from(watch.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.inner.held_us.fetch_max(held, Ordering::Relaxed);
            polled
        });
        CURRENT.scope(self.clone(), polled).await
    }

    /// Notes that the current future has changed an object. Does nothing outside of a footprint.
    pub fn note_write() {
        // Most code runs without a footprint, where nobody counts.
        let _ = CURRENT.try_with(|footprint| footprint.inner.writes.fetch_add(1, Ordering::Relaxed));
    }

    /// Returns how many changes were noted.
    pub fn writes(&self) -> usize {
        self.inner.writes.load(Ordering::Relaxed)
    }

    /// The longest time for which the future held its thread without awaiting, in real time.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
    /// use std::time::Duration;
    /// use evenkeel_env::Footprint;
    ///
    /// let footprint = Footprint::default();
    /// footprint.follow(async { tokio::time::sleep(Duration::from_secs(1000)).await }).await;
    /// assert!(footprint.held() < Duration::from_secs(1000), "it awaited");
    /// footprint.follow(async { std::thread::sleep(Duration::from_millis(20)) }).await;
    /// assert!(footprint.held() >= Duration::from_millis(20), "it blocked");
    /// # });
    /// ```
    pub fn held(&self) -> Duration {
        Duration::from_micros(self.inner.held_us.load(Ordering::Relaxed))
    }
}
