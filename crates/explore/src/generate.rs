//! Makes plans of what was learned. Every plan is something that a real Kubernetes may do.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_cluster::CrashMoment;

use crate::learn::{Asked, Learned};
use crate::plan::{Back, Class, Plan, Strike};

/// Over how many steps an operator is away, or a watch is held, at most.
const MOST_STEPS: usize = 3;

/// The plans of each class, and how many were left out because another plan strikes at the same point.
pub(crate) struct Generated {
    pub(crate) by_class: BTreeMap<Class, Vec<Plan>>,
    pub(crate) equivalent: usize,
}

/// All plans of one strike.
pub(crate) fn singles(learned: &Learned) -> Generated {
    let mut strikes: Vec<Strike> = Vec::new();
    let mut equivalent = 0;
    for operator in &learned.operators {
        let requests: Vec<&Asked> = learned.requests.iter().filter(|it| it.operator == *operator).collect();
        equivalent += crashes(operator, &requests, learned.rests.len(), &mut strikes);
        failures(&requests, &mut strikes);
        rests(operator, learned, &mut strikes);
        equivalent += stale_views(operator, learned, &mut strikes);
        held(operator, learned, &requests, &mut strikes);
    }
    for child in &learned.children {
        for rest in &child.rests {
            strikes.push(Strike::Delete { path: child.path.clone(), rest: *rest });
        }
    }
    let mut by_class: BTreeMap<Class, Vec<Plan>> = BTreeMap::new();
    for strike in strikes {
        by_class.entry(strike.class()).or_default().push(Plan::of(strike));
    }
    Generated { by_class, equivalent }
}

/// Crashes around each write that changed something. Returns how many were left out: a crash after a write that is
/// followed by another write at once is a crash before that one.
fn crashes(operator: &str, requests: &[&Asked], rests: usize, strikes: &mut Vec<Strike>) -> usize {
    let mut equivalent = 0;
    for (at, asked) in requests.iter().enumerate().filter(|(_, asked)| asked.wrote.is_some()) {
        let crash = |moment, back| Strike::Crash {
            operator: operator.to_owned(),
            request: asked.number,
            moment,
            back,
        };
        let next_writes = requests.get(at + 1).is_some_and(|next| next.wrote.is_some());
        for moment in [CrashMoment::Unanswered, CrashMoment::Before, CrashMoment::After] {
            if moment == CrashMoment::After && next_writes {
                equivalent += 3;
                continue;
            }
            strikes.push(crash(moment, Back::AtOnce));
            strikes.push(crash(moment, Back::AfterRests(1)));
            if rests > 1 {
                strikes.push(crash(moment, Back::AfterRests(2)));
            }
            // Until the scenario is over: what was half done is never seen again.
            if rests > 2 && moment != CrashMoment::After {
                strikes.push(crash(moment, Back::AfterRests(rests)));
            }
        }
        strikes.push(crash(CrashMoment::Unanswered, Back::Twice));
        strikes.push(crash(CrashMoment::Before, Back::Twice));
    }
    equivalent
}

fn failures(requests: &[&Asked], strikes: &mut Vec<Strike>) {
    // A write that changes nothing, and a read, fail in the same ways as the one before: one of each object is enough.
    let mut seen = BTreeSet::new();
    for asked in requests {
        if asked.wrote.is_none() && !seen.insert((asked.verb, &asked.object)) {
            continue;
        }
        for fault in asked.faults() {
            strikes.push(Strike::Fail {
                operator: asked.operator.clone(),
                request: asked.number,
                fault: *fault,
            });
        }
    }
}

/// Restarts, relists and absences at the rests of the scenario.
fn rests(operator: &str, learned: &Learned, strikes: &mut Vec<Strike>) {
    let last = learned.rests.len();
    let operator = || operator.to_owned();
    for rest in 1..=last {
        strikes.push(Strike::Restart { operator: operator(), rest });
        strikes.push(Strike::Relist { operator: operator(), rest });
        for to in rest + 1..=last.min(rest + MOST_STEPS) {
            // A rest at which nothing has happened since is no step.
            if learned.rests[to - 1] > learned.rests[rest - 1] {
                strikes.push(Strike::Away { operator: operator(), from: rest, to });
            }
        }
    }
}

