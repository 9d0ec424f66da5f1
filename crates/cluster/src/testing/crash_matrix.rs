//! Crashing an operator at every one of its writes, one run for each.

use std::fmt::Debug;

use http::Method;

use super::run::in_a_cluster;
use crate::cluster::Cluster;
use crate::transport::CrashPoint;

/// Plays a scenario once undisturbed, then again for every write that the operator made in it, three times each: the
/// operator dies before the write leaves, after it was committed but before the answer arrived, and after the answer.
/// It is started again each time, and the end must always be the same. An apply that changed nothing is no such
/// write: to die around it is to die around its neighbours.
///
/// `start` runs the operator in a fresh cluster; `drive` plays the scenario and gives what must be the same at the
/// end. Returns how many runs with a crash there were.
///
/// ```
/// use std::sync::Arc;
/// use evenkeel_cluster::testing;
/// use evenkeel_runtime::{Action, Context, Controller, Result};
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
///
/// async fn reconcile(map: Arc<ConfigMap>, ctx: Context) -> Result<Action> {
///     let mut secret = Secret::default();
///     secret.metadata.name = map.metadata.name.clone();
///     ctx.apply(secret).await?;
///     Ok(Action::done())
/// }
///
/// let runs = testing::crash_everywhere(
///     "copy",
///     |cluster| cluster.run(|| Controller::new("copy", reconcile).owns::<Secret>()),
///     |cluster| async move {
///         let mut map = ConfigMap::default();
///         map.metadata.name = Some("a".into());
///         cluster.apply(map).await.expect("it is stored");
///         cluster.settled().await;
///         cluster.get_opt::<Secret>("a").await.expect("it is answered").is_some()
///     },
/// );
/// assert!(runs >= 3);
/// ```
///
/// # Panics
/// When a run ends differently, or when the operator was not crashed where it should have been; what happened in that
/// run is shown. In real time, where runs differ in how often the operator writes, a run that does not come to its
/// crash must only end the same.
pub fn crash_everywhere<F, T>(operator: &str, start: impl Fn(&Cluster), drive: impl Fn(Cluster) -> F) -> usize
where
    F: Future<Output = T>,
    T: PartialEq + Debug,
{
    let (expected, writes) = in_a_cluster(|cluster| {
        start(&cluster);
        let driven = drive(cluster.clone());
        async move { (driven.await, writes(&cluster, operator)) }
    });
    assert!(!writes.is_empty(), "{operator} wrote nothing: there is nowhere to crash it");
    for &number in &writes {
        for point in [CrashPoint::Before(number), CrashPoint::AnswerLost(number), CrashPoint::After(number)] {
            in_a_cluster(|cluster| {
                start(&cluster);
                cluster.crash(operator, point);
                let (driven, expected, writes) = (drive(cluster.clone()), &expected, &writes);
                async move {
                    let end = driven.await;
                    let crashes = cluster.crashes(operator);
                    // In real time no run is like another: one may end without as many writes.
                    if crashes > 0 || evenkeel_env::time_is_paused() {
                        assert_eq!(crashes, 1, "{operator} was to crash once, {point:?} among {writes:?}");
                    }
                    assert_eq!(&end, expected, "{operator} crashed {point:?} among {writes:?}");
                }
            });
        }
    }
    3 * writes.len()
}

/// Which of the operator's requests to write changed something, counted from one.
fn writes(cluster: &Cluster, operator: &str) -> Vec<usize> {
    let asked = cluster.requests().into_iter();
    let asked = asked.filter(|request| &*request.by == operator && request.method != Method::GET);
    let changed = asked.enumerate().filter(|(_, request)| request.outcome.wrote().is_some());
    changed.map(|(at, _)| at + 1).collect()
}
