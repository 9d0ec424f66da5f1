//! What exploration learns from the undisturbed run: what each operator requested, wrote and watched, and which
//! revisions there were.

mod children;

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_cluster::{Exchange, Fault, Outcome, ResourcePath, StoredChange};
use serde_json::Value;

use crate::compare::Varying;
use crate::director::{CALL, kind_of};
use crate::plan::Plan;
use crate::run::{Run, Setting};
use crate::state::{KeyParts, World};
use crate::values::Values;

pub(crate) use children::{Child, Pod};

/// A request of an operator that a plan can disturb.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) operator: String,
    /// The number of the request, counted from one for each operator.
    pub(crate) number: usize,
    pub(crate) is_write: bool,
    /// The newest revision when the request was sent.
    pub(crate) revision: u64,
    /// Whether the request changed something, in the cluster or outside of it.
    pub(crate) has_effect: bool,
    /// The object, as `GROUP/PLURAL/NAME`.
    pub(crate) object: String,
    pub(crate) verb: &'static str,
    /// A short description of the request, such as `apply deployments/web`.
    pub(crate) summary: String,
}

impl Asked {
    /// Returns the faults that a real API server may answer this request with.
    pub(crate) fn faults(&self) -> &'static [Fault] {
        use Fault::{Conflict, Denied, InternalError, LostAnswer, QuotaExceeded, Timeout, TooManyRequests};
        match (self.is_write, self.verb) {
            (true, CALL) => &[LostAnswer, Timeout],
            (false, CALL) => &[Timeout],
            // A create that meets an object of that name is refused with 409; there is none when a plan strikes.
            (true, "create") => &[LostAnswer, InternalError, QuotaExceeded, Timeout, TooManyRequests],
            // An apply may create the object.
            (true, "apply") => {
                &[LostAnswer, Conflict, InternalError, Timeout, TooManyRequests, Denied, QuotaExceeded]
            }
            (true, "update" | "patch") => {
                &[LostAnswer, Conflict, InternalError, Timeout, TooManyRequests, Denied]
            }
            (true, _) => &[LostAnswer, Conflict, InternalError, Timeout, TooManyRequests],
            (false, _) => &[InternalError, Timeout, TooManyRequests],
        }
    }
}

/// A change of an object that an operator watches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) revision: u64,
    /// Whether the scenario or an operator made the change, or the change deleted the object or marked it for deletion.
    /// All other changes are progress reported by built-in controllers.
    pub(crate) is_decisive: bool,
}

/// The lifetime of one object that the scenario wrote. An object recreated under the same name has a lifetime of its
/// own.
#[derive(Clone, Debug)]
pub(crate) struct Lifetime {
    /// The kind, as `GROUP/PLURAL`.
    kind: String,
    created: u64,
    /// The revision that removed the object or marked it for deletion.
    ended: u64,
    removed: u64,
}

impl Lifetime {
    /// Returns whether the object exists at one revision and is gone at a later one.
    fn is_over(&self, then: u64, now: u64) -> bool {
        self.created <= then && then < self.ended && self.removed <= now
    }
}

/// What exploration learned from the undisturbed run.
#[derive(Debug)]
pub(crate) struct Learned {
    pub(crate) operators: Vec<String>,
    pub(crate) requests: Vec<Asked>,
    /// The kinds that each operator watches.
    pub(crate) watched: BTreeMap<String, BTreeSet<String>>,
    /// The changes of the kinds that each operator watches, with their kind.
    pub(crate) seen: BTreeMap<String, Vec<(String, Seen)>>,
    /// The revision at each rest.
    pub(crate) rests: Vec<u64>,
    pub(crate) worlds: Vec<World>,
    pub(crate) children: Vec<Child>,
    pub(crate) pods: Vec<Pod>,
    /// The operators that watch by themselves, and not through this runtime: a plain controller of kube-runtime.
    pub(crate) plain: BTreeSet<String>,
    /// The operators that take part in a leader election of their own.
    pub(crate) elects: BTreeSet<String>,
    /// The kinds that operators and the scenario write or delete themselves. Objects of other kinds are made by built-in
    /// controllers, and some of them outlive their cause, such as the claims of a StatefulSet that was scaled down.
    pub(crate) managed: BTreeSet<String>,
    /// The kinds of the objects that operators created themselves.
    pub(crate) made_by_operators: BTreeSet<String>,
    /// The keys of the objects that operators and the scenario created themselves.
    pub(crate) authored: BTreeSet<String>,
    /// The keys of the objects that the scenario created and that built-in controllers removed, because an operator has made
    /// them depend on something else. An operator that misses that moment need not remove them.
    pub(crate) adopted: BTreeSet<String>,
    /// The lifetimes of the objects that the scenario wrote.
    pub(crate) lifetimes: Vec<Lifetime>,
    /// What the scenario wrote, and how the API server answered.
    pub(crate) inputs: Vec<String>,
    /// Every change of the undisturbed run.
    pub(crate) changes: Vec<StoredChange>,
    /// The parts of the state that differ between undisturbed runs, for each rest.
    pub(crate) varying: Vec<Varying>,
    /// The parts of the state that also differ if more time passes, for each rest; empty if the scenario lets little time
    /// pass.
    pub(crate) varying_in_time: Vec<Varying>,
    /// What is true of the values that operators make up.
    pub(crate) values: Values,
    pub(crate) timeline: Vec<String>,
    /// Whether the cluster itself sends no Events in further runs, as in the undisturbed one.
    pub(crate) without_events: bool,
}

