//! What simulated containers may take together: the commands of one pod, and the logs of all pods.
//!
//! A pod can have thousands of containers, and a cluster thousands of pods, so a bound for each container would bound
//! nothing. The bounds for files are in `script/files.rs`.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use super::behaviour::LogLine;

/// The budget of all commands that start in one look at a pod: the bytes that they expand, read and write, plus a
/// constant for each word, step and file. Typical commands of tests cost some kilobytes.
const EFFORT: usize = 16 << 20;

/// How many bytes the lines that all containers print may take together, in the runs whose logs are kept.
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

/// The room for the lines that the containers of a cluster print. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PrintRoom(Arc<AtomicUsize>);

/// The lines of a run. Clones share them, and their room.
#[derive(Clone, Debug, Default)]
pub(crate) struct Printed(Arc<Lines>);

#[derive(Debug, Default)]
struct Lines {
    lines: Vec<LogLine>,
    /// Where the lines are kept, and how many bytes they take there. Set once, by [`PrintRoom::keep`].
    place: OnceLock<(PrintRoom, usize)>,
}

impl PrintRoom {
    /// Keeps lines as long as somebody has them. If there is no room for all of them, none is kept.
    pub(crate) fn keep(&self, printed: Printed) -> Printed {
        if printed.is_empty() || printed.0.place.get().is_some() {
            return printed;
        }
        let takes: usize = printed.iter().map(|line| LINE_COST + line.text.capacity()).sum();
        if self.0.fetch_add(takes, Ordering::Relaxed).saturating_add(takes) > PRINTED_MAX {
            self.leave(takes);
            return Printed::default();
        }
        // Another thread may have kept the same lines in the meantime.
        if printed.0.place.set((self.clone(), takes)).is_err() {
            self.leave(takes);
        }
        printed
    }

    fn leave(&self, takes: usize) {
        self.0.fetch_sub(takes, Ordering::Relaxed);
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if let Some((room, takes)) = self.place.get() {
            room.leave(*takes);
        }
    }
}

/// Lines that take no room yet.
impl From<Vec<LogLine>> for Printed {
    fn from(lines: Vec<LogLine>) -> Self {
        Self(Arc::new(Lines { lines, place: OnceLock::new() }))
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
    use std::time::Duration;

    #[test]
    fn lines_take_room_as_long_as_somebody_has_them() {
        let room = PrintRoom::default();
        let megabyte = || Printed::from(vec![LogLine { after: Duration::ZERO, text: "x".repeat(1 << 20) }]);
        let mut kept: Vec<Printed> = (0..200).map(|_| room.keep(megabyte())).collect();
        let has_lines = |kept: &[Printed]| kept.iter().filter(|printed| !printed.is_empty()).count();
        assert_eq!(has_lines(&kept), 127);
        let clone = room.keep(kept[0].clone());
        kept.clear();
        assert_eq!(room.0.load(Ordering::Relaxed), LINE_COST + (1 << 20), "shared lines take room once");
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
