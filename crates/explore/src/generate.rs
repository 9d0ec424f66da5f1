//! Makes plans of what was learned. Every plan is something that a real Kubernetes may do.

mod pairs;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_cluster::CrashMoment;

use crate::learn::{Asked, Learned};
use crate::plan::{Back, Class, Late, Plan, Stop, Strike};

pub(crate) use pairs::pairs;

/// Over how many steps an operator is away, or a watch is held, at most.
const MOST_STEPS: usize = 3;
/// After how many further requests held events arrive.
const SHORT_LAGS: [usize; 2] = [1, 2];

/// The plans of each class, and how many were left out because another plan strikes at the same point.
#[derive(Default)]
pub(crate) struct Generated {
    /// The plans, and how soon each is played: those of rank zero come first.
    pub(crate) by_class: BTreeMap<Class, Vec<(u8, Plan)>>,
    pub(crate) equivalent: usize,
    /// How many views were left out because they show an object as living that is gone.
    pub(crate) dead: usize,
}

impl Generated {
    fn push(&mut self, rank: u8, strike: Strike) {
        self.by_class.entry(strike.class()).or_default().push((rank, Plan::of(strike)));
    }
}

/// All plans of one strike.
pub(crate) fn singles(learned: &Learned) -> Generated {
    let mut plans = Generated::default();
    for operator in &learned.operators {
        let requests: Vec<&Asked> = learned.requests.iter().filter(|it| it.operator == *operator).collect();
        crashes(operator, &requests, learned.rests.len(), &mut plans);
        failures(&requests, &mut plans);
        failovers(&requests, &mut plans);
        delays(&requests, learned, &mut plans);
        rests(operator, learned, &mut plans);
        stale_views(operator, learned, &mut plans);
        held(operator, learned, &requests, &mut plans);
    }
    world::mishaps(learned, &mut plans);
    plans
}

/// Crashes around each write that changed something. A crash after a write that is followed by another write at once is a
/// crash before that one.
fn crashes(operator: &str, requests: &[&Asked], rests: usize, plans: &mut Generated) {
    for (at, asked) in requests.iter().enumerate().filter(|(_, asked)| asked.has_effect) {
        let crash = |moment, back| Strike::Crash {
            operator: operator.to_owned(),
            request: asked.number,
            moment,
            back,
        };
        let next_writes = requests.get(at + 1).is_some_and(|next| next.has_effect);
        for moment in [CrashMoment::Unanswered, CrashMoment::Before, CrashMoment::After] {
            if moment == CrashMoment::After && next_writes {
                plans.equivalent += 3;
                continue;
            }
            let rank = u8::from(moment == CrashMoment::After);
            plans.push(rank, crash(moment, Back::AtOnce));
            plans.push(rank, crash(moment, Back::AfterRests(1)));
            if rests > 1 {
                plans.push(rank + 1, crash(moment, Back::AfterRests(2)));
            }
            // Until the scenario is over: what was half done is never seen again.
            if rests > 2 && moment != CrashMoment::After {
                plans.push(
                    u8::from(moment != CrashMoment::Unanswered),
                    crash(moment, Back::AfterRests(rests)),
                );
            }
        }
        plans.push(1, crash(CrashMoment::Unanswered, Back::Twice));
        plans.push(1, crash(CrashMoment::Before, Back::Twice));
    }
}

fn failures(requests: &[&Asked], plans: &mut Generated) {
    // A write that changes nothing, and a read, fail in the same ways as the one before: one of each object is enough.
    let mut seen = BTreeSet::new();
    for asked in requests {
        if !asked.has_effect && !seen.insert((asked.verb, &asked.object)) {
            plans.equivalent += asked.faults().len();
            continue;
        }
        for (at, fault) in asked.faults().iter().enumerate() {
            let rank = u8::from(!asked.has_effect) + u8::from(at > 1);
            let strike =
                Strike::Fail { operator: asked.operator.clone(), request: asked.number, fault: *fault };
            plans.push(rank, strike);
        }
    }
}

