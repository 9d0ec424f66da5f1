//! Ready keys: a first-in, first-out line for each priority and round.
//!
//! A line is a linked list through the entries of its keys, so that a key enters a line, and leaves it from the middle,
//! in constant time and without an allocation. Only the lines themselves, of which there are few, are in a map.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::slots::Slot;

/// The line of a key. Lines are ordered by higher priority, then by earlier round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    priority: Reverse<i32>,
    round: u64,
}

impl Rank {
    pub(super) fn new(priority: i32, round: u64) -> Self {
        Self { priority: Reverse(priority), round }
    }

    pub(super) fn round(self) -> u64 {
        self.round
    }
}

/// A key's neighbours in its line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Links {
    before: Option<Slot>,
    behind: Option<Slot>,
}

/// Gives access to the links of a key, which its entry holds.
pub(super) trait Linked {
    fn links(&mut self, slot: Slot) -> &mut Links;
}

#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The lines in order; none of them is empty.
    lines: BTreeMap<Rank, Line>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Line {
    first: Slot,
    last: Slot,
}

impl Lines {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Puts a key at the end of its line.
    #[inline]
    pub(super) fn push(&mut self, rank: Rank, slot: Slot, keys: &mut impl Linked) {
        let line = self.lines.entry(rank).or_insert(Line { first: slot, last: slot });
        let before = (line.first != slot).then_some(line.last);
        line.last = slot;
        if let Some(before) = before {
            keys.links(before).behind = Some(slot);
        }
        *keys.links(slot) = Links { before, behind: None };
        self.len += 1;
    }

    /// Removes the first key of the first line.
    #[inline]
    pub(super) fn pop(&mut self, keys: &mut impl Linked) -> Option<(Rank, Slot)> {
        let mut line = self.lines.first_entry()?;
        let (rank, first) = (*line.key(), line.get().first);
        match std::mem::take(keys.links(first)).behind {
            None => drop(line.remove()),
            Some(behind) => {
                keys.links(behind).before = None;
                line.get_mut().first = behind;
            }
        }
        self.len -= 1;
        Some((rank, first))
    }

    /// Removes a key from its line.
    pub(super) fn remove(&mut self, rank: Rank, slot: Slot, keys: &mut impl Linked) {
        let Links { before, behind } = std::mem::take(keys.links(slot));
        match (before, behind) {
            (None, None) => drop(self.lines.remove(&rank)),
            (Some(before), Some(behind)) => {
                keys.links(before).behind = Some(behind);
                keys.links(behind).before = Some(before);
            }
            (None, Some(behind)) => {
                keys.links(behind).before = None;
                self.line(rank).first = behind;
            }
            (Some(before), None) => {
                keys.links(before).behind = None;
                self.line(rank).last = before;
            }
        }
        self.len -= 1;
    }

    fn line(&mut self, rank: Rank) -> &mut Line {
        self.lines.get_mut(&rank).expect("a line is there for as long as somebody stands in it")
    }
}
