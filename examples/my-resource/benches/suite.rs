//! The time that a suite of 500 tests takes. Each test has a cluster of its own, creates the custom resource
//! definition, runs the operator, applies a resource, and waits until its pods are ready.
//!
//! `cargo bench -p my-resource --bench suite` measures the release profile; with `--profile dev` it measures what
//! `cargo test` uses. The tests run on as many threads as there are cores, like those of `cargo test`. For a profiler,
//! the numbers of tests and threads can be set (`-- 20 1`).

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};

use evenkeel::kube::Result;
use evenkeel::prelude::*;
use evenkeel::testing;
use my_resource::{MyResource, MyResourceSpec, Phase, controller};

/// The number of tests of a large suite.
const TESTS: usize = 500;

fn main() {
    let mut numbers = std::env::args().filter_map(|given| given.parse().ok());
    let tests = numbers.next().unwrap_or(TESTS);
    let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = numbers.next().unwrap_or_else(cores);
    let (next, before) = (AtomicUsize::new(0), now());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while next.fetch_add(1, Ordering::Relaxed) < tests {
                    testing::run(testing::options(), test).expect("the test passes");
                }
            });
        }
    });
    let took = before.elapsed();
    println!("{tests} tests on {threads} threads took {took:.1?}: {:.1?} each", took / tests as u32);
}

async fn test(cluster: Cluster) -> Result<()> {
    cluster.apply(MyResource::crd()).await?;
    cluster.settled().await;
    cluster.run(controller);
    let spec = MyResourceSpec { image: "nginx:1.29".into(), memory: "64Mi".into() };
    cluster.apply(MyResource::new("web", spec)).await?;
    cluster.settled().await;
    let phase = cluster.get::<MyResource>("web").await?.status.map(|status| status.phase);
    assert_eq!(phase, Some(Phase::Ready));
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "it is real time that is measured")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}
