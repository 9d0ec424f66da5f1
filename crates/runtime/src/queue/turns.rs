//! Decides in which order ready keys of one priority are handed out, so that groups take turns.
//!
//! Keys are handed out in rounds. A new key joins the current round of its priority, or a later one: one round later for
//! each [`ROUND_SIZE`] keys of its group that are ready before it. A round is over when no key is left in it, or when it
//! has handed out a full share for every waiting group; keys that are added then join the next round, behind those that
//! were put off to it. So neither a group with very many keys nor a key that is added again and again starves others.

use std::collections::BTreeMap;

use super::state::ROUND_SIZE;

/// How many priorities are kept before the unused ones are searched for and dropped.
const PRIORITIES_KEPT: usize = 16;

/// The rounds of each priority, which are independent of each other.
#[derive(Debug)]
pub(super) struct Turns {
    by_priority: BTreeMap<i32, Turn>,
    /// The number of priorities at which unused ones are dropped.
    limit: usize,
}

#[derive(Debug, Default)]
struct Turn {
    /// The current round: keys that are added now join it or a later one.
    round: u64,
    /// The number of keys that the current round has handed out.
    given: usize,
    /// The number of ready keys.
    ready: usize,
    /// The number of groups of the ready keys.
    groups: usize,
}

impl Default for Turns {
    fn default() -> Self {
        Self { by_priority: BTreeMap::new(), limit: PRIORITIES_KEPT }
    }
}

impl Turns {
    /// Adds a ready key. `before` is the number of ready keys of its group and priority; `None` if it has no group.
    /// Returns the round of the key.
    #[inline]
    pub(super) fn enter(&mut self, priority: i32, before: Option<usize>) -> u64 {
        if self.by_priority.len() >= self.limit {
            self.by_priority.retain(|_, turn| turn.ready > 0);
            self.limit = PRIORITIES_KEPT.max(2 * self.by_priority.len());
        }
        let turn = self.by_priority.entry(priority).or_default();
        turn.ready += 1;
        turn.groups += usize::from(before == Some(0));
        turn.round + (before.unwrap_or(0) / ROUND_SIZE) as u64
    }

    /// Removes a ready key. `left` is the number of ready keys of its group and priority that are left.
    #[inline]
    pub(super) fn leave(&mut self, priority: i32, left: Option<usize>) {
        if let Some(turn) = self.by_priority.get_mut(&priority) {
            turn.ready -= 1;
            turn.groups -= usize::from(left == Some(0));
        }
    }

    /// Counts a key of this round that is handed out.
    #[inline]
    pub(super) fn give(&mut self, priority: i32, round: u64) {
        let Some(turn) = self.by_priority.get_mut(&priority) else { return };
        if round > turn.round {
            (turn.round, turn.given) = (round, 0);
        }
        if round == turn.round {
            turn.given += 1;
            if turn.given >= ROUND_SIZE * turn.groups.max(1) {
                (turn.round, turn.given) = (round + 1, 0);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_priority.len()
    }
}
