//! Makes plans from what was learned. Every plan is something that a real Kubernetes cluster may do.

mod pairs;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_cluster::CrashMoment;

use crate::learn::{Asked, Learned};
use crate::plan::{Back, Class, Late, Plan, Stop, Strike};

pub(crate) use pairs::pairs;

/// By how many seconds clocks jump, and the rank of the plan: an hour back as a time server corrects it, an hour forward,
/// and more than a year, as after a battery has failed.
const JUMPS: [(u8, i64); 3] = [(0, -3_600), (1, 3_600), (2, 400 * 86_400)];
/// The largest number of steps for which an operator is stopped or a watch is held.
const MOST_STEPS: usize = 3;
/// The numbers of further requests after which held events arrive.
const SHORT_LAGS: [usize; 2] = [1, 2];

/// The plans of each class, and how many plans were left out as duplicates of another plan.
#[derive(Default)]
pub(crate) struct Generated {
    /// The plans with their rank: plans of rank 0 are played first.
    pub(crate) by_class: BTreeMap<Class, Vec<(u8, Plan)>>,
    pub(crate) equivalent: usize,
    /// How many views were left out because they show a deleted object as existing.
    pub(crate) dead: usize,
}

impl Generated {
    fn push(&mut self, rank: u8, strike: Strike) {
        self.by_class.entry(strike.class()).or_default().push((rank, Plan::of(strike)));
    }
}

/// Returns all plans with one strike.
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

/// Makes crashes before, during and after each write that changed something. A crash after a write directly followed by
/// another write equals a crash before that second write, and is left out.
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
            // The operator stays stopped until the scenario is over, and never sees its half-finished work again.
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
    // Reads, and writes that change nothing, fail in the same ways each time, so one plan for each object is enough.
    let mut seen = BTreeSet::new();
    for asked in requests {
        if !asked.has_effect && !seen.insert((asked.verb, &asked.object)) {
            plans.equivalent += asked.faults().len();
            continue;
        }
        for (at, fault) in asked.faults().iter().enumerate() {
            // A failed read is what many operators take for a missing object.
            let is_read = !asked.is_write && at == 0;
            let rank = u8::from(!asked.has_effect && !is_read) + u8::from(at > 1);
            let strike =
                Strike::Fail { operator: asked.operator.clone(), request: asked.number, fault: *fault };
            plans.push(rank, strike);
        }
    }
}

/// Makes plans with two replicas whose leader stops at each write.
fn failovers(requests: &[&Asked], plans: &mut Generated) {
    let stops = [
        (0, Stop::Crash(CrashMoment::Unanswered)),
        (0, Stop::CutOff),
        (1, Stop::Crash(CrashMoment::Before)),
        (1, Stop::CutOffUnanswered),
        (1, Stop::LoseLease),
        (2, Stop::Crash(CrashMoment::After)),
    ];
    for asked in requests.iter().filter(|asked| asked.has_effect) {
        for (rank, stop) in stops {
            let (operator, request) = (asked.operator.clone(), asked.number);
            plans.push(rank, Strike::Failover { operator, request, stop });
        }
    }
}

/// Makes plans in which a request or its answer arrives after later ones. A request with nothing else going on beside
/// it is left out.
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

/// Makes restarts, relists and absences at the rests of the scenario.
fn rests(operator: &str, learned: &Learned, plans: &mut Generated) {
    let last = learned.rests.len();
    let operator = || operator.to_owned();
    for rest in 1..=last {
        plans.push(0, Strike::Restart { operator: operator(), rest });
        plans.push(1, Strike::Relist { operator: operator(), from: rest, to: rest });
        for (rank, seconds) in JUMPS {
            plans.push(rank, Strike::Clock { operator: operator(), rest, seconds });
        }
        // An operator that is first started at a later rest must create at once what otherwise grew step by step.
        let most = if rest == 1 { last } else { last.min(rest + MOST_STEPS) };
        for to in rest + 1..=most {
            // A rest at which nothing has changed since the last one is not a step.
            if learned.rests[to - 1] > learned.rests[rest - 1] {
                plans.push(0, Strike::Away { operator: operator(), from: rest, to });
                if to <= rest + MOST_STEPS {
                    plans.push(0, Strike::Relist { operator: operator(), from: rest, to });
                }
            } else {
                plans.equivalent += 2;
            }
        }
    }
}

/// Makes restarts at each rest with a view of each earlier revision that differs in something the operator reads.
fn stale_views(operator: &str, learned: &Learned, plans: &mut Generated) {
    let seen = &learned.seen[operator];
    for (at, now) in learned.rests.iter().enumerate() {
        // If nothing has changed since the last rest, the same views exist already.
        if at > 0 && learned.rests[at - 1] == *now {
            plans.equivalent += seen.len();
            continue;
        }
        let rest = at + 1;
        let mut push = |revision: u64, kind: Option<&String>, is_decisive: bool| {
            if learned.shows_the_dead(operator, kind, revision, *now) {
                plans.dead += 1;
                return;
            }
            let strike = Strike::Stale { operator: operator.to_owned(), rest, revision, kind: kind.cloned() };
            plans.push(u8::from(!is_decisive), strike);
        };
        // The operator sees the newest change in any case.
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

/// Makes plans in which the events of one kind arrive late: held over steps of the scenario, from each write until the
/// next rest, and from each write for a number of further requests.
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
