//! What `#[evenkeel::test]` expands to.

use std::fmt::Debug;

use crate::builder::Builder;
use crate::cluster::Cluster;

pub use crate::everywhere::crash_everywhere;

/// The seed of a test unless `EVENKEEL_SEED` says otherwise: fixed, so that a failure comes again.
pub const DEFAULT_SEED: u64 = 0;

/// What a test may return: nothing, or a result whose error fails it.
pub trait Outcome {
    /// The error's text.
    fn failure(&self) -> Option<String>;
}

impl Outcome for () {
    fn failure(&self) -> Option<String> {
        None
    }
}

impl<T, E: Debug> Outcome for Result<T, E> {
    fn failure(&self) -> Option<String> {
        self.as_ref().err().map(|error| format!("{error:?}"))
    }
}

/// The seed of this process: `EVENKEEL_SEED`, or [`DEFAULT_SEED`].
pub fn seed() -> u64 {
    let set = std::env::var("EVENKEEL_SEED").ok();
    set.and_then(|seed| seed.parse().ok()).unwrap_or(DEFAULT_SEED)
}

/// The options of a test's cluster before its own are set.
pub fn options() -> Builder {
    Cluster::builder().seed(seed())
}

/// Runs a test on a cluster of its own, on a current-thread runtime with paused time.
///
/// When it fails, what happened in the cluster is shown before.
///
/// # Panics
/// When the test does, or when the cluster does not start.
pub fn run<F, R>(options: Builder, test: impl FnOnce(Cluster) -> F) -> R
where
    F: Future<Output = R>,
    R: Outcome,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a current-thread runtime needs nothing that could be missing");
    runtime.block_on(async {
        let cluster = options.start().await.expect("a cluster in memory starts");
        // The controllers make what every namespace has before the test begins, as on a cluster that has been up.
        cluster.idle().await;
        let story = Story { cluster: cluster.clone() };
        let result = test(cluster).await;
        if result.failure().is_some() {
            story.tell();
        }
        result
    })
}

/// Tells what happened when the test panics.
struct Story {
    cluster: Cluster,
}

impl Story {
    fn tell(&self) {
        let seed = self.cluster.env().seed().unwrap_or_default();
        eprintln!("what happened in the cluster (EVENKEEL_SEED={seed}):\n{}", self.cluster.timeline());
    }
}

impl Drop for Story {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.tell();
        }
    }
}

/// The things as they print themselves, for a comparison whose difference can be read.
pub fn lines<T: ToString>(things: &[T]) -> Vec<String> {
    things.iter().map(T::to_string).collect()
}
