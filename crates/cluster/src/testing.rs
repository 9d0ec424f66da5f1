//! What `#[evenkeel::test]` expands to, and assertions that show readable differences.

use std::fmt::Debug;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Namespace;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::builder::Builder;
use crate::cluster::Cluster;

pub use crate::assertions::{assert_has, assert_same, diff};
pub use crate::everywhere::crash_everywhere;
pub use crate::rules::{as_account, spare_rules};

/// The seed of a test unless `EVENKEEL_SEED` says otherwise: fixed, so that a failure comes again.
pub const DEFAULT_SEED: u64 = 0;

/// Names a kubeconfig where tests shall run on a cluster elsewhere.
pub const KUBECONFIG: &str = "EVENKEEL_KUBECONFIG";

/// Set to `1`, it has tests run in real time on a runtime with several threads.
pub const REAL_TIME: &str = "EVENKEEL_REAL_TIME";

/// The threads of a runtime in real time: enough for races, few enough to run tests beside each other.
const THREADS: usize = 2;
/// What the names of the namespaces begin with that tests have on a cluster elsewhere.
pub const NAMESPACE_PREFIX: &str = "evenkeel-test-";

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

/// What a test that does not run gives: the same as one that passes.
pub trait Skipped {
    /// It.
    fn skipped() -> Self;
}

impl Skipped for () {
    fn skipped() -> Self {}
}

impl<E> Skipped for Result<(), E> {
    fn skipped() -> Self {
        Ok(())
    }
}

/// What a test that needs the cluster of this process returns at once where the tests run on one elsewhere; it says
/// so on stdout. None where it runs.
pub fn skip<R: Skipped>(test: &str, why: &str) -> Option<R> {
    std::env::var_os(KUBECONFIG)?;
    println!("elsewhere: skipped {test}: {why}");
    Some(R::skipped())
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

/// Runs a test on a cluster of its own, on a current-thread runtime with paused time. The same body serves two other
/// worlds: a runtime with several threads in real time, where the options or `EVENKEEL_REAL_TIME=1` ask for it; and,
/// where `EVENKEEL_KUBECONFIG` names one, the cluster that it points to, in real time and in a namespace of its own.
///
/// When it fails, what happened in the cluster is shown.
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
/// When the test does, or when the cluster does not start.
pub fn run<F, R>(options: Builder, test: impl FnOnce(Cluster) -> F) -> R
where
    F: Future<Output = R>,
    R: Outcome,
{
    let elsewhere = elsewhere();
    let real_time =
        options.real_time || elsewhere.is_some() || std::env::var(REAL_TIME).is_ok_and(|on| on == "1");
    runtime(real_time).block_on(async {
        let cluster = match &elsewhere {
            Some(kubeconfig) => connect(kubeconfig).await,
            None => start(options).await,
        };
        let story = Story { cluster: cluster.clone() };
        let result = test(cluster.clone()).await;
        if result.failure().is_some() {
            story.tell();
        }
        if elsewhere.is_some() {
            cluster.stop_all();
            let _ = cluster.delete::<Namespace>(cluster.namespace()).await;
            if result.failure().is_none() {
                println!("elsewhere: passed {}", std::thread::current().name().unwrap_or_default());
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
    built.expect("a runtime needs nothing that could be missing")
}

/// One more cluster for a test that compares several; elsewhere, one more namespace.
///
/// # Panics
/// When it does not start.
pub async fn cluster(options: Builder) -> Cluster {
    match elsewhere() {
        Some(kubeconfig) => connect(&kubeconfig).await,
        None => options.start().await.expect("a cluster in memory starts"),
    }
}

/// The kubeconfig of the cluster that the tests shall run on, if it is not in this process.
fn elsewhere() -> Option<PathBuf> {
    std::env::var_os(KUBECONFIG).map(PathBuf::from)
}

async fn start(options: Builder) -> Cluster {
    let cluster = options.start().await.expect("a cluster in memory starts");
    // The controllers make what every namespace has before the test begins, as on a cluster that has been up.
    cluster.idle().await;
    cluster.world.wire.recorder.begin();
    cluster
}

async fn connect(kubeconfig: &Path) -> Cluster {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("EVENKEEL_KUBECONFIG names a kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let client =
        Client::try_from(config.expect("the kubeconfig is whole")).expect("the kubeconfig is usable");
    let cluster = Cluster::connect(client);
    let mut namespace = Namespace::default();
    let name = format!("{NAMESPACE_PREFIX}{}", cluster.env().suffix(8));
    namespace.metadata.name = Some(name.clone());
    cluster.apply(namespace).await.expect("the user may make namespaces");
    cluster.namespaced(name)
}

/// Tells what happened when the test panics.
struct Story {
    cluster: Cluster,
}

impl Story {
    fn tell(&self) {
        let seed = self.cluster.env().seed().unwrap_or_default();
        let timeline = self.cluster.timeline();
        eprintln!("what happened in the cluster (EVENKEEL_SEED={seed}, newest last):\n{timeline}");
    }
}

impl Drop for Story {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.tell();
        }
    }
}

/// Compares what a test found with the text that is kept in a file of the project, such as the recorded
/// [`Verbs`](evenkeel_runtime::manifests::Verbs) of an operator; with `EVENKEEL_UPDATE=1` it writes the file instead.
/// The path is relative to the folder of the package. On a cluster elsewhere nothing is compared: operators watch one
/// namespace there.
///
/// # Panics
/// When they differ, with both.
pub fn kept(path: &str, found: &impl ToString) {
    if elsewhere().is_some() {
        println!("elsewhere: not compared with {path}");
        return;
    }
    let file = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default().join(path);
    let found = found.to_string();
    if std::env::var_os("EVENKEEL_UPDATE").is_some() {
        std::fs::write(&file, found).expect("the file can be written");
        return;
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == found,
        "{path} is not what was found (EVENKEEL_UPDATE=1 writes it)\nkept:\n{kept}\nfound:\n{found}"
    );
}

/// The things as they print themselves, for a comparison whose difference can be read.
pub fn lines<T: ToString>(things: &[T]) -> Vec<String> {
    things.iter().map(T::to_string).collect()
}
