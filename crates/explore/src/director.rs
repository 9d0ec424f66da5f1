//! Plays a plan: strikes at the operator's requests, and acts when the cluster is at rest.
//!
//! What happens at a rest, in this order: operators return and held events arrive; the strikes of this rest; stale views
//! end; the state is kept for comparison; operators leave and watches are held for the steps that follow. The cluster
//! comes to rest again after each of these.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::{
    Cluster, CrashMoment, Directed, Director, Fault, Matcher, ResourcePath, StoredChange, StoredObject,
    Verdict,
};
use evenkeel_env::Unsettled;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use crate::plan::{Back, Plan, Strike};
use crate::token::fault_name;

/// Kinds whose requests are upkeep: they are neither counted nor struck.
const UPKEEP: [&str; 2] = ["leases", "events"];

/// How long a view lags behind, if the operator does not come to rest with it before. Some retries fit into it.
const LAG: Duration = Duration::from_secs(20);

/// The state of the cluster at a rest.
#[derive(Clone, Debug)]
pub(crate) struct Checkpoint {
    pub(crate) revision: u64,
    pub(crate) objects: Vec<StoredObject>,
    /// Whether a disturbance was in force, so that the state may differ from the undisturbed one.
    pub(crate) disturbed: bool,
}

/// What a run left in the director's hands.
#[derive(Debug, Default)]
pub(crate) struct Played {
    pub(crate) checkpoints: Vec<Checkpoint>,
    /// Every change since the scenario began; `None` if the store has forgotten some.
    pub(crate) changes: Option<Vec<StoredChange>>,
    pub(crate) unsettled: Option<String>,
    /// Restarts at rest: the operator, and the revisions before and after.
    pub(crate) restarts: Vec<(String, u64, u64)>,
    /// How many strikes of the plan have happened.
    pub(crate) struck: usize,
}

pub(crate) struct PlanDirector {
    cluster: Cluster,
    plan: Plan,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of requests of each operator.
    requests: BTreeMap<String, usize>,
    /// How many rests are over.
    rests: usize,
    /// Whether the strikes of the current rest have been made.
    struck_here: bool,
    /// The operators that are away, and the rest at which they return.
    away: Vec<(String, usize)>,
    /// The rest at which held watches are released.
    held_until: Option<usize>,
    /// The view of each operator that restarts with a stale one: the kind, if only one is stale, and the revision.
    views: BTreeMap<String, (Option<String>, u64)>,
    /// Operators that crash again before their next write.
    again: Vec<String>,
    /// Operators that were restarted at this rest, with the revision before.
    restarting: Vec<(String, u64)>,
    /// The scenario is over: everything returns at the next rest.
    finishing: bool,
    seen_revision: u64,
    lost_history: bool,
    played: Played,
}

impl State {
    /// Whether the view of an operator is behind the world now.
    fn lags(&self) -> bool {
        self.held_until.is_some() || !self.views.is_empty()
    }
}

/// What the director does at a rest, outside of its lock.
enum Act {
    Note(String),
    Resume(String),
    Restart(String),
    Suspend(String),
    Hold(Matcher),
    Release,
    Cut(String),
    Delete(String),
}

impl PlanDirector {
    pub(crate) fn new(cluster: Cluster, plan: Plan) -> Arc<Self> {
        let state = State { seen_revision: cluster.revision(), ..State::default() };
        Arc::new(Self { cluster, plan, state: Mutex::new(state) })
    }

    /// The scenario is over: whatever is still away or held returns at the next rest.
    pub(crate) fn finish(&self) {
        self.state.lock().finishing = true;
    }

    /// Whether a disturbance is in force now.
    pub(crate) fn is_disturbed(&self) -> bool {
        let state = self.state.lock();
        !state.away.is_empty() || state.held_until.is_some() || !state.views.is_empty()
    }

    pub(crate) fn take(&self) -> Played {
        let mut state = self.state.lock();
        let lost = state.lost_history;
        let mut played = std::mem::take(&mut state.played);
        if lost {
            played.changes = None;
        }
        played
    }

