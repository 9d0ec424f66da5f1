//! How long a suite of 500 tests takes: each has a cluster of its own, declares the kind, runs the operator, applies a
//! resource, and waits until its pods are ready.
//!
//! `cargo bench -p my-resource --bench suite` measures the release profile, and with `--profile dev` what `cargo test`
//! sees. The tests run as `cargo test` runs them, on as many threads as there are cores.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};

use evenkeel::kube::{CustomResourceExt as _, Result};
use evenkeel::prelude::*;
use evenkeel::testing;
use my_resource::{MyResource, MyResourceSpec, Phase, controller};

/// As many tests as a large suite has.
const TESTS: usize = 500;

fn main() {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let (next, before) = (AtomicUsize::new(0), now());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while next.fetch_add(1, Ordering::Relaxed) < TESTS {
                    testing::run(testing::options(), test).expect("the test passes");
                }
            });
        }
    });
    let took = before.elapsed();
    println!("{TESTS} tests on {threads} threads took {took:.1?}: {:.1?} each", took / TESTS as u32);
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
