//! What a watch does when its server fails: its backoff, and which objects it leaves out.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::{Cluster, Matcher};
use evenkeel_runtime::{Informer, Informers, Source};
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::seam::{self, Answer};
use crate::{map, quiet, value};

/// The times of all requests for maps since the last call.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Vec<Instant>>>);

impl Asked {
    fn take(&self) -> Vec<Instant> {
        std::mem::take(&mut *self.0.lock())
    }

    /// The pauses between the requests since the last call, in seconds.
    fn pauses(&self) -> Vec<f64> {
        self.take().windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect()
    }
}

/// An informer of maps with a client that notes its requests and lets `decide` answer them.
fn maps(
    cluster: &Cluster,
    asked: &Asked,
    decide: impl Fn(&str) -> Answer + Clone + Send + Sync + 'static,
) -> Informer<ConfigMap> {
    let asked = asked.clone();
    let client = seam::around(cluster.client(), move |request| {
        asked.0.lock().push(Instant::now());
        decide(request.uri().query().unwrap_or_default())
    });
    let informers = Informers::new(client, cluster.env().clone());
    informers.list_in_pages();
    informers.get(Source::new())
}

/// Whether these pauses double from 0.8 s up to 30 s, with up to half of the pause as jitter.
fn are_doubled(pauses: &[f64]) -> bool {
    let wanted = (0..).map(|at| f64::min(0.8 * f64::powi(2.0, at), 30.0));
    pauses.iter().zip(wanted).all(|(pause, wanted)| (wanted..=wanted * 1.51).contains(pause))
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "pauses are measured in virtual time")]
async fn a_server_that_keeps_failing_is_asked_ever_more_rarely_until_it_is_well_again() {
    let cluster = quiet(1).await;
    let (asked, broken) = (Asked::default(), Arc::new(Mutex::new(true)));
    let fails = broken.clone();
    let maps = maps(&cluster, &asked, move |_| match *fails.lock() {
        true => Answer::Refuse(500, "no disk"),
        false => Answer::Pass,
    });
    tokio::time::sleep(Duration::from_secs(300)).await;
    let pauses = asked.pauses();
    assert!(pauses.len() > 8 && are_doubled(&pauses), "{pauses:?}");
    *broken.lock() = false;
    maps.wait_synced(Duration::from_secs(60)).await.unwrap();
    // A watch that was open for two minutes was healthy: its next failure counts as the first.
    tokio::time::sleep(Duration::from_secs(130)).await;
    *broken.lock() = true;
    asked.take();
    assert_eq!(cluster.cut_watch(Matcher::any()), 1);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let pauses = asked.pauses();
    assert!(pauses.len() > 2 && are_doubled(&pauses), "{pauses:?}");
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "pauses are measured in virtual time")]
async fn a_watch_that_ends_at_once_is_not_opened_in_a_tight_loop() {
    let cluster = quiet(2).await;
    let asked = Asked::default();
    let maps = maps(&cluster, &asked, |_| Answer::Pass);
    maps.wait_synced(Duration::from_secs(60)).await.unwrap();
    for (stood, wanted) in [(0, 0.8..1.3), (5, 0.0..0.01)] {
        tokio::time::sleep(Duration::from_secs(stood)).await;
        asked.take();
        let cut = Instant::now();
        assert_eq!(cluster.cut_watch(Matcher::any()), 1);
        cluster.settled().await;
        let again = (asked.take()[0] - cut).as_secs_f64();
        assert!(wanted.contains(&again), "opened again after {again} s, having stood for {stood} s");
    }
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "pauses are measured in virtual time")]
async fn a_server_for_which_every_version_is_too_old_is_asked_with_pauses() {
    let cluster = quiet(3).await;
    let asked = Asked::default();
    let _maps = maps(&cluster, &asked, |query| match query.contains("watch=true") {
        true => Answer::Refuse(410, "too old resource version"),
        false => Answer::Pass,
    });
    tokio::time::sleep(Duration::from_secs(60)).await;
    // A list and a watch each time: only the first refusal is retried at once.
    let pauses: Vec<f64> = asked.pauses().into_iter().filter(|pause| *pause > 0.01).collect();
    assert!((3..10).contains(&pauses.len()), "{pauses:?}");
}

/// The server is asked to end a watch after ten minutes at most. A dead connection never ends.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "pauses are measured in virtual time")]
async fn a_connection_that_has_died_is_replaced() {
    let cluster = quiet(4).await;
    let asked = Asked::default();
    let maps = maps(&cluster, &asked, |query| match query.contains("watch=true") {
        true => Answer::Silence,
        false => Answer::Pass,
    });
    maps.wait_synced(Duration::from_secs(60)).await.unwrap();
    asked.take();
    tokio::time::sleep(Duration::from_secs(620)).await;
    assert_eq!(asked.take().len(), 0);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(asked.take().len(), 1);
}

/// If a user's function panics for an object, the watch reports it and retries, and continues once the object is
/// repaired.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "pauses are measured in virtual time")]
async fn a_panic_of_a_users_function_does_not_end_the_watch() {
    let cluster = quiet(5).await;
    cluster.apply(map("one", "bad")).await.unwrap();
    let informers = Informers::new(cluster.client(), cluster.env().clone());
    informers.transform(|map: &mut ConfigMap| assert_ne!(value(map), "bad", "no such value"));
    let maps = informers.get(Source::<ConfigMap>::new());
    let error = maps.wait_synced(Duration::from_secs(20)).await.unwrap_err();
    assert!(error.cause.contains("read: a panic: ") && error.cause.contains("no such value"), "{error}");
    cluster.apply(map("one", "good")).await.unwrap();
    maps.wait_synced(Duration::from_secs(60)).await.unwrap();
    cluster.apply(map("one", "bad")).await.unwrap();
    cluster.apply(map("two", "good")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    cluster.apply(map("one", "better")).await.unwrap();
    cluster.settled().await;
    let values: Vec<String> = maps.cache().list().iter().map(|map| value(map).to_owned()).collect();
    assert_eq!(values, ["better", "good"]);
}
