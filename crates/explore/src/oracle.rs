//! Judges a run by rules that need nothing from the user: comparison with the undisturbed run, and what holds for every
//! operator.

mod ends;
mod kept;
mod requests;
mod values;

use std::fmt;

use crate::compare::MayDiffer;
use crate::learn::{Learned, inputs};
use crate::plan::Plan;
use crate::run::Run;
use crate::token::Token;
use crate::view::{Invariant, violated};

/// A rule that every run is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Oracle {
    /// The scenario itself succeeds: no assertion fails and no error is returned.
    Scenario,
    /// The cluster comes to rest.
    Rest,
    /// No reconcile panics.
    Panic,
    /// The state at each rest equals that of the undisturbed run.
    SameEnd,
    /// Objects that the undisturbed run kept are not deleted and recreated.
    Kept,
    /// If the undisturbed run leaves no object of an operator behind, neither does this run.
    Left,
    /// A reconcile at rest writes nothing.
    Idempotent,
    /// `status.observedGeneration` never decreases.
    ObservedGeneration,
    /// Only the leading replica writes.
    Leads,
    /// The permissions of the operator suffice.
    Permissions,
    /// The invariants of the user hold.
    Invariant,
}

impl Oracle {
    /// The oracle's name, by which a finding can be accepted.
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

/// A run that an oracle has refused.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// The oracle that refused the run.
    pub oracle: Oracle,
    /// The object with the problem, as `PLURAL/NAME`, or an empty string if no single object has it.
    pub object: String,
    /// A description of the problem.
    pub what: String,
    /// The plan of the run.
    pub plan: Plan,
    /// The seed of the run.
    pub seed: u64,
    /// The requests and events of the run, one line each.
    pub timeline: Vec<String>,
}

impl Finding {
    /// The name of the finding, by which it can be accepted: the oracle, and the object if there is one.
    pub fn name(&self) -> String {
        match &*self.object {
            "" => self.oracle.to_string(),
            object => format!("{}:{object}", self.oracle),
        }
    }

    /// The token that plays this run again, for `EVENKEEL_PLAN`.
    pub fn token(&self) -> String {
        Token { seed: self.seed, plan: self.plan.clone() }.to_string()
    }
}

/// The user's additions to the oracles.
#[derive(Default)]
pub(crate) struct Rules {
    /// Kinds whose objects must not be destroyed and made again, as `GROUP/PLURAL`.
    pub(crate) precious: Vec<String>,
    /// What may differ from the undisturbed run.
    pub(crate) may_differ: Vec<MayDiffer>,
    pub(crate) invariants: Vec<Invariant>,
}

/// The problem that an oracle found in a run.
pub(crate) struct Verdict {
    pub(crate) oracle: Oracle,
    pub(crate) object: String,
    pub(crate) what: String,
    /// The rest at which the problem shows, if it shows at a rest.
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

/// Judges the undisturbed run, which must be correct before other runs can be compared with it.
pub(crate) fn judge_undisturbed(run: &Run, rules: &Rules) -> Option<Verdict> {
    by_itself(run)
        .or_else(|| run.failure.as_ref().map(|failure| Verdict::new(Oracle::Scenario, "", failure)))
        .or_else(|| invariants(run, rules))
        .or_else(|| requests::observed(run))
}

/// Judges a disturbed run by comparison with the undisturbed one.
pub(crate) fn judge(run: &Run, plan: &Plan, learned: &Learned, rules: &Rules) -> Option<Verdict> {
    if let Some(verdict) = by_itself(run) {
        return Some(verdict);
    }
    if plan.moves_a_clock() {
        return invariants(run, rules).or_else(|| requests::observed(run));
    }
    if let Some(failure) = &run.failure {
        // The scenario's own assertions may fail while the operator is stopped or behind, and after a step whose effect
        // differed for that reason.
        let excused = run.failed_disturbed || is_another_scenario_so_far(run, plan, learned);
        return (!excused).then(|| Verdict::new(Oracle::Scenario, "", failure));
    }
    if is_another_scenario(run, plan, learned) {
        return invariants(run, rules)
            .or_else(|| ends::left(run, plan, (learned, &rules.may_differ)))
            .or_else(|| requests::idempotent(run))
            .or_else(|| requests::observed(run));
    }
    invariants(run, rules)
        .or_else(|| kept::kept(run, learned, &rules.precious))
        .or_else(|| ends::same_end(run, plan, (learned, &rules.may_differ)))
        .or_else(|| values::values(run, plan, learned, &rules.precious))
        .or_else(|| requests::idempotent(run))
        .or_else(|| requests::observed(run))
}

/// Checks what must hold in every run, whatever state it ends in.
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

/// Returns whether a step of the scenario had another effect because the operator was stopped or behind, or because its
/// webhook was not asked. The final states cannot be compared then.
pub(crate) fn is_another_scenario(run: &Run, plan: &Plan, learned: &Learned) -> bool {
    let inputs = inputs(run);
    let differs = inputs[..] != learned.inputs[..inputs.len().min(learned.inputs.len())];
    run.missed_webhook || (plan.leaves_the_path() && differs)
}

/// Returns whether a step before the last one played had another effect.
fn is_another_scenario_so_far(run: &Run, plan: &Plan, learned: &Learned) -> bool {
    let inputs = inputs(run);
    let before = inputs.len().saturating_sub(1);
    run.missed_webhook
        || plan.leaves_the_path() && inputs[..before] != learned.inputs[..before.min(learned.inputs.len())]
}
