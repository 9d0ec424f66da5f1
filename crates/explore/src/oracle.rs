//! Judges a run by what needs no help: the undisturbed run, and what holds for every operator.

mod ends;
mod kept;
mod requests;

use std::fmt;

use crate::learn::{Learned, inputs};
use crate::plan::Plan;
use crate::run::Run;
use crate::token::Token;
use crate::view::{Invariant, violated};

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
    /// Nothing is left of what an operator made, where the undisturbed run leaves nothing.
    Left,
    /// At rest, a reconcile writes nothing.
    Idempotent,
    /// `observedGeneration` never goes back.
    ObservedGeneration,
    /// No replica writes that does not lead.
    Leads,
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
            Self::Left => "left",
            Self::Idempotent => "idempotent",
            Self::ObservedGeneration => "observed-generation",
            Self::Leads => "leads",
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

/// What is wrong with a run.
pub(crate) struct Verdict {
    pub(crate) oracle: Oracle,
    pub(crate) object: String,
    pub(crate) what: String,
    /// The rest at which it shows, if it shows at one.
    pub(crate) rest: Option<usize>,
}

impl Verdict {
    fn new(oracle: Oracle, object: impl Into<String>, what: impl Into<String>) -> Self {
        Self { oracle, object: object.into(), what: what.into(), rest: None }
    }

    fn at(mut self, rest: usize) -> Self {
        self.rest = Some(rest);
        self
    }
}

/// Judges the undisturbed run: it must be fit to compare others with.
pub(crate) fn judge_undisturbed(run: &Run, rules: &Rules) -> Option<Verdict> {
    by_itself(run)
        .or_else(|| run.failure.as_ref().map(|failure| Verdict::new(Oracle::Scenario, "", failure)))
        .or_else(|| invariants(run, rules))
        .or_else(|| requests::observed(run))
}

/// Judges a disturbed run by the undisturbed one.
pub(crate) fn judge(run: &Run, plan: &Plan, learned: &Learned, rules: &Rules) -> Option<Verdict> {
    if let Some(verdict) = by_itself(run) {
        return Some(verdict);
    }
    if let Some(failure) = &run.failure {
        // The scenario's own checks need not hold while the operator is away or behind, nor after a step that had another
        // effect because of that.
        let excused = run.failed_disturbed || is_another_scenario_so_far(run, plan, learned);
        return (!excused).then(|| Verdict::new(Oracle::Scenario, "", failure));
    }
    if is_another_scenario(run, plan, learned) {
        return invariants(run, rules)
            .or_else(|| ends::left(run, plan, learned))
            .or_else(|| requests::idempotent(run))
            .or_else(|| requests::observed(run));
    }
    invariants(run, rules)
        .or_else(|| kept::kept(run, learned, &rules.precious))
        .or_else(|| ends::same_end(run, plan, learned))
        .or_else(|| requests::idempotent(run))
        .or_else(|| requests::observed(run))
}

/// What holds for every run, whatever its end is.
fn by_itself(run: &Run) -> Option<Verdict> {
    let panic = run.panics.first().map(|panic| Verdict::new(Oracle::Panic, "", panic));
    let rest = || {
        let (rest, unsettled) = run.played.unsettled.as_ref()?;
        Some(Verdict::new(Oracle::Rest, "", unsettled).at(*rest))
    };
    panic.or_else(|| requests::permitted(run)).or_else(|| requests::leads(run)).or_else(rest)
}

fn invariants(run: &Run, rules: &Rules) -> Option<Verdict> {
    let (name, what) = violated(run.played.changes.as_ref()?, &rules.invariants)?;
    Some(Verdict::new(Oracle::Invariant, name, what))
}

/// Whether the scenario's own steps had another effect, because the operator was away or behind. Then the ends cannot be
/// compared.
pub(crate) fn is_another_scenario(run: &Run, plan: &Plan, learned: &Learned) -> bool {
    let inputs = inputs(run);
    plan.leaves_the_path() && inputs[..] != learned.inputs[..inputs.len().min(learned.inputs.len())]
}

/// Whether a step before the last one that was played had another effect.
fn is_another_scenario_so_far(run: &Run, plan: &Plan, learned: &Learned) -> bool {
    let inputs = inputs(run);
    let before = inputs.len().saturating_sub(1);
    plan.leaves_the_path() && inputs[..before] != learned.inputs[..before.min(learned.inputs.len())]
}
