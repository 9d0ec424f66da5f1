//! Crashing an operator at each of its writes, in a run for each.

use std::fmt::Debug;

use http::Method;

use super::run::in_a_cluster;
use crate::cluster::Cluster;
use crate::transport::CrashPoint;

/// Plays a scenario once undisturbed, then three more times for each write that the operator made in it. In these runs
/// the operator crashes before the write is sent, after it was committed but before the response arrives, and after the
/// response. The operator is started again each time, and the scenario must always end the same. Applies that changed
/// nothing are left out: a crash around one is equivalent to a crash around the write before or after it.
///
/// `start` runs the operator in a fresh cluster. `drive` plays the scenario and returns what must be the same at the
/// end of each run. Returns the number of runs with a crash.
///
/// ```
/// use std::sync::Arc;
/// use evenkeel_cluster::testing;
/// use evenkeel_runtime::{Action, Ctx, Controller, Result};
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
///
/// async fn reconcile(map: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
///     let mut secret = Secret::default();
///     secret.metadata.name = map.metadata.name.clone();
///     ctx.apply(secret).await?;
///     Ok(Action::await_change())
/// }
///
/// let runs = testing::crash_everywhere(
///     "copy",
///     |cluster| cluster.run(|| Controller::new("copy", reconcile).owns::<Secret>()),
///     |cluster| async move {
///         let mut map = ConfigMap::default();
///         map.metadata.name = Some("a".into());
///         cluster.apply(map).await.expect("the ConfigMap is valid");
///         cluster.settled().await;
///         cluster.get_opt::<Secret>("a").await.expect("the Secret can be read").is_some()
///     },
/// );
/// assert!(runs >= 3);
/// ```
///
/// # Panics
/// Panics if a run ends differently or does not reach its crash point, and shows what happened in that run. In real
/// time, where the number of writes varies between runs, a run may miss its crash point and must only end the same.
pub fn crash_everywhere<F, T>(operator: &str, start: impl Fn(&Cluster), drive: impl Fn(Cluster) -> F) -> usize
where
    F: Future<Output = T>,
    T: PartialEq + Debug,
{
    let (expected, writes) = in_a_cluster(|cluster| {
        start(&cluster);
        let driven = drive(cluster.clone());
        async move { (driven.await, writes_since(&cluster, operator, 0)) }
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
                    // In real time the number of writes varies: a run may end before its crash point.
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

/// Returns which of the operator's write requests changed something, counted from one, ignoring the first `skip`
/// requests of the record.
pub(super) fn writes_since(cluster: &Cluster, operator: &str, skip: usize) -> Vec<usize> {
    let asked = cluster.requests().into_iter().skip(skip);
    let asked = asked.filter(|request| &*request.by == operator && request.method != Method::GET);
    let changed = asked.enumerate().filter(|(_, request)| request.outcome.wrote().is_some());
    changed.map(|(at, _)| at + 1).collect()
}
