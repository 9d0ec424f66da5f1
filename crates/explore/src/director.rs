//! Plays a plan: strikes at the operator's requests, and acts when the cluster is at rest.

mod act;
mod rest;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::{
    Cluster, CrashMoment, Directed, Director, Fault, Matcher, ResourcePath, StoredChange, StoredObject,
    Verdict,
};
use evenkeel_env::Unsettled;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::plan::{Back, Late, Mishap, Plan, Point, Stop, Strike};
use crate::state::KeyParts;
use crate::token::fault_name;
use act::Act;

pub(crate) use act::{SOMEBODY, change_of};
pub(crate) use words::{fault_words, mishap_words, moment_words};

/// Kinds whose requests are upkeep: the director neither counts nor disturbs them.
const UPKEEP: [&str; 2] = ["leases", "events"];

/// How long a view lags behind at most; it catches up earlier if the operator comes to rest. Some retries fit into this
/// time.
const LAG: Duration = Duration::from_secs(20);

/// How long a cluster gets to come to rest without an operator, whose webhooks may be needed for that: more than crashed
/// containers and failed requests take.
const WITHOUT_AN_OPERATOR: Duration = Duration::from_secs(60);

/// How long the effects of a strike may last until the cluster has come to rest: some timeouts and retries. A scenario that
/// looks earlier, without waiting for rest, may see what an undisturbed one does not.
const AFTERMATH: Duration = Duration::from_secs(60);

/// How much time an operator gets to retry after a strike if its timers are not in the ledger.
const UNSEEN_RETRIES: Duration = Duration::from_secs(60);

/// How long a leader is cut off: longer than it takes the other replica to lead, which is a lease duration (15 s) and a
/// retry period (2 s).
const CUT_OFF: Duration = Duration::from_secs(25);

/// The state of the cluster at a rest.
#[derive(Clone, Debug)]
pub(crate) struct Checkpoint {
    /// The rest of the undisturbed run to compare with, counted from one.
    pub(crate) rest: usize,
    pub(crate) revision: u64,
    /// How much virtual time has passed since the scenario began.
    pub(crate) after: Duration,
    pub(crate) objects: Vec<StoredObject>,
    /// Whether a disturbance was active, so that the state may differ from the undisturbed run.
    pub(crate) disturbed: bool,
}

/// A period in which the view of an operator lagged behind, as the revisions at its beginning and end.
#[derive(Clone, Debug)]
pub(crate) struct Lagged {
    /// The kind whose view lagged; all kinds if `None`.
    pub(crate) kind: Option<String>,
    /// The revision that the operator saw at the beginning. It may have seen later ones afterwards.
    pub(crate) view: u64,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// What the director knows at the end of a run.
#[derive(Debug, Default)]
pub(crate) struct Played {
    pub(crate) checkpoints: Vec<Checkpoint>,
    /// Every change since the scenario began; `None` if the store has forgotten some.
    pub(crate) changes: Option<Vec<StoredChange>>,
    /// The rest that the cluster did not come to, and what was pending.
    pub(crate) unsettled: Option<(usize, String)>,
    /// Restarts at rest: the operator, and the revisions before and after the restart.
    pub(crate) restarts: Vec<(String, u64, u64)>,
    pub(crate) lags: Vec<Lagged>,
    /// The uids of the objects that the plan removed.
    pub(crate) removed: BTreeSet<String>,
    /// How many strikes of the plan have happened.
    pub(crate) struck: usize,
}

pub(crate) struct PlanDirector {
    cluster: Cluster,
    plan: Plan,
    /// How much time passes at each rest, and revisions with it, to learn which parts of the state depend on them.
    shift: Option<Duration>,
    /// The operators that watch by themselves, and not through this runtime. Their timers are not in the ledger.
    plain: BTreeSet<String>,
    /// The revision at which the scenario began.
    began: u64,
    /// When the scenario began.
    since: Instant,
    state: Mutex<State>,
    /// Notified when the scenario is broken off.
    broken_off: Notify,
}

/// A replica that is cut off for some time.
struct CutOff {
    replica: String,
    until: Instant,
    /// Whether only its requests for leases fail.
    from_leases_only: bool,
}

#[derive(Default)]
struct State {
    /// The number of requests of each operator.
    requests: BTreeMap<String, usize>,
    /// How many rests are over.
    rests: usize,
    /// Whether the strikes of the current rest have been carried out.
    struck_here: bool,
    /// Whether revisions and times have been shifted at the current rest.
    shifted_here: bool,
    /// The operators that are stopped, and the rest at which each starts again.
    away: Vec<(String, usize)>,
    /// The rest at which held events are delivered.
    held_until: Option<usize>,
    /// The operator and the number of its request at which held events are delivered.
    held_until_request: Option<(String, usize)>,
    /// The operators whose watches receive nothing, and the rest at which they list again.
    blind: Vec<(String, usize)>,
    /// The view of each operator that restarts with a stale one: the kind, if only one is stale, and the revision.
    views: BTreeMap<String, (Option<String>, u64)>,
    /// The views that currently lag behind.
    lagging: Vec<Lagged>,
    /// Operators that crash again before their next write.
    again: Vec<String>,
    /// The replica that is cut off from the API server, and until when.
    cut_off: Option<CutOff>,
    /// Operators that were restarted at this rest, with the revision before the restart.
    restarting: Vec<(String, u64)>,
    /// Whether an operator uses a lease. If so, the cluster is at rest only once a replica leads.
    has_leases: bool,
    /// Whether an operator has stopped or started since the director last waited for a leader.
    leaderless: bool,
    /// Whether watches were cut and their clients have not all listed again yet.
    relisting: bool,
    /// Whether an operator reconciles without end, with no virtual time passing, until its clients have listed again.
    turning: bool,
    /// When the plan has struck last, if the cluster has not come to rest since.
    struck_at: Option<Instant>,
    /// Whether operators whose timers are not in the ledger must get time to retry before the cluster is at rest.
    retrying: bool,
    /// How much time the disturbed objects need to recover by themselves.
    healing: Option<Duration>,
    /// Whether the scenario is over: at the next rest, everything that is stopped or held returns.
    finishing: bool,
    /// Whether all operators were restarted at the end.
    forced: bool,
    seen_revision: u64,
    lost_history: bool,
    played: Played,
}

impl State {
    /// Returns whether the view of an operator currently lags behind.
    fn lags(&self) -> bool {
        self.held_until.is_some() || !self.views.is_empty() || !self.blind.is_empty()
    }