impl Learned {
    /// Returns whether an operator's view of revision `then` shows an object of the scenario that is gone or replaced at
    /// revision `now`. An operator that trusts such a view makes children for an owner that no longer exists, and could
    /// only avoid that by a live read before each write, so such views are not made. A view shows only objects of kinds
    /// that the operator watches, and a view of one kind only objects of that kind.
    pub(crate) fn shows_the_dead(&self, operator: &str, kind: Option<&String>, then: u64, now: u64) -> bool {
        let watched = self.watched.get(operator);
        let is_shown = |life: &&Lifetime| {
            watched.is_some_and(|kinds| kinds.contains(&life.kind))
                && kind.is_none_or(|kind| *kind == life.kind)
        };
        self.lifetimes.iter().filter(is_shown).any(|life| life.is_over(then, now))
    }

    /// The options of runs that are compared with the undisturbed one.
    pub(crate) fn setting(&self) -> Setting<'_> {
        Setting {
            elects: Some(&self.elects),
            without_events: self.without_events,
            shift: None,
            plain: Some(&self.plain),
        }
    }

    /// Returns what varies by itself at a rest, counted from one. A plan under which an operator is stopped or behind while
    /// time passes is compared more loosely, because some operators do something at certain times.
    pub(crate) fn varying_at(&self, rest: usize, plan: &Plan) -> Option<&Varying> {
        let in_time = self.varying_in_time.get(rest - 1).filter(|_| plan.lasts());
        in_time.or_else(|| self.varying.get(rest - 1))
    }

    /// Returns the first rest after a revision, counted from one.
    pub(crate) fn rest_after(&self, revision: u64) -> usize {
        self.rests.iter().position(|rest| revision <= *rest).map_or(self.rests.len(), |at| at + 1)
    }
}

/// Returns whether the director counts this request.
fn is_counted(exchange: &Exchange, operators: &[String]) -> bool {
    let is_operator = operators.iter().any(|operator| **operator == *exchange.by);
    let counted = |target: ResourcePath<'_>| !matches!(&*target.resource, "leases" | "events");
    is_operator
        && exchange.verb != "watch"
        && (exchange.verb == CALL || exchange.target().is_some_and(counted))
}