/// Two replicas, of which the leader stops at each write.
fn failovers(requests: &[&Asked], plans: &mut Generated) {
    let stops = [
        (0, Stop::Crash(CrashMoment::Unanswered)),
        (0, Stop::CutOff),
        (1, Stop::Crash(CrashMoment::Before)),
        (1, Stop::CutOffUnanswered),
        (2, Stop::Crash(CrashMoment::After)),
    ];
    for asked in requests.iter().filter(|asked| asked.has_effect) {
        for (rank, stop) in stops {
            let (operator, request) = (asked.operator.clone(), asked.number);
            plans.push(rank, Strike::Failover { operator, request, stop });
        }
    }
}

/// Requests and answers that are overtaken. A request that nothing else happens beside cannot be overtaken.
fn delays(requests: &[&Asked], learned: &Learned, plans: &mut Generated) {
    let mut seen = BTreeSet::new();
    for asked in requests {
        if !asked.has_effect && !seen.insert((asked.verb, &asked.object)) {
            plans.equivalent += 2;
            continue;
        }
        let rest = learned.rest_after(asked.revision);
        let others = learned.requests.iter().any(|other| {
            (&other.operator, other.number) != (&asked.operator, asked.number)
                && learned.rest_after(other.revision) == rest
        });
        let rank = u8::from(!asked.has_effect) + u8::from(!others);
        for late in [Late::Request, Late::Answer] {
            let (operator, request) = (asked.operator.clone(), asked.number);
            plans.push(rank, Strike::Delay { operator, request, late });
        }
    }
}

/// Restarts, relists and absences at the rests of the scenario.
fn rests(operator: &str, learned: &Learned, plans: &mut Generated) {
    let last = learned.rests.len();
    let operator = || operator.to_owned();
    for rest in 1..=last {
        plans.push(0, Strike::Restart { operator: operator(), rest });
        plans.push(1, Strike::Relist { operator: operator(), from: rest, to: rest });
        for to in rest + 1..=last.min(rest + MOST_STEPS) {
            // A rest at which nothing has happened since is no step.
            if learned.rests[to - 1] > learned.rests[rest - 1] {
                plans.push(0, Strike::Away { operator: operator(), from: rest, to });
                plans.push(0, Strike::Relist { operator: operator(), from: rest, to });
            } else {
                plans.equivalent += 2;
            }
        }
    }
}

/// Restarts at each rest with the view of each earlier revision that differs in something the operator reads.
fn stale_views(operator: &str, learned: &Learned, plans: &mut Generated) {
    let seen = &learned.seen[operator];
    for (at, now) in learned.rests.iter().enumerate() {
        // A rest at which nothing has happened since the last one shows the same.
        if at > 0 && learned.rests[at - 1] == *now {
            plans.equivalent += seen.len();
            continue;
        }
        let rest = at + 1;
        let mut push = |revision: u64, kind: Option<&String>, is_decisive: bool| {
            if learned.shows_the_dead(kind, revision, *now) {
                plans.dead += 1;
                return;
            }
            let strike = Strike::Stale { operator: operator.to_owned(), rest, revision, kind: kind.cloned() };
            plans.push(u8::from(!is_decisive), strike);
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
}

/// Events of one kind that arrive late: over steps of the scenario, from each write until the next rest, and from each
/// write until some further requests.
fn held(operator: &str, learned: &Learned, requests: &[&Asked], plans: &mut Generated) {
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
                    plans.push(0, Strike::Hold { operator, kind, from, to });
                } else {
                    plans.equivalent += 1;
                }
            }
        }
        for asked in requests.iter().filter(|asked| asked.has_effect) {
            let rest = learned.rest_after(asked.revision);
            if !changes(asked.revision, learned.rests[rest - 1]) {
                plans.equivalent += 1 + SHORT_LAGS.len();
                continue;
            }
            let lag = |requests| Strike::Lag {
                operator: operator.to_owned(),
                kind: kind.clone(),
                request: asked.number,
                requests,
            };
            plans.push(1, lag(None));
            for requests in SHORT_LAGS {
                plans.push(1, lag(Some(requests)));
            }
        }
    }
}