    /// Returns whether a disturbance is active.
    fn is_disturbed(&self) -> bool {
        !self.away.is_empty() || self.lags()
    }

    /// Returns how a list of this kind is served to an operator: from its stale view, if it has one.
    fn view_of(&self, operator: &str, kind: &str) -> Verdict {
        let view = self.views.get(operator);
        let view = view.filter(|(only, _)| only.as_ref().is_none_or(|only| only == kind));
        view.map_or(Verdict::Serve, |(_, revision)| Verdict::ViewAt(*revision))
    }

    fn cut_off_now(&mut self, replica: &str, from_leases_only: bool) {
        self.leaderless = true;
        let until = Instant::now() + CUT_OFF;
        self.cut_off = Some(CutOff { replica: replica.to_owned(), until, from_leases_only });
    }

    /// Returns whether a request of this client is cut off now.
    fn is_cut_off(&mut self, by: &str, is_about_lease: bool) -> bool {
        let Some(cut_off) = &self.cut_off else { return false };
        if Instant::now() >= cut_off.until {
            self.cut_off = None;
            return false;
        }
        cut_off.replica == by && (is_about_lease || !cut_off.from_leases_only)
    }

    /// Counts a strike.
    fn strikes(&mut self) {
        self.played.struck += 1;
        self.struck_at = Some(Instant::now());
        self.retrying = true;
    }

    /// Records that all views have caught up at this revision.
    fn caught_up(&mut self, revision: u64) {
        let lags = self.lagging.drain(..).map(|lag| Lagged { to: revision, ..lag });
        self.played.lags.extend(lags);
    }
}

impl PlanDirector {
    pub(crate) fn new(
        cluster: Cluster,
        plan: Plan,
        shift: Option<Duration>,
        plain: Option<&BTreeSet<String>>,
    ) -> Arc<Self> {
        let began = cluster.revision();
        let state = Mutex::new(State { seen_revision: began, ..State::default() });
        let since = Instant::now();
        let plain = plain.cloned().unwrap_or_default();
        Arc::new(Self { cluster, plan, shift, plain, began, since, state, broken_off: Notify::new() })
    }

    /// Marks the scenario as over: whatever is still stopped or held returns at the next rest.
    pub(crate) fn finish(&self) {
        self.state.lock().finishing = true;
    }

    /// Waits until the plan asks to break the scenario off.
    pub(crate) async fn broken_off(&self) {
        self.broken_off.notified().await;
    }