    /// What the plan does to the n-th request of an operator.
    fn strike(&self, state: &mut State, by: &str, number: usize, is_write: bool) -> (Vec<Act>, Verdict) {
        let mut acts = Vec::new();
        if is_write && let Some(at) = state.again.iter().position(|it| it == by) {
            state.again.remove(at);
            acts.push(Act::Note(format!("{by} crashes again before request {number}")));
            return (acts, Verdict::Crash(CrashMoment::Before));
        }
        let rests = state.rests;
        for strike in &self.plan.strikes {
            match strike {
                Strike::Crash { operator, request, moment, back } if operator == by && *request == number => {
                    state.played.struck += 1;
                    acts.push(Act::Note(format!("{by} crashes {} request {number}", moment_words(*moment))));
                    match back {
                        Back::AtOnce => {}
                        Back::Twice => state.again.push(by.to_owned()),
                        Back::AfterRests(n) => {
                            self.cluster.keep_away(by);
                            state.away.push((by.to_owned(), rests + n));
                        }
                    }
                    return (acts, Verdict::Crash(*moment));
                }
                Strike::Fail { operator, request, fault } if operator == by && *request == number => {
                    state.played.struck += 1;
                    acts.push(Act::Note(format!("request {number} of {by} fails: {}", fault_name(*fault))));
                    return (acts, Verdict::Fail(*fault));
                }
                Strike::Lag { operator, kind, request } if operator == by && *request == number => {
                    state.played.struck += 1;
                    state.held_until = Some(rests + 1);
                    acts.push(Act::Hold(watches_of(by, kind)));
                }
                _ => {}
            }
        }
        (acts, Verdict::Serve)
    }

    /// What happens at a rest now, and whether the wait for rest goes on afterwards.
    fn acts(&self) -> (Vec<Act>, bool) {
        let mut state = self.state.lock();
        let rest = state.rests + 1;
        let returns = self.returns(&mut state, rest);
        if !returns.is_empty() {
            return (returns, true);
        }
        if !std::mem::replace(&mut state.struck_here, true) {
            let strikes = self.strikes_at(&mut state, rest);
            if !strikes.is_empty() {
                return (strikes, true);
            }
        }
        if !state.views.is_empty() {
            state.views.clear();
            return (vec![Act::Note("the API server catches up".into()), Act::Release], true);
        }
        let revision = self.cluster.revision();
        for (operator, before) in std::mem::take(&mut state.restarting) {
            state.played.restarts.push((operator, before, revision));
        }
        self.keep(&mut state, revision);
        let leaving = self.leaving(&mut state, rest);
        state.rests = rest;
        state.struck_here = false;
        (leaving, false)
    }

    fn returns(&self, state: &mut State, rest: usize) -> Vec<Act> {
        let due = |until: usize| until <= rest || state.finishing;
        let mut acts = Vec::new();
        if state.held_until.is_some_and(due) {
            acts.push(Act::Note("held events arrive".into()));
            acts.push(Act::Release);
        }
        acts.extend(
            state.away.iter().filter(|(_, until)| due(*until)).map(|(name, _)| Act::Resume(name.clone())),
        );
        if !acts.is_empty() {
            let finishing = state.finishing;
            state.away.retain(|(_, until)| *until > rest && !finishing);
            state.held_until = state.held_until.filter(|until| *until > rest && !finishing);
        }
        acts
    }

    fn strikes_at(&self, state: &mut State, rest: usize) -> Vec<Act> {
        let revision = self.cluster.revision();
        let running = self.cluster.operators();
        let mut acts = Vec::new();
        for strike in &self.plan.strikes {
            match strike {
                Strike::Restart { operator, rest: at } if *at == rest && running.contains(operator) => {
                    state.restarting.push((operator.clone(), revision));
                    acts.push(Act::Restart(operator.clone()));
                }
                Strike::Stale { operator, rest: at, revision: view, kind }
                    if *at == rest && running.contains(operator) =>
                {
                    let view = (*view).min(revision);
                    state.views.insert(operator.clone(), (kind.clone(), view));
                    let what = kind.as_deref().unwrap_or("everything");
                    acts.push(Act::Note(format!(
                        "{operator} restarts and sees {what} as of revision {view}"
                    )));
                    acts.push(Act::Restart(operator.clone()));
                }
                Strike::Relist { operator, rest: at } if *at == rest && running.contains(operator) => {
                    acts.push(Act::Cut(operator.clone()));
                }
                Strike::Delete { path, rest: at } if *at == rest => acts.push(Act::Delete(path.clone())),
                _ => continue,
            }
            state.played.struck += 1;
        }
        acts
    }

    fn leaving(&self, state: &mut State, rest: usize) -> Vec<Act> {
        if state.finishing {
            return Vec::new();
        }
        let running = self.cluster.operators();
        let mut acts = Vec::new();
        for strike in &self.plan.strikes {
            match strike {
                Strike::Away { operator, from, to } if *from == rest && running.contains(operator) => {
                    state.away.push((operator.clone(), *to));
                    acts.push(Act::Suspend(operator.clone()));
                }
                Strike::Hold { operator, kind, from, to } if *from == rest => {
                    state.held_until = Some(*to);
                    acts.push(Act::Hold(watches_of(operator, kind)));
                }
                _ => continue,
            }
            state.played.struck += 1;
        }
        acts
    }

