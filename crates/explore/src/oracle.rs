//! Judges a run by what needs no help: the undisturbed run, and what holds for every operator.

use std::fmt;

use evenkeel_cluster::Outcome;

use crate::compare::{Difference, differences};
use crate::history::{observed_generation_back, remade};
use crate::learn::{Learned, inputs};
use crate::plan::{Plan, Strike};
use crate::run::Run;
use crate::state::{KeyParts, World};
use crate::token::Token;
use crate::view::{Invariant, violated};

/// How many differences a finding tells.
const DIFFERENCES_TOLD: usize = 6;

/// What a run is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Oracle {
    /// The scenario itself fails: an assertion, or an error.
    Scenario,
    /// The cluster comes to rest.
    Rest,
    /// No reconcile panics.
    Panic,
    /// The state at each rest equals that of the undisturbed run.
    SameEnd,
    /// What the undisturbed run kept is not destroyed and made again.
    Kept,
    /// At rest, a reconcile writes nothing.
    Idempotent,
    /// `observedGeneration` never goes back.
    ObservedGeneration,
    /// The permissions of the operator suffice.
    Permissions,
    /// The invariants of the user hold.
    Invariant,
}

impl Oracle {
    /// The name, for suppressions.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scenario => "scenario",
            Self::Rest => "rest",
            Self::Panic => "panic",
            Self::SameEnd => "same-end",
            Self::Kept => "kept",
            Self::Idempotent => "idempotent",
            Self::ObservedGeneration => "observed-generation",
            Self::Permissions => "permissions",
            Self::Invariant => "invariant",
        }
    }
}

impl fmt::Display for Oracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A run that an oracle refuses.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// The oracle that refuses the run.
    pub oracle: Oracle,
    /// The object that it is about, as `PLURAL/NAME`; empty if it is about none.
    pub object: String,
    /// What is wrong, in words.
    pub what: String,
    /// The plan of the run.
    pub plan: Plan,
    /// The seed of the run.
    pub seed: u64,
    /// What happened in the run, one line each.
    pub timeline: Vec<String>,
}

impl Finding {
    /// The name of the finding, for suppressions: the oracle, and the object if there is one.
    pub fn name(&self) -> String {
        match &*self.object {
            "" => self.oracle.to_string(),
            object => format!("{}:{object}", self.oracle),
        }
    }

    /// The token that plays this run again, as `EVENKEEL_PLAN`.
    pub fn token(&self) -> String {
        Token { seed: self.seed, plan: self.plan.clone() }.to_string()
    }
}

/// What the user adds to the oracles.
#[derive(Default)]
pub(crate) struct Rules {
    /// Kinds whose objects must not be destroyed and made again, as `GROUP/PLURAL`.
    pub(crate) precious: Vec<String>,
    pub(crate) invariants: Vec<Invariant>,
}

fn invariants(run: &Run, rules: &Rules) -> Option<Verdict> {
    let (name, what) = violated(run.played.changes.as_ref()?, &rules.invariants)?;
    Some(Verdict::new(Oracle::Invariant, name, what))
}

/// What is wrong with a run.
pub(crate) struct Verdict {
    pub(crate) oracle: Oracle,
    pub(crate) object: String,
    pub(crate) what: String,
}

impl Verdict {
    fn new(oracle: Oracle, object: impl Into<String>, what: impl Into<String>) -> Self {
        Self { oracle, object: object.into(), what: what.into() }
    }
}

/// Judges the undisturbed run: it must be fit to compare others with.
pub(crate) fn judge_undisturbed(run: &Run, rules: &Rules) -> Option<Verdict> {
    if let Some(unsettled) = &run.played.unsettled {
        return Some(Verdict::new(Oracle::Rest, "", unsettled));
    }
    let failure = run.failure.as_ref().map(|failure| Verdict::new(Oracle::Scenario, "", failure));
    failure
        .or_else(|| run.panics.first().map(|panic| Verdict::new(Oracle::Panic, "", panic)))
        .or_else(|| invariants(run, rules))
}

/// Judges a disturbed run by the undisturbed one.
pub(crate) fn judge(run: &Run, plan: &Plan, learned: &Learned, rules: &Rules) -> Option<Verdict> {
    if let Some(panic) = run.panics.first() {
        return Some(Verdict::new(Oracle::Panic, "", panic));
    }
    if let Some(unsettled) = &run.played.unsettled {
        return Some(Verdict::new(Oracle::Rest, "", unsettled));
    }
    if let Some(failure) = &run.failure {
        // The scenario's own checks need not hold while the operator is away or behind.
        return (!run.failed_disturbed).then(|| Verdict::new(Oracle::Scenario, "", failure));
    }
    if is_another_scenario(run, plan, learned) {
        return invariants(run, rules);
    }
    invariants(run, rules)
        .or_else(|| kept(run, plan, learned, &rules.precious))
        .or_else(|| same_end(run, plan, learned))
        .or_else(|| idempotent(run))
        .or_else(|| observed(run, plan))
        .or_else(|| permitted(run))
}