/// Learns from an undisturbed run, from others that differ in seed, revisions and times, and from one in which much more
/// time passes.
pub(crate) fn learn(run: &Run, others: &[Run], later: Option<&Run>) -> Learned {
    let operators = run.operators.clone();
    let worlds_of = |run: &Run| -> Vec<World> {
        run.played.checkpoints.iter().map(|it| World::of(&it.objects)).collect()
    };
    let runs: Vec<Vec<World>> = [run].into_iter().chain(others).map(worlds_of).collect();
    let worlds = runs[0].clone();
    let varying = worlds
        .iter()
        .enumerate()
        .map(|(at, world)| Varying::learn(world, runs[1..].iter().filter_map(|worlds| worlds.get(at))));
    let varying: Vec<Varying> = varying.collect();
    let values = Values::learn(&runs, &varying);
    let later = later.map(worlds_of).unwrap_or_default();
    let varying_in_time = worlds.iter().zip(&later).enumerate().map(|(at, (world, later))| {
        Varying::learn(world, runs[1..].iter().filter_map(|worlds| worlds.get(at)).chain([later]))
    });
    let varying_in_time: Vec<Varying> = varying_in_time.collect();
    let watched = watched(run, &operators);
    Learned {
        requests: requests(run, &operators),
        seen: operators.iter().map(|it| (it.clone(), seen(run, &watched[it]))).collect(),
        rests: run.played.checkpoints.iter().map(|it| it.revision).collect(),
        children: children::children(run, &operators, &watched),
        pods: children::pods(run),
        plain: plain(run, &operators),
        elects: elects(run, &operators),
        managed: managed(run),
        made_by_operators: created(run, |by| run.is_operator(by))
            .map(|key| KeyParts::of(key).kind())
            .collect(),
        authored: created(run, |by| run.is_scenario(by) || run.is_operator(by)).map(str::to_owned).collect(),
        adopted: adopted(run),
        lifetimes: lifetimes(run),
        inputs: inputs(run),
        changes: run.played.changes.clone().unwrap_or_default(),
        timeline: run.timeline.clone(),
        without_events: false,
        operators,
        watched,
        worlds,
        varying,
        varying_in_time,
        values,
    }
}

fn requests(run: &Run, operators: &[String]) -> Vec<Asked> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut revision = 0;
    let asked = run.exchanges.iter().filter_map(|exchange| {
        let before = revision;
        revision = exchange.outcome.wrote().unwrap_or_default().max(revision);
        if !is_counted(exchange, operators) {
            return None;
        }
        let number = counts.entry(&exchange.by).or_default();
        *number += 1;
        let summary = exchange.summary();
        let is_write = exchange.method != http::Method::GET;
        let Some(target) = exchange.target() else {
            // This is a call to a service outside the cluster.
            return Some(Asked {
                operator: exchange.by.to_string(),
                number: *number,
                is_write,
                revision: before,
                has_effect: is_write,
                object: exchange.path.clone(),
                verb: exchange.verb,
                summary: exchange.path.trim_start_matches('/').to_owned(),
            });
        };
        // The path of a create request lacks the name; the summary has it.
        let name = summary.rsplit('/').next().unwrap_or_default();
        let name = if target.name.is_empty() { name } else { &*target.name };
        Some(Asked {
            operator: exchange.by.to_string(),
            number: *number,
            is_write,
            revision: before,
            has_effect: exchange.outcome.wrote().is_some(),
            object: format!("{}/{name}", kind_of(&target)),
            verb: exchange.verb,
            summary: summary.clone(),
        })
    });
    asked.collect()
}

fn watched(run: &Run, operators: &[String]) -> BTreeMap<String, BTreeSet<String>> {
    let mut watched: BTreeMap<String, BTreeSet<String>> =
        operators.iter().map(|it| (it.clone(), BTreeSet::new())).collect();
    for exchange in run.exchanges.iter().filter(|it| it.verb == "watch") {
        if let (Some(kinds), Some(target)) = (watched.get_mut(&*exchange.by), exchange.target()) {
            kinds.insert(kind_of(&target));
        }
    }
    watched
}

fn seen(run: &Run, kinds: &BTreeSet<String>) -> Vec<(String, Seen)> {
    let decisive: BTreeSet<u64> = run
        .exchanges
        .iter()
        .filter(|it| run.is_scenario(&it.by) || run.is_operator(&it.by))
        .filter_map(|it| it.outcome.wrote())
        .collect();
    let changes = run.played.changes.iter().flatten();
    let of_kinds = changes.filter_map(|change| {
        let kind = KeyParts::of(change.key()).kind();
        let ends = change.before.is_none() || change.after.is_none();
        let is_decisive = ends || decisive.contains(&change.revision);
        kinds.contains(&kind).then_some((kind, Seen { revision: change.revision, is_decisive }))
    });
    of_kinds.collect()
}

/// Returns what the scenario wrote, and how the API server answered. The answers can differ from the undisturbed run
/// while an operator is stopped: for instance, an object that the scenario recreates may still be waiting for its
/// deletion.
pub(crate) fn inputs(run: &Run) -> Vec<String> {
    let writes = run.exchanges.iter().filter(|it| run.is_scenario(&it.by) && it.method != http::Method::GET);
    let answer = |outcome: &Outcome| match outcome {
        Outcome::Answered { status, .. } => *status,
        _ => 0,
    };
    writes.map(|it| format!("{} {} {}", it.verb, it.path, answer(&it.outcome))).collect()
}