    /// Returns whether a disturbance is active, or the cluster has not come to rest after one.
    pub(crate) fn is_unsettled(&self) -> bool {
        let state = self.state.lock();
        state.is_disturbed() || state.struck_at.is_some_and(|at| at.elapsed() < AFTERMATH)
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

    /// Returns whether a request is the list with which an operator that watches by itself begins to watch. Such lists
    /// come in pages, or ask for any version; those that an operator makes to read the newest state do neither.
    fn is_informer_list(&self, request: &Directed<'_>) -> bool {
        let query = request.path.split_once('?').map_or("", |(_, query)| query);
        let mut pairs = query.split('&');
        let begins = pairs.any(|pair| pair.starts_with("limit=") || pair == "resourceVersion=0");
        request.verb == "list" && begins && self.plain.contains(request.by)
    }

    /// Returns what the plan does to the n-th request of an operator.
    fn strike(&self, state: &mut State, by: &str, number: usize, is_write: bool) -> (Vec<Act>, Verdict) {
        let mut acts = Vec::new();
        if state.held_until_request.as_ref().is_some_and(|(it, until)| it == by && *until <= number) {
            state.held_until_request = None;
            state.held_until = None;
            state.caught_up(self.cluster.revision());
            acts.push(Act::Note("held events arrive".into()));
            acts.push(Act::Release);
        }
        if is_write && let Some(at) = state.again.iter().position(|it| it == by) {
            state.again.remove(at);
            state.leaderless = true;
            acts.push(Act::Note(format!("{by} crashes again before request {number}")));
            return (acts, Verdict::Crash(CrashMoment::Before));
        }
        for strike in &self.plan.strikes {
            let verdict = match strike {
                Strike::Crash { operator, request, moment, back } if operator == by && *request == number => {
                    self.crash(state, &mut acts, (by, number), *moment, *back)
                }
                Strike::Fail { operator, request, fault } if operator == by && *request == number => {
                    acts.push(Act::Note(format!("request {number} of {by} fails: {}", fault_name(*fault))));
                    Verdict::Fail(*fault)
                }
                Strike::Failover { operator, request, stop } if operator == by && *request == number => {
                    self.stop_leader(state, &mut acts, (by, number), *stop)
                }
                Strike::Delay { operator, request, late } if operator == by && *request == number => {
                    let (what, verdict) = match late {
                        Late::Request => ("is late", Verdict::DelayRequest),
                        Late::Answer => ("is answered late", Verdict::DelayAnswer),
                    };
                    acts.push(Act::Note(format!("request {number} of {by} {what}")));
                    verdict
                }
                Strike::Lag { operator, kind, request, requests } if operator == by && *request == number => {
                    state.held_until = Some(state.rests + 1);
                    state.held_until_request = requests.map(|more| (by.to_owned(), number + more));
                    let from = self.cluster.revision();
                    state.lagging.push(Lagged { kind: Some(kind.clone()), view: from, from, to: u64::MAX });
                    acts.push(Act::Hold(watches_of(by, kind)));
                    Verdict::Serve
                }
                Strike::World { mishap, path, at: Point::Request { operator, number: at } }
                    if operator == by && *at == number =>
                {
                    acts.push(Act::World(*mishap, path.clone()));
                    Verdict::DelayRequest
                }
                _ => continue,
            };
            state.strikes();
            if verdict != Verdict::Serve {
                return (acts, verdict);
            }
        }
        (acts, Verdict::Serve)
    }

    /// Whether a view that lags behind shows an object that has been removed since.
    fn sees_what_is_gone(&self, state: &State) -> bool {
        state.lagging.iter().any(|lag| {
            let is_shown = |change: &StoredChange| {
                let kind = KeyParts::of(change.key()).kind();
                change.after.is_none() && lag.kind.as_ref().is_none_or(|only| *only == kind)
            };
            // What the store has forgotten may be a removal.
            self.cluster.changes_after(lag.view).is_none_or(|changes| changes.iter().any(is_shown))
        })
    }

    fn crash(
        &self,
        state: &mut State,
        acts: &mut Vec<Act>,
        (by, number): (&str, usize),
        moment: CrashMoment,
        back: Back,
    ) -> Verdict {
        acts.push(Act::Note(format!("{by} crashes {} request {number}", moment_words(moment))));
        state.leaderless = true;
        match back {
            Back::AtOnce => {}
            Back::Twice => state.again.push(by.to_owned()),
            Back::AfterRests(rests) => {
                self.cluster.keep_away(by);
                state.away.push((by.to_owned(), state.rests + rests));
            }
        }
        Verdict::Crash(moment)
    }

    fn stop_leader(
        &self,
        state: &mut State,
        acts: &mut Vec<Act>,
        (by, number): (&str, usize),
        stop: Stop,
    ) -> Verdict {
        state.has_leases = true;
        let fault = match stop {
            Stop::Crash(moment) => return self.crash(state, acts, (by, number), moment, Back::AfterRests(1)),
            Stop::CutOff => Fault::Timeout,
            Stop::CutOffUnanswered => Fault::LostAnswer,
            Stop::LoseLease => {
                acts.push(Act::Note(format!(
                    "{by} cannot renew its lease, and request {number} is answered slowly"
                )));
                state.cut_off_now(by, true);
                return Verdict::SlowAnswer(CUT_OFF);
            }
        };
        acts.push(Act::Note(format!("{by} is cut off from the API server at request {number}")));
        state.cut_off_now(by, false);
        Verdict::Fail(fault)
    }
}

impl Director for PlanDirector {
    fn request(&self, request: &Directed<'_>) -> Verdict {
        if !request.is_operator {
            return Verdict::Serve;
        }
        let mut state = self.state.lock();
        let target = ResourcePath::parse(request.path);
        if state.is_cut_off(request.by, target.as_ref().is_some_and(|it| it.resource == "leases")) {
            return Verdict::Fail(Fault::Timeout);
        }
        let kind = match target {
            Some(target) if UPKEEP.contains(&&*target.resource) => {
                state.has_leases |= target.resource == "leases";
                return Verdict::Serve;
            }
            Some(target) => kind_of(&target),
            None if request.verb == CALL => String::new(),
            None => return Verdict::Serve,
        };
        if request.verb == "watch" {
            return if request.begins_with_list() {
                state.view_of(request.by, &kind)
            } else {
                Verdict::Serve
            };
        }
        let number = {
            let count = state.requests.entry(request.by.to_owned()).or_default();
            *count += 1;
            *count
        };
        let (acts, mut verdict) = self.strike(&mut state, request.by, number, request.is_write());
        if verdict == Verdict::Serve && self.is_informer_list(request) {
            verdict = state.view_of(request.by, &kind);
        }
        drop(state);
        acts.into_iter().for_each(|act| self.perform_now(act));
        verdict
    }

