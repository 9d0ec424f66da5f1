//! What the undisturbed run teaches: what each operator asked for, wrote and watched, and which revisions there were.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_cluster::{Exchange, Fault, Outcome, ResourcePath, StoredChange};
use serde_json::Value;

use crate::compare::paths_that_differ;
use crate::director::kind_of;
use crate::run::Run;
use crate::state::{KeyParts, World};

/// A request of an operator that can be struck.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) operator: String,
    /// Counted from one for each operator.
    pub(crate) number: usize,
    pub(crate) is_write: bool,
    /// The revision that the request created.
    pub(crate) wrote: Option<u64>,
    /// The object, as `GROUP/PLURAL/NAME`.
    pub(crate) object: String,
    pub(crate) verb: &'static str,
    /// What was asked, such as `apply deployments/web`.
    pub(crate) summary: String,
}

impl Asked {
    /// The faults that a real API server may answer this request with.
    pub(crate) fn faults(&self) -> &'static [Fault] {
        match (self.is_write, self.verb) {
            (true, "update" | "patch" | "apply") => &[
                Fault::LostAnswer,
                Fault::Conflict,
                Fault::InternalError,
                Fault::Timeout,
                Fault::TooManyRequests,
            ],
            (true, _) => &[Fault::LostAnswer, Fault::InternalError, Fault::Timeout, Fault::TooManyRequests],
            (false, _) => &[Fault::InternalError, Fault::Timeout],
        }
    }
}

/// A child of an operator: an object that it wrote and watches, and that another object owns.
#[derive(Clone, Debug)]
pub(crate) struct Child {
    pub(crate) path: String,
    /// The rests at which it exists.
    pub(crate) rests: Vec<usize>,
}

/// A change of an object that an operator watches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) revision: u64,
    /// Whether the scenario or an operator made the change, or it removes or marks an object. Other changes are the
    /// progress that built-in controllers report.
    pub(crate) is_decisive: bool,
}

/// The time of one object that the scenario wrote: one incarnation of its name.
#[derive(Clone, Debug)]
pub(crate) struct Lifetime {
    created: u64,
    /// The revision that marked it for deletion or removed it.
    ended: u64,
    removed: u64,
}

impl Lifetime {
    /// Whether the object lives at one revision and is gone at a later one.
    fn is_over(&self, then: u64, now: u64) -> bool {
        self.created <= then && then < self.ended && self.removed <= now
    }
}

/// What the undisturbed run teaches.
#[derive(Debug)]
pub(crate) struct Learned {
    pub(crate) operators: Vec<String>,
    pub(crate) requests: Vec<Asked>,
    /// The kinds that each operator watches.
    pub(crate) watched: BTreeMap<String, BTreeSet<String>>,
    /// The changes of each operator's watched kinds.
    pub(crate) seen: BTreeMap<String, Vec<(String, Seen)>>,
    /// The revision at each rest.
    pub(crate) rests: Vec<u64>,
    pub(crate) worlds: Vec<World>,
    pub(crate) children: Vec<Child>,
    /// The kinds that operators and the scenario write or delete themselves. Objects of other kinds are made by built-in
    /// controllers, and some of them outlive their cause, such as the claims of a StatefulSet that was scaled down.
    pub(crate) managed: BTreeSet<String>,
    /// The keys of the objects that operators and the scenario created themselves.
    pub(crate) authored: BTreeSet<String>,
    /// The lifetimes of the objects that the scenario wrote.
    pub(crate) lifetimes: Vec<Lifetime>,
    /// What the scenario wrote, and how the API server answered.
    pub(crate) inputs: Vec<String>,
    /// Every change of the undisturbed run.
    pub(crate) changes: Vec<StoredChange>,
    /// Where undisturbed runs differ by themselves, for each rest.
    pub(crate) varying: Vec<BTreeSet<(String, String)>>,
    pub(crate) timeline: Vec<String>,
}

impl Learned {
    /// Whether the view of a revision shows an object of the scenario as living that is gone or replaced by now. An
    /// operator that trusts it makes children for an owner that no longer exists. No operator can know without a live
    /// read before each write, so that such views are not made.
    pub(crate) fn shows_the_dead(&self, then: u64, now: u64) -> bool {
        self.lifetimes.iter().any(|life| life.is_over(then, now))
    }
}

/// Whether a request of an operator is counted by the director.
fn is_counted(exchange: &Exchange, operators: &[String]) -> bool {
    let is_operator = operators.iter().any(|operator| **operator == *exchange.by);
    let counted = |target: ResourcePath<'_>| !matches!(&*target.resource, "leases" | "events");
    is_operator && exchange.verb != "watch" && exchange.target().is_some_and(counted)
}

pub(crate) fn learn(run: &Run, others: &[Run]) -> Learned {
    let operators = run.operators.clone();
    let worlds: Vec<World> = run.played.checkpoints.iter().map(|it| World::of(&it.objects)).collect();
    let varying = worlds.iter().enumerate().map(|(at, world)| {
        let others = others.iter().filter_map(|other| other.played.checkpoints.get(at));
        others.flat_map(|other| paths_that_differ(world, &World::of(&other.objects))).collect()
    });
    let varying = varying.collect();
    let watched = watched(run, &operators);
    Learned {
        requests: requests(run, &operators),
        seen: operators.iter().map(|it| (it.clone(), seen(run, &watched[it]))).collect(),
        rests: run.played.checkpoints.iter().map(|it| it.revision).collect(),
        children: children(run, &operators, &watched),
        managed: managed(run, &operators),
        authored: authored(run, &operators),
        lifetimes: lifetimes(run),
        inputs: inputs(run),
        changes: run.played.changes.clone().unwrap_or_default(),
        timeline: run.timeline.clone(),
        operators,
        watched,
        worlds,
        varying,
    }
}

