//! How long a cluster takes to start: the first of a process, and those after it.
//!
//! A start returns before the controllers have begun. What they do then, until everything is at rest, is on the account
//! of whatever a test waits for first: it is measured beside the start.
//!
//! `cargo bench -p evenkeel-cluster --bench start` measures the release profile; with `--profile dev` it measures
//! what the tests of an operator see.

use std::time::Duration;

use evenkeel_cluster::Cluster;

/// As many as a large suite of tests starts.
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

/// Starts a cluster, and waits for its controllers to come to rest where told to.
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
