//! What a cluster of its own costs each test: until it answers, and until the built-in controllers are at rest.

use evenkeel_cluster::Cluster;
use tokio::runtime::{Builder, Runtime};

fn main() {
    divan::main();
}

/// As `#[evenkeel::test]` has it.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().expect("it needs nothing")
}

#[divan::bench]
fn start(bencher: divan::Bencher<'_, '_>) {
    bencher.with_inputs(runtime).bench_local_refs(|runtime| {
        runtime.block_on(async { Cluster::start().await.expect("a cluster in memory starts") })
    });
}

#[divan::bench]
fn start_until_idle(bencher: divan::Bencher<'_, '_>) {
    bencher.with_inputs(runtime).bench_local_refs(|runtime| {
        runtime.block_on(async {
            let cluster = Cluster::start().await.expect("a cluster in memory starts");
            cluster.idle().await;
            cluster
        })
    });
}

#[divan::bench]
fn start_without_controllers(bencher: divan::Bencher<'_, '_>) {
    bencher.with_inputs(runtime).bench_local_refs(|runtime| {
        let cluster = Cluster::builder().controllers(false);
        runtime.block_on(async { cluster.start().await.expect("a cluster in memory starts") })
    });
}
