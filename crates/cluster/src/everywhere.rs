//! Crashing an operator at every one of its writes, one run for each.

use std::fmt::Debug;

use http::Method;

use crate::cluster::Cluster;
use crate::crash::CrashPoint;
use crate::testing;

/// Plays a scenario once undisturbed, then again for every write that the operator made in it, three times each: the
/// operator dies before the write leaves, after it was committed but before the answer arrived, and after the answer.
/// It is started again each time, and the end must always be the same.
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
    assert!(writes > 0, "{operator} wrote nothing: there is nowhere to crash it");
    for number in 1..=writes {
        for point in [CrashPoint::Before(number), CrashPoint::AnswerLost(number), CrashPoint::After(number)] {
            let (end, _, crashes) = play(Some(point));
            assert_eq!(crashes, 1, "{operator} was to crash once, {point:?} of {writes} writes");
            assert_eq!(end, expected, "{operator} crashed {point:?} of {writes} writes");
        }
    }
    3 * writes
}

/// How many requests of the operator were writes, whatever they changed.
fn writes(cluster: &Cluster, operator: &str) -> usize {
    let asked = cluster.requests().into_iter().filter(|request| &*request.by == operator);
    asked.filter(|request| request.method != Method::GET).count()
}