/// Whether the scenario's own steps had another effect, because the operator was away or behind. Then the ends cannot be
/// compared.
pub(crate) fn is_another_scenario(run: &Run, plan: &Plan, learned: &Learned) -> bool {
    plan.leaves_the_path() && inputs(run) != learned.inputs
}

/// Compares the state at each rest at which no disturbance was in force.
fn same_end(run: &Run, plan: &Plan, learned: &Learned) -> Option<Verdict> {
    // What built-in controllers leave behind depends on the steps that the operator has seen.
    let is_residue = |difference: &Difference| {
        let is_ours = match &difference.found {
            // What was never made is missed only if an operator or the scenario makes it.
            None => learned.authored.contains(&difference.object),
            // What is left is to be cleaned up by an operator that looks after its kind.
            Some(_) => learned.managed.contains(&KeyParts::of(&difference.object).kind()),
        };
        plan.leaves_the_path() && difference.path.is_empty() && !is_ours
    };
    for (at, checkpoint) in run.played.checkpoints.iter().enumerate().filter(|(_, it)| !it.disturbed) {
        let (Some(expected), Some(varying)) = (learned.worlds.get(at), learned.varying.get(at)) else {
            continue;
        };
        let mut found = differences(expected, &World::of(&checkpoint.objects), varying);
        found.retain(|difference| !is_residue(difference));
        if let Some(first) = found.first() {
            let object = KeyParts::of(&first.object).short();
            let last = learned.worlds.len();
            let at = at + 1;
            let told: Vec<String> = found.iter().take(DIFFERENCES_TOLD).map(Difference::to_string).collect();
            let more = found.len().saturating_sub(DIFFERENCES_TOLD);
            let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
            let what = format!("the state at rest {at} of {last} differs:\n  {}{more}", told.join("\n  "));
            return Some(Verdict::new(Oracle::SameEnd, object, what));
        }
    }
    None
}

/// What exists at a rest of the undisturbed run is not destroyed and made again more often than there, between two rests at
/// which no disturbance is in force.
fn kept(run: &Run, plan: &Plan, learned: &Learned, precious: &[String]) -> Option<Verdict> {
    if plan.strikes.iter().any(|strike| matches!(strike, Strike::Delete { .. })) {
        return None;
    }
    let changes = run.played.changes.as_ref()?;
    let mut last = (0, 0);
    for (at, checkpoint) in run.played.checkpoints.iter().enumerate().filter(|(_, it)| !it.disturbed) {
        let (Some(world), Some(rest)) = (learned.worlds.get(at), learned.rests.get(at)) else { break };
        let made = remade(changes, precious, (last.0, checkpoint.revision));
        let expected = remade(&learned.changes, precious, (last.1, *rest));
        last = (checkpoint.revision, *rest);
        for (key, times) in made.into_iter().filter(|(key, _)| world.objects.contains_key(key)) {
            let expected = expected.get(&key).copied().unwrap_or_default();
            if times > expected {
                let object = KeyParts::of(&key).short();
                let what = format!(
                    "{object} was destroyed and made again before rest {}: {times} times, undisturbed {expected}",
                    at + 1
                );
                return Some(Verdict::new(Oracle::Kept, object, what));
            }
        }
    }
    None
}

/// A restart at rest writes nothing.
fn idempotent(run: &Run) -> Option<Verdict> {
    run.played.restarts.iter().find_map(|(operator, before, after)| {
        let written = run.exchanges.iter().find(|exchange| {
            let in_time = exchange.outcome.wrote().is_some_and(|wrote| wrote > *before && wrote <= *after);
            let upkeep = exchange.target().is_some_and(|it| matches!(&*it.resource, "leases" | "events"));
            &*exchange.by == operator && in_time && !upkeep
        })?;
        let target = written.target()?;
        let object = format!("{}/{}", target.resource, target.name);
        let what = format!("{operator} restarted at rest, and wrote: {}", written.summary());
        Some(Verdict::new(Oracle::Idempotent, object, what))
    })
}

fn observed(run: &Run, plan: &Plan) -> Option<Verdict> {
    // An operator whose view is behind notes what it sees. It goes back only in the eyes of those who are ahead.
    if plan.makes_stale() {
        return None;
    }
    let what = observed_generation_back(run.played.changes.as_ref()?)?;
    Some(Verdict::new(Oracle::ObservedGeneration, "", what))
}

fn permitted(run: &Run) -> Option<Verdict> {
    let forbidden = run.exchanges.iter().find(|exchange| {
        let is_operator = run.operators.iter().any(|operator| **operator == *exchange.by);
        // A namespace that is being deleted refuses new objects by the same status.
        let refused = matches!(exchange.outcome, Outcome::Answered { status: 403, fault: None, .. });
        is_operator && refused && exchange.verb != "create" && exchange.verb != "apply"
    })?;
    Some(Verdict::new(Oracle::Permissions, "", format!("a request was forbidden: {}", forbidden.summary())))
}