/// Restarts at each rest with the view of each earlier revision that differs in something the operator reads. Returns how
/// many were left out because no watched object differs between two revisions.
fn stale_views(operator: &str, learned: &Learned, strikes: &mut Vec<Strike>) -> usize {
    let seen = &learned.seen[operator];
    let mut later = Vec::new();
    let mut dead = 0;
    for (at, now) in learned.rests.iter().enumerate() {
        let rest = at + 1;
        let mut push = |revision: u64, kind: Option<&String>, is_decisive: bool| {
            if learned.shows_the_dead(revision, *now) {
                dead += 1;
                return;
            }
            let strike = Strike::Stale { operator: operator.to_owned(), rest, revision, kind: kind.cloned() };
            if is_decisive { strikes.push(strike) } else { later.push(strike) }
        };
        // The newest change is what the operator sees anyway.
        let newest = seen.iter().filter(|(_, it)| it.revision <= *now).map(|(_, it)| it.revision).max();
        let earlier = seen.iter().filter(|(_, it)| Some(it.revision) < newest);
        for (_, change) in earlier {
            push(change.revision, None, change.is_decisive);
        }
        for kind in learned.watched[operator].iter().filter(|_| learned.watched[operator].len() > 1) {
            let of_kind = || seen.iter().filter(move |(it, _)| it == kind).map(|(_, it)| it);
            let newest = of_kind().filter(|it| it.revision <= *now).map(|it| it.revision).max();
            for change in of_kind().filter(|it| Some(it.revision) < newest) {
                push(change.revision, Some(kind), change.is_decisive);
            }
        }
    }
    strikes.append(&mut later);
    let revisions = learned.rests.last().copied().unwrap_or_default()
        - learned.rests.first().copied().unwrap_or_default();
    dead + usize::try_from(revisions).unwrap_or(usize::MAX).saturating_sub(seen.len())
}

/// Events of one kind that arrive late: over steps of the scenario, and from each write until the next rest.
fn held(operator: &str, learned: &Learned, requests: &[&Asked], strikes: &mut Vec<Strike>) {
    let last = learned.rests.len();
    for kind in &learned.watched[operator] {
        let changes = |after: u64, upto: u64| {
            let seen = &learned.seen[operator];
            seen.iter().any(|(it, change)| it == kind && change.revision > after && change.revision <= upto)
        };
        for from in 1..=last {
            for to in from + 1..=last.min(from + MOST_STEPS) {
                if changes(learned.rests[from - 1], learned.rests[to - 1]) {
                    let (operator, kind) = (operator.to_owned(), kind.clone());
                    strikes.push(Strike::Hold { operator, kind, from, to });
                }
            }
        }
        for asked in requests.iter().filter(|asked| asked.wrote.is_some()) {
            let wrote = asked.wrote.unwrap_or_default();
            let rest = learned.rests.iter().find(|rest| **rest >= wrote).copied().unwrap_or(u64::MAX);
            if changes(wrote, rest) {
                let (operator, kind) = (operator.to_owned(), kind.clone());
                strikes.push(Strike::Lag { operator, kind, request: asked.number });
            }
        }
    }
}

/// Pairs of strikes, those first that touch the same object.
pub(crate) fn pairs(learned: &Learned, most: usize) -> Vec<Plan> {
    let writes: Vec<&Asked> = learned.requests.iter().filter(|asked| asked.wrote.is_some()).collect();
    let mut same = Vec::new();
    let mut other = Vec::new();
    for (at, first) in writes.iter().enumerate() {
        for second in writes.iter().skip(at + 1).filter(|second| second.operator == first.operator) {
            for moments in PAIRED {
                let crash = |asked: &Asked, moment| Strike::Crash {
                    operator: asked.operator.clone(),
                    request: asked.number,
                    moment,
                    back: Back::AtOnce,
                };
                let plan = Plan { strikes: vec![crash(first, moments.0), crash(second, moments.1)] };
                if first.object == second.object { same.push(plan) } else { other.push(plan) }
            }
        }
        let absences = (1..learned.rests.len()).map(|from| Strike::Away {
            operator: first.operator.clone(),
            from,
            to: from + 1,
        });
        for away in absences {
            let crash = Strike::Crash {
                operator: first.operator.clone(),
                request: first.number,
                moment: CrashMoment::Unanswered,
                back: Back::AtOnce,
            };
            other.push(Plan { strikes: vec![crash, away] });
        }
    }
    same.append(&mut other);
    same.truncate(most);
    same
}

/// The moments of two crashes.
const PAIRED: [(CrashMoment, CrashMoment); 2] =
    [(CrashMoment::Unanswered, CrashMoment::Unanswered), (CrashMoment::Before, CrashMoment::Unanswered)];