    /// Keeps the state of this rest, and the changes since the last one.
    fn keep(&self, state: &mut State, revision: u64) {
        let disturbed = !state.away.is_empty() || state.held_until.is_some();
        self.gather(state, revision);
        let objects = self.cluster.stored_objects();
        state.played.checkpoints.push(Checkpoint { revision, objects, disturbed });
    }

    /// Adds the changes since the last time to the history.
    fn gather(&self, state: &mut State, revision: u64) {
        match self.cluster.changes_after(state.seen_revision) {
            Some(changes) => state.played.changes.get_or_insert_default().extend(changes),
            None => state.lost_history = true,
        }
        state.seen_revision = revision;
    }

    async fn perform(&self, act: Act) {
        let cluster = &self.cluster;
        match act {
            Act::Note(what) => cluster.note_disturbance(what),
            // The scenario may have stopped the operator meanwhile.
            Act::Resume(operator) if !cluster.operators().contains(&operator) => {}
            Act::Resume(operator) => cluster.resume(&operator),
            Act::Restart(operator) => cluster.restart(&operator),
            Act::Suspend(operator) => cluster.suspend(&operator),
            Act::Hold(matcher) => {
                cluster.hold_watches(matcher);
            }
            Act::Release => cluster.release_watches(),
            Act::Cut(operator) => {
                // What is compacted cannot be read later.
                self.gather(&mut self.state.lock(), cluster.revision());
                cluster.cut_watch(Matcher::any().by(operator));
                cluster.compact();
            }
            Act::Delete(path) => self.delete(&path).await,
        }
    }

    /// Deletes an object as somebody else would.
    async fn delete(&self, path: &str) {
        self.cluster.note_disturbance(format!("somebody deletes {path}"));
        let request = http::Request::delete(path).body(Vec::new());
        let Ok(request) = request else { return };
        // The object may be gone already: then there is nothing to delete.
        let _ = self.cluster.client().request_text(request).await;
    }
}

impl Director for PlanDirector {
    fn request(&self, request: &Directed<'_>) -> Verdict {
        if !request.is_operator {
            return Verdict::Serve;
        }
        let Some(target) = ResourcePath::parse(request.path) else { return Verdict::Serve };
        if UPKEEP.contains(&&*target.resource) {
            return Verdict::Serve;
        }
        let mut state = self.state.lock();
        if request.verb == "watch" {
            let view = state.views.get(request.by).filter(|_| request.begins_with_list());
            let kind = kind_of(&target);
            let view = view.filter(|(only, _)| only.as_ref().is_none_or(|only| *only == kind));
            return view.map_or(Verdict::Serve, |(_, revision)| Verdict::ViewAt(*revision));
        }
        let number = {
            let count = state.requests.entry(request.by.to_owned()).or_default();
            *count += 1;
            *count
        };
        let (acts, verdict) = self.strike(&mut state, request.by, number, request.is_write());
        drop(state);
        for act in acts {
            match act {
                Act::Note(what) => self.cluster.note_disturbance(what),
                Act::Hold(matcher) => {
                    self.cluster.hold_watches(matcher);
                }
                _ => {}
            }
        }
        verdict
    }

    fn rested(&self) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let (acts, goes_on) = self.acts();
            for act in acts {
                self.perform(act).await;
            }
            goes_on
        })
    }

    fn patience(&self) -> Option<Duration> {
        self.state.lock().lags().then_some(LAG)
    }

    fn unsettled(&self, unsettled: &Unsettled) -> bool {
        let mut state = self.state.lock();
        // An operator that is behind may retry, rightly, until it has caught up.
        if state.lags() {
            return true;
        }
        state.played.unsettled.get_or_insert_with(|| unsettled.to_string());
        false
    }
}

/// The kind of a resource, as `GROUP/PLURAL`.
pub(crate) fn kind_of(target: &ResourcePath<'_>) -> String {
    format!("{}/{}", target.group, target.resource)
}

fn watches_of(operator: &str, kind: &str) -> Matcher {
    let (group, plural) = kind.split_once('/').unwrap_or(("", kind));
    Matcher::any().by(operator).resource(group, plural)
}

pub(crate) fn moment_words(moment: CrashMoment) -> &'static str {
    match moment {
        CrashMoment::Before => "before",
        CrashMoment::Unanswered => "before the answer to",
        CrashMoment::After => "after",
    }
}

/// What a fault is, in words.
pub(crate) fn fault_words(fault: Fault) -> &'static str {
    match fault {
        Fault::Conflict => "the server answered 409 Conflict",
        Fault::TooManyRequests => "the server answered 429 Too Many Requests",
        Fault::InternalError => "the server answered 500 Internal Server Error",
        Fault::Timeout => "the request timed out and was never served",
        Fault::LostAnswer => "the request was served and its answer was lost",
        _ => "the request failed",
    }
}