fn requests(run: &Run, operators: &[String]) -> Vec<Asked> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let counted = run.exchanges.iter().filter(|it| is_counted(it, operators));
    let asked = counted.filter_map(|exchange| {
        let number = counts.entry(&exchange.by).or_default();
        *number += 1;
        let target = exchange.target()?;
        let summary = exchange.summary();
        // The name of a new object is in its body; the summary has it.
        let name = summary.rsplit('/').next().unwrap_or_default();
        let name = if target.name.is_empty() { name } else { &*target.name };
        Some(Asked {
            operator: exchange.by.to_string(),
            number: *number,
            is_write: exchange.method != http::Method::GET,
            wrote: exchange.outcome.wrote(),
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
        .filter(|it| &*it.by == "client" || run.operators.iter().any(|name| **name == *it.by))
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

/// What the scenario wrote, and how the API server answered. An absent operator lets a step have another effect: what
/// would have been made anew still waits for its deletion.
pub(crate) fn inputs(run: &Run) -> Vec<String> {
    let writes = run.exchanges.iter().filter(|it| &*it.by == "client" && it.method != http::Method::GET);
    let answer = |outcome: &Outcome| match outcome {
        Outcome::Answered { status, .. } => *status,
        _ => 0,
    };
    writes.map(|it| format!("{} {} {}", it.verb, it.path, answer(&it.outcome))).collect()
}

fn authored(run: &Run, operators: &[String]) -> BTreeSet<String> {
    let by_us = run
        .exchanges
        .iter()
        .filter(|it| &*it.by == "client" || operators.iter().any(|name| **name == *it.by));
    let revisions: BTreeSet<u64> = by_us.filter_map(|it| it.outcome.wrote()).collect();
    let changes = run.played.changes.iter().flatten();
    let created = changes.filter(|it| it.before.is_none() && revisions.contains(&it.revision));
    created.map(|it| it.key().to_owned()).collect()
}

fn lifetimes(run: &Run) -> Vec<Lifetime> {
    let by_client: BTreeSet<u64> =
        run.exchanges.iter().filter(|it| &*it.by == "client").filter_map(|it| it.outcome.wrote()).collect();
    let changes = run.played.changes.as_deref().unwrap_or_default();
    let created = changes.iter().filter(|it| it.before.is_none() && by_client.contains(&it.revision));
    let life = |made: &StoredChange| {
        let later = || changes.iter().filter(|it| it.key() == made.key() && it.revision > made.revision);
        let removed = later().find(|it| it.after.is_none()).map_or(u64::MAX, |it| it.revision);
        let is_marked = |it: &&StoredChange| it.after.as_ref().is_some_and(|after| is_deleting(&after.json));
        let marked = later().find(is_marked).map_or(removed, |it| it.revision);
        Lifetime { created: made.revision, ended: marked.min(removed), removed }
    };
    created.map(life).collect()
}

fn is_deleting(json: &[u8]) -> bool {
    let value: Value = serde_json::from_slice(json).unwrap_or_default();
    !value["metadata"]["deletionTimestamp"].is_null()
}

fn managed(run: &Run, operators: &[String]) -> BTreeSet<String> {
    let writes = run.exchanges.iter().filter(|it| it.method != http::Method::GET);
    let ours = writes.filter(|it| &*it.by == "client" || operators.iter().any(|name| **name == *it.by));
    ours.filter_map(|it| it.target().map(|target| kind_of(&target))).collect()
}

/// The objects that an operator wrote and watches, and that have an owner.
fn children(run: &Run, operators: &[String], watched: &BTreeMap<String, BTreeSet<String>>) -> Vec<Child> {
    let mut written: BTreeMap<(String, String), String> = BTreeMap::new();
    for exchange in
        run.exchanges.iter().filter(|it| is_counted(it, operators) && it.outcome.wrote().is_some())
    {
        let Some(target) = exchange.target() else { continue };
        let kind = kind_of(&target);
        if !target.name.is_empty() && target.subresource.is_empty() && watched[&*exchange.by].contains(&kind)
        {
            let path = exchange.path.split('?').next().unwrap_or_default();
            written.insert((kind, target.name.to_string()), path.to_owned());
        }
    }
    let exists = |kind: &str, name: &str| {
        let checkpoints = run.played.checkpoints.iter().enumerate();
        let at = checkpoints.filter(|(_, checkpoint)| {
            checkpoint.objects.iter().any(|object| {
                let parts = KeyParts::of(&object.key);
                parts.name == name && parts.kind() == kind && is_owned(&object.json)
            })
        });
        at.map(|(at, _)| at + 1).collect::<Vec<usize>>()
    };
    let children =
        written.into_iter().map(|((kind, name), path)| Child { rests: exists(&kind, &name), path });
    children.filter(|child| !child.rests.is_empty()).collect()
}

fn is_owned(json: &[u8]) -> bool {
    let value: Value = serde_json::from_slice(json).unwrap_or_default();
    let owners = value["metadata"]["ownerReferences"].as_array();
    owners.is_some_and(|owners| owners.iter().any(|owner| owner["controller"] == true))
        && value["metadata"]["deletionTimestamp"].is_null()
}
