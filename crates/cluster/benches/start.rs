//! The time that a cluster takes to start: the first one of a process, and further ones.
//!
//! The start returns before the controllers have begun. A test pays for their initial work when it first waits for the
//! cluster to settle, so that work is measured separately.
//!
//! `cargo bench -p evenkeel-cluster --bench start` measures the release profile; with `--profile dev` it measures
//! what the tests of an operator use.

use std::time::Duration;

use evenkeel_cluster::Cluster;

/// The number of clusters that a large test suite starts.
const MANY: u32 = 500;

fn main() {
    let paused = std::env::args().any(|argument| argument == "--paused");
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(paused).build().expect("a runtime");
    runtime.block_on(async {
        let time = if paused { "virtual" } else { "real" };
        println!("{time} time: the first start took {:?}", start(false).await);
        for (what, settle) in [("start", false), ("start until it is settled", true)] {
            let before = now();
            for _ in 0..MANY {
                start(settle).await;
            }
            println!(
                "{time} time: each {what} of {MANY} more took {:?} with its end",
                before.elapsed() / MANY
            );
        }
    });
}

/// Starts a cluster, and waits until it has settled if asked to.
async fn start(settle: bool) -> Duration {
    let before = now();
    let cluster = Cluster::start().await.expect("a cluster in memory starts");
    let took = before.elapsed();
    if settle {
        cluster.settled().await;
    }
    took
}

#[expect(clippy::disallowed_methods, reason = "it is real time that is measured")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}