    fn rested(&self) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let (acts, goes_on) = self.acts();
            for act in acts {
                self.perform(act).await;
            }
            if !goes_on && self.is_last() {
                self.broken_off.notify_one();
                std::future::pending::<()>().await;
            }
            goes_on
        })
    }

    fn patience(&self) -> Option<Duration> {
        let state = self.state.lock();
        let is_away = !state.away.is_empty();
        if state.lags() { Some(LAG) } else { is_away.then_some(WITHOUT_AN_OPERATOR) }
    }

    fn unsettled(&self, unsettled: &Unsettled) -> bool {
        let mut state = self.state.lock();
        // An operator with a lagging view may rightly retry until the view has caught up.
        // Retries without a pause are excused only where the view still shows a deleted object: the operator then recreates
        // what the garbage collector deletes, again and again.
        if state.lags() && (!unsettled.endless || self.sees_what_is_gone(&state)) {
            return true;
        }
        // What needs a webhook of an operator that is stopped, such as the conversion of an object, is tried until the
        // operator is back.
        if !state.away.is_empty() && !unsettled.endless {
            return true;
        }
        // Clients list again one after the other, each after a pause. Until all have done so, an operator may recreate
        // what other clients delete, again and again, while no virtual time passes.
        if unsettled.endless && std::mem::take(&mut state.relisting) {
            state.turning = true;
            return true;
        }
        let rest = state.rests + 1;
        let told = || (rest, self.cluster.explained(unsettled.clone()).to_string());
        state.played.unsettled.get_or_insert_with(told);
        false
    }
}

/// The verb recorded for a call to a service outside the cluster.
pub(crate) const CALL: &str = "call";

/// Returns the kind of a resource, as `GROUP/PLURAL`.
pub(crate) fn kind_of(target: &ResourcePath<'_>) -> String {
    format!("{}/{}", target.group, target.resource)
}

fn watches_of(operator: &str, kind: &str) -> Matcher {
    let (group, plural) = kind.split_once('/').unwrap_or(("", kind));
    Matcher::any().by(operator).resource(group, plural)
}

/// Returns how much time the cluster needs to recover from a mishap, or `None` if it recovers at once.
fn healing_time(mishap: Mishap) -> Option<Duration> {
    match mishap {
        // A crashed container starts again after ten seconds.
        Mishap::CrashPod => Some(Duration::from_secs(15)),
        Mishap::UnreadyPod => Some(Duration::from_secs(5)),
        Mishap::Delete | Mishap::Change | Mishap::Evict | Mishap::LoseNode => None,
    }
}
