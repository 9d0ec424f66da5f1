//! Bounds on what the commands of simulated containers use, for one pod and for all pods of a cluster.
//!
//! A pod can have thousands of containers, and a cluster thousands of pods. A bound for each command alone would allow
//! thousands of times as much.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::behaviour::LogLine;

/// The budget of all commands that start in one look at a pod: the bytes that they expand, read and write, plus a
/// constant for each word, step and file. Typical commands of tests cost some kilobytes.
const EFFORT: usize = 16 << 20;

/// How many bytes all lines that commands have printed may take together.
const PRINTED_MAX: usize = 128 << 20;

/// How many bytes a line takes besides its text.
const LINE_COST: usize = size_of::<LogLine>();

/// The rest of the budget of a pod's commands in one look at the pod.
#[derive(Debug)]
pub(crate) struct Effort(Cell<usize>);

impl Effort {
    /// The whole budget for one look at a pod.
    pub(crate) fn new() -> Self {
        Self(Cell::new(EFFORT))
    }

    /// Returns how much of the budget is left.
    pub(crate) fn left(&self) -> usize {
        self.0.get()
    }

    /// Spends a part of the budget. If less than that is left, spends all of it and returns `None`.
    pub(crate) fn spend(&self, cost: usize) -> Option<()> {
        let left = self.0.get().checked_sub(cost);
        self.0.set(left.unwrap_or(0));
        left.map(drop)
    }
}

/// The room for the lines that the commands of a cluster print. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PrintRoom(Arc<AtomicUsize>);

/// The lines of a run. Lines that a command printed count against its [`PrintRoom`] until the last clone is dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Printed(Arc<Lines>);

#[derive(Debug, Default)]
struct Lines {
    lines: Vec<LogLine>,
    takes: usize,
    room: PrintRoom,
}

impl PrintRoom {
    /// Keeps the lines that a command prints, or none of them if there is no room.
    pub(crate) fn keep(&self, mut lines: Vec<LogLine>) -> Printed {
        let mut takes = lines.iter().map(|line| LINE_COST + line.text.capacity()).sum();
        if self.0.fetch_add(takes, Ordering::Relaxed).saturating_add(takes) > PRINTED_MAX {
            self.0.fetch_sub(takes, Ordering::Relaxed);
            (lines, takes) = (Vec::new(), 0);
        }
        Printed(Arc::new(Lines { lines, takes, room: self.clone() }))
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.room.0.fetch_sub(self.takes, Ordering::Relaxed);
    }
}

/// Lines that are bounded by something else, such as the size of an annotation.
impl From<Vec<LogLine>> for Printed {
    fn from(lines: Vec<LogLine>) -> Self {
        Self(Arc::new(Lines { lines, takes: 0, room: PrintRoom::default() }))
    }
}

impl Deref for Printed {
    type Target = [LogLine];

    fn deref(&self) -> &[LogLine] {
        &self.0.lines
    }
}

impl PartialEq for Printed {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Printed {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_take_room_as_long_as_somebody_has_them() {
        let room = PrintRoom::default();
        let megabyte = || vec![LogLine { after: Default::default(), text: "x".repeat(1 << 20) }];
        let mut kept: Vec<Printed> = (0..200).map(|_| room.keep(megabyte())).collect();
        let has_lines = |kept: &[Printed]| kept.iter().filter(|printed| !printed.is_empty()).count();
        assert_eq!(has_lines(&kept), 127);
        let clone = kept[0].clone();
        kept.clear();
        assert_eq!(room.0.load(Ordering::Relaxed), LINE_COST + (1 << 20));
        drop(clone);
        kept.extend((0..200).map(|_| room.keep(megabyte())));
        assert_eq!(has_lines(&kept), 127);
    }

    #[test]
    fn effort_that_is_too_large_leaves_nothing() {
        let effort = Effort::new();
        assert_eq!((effort.spend(EFFORT - 1), effort.left()), (Some(()), 1));
        assert_eq!((effort.spend(2), effort.left()), (None, 0));
    }
}
