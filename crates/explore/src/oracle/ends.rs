//! Compares the states at rest with those of the undisturbed run.

use super::{Oracle, Verdict};
use crate::compare::{Difference, MayDiffer, differences, without_allowed};
use crate::learn::Learned;
use crate::plan::Plan;
use crate::run::Run;
use crate::state::{KeyParts, World};

/// How many differences a finding lists.
const DIFFERENCES_TOLD: usize = 6;

/// Compares the state at each rest at which no disturbance was active.
pub(super) fn same_end(
    run: &Run,
    plan: &Plan,
    (learned, may_differ): (&Learned, &[MayDiffer]),
) -> Option<Verdict> {
    run.played.checkpoints.iter().filter(|checkpoint| !checkpoint.disturbed).find_map(|checkpoint| {
        let rest = checkpoint.rest;
        let (expected, varying) = (learned.worlds.get(rest - 1)?, learned.varying_at(rest, plan)?);
        let mut found = differences(expected, &World::of(&checkpoint.objects), varying);
        without_allowed(&mut found, may_differ);
        found.retain(|difference| !(plan.leaves_the_path() && is_residue(difference, rest, run, learned)));
        let first = found.first()?;
        let object = KeyParts::of(&first.object).short();
        let what = format!("the state at rest {rest} of {} differs:{}", learned.worlds.len(), told(&found));
        Some(Verdict::new(Oracle::SameEnd, object, what).at(rest))
    })
}

/// Returns whether a difference is left over by built-in controllers, such as the claims of a StatefulSet that was
/// scaled down. These depend on the steps that the operator has seen, and are not the fault of an operator that does
/// not manage their kind. An object that an operator has deleted is not left over.
fn is_residue(difference: &Difference, rest: usize, run: &Run, learned: &Learned) -> bool {
    if difference.found.is_none() && difference.path.is_empty() && is_past_job(difference, rest, learned) {
        return true;
    }
    let is_ours = match &difference.found {
        // A missing object counts only if an operator or the scenario creates it.
        None => {
            learned.authored.contains(&difference.object) || was_deleted_by_operator(&difference.object, run)
        }
        // An extra object counts only if an operator that manages its kind should have removed it.
        Some(_) => {
            learned.managed.contains(&KeyParts::of(&difference.object).kind())
                && !learned.adopted.contains(&difference.object)
        }
    };
    difference.path.is_empty() && !is_ours
}

/// Returns whether an object is a Job that had finished before an earlier rest of the undisturbed run: the record of a step
/// that an operator need not have seen.
fn is_past_job(missing: &Difference, rest: usize, learned: &Learned) -> bool {
    let earlier = rest.checked_sub(2).and_then(|at| learned.worlds.get(at));
    let job = earlier.and_then(|world| world.objects.get(&missing.object));
    let is_job = KeyParts::of(&missing.object).kind() == "batch/jobs";
    is_job
        && job.is_some_and(|job| !job["status"]["succeeded"].is_null() || !job["status"]["failed"].is_null())
}

/// Returns whether an operator has deleted an object, by its name or with a collection.
fn was_deleted_by_operator(key: &str, run: &Run) -> bool {
    let parts = KeyParts::of(key);
    run.exchanges.iter().filter(|it| it.method == http::Method::DELETE && it.outcome.wrote().is_some()).any(
        |exchange| {
            let is_operator = run.operators.iter().any(|name| **name == *exchange.by);
            let names_it = |target: evenkeel_cluster::ResourcePath<'_>| {
                target.group == parts.group
                    && target.resource == parts.plural
                    && (target.namespace.is_empty() || target.namespace == parts.namespace)
                    && (target.name.is_empty() || target.name == parts.name)
            };
            is_operator && exchange.target().is_some_and(names_it)
        },
    )
}

/// Checks runs whose states cannot be compared because a step of the scenario had another effect. What an operator
/// makes exists only as long as its cause, so at the end nothing of it may exist that the undisturbed run does not
/// have.
pub(super) fn left(
    run: &Run,
    plan: &Plan,
    (learned, may_differ): (&Learned, &[MayDiffer]),
) -> Option<Verdict> {
    let last = run.played.checkpoints.last().filter(|last| !last.disturbed)?;
    let (expected, varying) = (learned.worlds.get(last.rest - 1)?, learned.varying_at(last.rest, plan)?);
    let mut found = differences(expected, &World::of(&last.objects), varying);
    without_allowed(&mut found, may_differ);
    found.retain(|it| it.path.is_empty() && it.found.is_some() && !is_residue(it, last.rest, run, learned));
    let made_by_operators = |difference: &Difference| {
        let kind = KeyParts::of(&difference.object).kind();
        learned.made_by_operators.contains(&kind)
    };
    found.retain(made_by_operators);
    let first = found.first().filter(|_| plan.leaves_the_path())?;
    let object = KeyParts::of(&first.object).short();
    Some(Verdict::new(Oracle::Left, object, format!("at the end:{}", told(&found))).at(last.rest))
}

fn told(found: &[Difference]) -> String {
    let mut out = String::new();
    for difference in found.iter().take(DIFFERENCES_TOLD) {
        out.push_str(&format!("\n  {difference}"));
    }
    match found.len().saturating_sub(DIFFERENCES_TOLD) {
        0 => out,
        more => format!("{out}\n  and {more} more"),
    }
}
