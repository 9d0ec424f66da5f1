//! Shrinks a plan to the smallest one with the same finding: fewer strikes, then milder ones, then a shorter scenario.

use crate::plan::{Back, Plan, Strike};

/// Shrinks a plan. `is_found` plays a plan and returns whether the same oracle still refuses the run.
pub(crate) fn shrink(plan: Plan, mut is_found: impl FnMut(&Plan) -> bool) -> Plan {
    let mut least = plan;
    while let Some(smaller) = smaller(&least).into_iter().find(|plan| is_found(plan)) {
        least = smaller;
    }
    least
}

/// Returns plans that break the scenario off earlier, the shortest first. `rest` is where the finding shows.
pub(crate) fn shorter(plan: &Plan, rest: usize, rests: usize) -> Vec<Plan> {
    let shortest = rest.min(rests);
    let until = (shortest..rests).map(|until| Plan { strikes: plan.strikes.clone(), until: Some(until) });
    until.collect()
}

/// Returns plans that are one step smaller, the smallest first.
fn smaller(plan: &Plan) -> Vec<Plan> {
    let mut plans = Vec::new();
    if plan.strikes.len() > 1 {
        for at in 0..plan.strikes.len() {
            let mut strikes = plan.strikes.clone();
            strikes.remove(at);
            plans.push(Plan { strikes, until: plan.until });
        }
    }
    for (at, strike) in plan.strikes.iter().enumerate() {
        for milder in milder(strike) {
            let mut strikes = plan.strikes.clone();
            strikes[at] = milder;
            plans.push(Plan { strikes, until: plan.until });
        }
    }
    plans
}

/// Returns the strikes that last for a shorter time and are equal otherwise.
fn milder(strike: &Strike) -> Vec<Strike> {
    match strike {
        Strike::Crash { operator, request, moment, back } => {
            let with =
                |back| Strike::Crash { operator: operator.clone(), request: *request, moment: *moment, back };
            match back {
                Back::AtOnce => vec![],
                Back::Twice | Back::AfterRests(0 | 1) => vec![with(Back::AtOnce)],
                Back::AfterRests(rests) => vec![with(Back::AtOnce), with(Back::AfterRests(rests - 1))],
            }
        }
        Strike::Away { operator, from, to } if to - from > 1 => {
            let with = |from, to| Strike::Away { operator: operator.clone(), from, to };
            vec![with(*from, to - 1), with(from + 1, *to)]
        }
        Strike::Relist { operator, from, to } if to > from => {
            let with = |from, to| Strike::Relist { operator: operator.clone(), from, to };
            vec![with(*from, to - 1), with(from + 1, *to)]
        }
        Strike::Lag { operator, kind, request, requests: None } => {
            let (operator, kind) = (operator.clone(), kind.clone());
            vec![Strike::Lag { operator, kind, request: *request, requests: Some(1) }]
        }
        Strike::Hold { operator, kind, from, to } if to - from > 1 => {
            let with = |from, to| Strike::Hold { operator: operator.clone(), kind: kind.clone(), from, to };
            vec![with(*from, to - 1), with(from + 1, *to)]
        }
        _ => vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_shrinks_to_what_matters() {
        let operator = || "site".to_owned();
        let long = Strike::Away { operator: operator(), from: 1, to: 4 };
        let plan = Plan::all([Strike::Restart { operator: operator(), rest: 1 }, long]);
        // The finding occurs whenever the operator is stopped from rest 2 to rest 3.
        let is_found = |plan: &Plan| {
            plan.strikes
                .iter()
                .any(|it| matches!(it, Strike::Away { from, to, .. } if *from <= 2 && *to >= 3))
        };
        let least = shrink(plan, is_found);
        assert_eq!(least, Plan::of(Strike::Away { operator: operator(), from: 2, to: 3 }));
    }
}
