//! Runs a test on a cluster of its own: embedded, or on the remote cluster that `EVENKEEL_KUBECONFIG` names.

use std::convert::Infallible;
use std::fmt::Debug;
use std::io::Write as _;
use std::path::Path;

use k8s_openapi::api::core::v1::Namespace;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::assemble::{Builder, SETTLE_LIMIT};
use crate::cluster::Cluster;
use crate::settings;

/// The worker threads of a runtime in real time: enough for races, few enough to run several tests at a time.
const THREADS: usize = 2;
/// The prefix of the namespaces that tests create on a remote cluster.
pub const NAMESPACE_PREFIX: &str = "evenkeel-test-";

/// The result of a test: nothing, or a `Result` whose error fails the test.
pub trait TestResult {
    /// The text of the error, or `None` if the test passed.
    fn failure(&self) -> Option<String>;
}

impl TestResult for () {
    fn failure(&self) -> Option<String> {
        None
    }
}

impl<T, E: Debug> TestResult for Result<T, E> {
    fn failure(&self) -> Option<String> {
        self.as_ref().err().map(|error| format!("{error:?}"))
    }
}

/// The seed of this process: `EVENKEEL_SEED`, or [`DEFAULT_SEED`](super::DEFAULT_SEED).
///
/// # Panics
/// Panics if `EVENKEEL_SEED` is malformed.
pub fn seed() -> u64 {
    settings::seed().unwrap_or_else(|error| panic!("{error}"))
}

/// The default options of a test's cluster, seeded by `EVENKEEL_SEED`.
///
/// # Panics
/// Panics if `EVENKEEL_SEED` is malformed.
pub fn options() -> Builder {
    Cluster::builder().seed(seed())
}

/// Runs a test on a cluster of its own, on a current-thread runtime with paused time. A failed test prints what
/// happened in the cluster.
///
/// If the options or `EVENKEEL_REAL_TIME=1` say so, the test runs in real time on a multi-threaded runtime. If
/// `EVENKEEL_KUBECONFIG` names a kubeconfig, it runs on that cluster, in real time and in a namespace of its own.
///
/// ```
/// use evenkeel_cluster::testing;
/// use k8s_openapi::api::core::v1::Node;
/// testing::run(testing::options().nodes(3), |cluster| async move {
///     assert_eq!(cluster.list::<Node>().await?.len(), 3);
///     Ok::<_, kube::Error>(())
/// }).unwrap();
/// ```
///
/// # Panics
/// Panics if the test panics, if the cluster does not start, or if a setting is malformed.
pub fn run<F, R>(options: Builder, test: impl FnOnce(Cluster) -> F) -> R
where
    F: Future<Output = R>,
    R: TestResult,
{
    run_and(warn, options, test)
}

/// Runs a test as [`run`] does. `passed` is called with the cluster of a test that passed.
fn run_and<F, R>(passed: fn(&Cluster), options: Builder, test: impl FnOnce(Cluster) -> F) -> R
where
    F: Future<Output = R>,
    R: TestResult,
{
    if tokio::runtime::Handle::try_current().is_ok() {
        panic!(
            "this starts a tokio runtime with a cluster of its own, and cannot be called within another one: call it from a \
             plain #[test] function that is not async, instead of from #[tokio::test] or #[evenkeel::test]"
        );
    }
    let kubeconfig = settings::kubeconfig();
    let real_time = settings::real_time().unwrap_or_else(|error| panic!("{error}"));
    let real_time = real_time || options.real_time || kubeconfig.is_some();
    runtime(real_time).block_on(async {
        let cluster = match &kubeconfig {
            Some(kubeconfig) => connect(kubeconfig).await,
            None if real_time => {
                // Certificates are verified against the clock of the system.
                start(Builder { seed: None, webhooks_over_tls: true, ..options }).await
            }
            None => start(options).await,
        };
        let report = ReportOnFailure { cluster: cluster.clone() };
        let result = test(cluster.clone()).await;
        match result.failure() {
            Some(_) => report.report(),
            None => passed(&cluster),
        }
        if kubeconfig.is_some() {
            cluster.clean_up().await;
            let _ = cluster.delete::<Namespace>(cluster.namespace()).await;
            if result.failure().is_none() {
                println!("remote: passed {}", std::thread::current().name().unwrap_or_default());
            }
        }
        result
    })
}

fn runtime(real_time: bool) -> tokio::runtime::Runtime {
    let built = if real_time {
        tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()
    } else {
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()
    };
    built.expect("the operating system provides threads and timers for a runtime")
}

/// Another cluster, for a test that needs several. On a remote cluster, another namespace.
///
/// # Panics
/// Panics if the cluster does not start.
pub async fn cluster(options: Builder) -> Cluster {
    match settings::kubeconfig() {
        Some(kubeconfig) => connect(&kubeconfig).await,
        None => options.start().await.expect("a cluster in memory starts"),
    }
}

async fn start(options: Builder) -> Cluster {
    let cluster = options.start().await.expect("a cluster in memory starts");
    // The test begins when the controllers have created what every namespace has, as on a cluster that is up already.
    cluster.idle().await;
    cluster.inner.wire.recorder.begin();
    cluster
}

async fn connect(kubeconfig: &Path) -> Cluster {
    let unusable = |error: &dyn std::fmt::Display| -> ! {
        panic!("{}={}: the kubeconfig cannot be used: {error}", settings::KUBECONFIG, kubeconfig.display())
    };
    let read = Kubeconfig::read_from(kubeconfig).unwrap_or_else(|error| unusable(&error));
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
    let config = config.unwrap_or_else(|error| unusable(&error));
    let cluster = Cluster::connect(Client::try_from(config).unwrap_or_else(|error| unusable(&error)));
    let mut namespace = Namespace::default();
    let name = format!("{NAMESPACE_PREFIX}{}", cluster.env().suffix(8));
    namespace.metadata.name = Some(name.clone());
    cluster.apply(namespace).await.expect("the user of the kubeconfig may create namespaces");
    cluster.namespaced(name)
}

/// Prints what happened in the cluster if the test panics.
struct ReportOnFailure {
    cluster: Cluster,
}

impl ReportOnFailure {
    fn report(&self) {
        let seed = self.cluster.env().seed().unwrap_or_default();
        let timeline = self.cluster.timeline();
        eprintln!("what happened in the cluster (EVENKEEL_SEED={seed}, newest last):\n{timeline}");
        self.cluster.warnings().iter().for_each(|warning| eprintln!("warning: {warning}"));
    }
}

impl Drop for ReportOnFailure {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.report();
        }
    }
}

/// Prints what operators should not have done in a test that passed. The output of such a test is captured, unless it goes
/// directly to stderr.
fn warn(cluster: &Cluster) {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    for warning in cluster.warnings() {
        // A test does not fail because nobody can read the warning.
        let _ = writeln!(std::io::stderr(), "warning: {test}: {warning}");
    }
}

/// Plays a part of a test in a cluster of its own. Assertions belong inside of `play`, so that a failure prints the
/// timeline of this cluster.
pub(crate) fn in_a_cluster<F: Future<Output = R>, R>(play: impl FnOnce(Cluster) -> F) -> R {
    // After a crash, an operator may begin its waits again.
    // The parts of one test would all print the same warnings.
    let run = run_and(
        |_| (),
        options().settle_limit(2 * SETTLE_LIMIT),
        |cluster| {
            let played = play(cluster);
            async move { Ok::<_, Infallible>(played.await) }
        },
    );
    run.unwrap_or_else(|never| match never {})
}
