//! What the director does at each rest, in this order: wait for a leader; start stopped operators and deliver held
//! events; carry out the strikes of this rest; let objects recover; end stale views; keep the state for comparison;
//! stop operators and hold watches for the next steps. The cluster comes to rest again after each of these.

use std::time::Duration;

use evenkeel_cluster::Matcher;
use serde_json::Value;

use super::act::Act;
use super::{Checkpoint, Lagged, PlanDirector, State, UNSEEN_RETRIES, healing_time, watches_of};
use crate::plan::{Point, Strike};
use crate::state::{KeyParts, is_of_the_cluster};

/// How much longer than a lease duration a takeover may last: two retry periods and their jitter.
const TAKE_OVER: Duration = Duration::from_secs(5);

/// How long it takes until all clients have listed again: more than the longest pause before a relist.
const LIST_AGAIN: Duration = Duration::from_secs(2);

impl PlanDirector {
    /// Returns the next actions at a rest, and whether the director waits for rest again afterwards.
    pub(super) fn acts(&self) -> (Vec<Act>, bool) {
        let mut state = self.state.lock();
        let rest = state.rests + 1;
        if std::mem::take(&mut state.turning) {
            return (vec![Act::Advance(LIST_AGAIN)], true);
        }
        if state.has_leases && std::mem::take(&mut state.leaderless) {
            return (vec![Act::Wait(self.lease_duration() + TAKE_OVER)], true);
        }
        let returns = self.returns(&mut state, rest);
        if !returns.is_empty() {
            state.retrying = true;
            return (returns, true);
        }
        if let Some(shift) = self.shift
            && !std::mem::replace(&mut state.shifted_here, true)
        {
            return (vec![Act::Shift, Act::Wait(shift)], true);
        }
        if !std::mem::replace(&mut state.struck_here, true) {
            let strikes = self.strikes_at(&mut state, rest);
            if !strikes.is_empty() {
                return (strikes, true);
            }
        }
        if std::mem::take(&mut state.retrying) && !self.plain.is_empty() {
            return (vec![Act::Wait(UNSEEN_RETRIES)], true);
        }
        if let Some(time) = state.healing.take() {
            return (vec![Act::Wait(time)], true);
        }
        state.relisting = false;
        let revision = self.cluster.revision();
        if !state.views.is_empty() {
            state.views.clear();
            state.retrying = true;
            state.caught_up(revision);
            return (vec![Act::Note("the API server catches up".into()), Act::Release], true);
        }
        for (operator, before) in std::mem::take(&mut state.restarting) {
            state.played.restarts.push((operator, before, revision));
        }
        if state.forced {
            return (Vec::new(), false);
        }
        self.keep(&mut state, revision);
        if let Some(forced) = self.forced(&mut state, revision) {
            return (forced, true);
        }
        let leaving = self.leaving(&mut state, rest);
        state.rests = rest;
        state.struck_at = state.struck_at.filter(|_| state.is_disturbed());
        (state.struck_here, state.shifted_here) = (false, false);
        (leaving, false)
    }

    /// Returns whether the plan breaks the scenario off at the rest that has just ended.
    pub(super) fn is_last(&self) -> bool {
        let state = self.state.lock();
        self.plan.until == Some(state.rests) && !state.finishing
    }

    /// Returns the longest duration of the leases that operators hold.
    fn lease_duration(&self) -> Duration {
        let objects = self.cluster.stored_objects();
        let leases = objects.iter().filter(|object| {
            let parts = KeyParts::of(&object.key);
            parts.plural == "leases" && parts.namespace != "kube-node-lease"
        });
        let seconds = leases.filter_map(|lease| {
            let lease: Value = serde_json::from_slice(&lease.json).ok()?;
            lease["spec"]["leaseDurationSeconds"].as_u64()
        });
        Duration::from_secs(seconds.max().unwrap_or_default())
    }

    fn returns(&self, state: &mut State, rest: usize) -> Vec<Act> {
        let finishing = state.finishing;
        let due = |until: usize| until <= rest || finishing;
        let mut acts = Vec::new();
        for (operator, _) in state.blind.iter().filter(|(_, until)| due(*until)) {
            acts.push(Act::Cut(operator.clone()));
            acts.push(Act::Release);
        }
        if state.held_until.is_some_and(due) {
            acts.push(Act::Note("held events arrive".into()));
            acts.push(Act::Release);
        }
        let returning = state.away.iter().filter(|(_, until)| due(*until));
        acts.extend(returning.map(|(name, _)| Act::Resume(name.clone())));
        if !acts.is_empty() {
            state.leaderless |= state.away.iter().any(|(_, until)| due(*until));
            state.away.retain(|(_, until)| !due(*until));
            state.blind.retain(|(_, until)| !due(*until));
            state.held_until = state.held_until.filter(|until| !due(*until));
            if !state.lags() {
                state.held_until_request = None;
                state.caught_up(self.cluster.revision());
            }
        }
        acts
    }

