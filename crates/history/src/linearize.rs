//! The search for an order of requests that explains every answer about one object.
//!
//! Wing and Gong: a request can come next if no remaining request had returned before it was called. Try each of these
//! whose answer fits the state, and backtrack if none does. Lowe: do not try a configuration (the requests taken so far,
//! and the state) a second time. In addition:
//!
//! * A history is cut wherever no request is open. Each piece is searched from every state that the piece before it can
//!   end in.
//! * A read, or a write that failed with an error, is taken as soon as it fits. It changes nothing, so that no order is
//!   excluded.
//! * Of the remaining acknowledged writes, only the one with the lowest revision can come next.

use std::collections::BTreeSet;

use evenkeel_env::HashSet;

use crate::history::{Key, Operation, Revision, Tick};
use crate::register::{self, RegisterState};
use crate::violation::Violation;

/// How many configurations of one piece are tried before the search gives up. A piece of a correct history takes a few
/// for each of its requests, and a piece has no more requests than are sent between two kills.
const CONFIGURATIONS_MAX: usize = 5_000_000;

/// Checks that the requests about one object are linearizable.
pub(crate) fn check(key: Key, mut operations: Vec<Operation>) -> Result<(), Violation> {
    operations.sort_by_key(|operation| operation.called);
    let mut states = BTreeSet::from([RegisterState::NEW]);
    for piece in pieces(&operations) {
        states = Search::new(piece).run(&states).map_err(|stuck| stuck.violation(key, piece))?;
    }
    Ok(())
}

/// Cuts requests, which are sorted by the time of the call, wherever no request is open.
fn pieces(operations: &[Operation]) -> Vec<&[Operation]> {
    let (mut pieces, mut start, mut open_until) = (Vec::new(), 0, 0);
    for (at, operation) in operations.iter().enumerate() {
        if operation.called > open_until && at > start {
            pieces.push(&operations[start..at]);
            start = at;
        }
        open_until = open_until.max(operation.returned);
    }
    pieces.push(&operations[start..]);
    pieces
}

/// The requests taken so far, and the state after them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Configuration {
    /// One bit for each request of the piece.
    taken: Vec<u64>,
    /// The index of the first request that may not be taken yet.
    first: usize,
    state: RegisterState,
}

impl Configuration {
    fn has(&self, at: usize) -> bool {
        self.taken[at / 64] & (1 << (at % 64)) != 0
    }

    fn take(&mut self, at: usize, state: RegisterState, pieces: usize) {
        self.taken[at / 64] |= 1 << (at % 64);
        self.state = state;
        while self.first < pieces && self.has(self.first) {
            self.first += 1;
        }
    }

    fn count(&self) -> u32 {
        self.taken.iter().map(|bits| bits.count_ones()).sum()
    }
}

/// A search that failed: the configuration with the most requests taken.
struct Stuck {
    configuration: Configuration,
    exhausted: bool,
}

impl Stuck {
    fn violation(self, key: Key, piece: &[Operation]) -> Violation {
        let left =
            |(at, operation): (usize, &Operation)| (!self.configuration.has(at)).then(|| operation.clone());
        let stuck = piece.iter().enumerate().filter_map(left).collect();
        let note = if self.exhausted { " (the search gave up)" } else { "" };
        Violation::NotLinearizable { key, stuck, state: format!("{:?}{note}", self.configuration.state) }
    }
}

struct Search<'a> {
    piece: &'a [Operation],
    met: HashSet<Configuration>,
    todo: Vec<Configuration>,
    ends: BTreeSet<RegisterState>,
    furthest: Option<Configuration>,
}

impl<'a> Search<'a> {
    fn new(piece: &'a [Operation]) -> Self {
        Self { piece, met: HashSet::default(), todo: Vec::new(), ends: BTreeSet::new(), furthest: None }
    }

