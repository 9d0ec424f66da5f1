//! The gate that an operator passes before it starts. A test closes it to keep a crashed operator stopped.

use std::sync::Arc;

use evenkeel_env::{Station, Work};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Whether an operator may start.
#[derive(Debug)]
pub(super) struct Gate {
    station: Station,
    state: Mutex<State>,
    opened: Notify,
}

#[derive(Debug)]
enum State {
    Open,
    /// The operator may not start. It has not crashed yet.
    Closed,
    /// The operator has crashed and waits to start.
    Waiting,
    /// The gate was opened, but the waiting operator has not passed yet. Its start is pending work.
    Opened(Arc<Work>),
}

impl Gate {
    pub(super) fn new(station: Station) -> Self {
        Self { station, state: Mutex::new(State::Open), opened: Notify::new() }
    }

    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        if !matches!(*state, State::Waiting) {
            *state = State::Closed;
        }
    }

    pub(super) fn open(&self) {
        let mut state = self.state.lock();
        match *state {
            State::Closed => *state = State::Open,
            State::Waiting => {
                *state = State::Opened(Arc::new(self.station.enter_with("start")));
                self.opened.notify_one();
            }
            State::Open | State::Opened(_) => {}
        }
    }

    /// Waits until the gate is open. A waiting operator counts as stopped and has no pending work: `starting` ends, and
    /// the returned work stands for the start.
    pub(super) async fn pass(&self, starting: Arc<Work>) -> Arc<Work> {
        let mut starting = Some(starting);
        loop {
            let opened = self.opened.notified();
            {
                let mut state = self.state.lock();
                match &*state {
                    State::Closed | State::Waiting => {
                        *state = State::Waiting;
                        starting = None;
                    }
                    State::Open => return starting.unwrap_or_else(|| Arc::new(self.station.enter())),
                    State::Opened(work) => {
                        let work = work.clone();
                        *state = State::Open;
                        return work;
                    }
                }
            }
            opened.await;
        }
    }
}