/// Returns the keys of the objects that these clients created.
fn created(run: &Run, by: impl Fn(&str) -> bool) -> impl Iterator<Item = &str> {
    let ours = run.exchanges.iter().filter(|it| by(&it.by));
    let revisions: BTreeSet<u64> = ours.filter_map(|it| it.outcome.wrote()).collect();
    let changes = run.played.changes.iter().flatten();
    changes.filter(move |it| it.before.is_none() && revisions.contains(&it.revision)).map(StoredChange::key)
}

/// Returns the keys of the objects that the scenario created and that neither it nor an operator deleted.
fn adopted(run: &Run) -> BTreeSet<String> {
    let made: BTreeSet<&str> = created(run, |by| run.is_scenario(by)).collect();
    let theirs = run.exchanges.iter().filter(|it| run.is_scenario(&it.by) || run.is_operator(&it.by));
    let theirs: BTreeSet<u64> = theirs.filter_map(|it| it.outcome.wrote()).collect();
    let ends = |change: &&StoredChange| change.after.as_ref().is_none_or(|after| is_deleting(&after.json));
    let mut ended: BTreeMap<&str, bool> = BTreeMap::new();
    for change in run.played.changes.iter().flatten().filter(|it| made.contains(it.key())).filter(ends) {
        *ended.entry(change.key()).or_default() |= theirs.contains(&change.revision);
    }
    ended.into_iter().filter(|(_, by_client)| !by_client).map(|(key, _)| key.to_owned()).collect()
}

fn lifetimes(run: &Run) -> Vec<Lifetime> {
    let by_client: BTreeSet<u64> = run
        .exchanges
        .iter()
        .filter(|it| run.is_scenario(&it.by))
        .filter_map(|it| it.outcome.wrote())
        .collect();
    let changes = run.played.changes.as_deref().unwrap_or_default();
    let created = changes.iter().filter(|it| it.before.is_none() && by_client.contains(&it.revision));
    let life = |made: &StoredChange| {
        let later = || changes.iter().filter(|it| it.key() == made.key() && it.revision > made.revision);
        let removed = later().find(|it| it.after.is_none()).map_or(u64::MAX, |it| it.revision);
        let is_marked = |it: &&StoredChange| it.after.as_ref().is_some_and(|after| is_deleting(&after.json));
        let marked = later().find(is_marked).map_or(removed, |it| it.revision);
        let kind = KeyParts::of(made.key()).kind();
        Lifetime { kind, created: made.revision, ended: marked.min(removed), removed }
    };
    created.map(life).collect()
}

fn is_deleting(json: &[u8]) -> bool {
    let value: Value = serde_json::from_slice(json).unwrap_or_default();
    !value["metadata"]["deletionTimestamp"].is_null()
}

fn managed(run: &Run) -> BTreeSet<String> {
    let writes = run.exchanges.iter().filter(|it| it.method != http::Method::GET);
    let ours = writes.filter(|it| run.is_scenario(&it.by) || run.is_operator(&it.by));
    ours.filter_map(|it| it.target().map(|target| kind_of(&target))).collect()
}

/// Returns the operators that list a kind before they watch it. The informers of this runtime begin with a watch that
/// lists.
fn plain(run: &Run, operators: &[String]) -> BTreeSet<String> {
    let mut begun = BTreeSet::new();
    let mut plain = BTreeSet::new();
    for exchange in run.exchanges.iter().filter(|it| it.verb == "watch") {
        let folder = exchange.path.split('?').next().unwrap_or_default();
        let is_first = begun.insert((&*exchange.by, folder));
        let lists = exchange.path.contains("sendInitialEvents=true");
        if is_first && !lists && operators.iter().any(|operator| **operator == *exchange.by) {
            plain.insert(exchange.by.to_string());
        }
    }
    plain
}

/// Returns the operators that read or wrote a lease.
fn elects(run: &Run, operators: &[String]) -> BTreeSet<String> {
    let leases = run.exchanges.iter().filter(|it| it.target().is_some_and(|it| it.resource == "leases"));
    let by = leases.map(|it| it.by.to_string());
    by.filter(|by| operators.contains(by)).collect()
}
