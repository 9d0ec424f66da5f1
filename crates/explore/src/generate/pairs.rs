//! Plans with two strikes. Pairs that touch the same object come first.

use evenkeel_cluster::{CrashMoment, Fault};

use crate::learn::{Asked, Learned};
use crate::plan::{Back, Mishap, Plan, Point, Strike};

/// The moments of the two crashes of a pair.
const PAIRED: [(CrashMoment, CrashMoment); 2] =
    [(CrashMoment::Unanswered, CrashMoment::Unanswered), (CrashMoment::Before, CrashMoment::Unanswered)];

/// Returns pairs of strikes in the order in which they are played, and how many pairs there are in total.
pub(crate) fn pairs(learned: &Learned, most: usize) -> (Vec<Plan>, usize) {
    let writes: Vec<&Asked> = learned.requests.iter().filter(|asked| asked.has_effect).collect();
    // The kinds of pairs alternate, so that a small budget plays some of each.
    let kinds = [
        two_requests(&writes, |first, second| first.object == second.object),
        crash_and_view(&writes, learned),
        crash_and_mishap(&writes, learned),
        crash_and_absence(&writes, learned),
        absence_and_view(learned),
        two_requests(&writes, |first, second| first.object != second.object),
    ];
    let all = kinds.iter().map(Vec::len).sum();
    let mut queues: Vec<_> = kinds.into_iter().map(Vec::into_iter).collect();
    let mut plans = Vec::new();
    while plans.len() < most {
        let before = plans.len();
        plans.extend(queues.iter_mut().filter_map(Iterator::next));
        if plans.len() == before {
            break;
        }
    }
    plans.truncate(most);
    (plans, all)
}

fn crash(asked: &Asked, moment: CrashMoment) -> Strike {
    Strike::Crash { operator: asked.operator.clone(), request: asked.number, moment, back: Back::AtOnce }
}

/// Two crashes, or a crash and a failed request, at two writes of one operator.
fn two_requests(writes: &[&Asked], which: impl Fn(&Asked, &Asked) -> bool) -> Vec<Plan> {
    let mut plans = Vec::new();
    for (at, first) in writes.iter().enumerate() {
        let later = writes.iter().skip(at + 1).filter(|second| second.operator == first.operator);
        for second in later.filter(|second| which(first, second)) {
            for (one, other) in PAIRED {
                plans.push(Plan::all([crash(first, one), crash(second, other)]));
            }
            for fault in [Fault::LostAnswer, Fault::InternalError] {
                let (operator, request) = (second.operator.clone(), second.number);
                let fail = Strike::Fail { operator, request, fault };
                plans.push(Plan::all([crash(first, CrashMoment::Unanswered), fail]));
            }
        }
    }
    plans
}

/// A crash at a write, and at the next rest a view from before the write.
fn crash_and_view(writes: &[&Asked], learned: &Learned) -> Vec<Plan> {
    let mut plans = Vec::new();
    for asked in writes {
        let rest = learned.rest_after(asked.revision);
        let now = learned.rests[rest - 1];
        let earlier = learned.seen[&asked.operator].iter().rev();
        let earlier = earlier.filter(|(_, it)| it.is_decisive && it.revision <= asked.revision);
        let shows_the_dead = |revision| learned.shows_the_dead(&asked.operator, None, revision, now);
        for (_, view) in earlier.take(2).filter(|(_, it)| !shows_the_dead(it.revision)) {
            let (operator, revision) = (asked.operator.clone(), view.revision);
            let stale = Strike::Stale { operator, rest, revision, kind: None };
            plans.push(Plan::all([crash(asked, CrashMoment::Unanswered), stale]));
        }
    }
    plans
}

/// A crash at a write of a child, whose object a foreign client deletes at the next rest.
fn crash_and_mishap(writes: &[&Asked], learned: &Learned) -> Vec<Plan> {
    let mut plans = Vec::new();
    for asked in writes {
        let rest = learned.rest_after(asked.revision);
        let children = learned.children.iter().filter(|child| child.operator == asked.operator);
        for child in children.filter(|child| child.rests.contains(&rest)) {
            let at = Point::Rest(rest);
            let delete = Strike::World { mishap: Mishap::Delete, path: child.path.clone(), at };
            plans.push(Plan::all([crash(asked, CrashMoment::Unanswered), delete]));
        }
    }
    plans
}

/// A crash at a write, and an absence over one step.
fn crash_and_absence(writes: &[&Asked], learned: &Learned) -> Vec<Plan> {
    let mut plans = Vec::new();
    for asked in writes {
        for from in 1..learned.rests.len() {
            let away = Strike::Away { operator: asked.operator.clone(), from, to: from + 1 };
            plans.push(Plan::all([crash(asked, CrashMoment::Unanswered), away]));
        }
    }
    plans
}

/// An absence over one step, and on return a view from before the absence.
fn absence_and_view(learned: &Learned) -> Vec<Plan> {
    let mut plans = Vec::new();
    for operator in &learned.operators {
        for (at, pair) in learned.rests.windows(2).enumerate() {
            let (from, to) = (at + 1, at + 2);
            if pair[0] == pair[1] || learned.shows_the_dead(operator, None, pair[0], pair[1]) {
                continue;
            }
            let away = Strike::Away { operator: operator.clone(), from, to };
            let operator = operator.clone();
            plans
                .push(Plan::all([away, Strike::Stale { operator, rest: to, revision: pair[0], kind: None }]));
        }
    }
    plans
}