    fn strikes_at(&self, state: &mut State, rest: usize) -> Vec<Act> {
        let revision = self.cluster.revision();
        let mut acts = Vec::new();
        for strike in &self.plan.strikes {
            match strike {
                Strike::Restart { operator, rest: at }
                    if *at == rest && self.cluster.is_running(operator) =>
                {
                    state.restarting.push((operator.clone(), revision));
                    state.leaderless = true;
                    acts.push(Act::Restart(operator.clone()));
                }
                Strike::Stale { operator, rest: at, revision: view, kind }
                    if *at == rest && self.cluster.is_running(operator) =>
                {
                    let view = (*view).min(revision);
                    state.views.insert(operator.clone(), (kind.clone(), view));
                    state.lagging.push(Lagged { kind: kind.clone(), view, from: revision, to: u64::MAX });
                    state.leaderless = true;
                    let what = kind.as_deref().unwrap_or("everything");
                    acts.push(Act::Note(format!(
                        "{operator} restarts and sees {what} as of revision {view}"
                    )));
                    acts.push(Act::Restart(operator.clone()));
                }
                Strike::Relist { operator, from, to } if *from == rest && to == from => {
                    acts.push(Act::Cut(operator.clone()));
                }
                Strike::Clock { operator, rest: at, seconds }
                    if *at == rest && self.cluster.is_running(operator) =>
                {
                    acts.push(Act::Clock(operator.clone(), *seconds));
                }
                Strike::World { mishap, path, at: Point::Rest(at) } if *at == rest => {
                    state.healing = state.healing.max(healing_time(*mishap));
                    acts.push(Act::World(*mishap, path.clone()));
                }
                _ => continue,
            }
            state.strikes();
        }
        acts
    }

    fn leaving(&self, state: &mut State, rest: usize) -> Vec<Act> {
        if state.finishing {
            return Vec::new();
        }
        let now = self.cluster.revision();
        let from_now = |kind: Option<String>| Lagged { kind, view: now, from: now, to: u64::MAX };
        let mut acts = Vec::new();
        for strike in &self.plan.strikes {
            match strike {
                Strike::Away { operator, from, to } if *from == rest && self.cluster.is_running(operator) => {
                    state.away.push((operator.clone(), *to));
                    acts.push(Act::Suspend(operator.clone()));
                }
                Strike::Hold { operator, kind, from, to } if *from == rest => {
                    state.held_until = Some(*to);
                    state.lagging.push(from_now(Some(kind.clone())));
                    acts.push(Act::Hold(watches_of(operator, kind)));
                }
                Strike::Relist { operator, from, to } if *from == rest && to > from => {
                    state.blind.push((operator.clone(), *to));
                    state.lagging.push(from_now(None));
                    acts.push(Act::Hold(Matcher::any().by(operator)));
                }
                _ => continue,
            }
            state.strikes();
        }
        acts
    }

    /// Returns restarts of all operators for the end of a run whose steps cannot be compared. At that rest, no operator
    /// should have anything left to write.
    fn forced(&self, state: &mut State, revision: u64) -> Option<Vec<Act>> {
        if !state.finishing || !self.plan.leaves_the_path() {
            return None;
        }
        state.forced = true;
        (state.leaderless, state.retrying) = (true, true);
        let operators = self.cluster.operators();
        state.restarting = operators.iter().map(|operator| (operator.clone(), revision)).collect();
        Some(operators.into_iter().map(Act::Restart).collect())
    }

    /// Keeps the state at this rest, and adds the changes since the last one to the history.
    fn keep(&self, state: &mut State, revision: u64) {
        let disturbed = state.is_disturbed();
        self.gather(state, revision);
        let mut objects = self.cluster.stored_objects();
        objects.retain(|object| object.revision > self.began || !is_of_the_cluster(&object.key));
        // A scenario that was broken off is compared with the undisturbed run at the rest where it ended.
        let rest = match self.plan.until {
            Some(until) if state.finishing => until,
            _ => state.rests + 1,
        };
        state.played.checkpoints.push(Checkpoint {
            rest,
            revision,
            after: self.since.elapsed(),
            objects,
            disturbed,
        });
    }

    /// Adds the changes since the last call to the history.
    pub(super) fn gather(&self, state: &mut State, revision: u64) {
        match self.cluster.changes_after(state.seen_revision) {
            Some(changes) => state.played.changes.get_or_insert_default().extend(changes),
            None => state.lost_history = true,
        }
        state.seen_revision = revision;
    }
}
