//! Judges the values that an operator makes up: passwords and tokens are kept, and are the same wherever they are.

use super::{Oracle, Verdict};
use crate::learn::Learned;
use crate::plan::Plan;
use crate::run::Run;
use crate::state::{KeyParts, World};
use crate::values::value_at;

/// What stays as it is in every undisturbed run is not made up anew, and what is equal there is equal here. Judged at the
/// rests at which no disturbance is in force. Where somebody else deletes or changes objects, values are made anew rightly.
pub(super) fn values(run: &Run, plan: &Plan, learned: &Learned, precious: &[String]) -> Option<Verdict> {
    if plan.has_mishap() {
        return None;
    }
    let mut last: Option<(usize, World)> = None;
    for checkpoint in run.played.checkpoints.iter().filter(|it| !it.disturbed) {
        let (rest, world) = (checkpoint.rest, World::of(&checkpoint.objects));
        let anew = last
            .as_ref()
            .and_then(|(since, before)| made_anew((*since, before), (rest, &world), learned, precious));
        if let Some(verdict) = anew.or_else(|| differs(rest, &world, learned)) {
            return Some(verdict);
        }
        last = Some((rest, world));
    }
    None
}

/// A value of a precious object that was kept in the undisturbed runs.
fn made_anew(
    (since, before): (usize, &World),
    (rest, now): (usize, &World),
    learned: &Learned,
    precious: &[String],
) -> Option<Verdict> {
    // Rests are counted from one.
    let steady = learned.values.steady.get(since..rest)?;
    let (latest, earlier) = steady.split_last()?;
    let mut places = latest.iter().filter(|place| {
        let is_precious = precious.contains(&KeyParts::of(&place.0).kind());
        is_precious && earlier.iter().all(|steady| steady.contains(*place))
    });
    let place = places.find(|place| {
        let (before, now) = (value_at(before, place), value_at(now, place));
        before.is_some() && now.is_some() && before != now
    })?;
    let object = KeyParts::of(&place.0).short();
    let what = format!("{object}{} was made up anew before rest {rest}; undisturbed, it stays", place.1);
    Some(Verdict::new(Oracle::Kept, object, what).at(rest))
}

/// Two values that are equal in the undisturbed runs, and differ here.
fn differs(rest: usize, world: &World, learned: &Learned) -> Option<Verdict> {
    learned.values.equal.get(rest - 1)?.iter().find_map(|places| {
        let mut found = places.iter().filter_map(|place| Some((place, value_at(world, place)?)));
        let (first, value) = found.next()?;
        let (other, _) = found.find(|(_, other)| *other != value)?;
        let (one, object) = (KeyParts::of(&first.0).short(), KeyParts::of(&other.0).short());
        let what = format!(
            "the state at rest {rest} differs: {object}{} is not {one}{}, undisturbed they are equal",
            other.1, first.1
        );
        Some(Verdict::new(Oracle::SameEnd, object, what).at(rest))
    })
}
