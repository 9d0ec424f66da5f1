//! The whole check of a history.

use std::fmt;

use crate::history::{Answer, History};
use crate::line::{self, Line};
use crate::violation::Violation;
use crate::{linearize, lists, watches};

/// What a history that was accepted is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Requests about one object.
    pub operations: usize,
    /// Those of them that were not answered.
    pub lost: usize,
    /// Those of them that were not answered and of which some read, list or watch tells that they happened.
    pub happened: usize,
    /// Lists.
    pub listings: usize,
    /// Watches.
    pub streams: usize,
    /// Events of watches.
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
/// Everything that is wrong with it.
pub fn check(mut history: History) -> Result<Summary, Vec<Violation>> {
    let lost = count_lost(&history);
    let (line, mut violations) = Line::of(&history);
    violations.extend(history.surprises.drain(..).map(Violation::Surprise));
    violations.extend(line::check_order(&history));
    line.complete(&mut history);
    violations.extend(line.check_uids());
    violations.extend(lists::check(&history, &line));
    violations.extend(watches::check(&history, &line));
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

/// Searches an order for each object.
fn objects(history: History) -> Vec<Violation> {
    let mut by_key = vec![Vec::new(); history.keys];
    let reads = history.listings.iter().flat_map(|listing| lists::reads(listing, history.keys));
    for operation in history.operations.into_iter().chain(reads) {
        by_key[operation.key].push(operation);
    }
    let checked = by_key.into_iter().enumerate().map(|(key, operations)| linearize::check(key, operations));
    checked.filter_map(Result::err).collect()
}
