//! The order of plans: all classes by turns, and within each class spread over the whole scenario, so that a small budget
//! sees something of everything.

use std::collections::BTreeMap;

use crate::generate::{Generated, pairs};
use crate::learn::Learned;
use crate::plan::{Class, Plan};

/// The plans in their order.
pub(crate) struct Schedule {
    pub(crate) plans: Vec<Plan>,
    /// How many plans there are without the budget.
    pub(crate) made: usize,
    /// How many plans were not made because another one strikes at the same point.
    pub(crate) equivalent: usize,
}

/// Orders the plans, and takes as many as the budget allows.
pub(crate) fn schedule(
    learned: &Learned,
    generated: Generated,
    (most, most_pairs): (usize, usize),
) -> Schedule {
    let Generated { by_class, equivalent } = generated;
    let mut queues: BTreeMap<Class, std::vec::IntoIter<Plan>> =
        by_class.into_iter().map(|(class, plans)| (class, spread(plans).into_iter())).collect();
    let mut plans = Vec::new();
    while !queues.is_empty() {
        queues.retain(|_, queue| match queue.next() {
            Some(plan) => {
                plans.push(plan);
                true
            }
            None => false,
        });
    }
    let pairs = if most_pairs > 0 { pairs(learned, most_pairs) } else { Vec::new() };
    plans.extend(pairs);
    let made = plans.len();
    plans.truncate(most);
    Schedule { plans, made, equivalent }
}

/// The plans in an order in which every beginning is spread evenly over all of them: by their reversed index in binary.
fn spread(plans: Vec<Plan>) -> Vec<Plan> {
    let bits = usize::BITS - plans.len().leading_zeros();
    let mut numbered: Vec<(usize, Plan)> = plans.into_iter().enumerate().collect();
    numbered.sort_by_key(|(at, _)| at.reverse_bits() >> (usize::BITS - bits.max(1)));
    numbered.into_iter().map(|(_, plan)| plan).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Strike;

    #[test]
    fn every_beginning_is_spread() {
        let plan = |rest| Plan::of(Strike::Restart { operator: "a".into(), rest });
        let order: Vec<Plan> = spread((0..8).map(plan).collect());
        let order: Vec<usize> = order
            .iter()
            .map(|plan| match plan.strikes[0] {
                Strike::Restart { rest, .. } => rest,
                _ => usize::MAX,
            })
            .collect();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..8).collect::<Vec<_>>());
        assert!(order[..2].iter().any(|rest| *rest >= 4), "{order:?}");
    }
}
