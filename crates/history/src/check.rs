//! The check of a history.

use std::fmt;

use crate::history::{Answer, History};
use crate::revision_log::{self, RevisionLog};
use crate::violation::Violation;
use crate::{linearize, lists, watches};

/// The size of a history that passed the check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many requests about single objects there are.
    pub operations: usize,
    /// How many requests got no answer.
    pub lost: usize,
    /// How many requests got no answer but did happen, as a read, list or watch shows.
    pub happened: usize,
    /// How many lists there are.
    pub listings: usize,
    /// How many watches there are.
    pub streams: usize,
    /// How many events the watches have shown.
    pub events: usize,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operations, lost, happened, listings, streams, events } = self;
        write!(f, "{operations} requests ({lost} lost, of which {happened} are known to have happened), ")?;
        write!(f, "{listings} lists, {events} events of {streams} watches")
    }
}

/// Checks that a correct server could have produced this history.
///
/// # Errors
/// Every violation in the history.
pub fn check(mut history: History) -> Result<Summary, Vec<Violation>> {
    let lost = count_lost(&history);
    let (log, mut violations) = RevisionLog::of(&history);
    violations.extend(history.surprises.drain(..).map(Violation::Surprise));
    violations.extend(revision_log::check_order(&history));
    log.complete(&mut history);
    violations.extend(log.check_uids());
    violations.extend(lists::check(&history, &log));
    violations.extend(watches::check(&history, &log));
    let summary = Summary {
        operations: history.operations.len(),
        lost,
        happened: lost - count_lost(&history),
        listings: history.listings.len(),
        streams: history.streams.len(),
        events: history.streams.iter().map(|stream| stream.changes.len()).sum(),
    };
    violations.extend(objects(history));
    if violations.is_empty() { Ok(summary) } else { Err(violations) }
}

fn count_lost(history: &History) -> usize {
    history.operations.iter().filter(|operation| operation.answer == Answer::Lost).count()
}

/// Searches for an order of the requests about each object.
fn objects(history: History) -> Vec<Violation> {
    let mut by_key = vec![Vec::new(); history.keys];
    let reads = history.listings.iter().flat_map(|listing| lists::reads(listing, history.keys));
    for operation in history.operations.into_iter().chain(reads) {
        by_key[operation.key].push(operation);
    }
    let checked = by_key.into_iter().enumerate().map(|(key, operations)| linearize::check(key, operations));
    checked.filter_map(Result::err).collect()
}
