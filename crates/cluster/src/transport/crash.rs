//! Crash points: where an operator dies, counted in its own writes.

use std::sync::Arc;

use evenkeel_env::{Station, Work};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Where an operator is crashed. Writes are counted from one, from the moment the crash is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    /// Just before its n-th write leaves.
    Before(usize),
    /// After the server committed its n-th write, before the answer arrives.
    AnswerLost(usize),
    /// After the answer to its n-th write has arrived: at its next request, or when it has nothing left to do.
    After(usize),
}

impl CrashPoint {
    fn number(self) -> usize {
        match self {
            Self::Before(n) | Self::AnswerLost(n) | Self::After(n) => n,
        }
    }
}

/// Whether a client's process lives, and where it will die. A dead one gets no answers any more.
#[derive(Debug)]
pub(crate) struct OperatorProcess {
    state: Mutex<State>,
    /// Told when the process dies; the supervisor waits on it.
    died: Notify,
    station: Station,
}

#[derive(Debug, Default)]
struct State {
    plan: Option<CrashPoint>,
    /// Writes since the plan was made.
    writes: usize,
    /// Held from death until the supervisor has started the next life, so that nobody takes the pause for rest.
    dead: Option<Arc<Work>>,
    /// The answer to the write it was to die after is on its way.
    dying: bool,
}

/// What a crash point makes of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Live,
    DieBefore,
    DieUnanswered,
    DieAfter,
}

impl OperatorProcess {
    pub(crate) fn new(station: Station) -> Self {
        Self { state: Mutex::default(), died: Notify::new(), station }
    }

    pub(crate) fn plan(&self, point: CrashPoint) {
        let mut state = self.state.lock();
        state.plan = Some(point);
        state.writes = 0;
    }

    /// Whether a request may still leave. Whoever is dying dies here.
    pub(crate) fn is_alive(&self) -> bool {
        let dying = {
            let state = self.state.lock();
            if state.dead.is_some() {
                return false;
            }
            state.dying
        };
        if dying {
            self.die();
        }
        !dying
    }

    /// Counts a write.
    pub(crate) fn fate(&self) -> Fate {
        let mut state = self.state.lock();
        let Some(plan) = state.plan else { return Fate::Live };
        state.writes += 1;
        if state.writes != plan.number() {
            return Fate::Live;
        }
        state.plan = None;
        match plan {
            CrashPoint::Before(_) => Fate::DieBefore,
            CrashPoint::AnswerLost(_) => Fate::DieUnanswered,
            CrashPoint::After(_) => Fate::DieAfter,
        }
    }

    /// Lets the answer through; the next request is its last, if there is one.
    pub(crate) fn die_soon(&self) {
        self.state.lock().dying = true;
    }

    pub(crate) fn die(&self) {
        let work = self.station.enter_with("restart after a crash");
        self.state.lock().dead.get_or_insert_with(|| Arc::new(work));
        self.died.notify_one();
    }

    /// Waits for death and gives the work that the supervisor holds until the next life runs.
    pub(crate) async fn died(&self) -> Arc<Work> {
        loop {
            let died = self.died.notified();
            if let Some(work) = self.state.lock().dead.clone() {
                return work;
            }
            died.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_env::Ledger;

    #[test]
    fn the_plan_is_met_at_its_write() {
        let ledger = Ledger::new();
        let process = OperatorProcess::new(ledger.station("op"));
        process.plan(CrashPoint::AnswerLost(2));
        assert_eq!(process.fate(), Fate::Live);
        assert_eq!(process.fate(), Fate::DieUnanswered);
        assert_eq!(process.fate(), Fate::Live);
        assert!(process.is_alive());
        process.die();
        assert!(!process.is_alive());
        assert_eq!(ledger.len(), 1);
    }

    #[test]
    fn after_an_answer_the_next_request_is_the_last() {
        let process = OperatorProcess::new(Ledger::new().station("op"));
        process.die_soon();
        assert!(!process.is_alive());
    }
}
