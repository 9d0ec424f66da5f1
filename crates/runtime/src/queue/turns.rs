//! Whose turn it is among the ready keys of one priority.
//!
//! Keys are handed out in rounds. A key stands in the present round of its priority, or as many rounds later as there
//! are [`ROUND_SIZE`]s of its group's keys before it. A round is over when nobody stands in it, or when it has given
//! every group that waits its share: then who is added stands in the next one, behind those who were put off to it.
//! So neither a group with very many keys nor a key that is added again and again keeps others waiting for ever.

use std::collections::BTreeMap;

use super::state::ROUND_SIZE;

/// Priorities that are kept before those that no key has any more are looked for.
const PRIORITIES_KEPT: usize = 16;

/// The rounds of each priority: those of one say nothing of another, whose keys wait for other reasons.
#[derive(Debug)]
pub(super) struct Turns {
    by_priority: BTreeMap<i32, Turn>,
    /// How many there may be before they are looked through.
    limit: usize,
}

#[derive(Debug, Default)]
struct Turn {
    /// Who is added now stands in this round or a later one.
    round: u64,
    /// How many keys it has given.
    given: usize,
    /// How many ready keys there are.
    ready: usize,
    /// How many groups they are of.
    groups: usize,
}

impl Default for Turns {
    fn default() -> Self {
        Self { by_priority: BTreeMap::new(), limit: PRIORITIES_KEPT }
    }
}

impl Turns {
    /// One more key is ready, with so many of its group and priority before it; none where it has no group. Gives its
    /// round.
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

    /// Undoes `enter`; so many of its group and priority are left.
    #[inline]
    pub(super) fn leave(&mut self, priority: i32, left: Option<usize>) {
        if let Some(turn) = self.by_priority.get_mut(&priority) {
            turn.ready -= 1;
            turn.groups -= usize::from(left == Some(0));
        }
    }

    /// A key of this round is handed out.
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
