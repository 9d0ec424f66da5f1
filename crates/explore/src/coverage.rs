//! Coverage: which requests, views and events of an operator the plans have disturbed.

use std::collections::BTreeSet;
use std::fmt;

use crate::learn::Learned;
use crate::plan::Strike;

/// How much of the undisturbed run the plans have disturbed. Each pair is the total, and how many of them were
/// disturbed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coverage {
    /// The writes of operators, and those at which an operator crashed.
    pub writes: (usize, usize),
    /// The requests of operators, reads included, and those that failed.
    pub requests: (usize, usize),
    /// The changes of objects that operators watch, and those after which a stale view ended.
    pub views: (usize, usize),
    /// The kinds that operators watch, and those whose events were held.
    pub triggers: (usize, usize),
}

impl Coverage {
    pub(crate) fn of<'s>(strikes: impl Iterator<Item = &'s Strike>, learned: &Learned) -> Self {
        let mut crashed = BTreeSet::new();
        let mut failed = BTreeSet::new();
        let mut views = BTreeSet::new();
        let mut held = BTreeSet::new();
        for strike in strikes {
            match strike {
                Strike::Crash { operator, request, .. } => drop(crashed.insert((operator, *request))),
                Strike::Fail { operator, request, .. } => drop(failed.insert((operator, *request))),
                Strike::Stale { operator, revision, .. } => drop(views.insert((operator, *revision))),
                Strike::Hold { operator, kind, .. } | Strike::Lag { operator, kind, .. } => {
                    held.insert((operator, kind));
                }
                _ => {}
            }
        }
        let asked = |effects: bool| {
            let asked = learned.requests.iter().filter(move |asked| asked.has_effect || !effects);
            asked.map(|asked| (&asked.operator, asked.number)).collect::<BTreeSet<_>>()
        };
        let (writes, requests) = (asked(true), asked(false));
        let seen = learned.seen.iter();
        let seen: BTreeSet<_> =
            seen.flat_map(|(name, seen)| seen.iter().map(move |(_, it)| (name, it.revision))).collect();
        let kinds = learned.watched.iter();
        let kinds: BTreeSet<_> =
            kinds.flat_map(|(name, kinds)| kinds.iter().map(move |kind| (name, kind))).collect();
        Self {
            writes: (writes.len(), writes.intersection(&crashed).count()),
            requests: (requests.len(), requests.intersection(&failed).count()),
            views: (seen.len(), seen.intersection(&views).count()),
            triggers: (kinds.len(), kinds.intersection(&held).count()),
        }
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { writes, requests, views, triggers } = self;
        write!(
            f,
            "crashed at {} of {} writes, failed {} of {} requests, views of {} of {} changes, held {} of {} kinds",
            writes.1, writes.0, requests.1, requests.0, views.1, views.0, triggers.1, triggers.0
        )
    }
}