    /// Returns every state that the piece can end in if it begins in one of `states`.
    fn run(mut self, states: &BTreeSet<RegisterState>) -> Result<BTreeSet<RegisterState>, Stuck> {
        let taken = vec![0; self.piece.len().div_ceil(64)];
        for state in states {
            self.push(Configuration { taken: taken.clone(), first: 0, state: *state });
        }
        while let Some(configuration) = self.todo.pop() {
            if self.met.len() > CONFIGURATIONS_MAX {
                return Err(Stuck { configuration, exhausted: true });
            }
            self.expand(configuration);
        }
        match self.furthest {
            Some(configuration) if self.ends.is_empty() => Err(Stuck { configuration, exhausted: false }),
            _ => Ok(self.ends),
        }
    }

    /// Takes the requests that change nothing, then tries each write that can come next.
    fn expand(&mut self, configuration: Configuration) {
        let configuration = self.settle(configuration);
        if self.is_complete(&configuration) {
            self.ends.insert(configuration.state);
        }
        let open_until = self.open_until(&configuration);
        let next = self.next_revision(&configuration);
        let before = self.todo.len();
        for at in self.candidates(&configuration, open_until) {
            let operation = &self.piece[at];
            let in_turn = register::written_at(operation).is_none_or(|revision| Some(revision) == next);
            if register::is_pure(operation) || !in_turn {
                continue;
            }
            if let Some(state) = register::write(configuration.state, operation) {
                let mut taken = configuration.clone();
                taken.take(at, state, self.piece.len());
                self.push(taken);
            }
        }
        let further = self.furthest.as_ref().is_none_or(|known| known.count() < configuration.count());
        if before == self.todo.len() && further {
            self.furthest = Some(configuration);
        }
    }

    /// Takes reads and failed writes for as long as one fits.
    fn settle(&self, mut configuration: Configuration) -> Configuration {
        loop {
            let open_until = self.open_until(&configuration);
            let fitting = self.candidates(&configuration, open_until).into_iter().find_map(|at| {
                let operation = &self.piece[at];
                let pure = register::is_pure(operation);
                Some((at, register::observe(configuration.state, operation).filter(|_| pure)?))
            });
            match fitting {
                Some((at, state)) => configuration.take(at, state, self.piece.len()),
                None => return configuration,
            }
        }
    }

    fn push(&mut self, configuration: Configuration) {
        if self.met.insert(configuration.clone()) {
            self.todo.push(configuration);
        }
    }

    /// Returns the remaining requests that were called before any remaining request had returned.
    fn candidates(&self, configuration: &Configuration, open_until: Tick) -> Vec<usize> {
        let left = configuration.first..self.piece.len();
        let left = left.take_while(|at| self.piece[*at].called < open_until);
        left.filter(|at| !configuration.has(*at)).collect()
    }

    /// Returns the time at which the first remaining request with an answer returned. A request without an answer need
    /// not happen at all.
    fn open_until(&self, configuration: &Configuration) -> Tick {
        let mut open_until = Tick::MAX;
        for at in configuration.first..self.piece.len() {
            let operation = &self.piece[at];
            if operation.called > open_until {
                break;
            }
            if !configuration.has(at) && !is_lost(operation) {
                open_until = open_until.min(operation.returned);
            }
        }
        open_until
    }

    /// Returns the lowest revision of the remaining acknowledged writes.
    fn next_revision(&self, configuration: &Configuration) -> Option<Revision> {
        let left = (configuration.first..self.piece.len()).filter(|at| !configuration.has(*at));
        left.filter_map(|at| register::written_at(&self.piece[at])).min()
    }

    fn is_complete(&self, configuration: &Configuration) -> bool {
        let mut left = (configuration.first..self.piece.len()).filter(|at| !configuration.has(*at));
        left.all(|at| is_lost(&self.piece[at]))
    }
}

fn is_lost(operation: &Operation) -> bool {
    operation.answer == crate::history::Answer::Lost
}
