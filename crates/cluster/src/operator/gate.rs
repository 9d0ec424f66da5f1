//! The gate that an operator passes before it starts. A test closes it to keep a crashed operator stopped.

use std::sync::Arc;

use evenkeel_env::{Station, Work};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Whether an operator may start.
#[derive(Debug)]
pub(super) struct Gate {
    station: Station,
    state: Mutex<GateState>,
    opened: Notify,
}

#[derive(Debug)]
enum GateState {
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
        Self { station, state: Mutex::new(GateState::Open), opened: Notify::new() }
    }

    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        if !matches!(*state, GateState::Waiting) {
            *state = GateState::Closed;
        }
    }

    pub(super) fn open(&self) {
        let mut state = self.state.lock();
        match *state {
            GateState::Closed => *state = GateState::Open,
            GateState::Waiting => {
                *state = GateState::Opened(Arc::new(self.station.enter_with("start")));
                self.opened.notify_one();
            }
            GateState::Open | GateState::Opened(_) => {}
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
                    GateState::Closed | GateState::Waiting => {
                        *state = GateState::Waiting;
                        starting = None;
                    }
                    GateState::Open => return starting.unwrap_or_else(|| Arc::new(self.station.enter())),
                    GateState::Opened(work) => {
                        let work = work.clone();
                        *state = GateState::Open;
                        return work;
                    }
                }
            }
            opened.await;
        }
    }
}
