//! Orders plans: classes take turns, lower ranks come first, and the plans of a rank are spread over the whole
//! scenario, so that a small budget covers some of everything.

use std::collections::BTreeMap;

use crate::generate::{Generated, pairs};
use crate::learn::Learned;
use crate::plan::{Class, Plan};

/// The plans in their order.
pub(crate) struct Schedule {
    pub(crate) plans: Vec<Plan>,
    /// How many plans exist without the limit of the budget.
    pub(crate) made: usize,
    /// How many plans were left out because another one strikes at the same point.
    pub(crate) equivalent: usize,
    /// How many views were left out because they show a deleted object as existing.
    pub(crate) dead: usize,
}

/// Returns how many plans of a class are played in each round. The first classes find most bugs of operators.
fn turns(class: Class) -> usize {
    match class {
        Class::Crash | Class::LateRestart | Class::StaleView => 3,
        Class::Away | Class::FailedRequest => 2,
        _ => 1,
    }
}

/// Orders the plans, and takes as many as the budget allows.
pub(crate) fn schedule(
    learned: &Learned,
    generated: Generated,
    (most, most_pairs): (usize, usize),
) -> Schedule {
    let Generated { by_class, equivalent, dead } = generated;
    let mut queues: BTreeMap<Class, std::vec::IntoIter<Plan>> =
        by_class.into_iter().map(|(class, plans)| (class, spread(plans).into_iter())).collect();
    let mut plans = Vec::new();
    while !queues.is_empty() {
        queues.retain(|class, queue| {
            let before = plans.len();
            plans.extend(queue.by_ref().take(turns(*class)));
            plans.len() > before
        });
    }
    let (pairs, all_pairs) = pairs(learned, most_pairs);
    let made = plans.len() + all_pairs;
    plans.extend(pairs);
    plans.truncate(most);
    Schedule { plans, made, equivalent, dead }
}

/// Sorts plans by rank, and within a rank by their reversed index in binary: every prefix of that order is spread
/// evenly over the scenario.
fn spread(plans: Vec<(u8, Plan)>) -> Vec<Plan> {
    let mut ranks: BTreeMap<u8, Vec<Plan>> = BTreeMap::new();
    for (rank, plan) in plans {
        ranks.entry(rank).or_default().push(plan);
    }
    let mut spread = Vec::new();
    for plans in ranks.into_values() {
        let bits = usize::BITS - plans.len().leading_zeros();
        let mut numbered: Vec<(usize, Plan)> = plans.into_iter().enumerate().collect();
        numbered.sort_by_key(|(at, _)| at.reverse_bits() >> (usize::BITS - bits.max(1)));
        spread.extend(numbered.into_iter().map(|(_, plan)| plan));
    }
    spread
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Strike;

    fn plan(rest: usize) -> Plan {
        Plan::of(Strike::Restart { operator: "a".into(), rest })
    }

    fn rests(order: &[Plan]) -> Vec<usize> {
        let rest = |plan: &Plan| match plan.strikes[0] {
            Strike::Restart { rest, .. } => rest,
            _ => usize::MAX,
        };
        order.iter().map(rest).collect()
    }

    #[test]
    fn every_beginning_is_spread() {
        let order = rests(&spread((0..8).map(|rest| (0, plan(rest))).collect()));
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..8).collect::<Vec<_>>());
        assert!(order[..2].iter().any(|rest| *rest >= 4), "{order:?}");
    }

    #[test]
    fn the_first_rank_comes_first() {
        let plans = (0..8).map(|rest| (u8::from(rest < 4), plan(rest))).collect();
        let order = rests(&spread(plans));
        assert!(order[..4].iter().all(|rest| *rest >= 4), "{order:?}");
    }
}
