//! Judges the values that an operator makes up, such as passwords: they are kept, and all copies of one are equal.

use super::{Oracle, Verdict};
use crate::learn::Learned;
use crate::plan::Plan;
use crate::run::Run;
use crate::state::{KeyParts, World};
use crate::values::value_at;

/// Checks that the operator keeps the made-up values that it keeps in every undisturbed run, and that values which are
/// equal there are equal here. Only rests without an active disturbance count. A plan in which somebody else deletes or
/// changes objects is not judged, because the operator may have to make up new values then.
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

/// Finds a value of a precious object that is kept between two rests in the undisturbed runs, and changed here.
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

/// Finds two values that are equal at this rest of the undisturbed runs, and differ here.
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
