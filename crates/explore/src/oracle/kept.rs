//! Judges which objects were deleted and recreated.

use super::{Oracle, Verdict};
use crate::history::{remade, with_dependents};
use crate::learn::Learned;
use crate::run::Run;
use crate::state::KeyParts;

/// Checks that objects which exist at a rest of the undisturbed run are not deleted and recreated more often than
/// there, between two rests without an active disturbance. Objects that the plan itself removed, and their dependents,
/// are left out.
pub(super) fn kept(run: &Run, learned: &Learned, precious: &[String]) -> Option<Verdict> {
    let changes = run.played.changes.as_ref()?;
    let removed = with_dependents(changes, &run.played.removed);
    let none = Default::default();
    let mut last = (0, 0);
    for checkpoint in run.played.checkpoints.iter().filter(|it| !it.disturbed) {
        let at = checkpoint.rest - 1;
        let (Some(world), Some(rest)) = (learned.worlds.get(at), learned.rests.get(at)) else { break };
        let made = remade(changes, precious, &removed, (last.0, checkpoint.revision));
        let expected = remade(&learned.changes, precious, &none, (last.1, *rest));
        last = (checkpoint.revision, *rest);
        for (key, times) in made.into_iter().filter(|(key, _)| world.objects.contains_key(key)) {
            let expected = expected.get(&key).copied().unwrap_or_default();
            if times > expected {
                let object = KeyParts::of(&key).short();
                let what = format!(
                    "{object} was destroyed and made again before rest {}: {times} times, undisturbed {expected}",
                    checkpoint.rest
                );
                return Some(Verdict::new(Oracle::Kept, object, what).at(checkpoint.rest));
            }
        }
    }
    None
}
