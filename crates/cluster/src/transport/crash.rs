//! Crash points: at which of its writes an operator crashes.

use std::sync::Arc;

use evenkeel_env::{Station, Work};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Where an operator crashes. Its writes are counted from one, beginning when the crash is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    /// Just before the n-th write is sent.
    Before(usize),
    /// After the server has committed the n-th write, before the response arrives.
    AnswerLost(usize),
    /// After the response to the n-th write has arrived: at the next request, or when there is nothing left to do.
    After(usize),
}

impl CrashPoint {
    fn number(self) -> usize {
        match self {
            Self::Before(n) | Self::AnswerLost(n) | Self::After(n) => n,
        }
    }
}

/// The simulated process of an operator: whether it is alive, and where it will crash. A dead process gets no
/// responses.
#[derive(Debug)]
pub(crate) struct OperatorProcess {
    state: Mutex<ProcessState>,
    /// Notified when the process dies. Its supervisor and the calls of its webhooks wait for that.
    died: Notify,
    station: Station,
}

#[derive(Debug, Default)]
struct ProcessState {
    plan: Option<CrashPoint>,
    /// How many writes there were since the crash was requested.
    writes: usize,
    is_dead: bool,
    /// Held from the crash until the supervisor has started the operator again, so that the cluster does not count as
    /// settled in between.
    restart: Option<Arc<Work>>,
    /// Set when the response to the write that it is to crash after has been passed on.
    dying: bool,
}

/// What a crash point does to one write.
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

    /// Whether a request may still be sent. A process that is due to crash does so here.
    pub(crate) fn is_alive(&self) -> bool {
        let dying = {
            let state = self.state.lock();
            if state.is_dead {
                return false;
            }
            state.dying
        };
        if dying {
            self.die();
        }
        !dying
    }

    /// Counts a write, and decides what happens to it.
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

    /// Lets the response through, and makes the process crash at its next request.
    pub(crate) fn die_soon(&self) {
        self.state.lock().dying = true;
    }

    pub(crate) fn die(&self) {
        let work = self.station.enter_with("restart after a crash");
        {
            let mut state = self.state.lock();
            if !std::mem::replace(&mut state.is_dead, true) {
                state.restart = Some(Arc::new(work));
            }
        }
        self.died.notify_waiters();
    }

    /// Forgets the process when another one takes its place. Tasks of the dead one may be left, and are sent no answers.
    pub(crate) fn bury(&self) {
        let restart = {
            let mut state = self.state.lock();
            state.is_dead = true;
            state.restart.take()
        };
        drop(restart);
        self.died.notify_waiters();
    }

    /// Waits until the process is dead.
    pub(crate) async fn ended(&self) {
        loop {
            let died = self.died.notified();
            if self.state.lock().is_dead {
                return;
            }
            died.await;
        }
    }

    /// Waits for the crash, and returns the work that the supervisor holds until the operator runs again; none if it runs
    /// already.
    pub(crate) async fn died(&self) -> Option<Arc<Work>> {
        loop {
            let died = self.died.notified();
            {
                let state = self.state.lock();
                if state.is_dead {
                    return state.restart.clone();
                }
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
        // A task of the operator that was left behind holds the process, but no work.
        process.bury();
        assert!(!process.is_alive());
        assert_eq!(ledger.len(), 0);
    }

    #[test]
    fn after_an_answer_the_next_request_is_the_last() {
        let process = OperatorProcess::new(Ledger::new().station("op"));
        process.die_soon();
        assert!(!process.is_alive());
    }
}
