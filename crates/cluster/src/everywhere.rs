//! Crashing an operator at every one of its writes, one run for each.

use std::fmt::Debug;

use http::Method;

use crate::cluster::Cluster;
use crate::crash::CrashPoint;
use crate::testing;

/// Plays a scenario once undisturbed, then again for every write that the operator made in it, three times each: the
/// operator dies before the write leaves, after it was committed but before the answer arrived, and after the answer.
/// It is started again each time, and the end must always be the same. An apply that changed nothing is no such
/// write: to die around it is to die around its neighbours.
///
/// `start` runs the operator in a fresh cluster; `drive` plays the scenario and gives what must be the same at the
/// end. Returns how many runs with a crash there were.
///
/// # Panics
/// When a run ends differently, or when the operator was not crashed where it should have been.
pub fn crash_everywhere<F, T>(operator: &str, start: impl Fn(&Cluster), drive: impl Fn(Cluster) -> F) -> usize
where
    F: Future<Output = T>,
    T: PartialEq + Debug,
{
    let play = |point: Option<CrashPoint>| {
        let (start, drive) = (&start, &drive);
        let run = testing::run(testing::options(), |cluster| async move {
            start(&cluster);
            if let Some(point) = point {
                cluster.crash(operator, point);
            }
            let end = drive(cluster.clone()).await;
            Ok::<_, ()>((end, writes(&cluster, operator), cluster.crashes(operator)))
        });
        run.expect("it has no error")
    };

    let (expected, writes, _) = play(None);
    assert!(!writes.is_empty(), "{operator} wrote nothing: there is nowhere to crash it");
    for &number in &writes {
        for point in [CrashPoint::Before(number), CrashPoint::AnswerLost(number), CrashPoint::After(number)] {
            let (end, _, crashes) = play(Some(point));
            assert_eq!(crashes, 1, "{operator} was to crash once, {point:?} among {writes:?}");
            assert_eq!(end, expected, "{operator} crashed {point:?} among {writes:?}");
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
