//! Judges what was destroyed and made again.

use super::{Oracle, Verdict};
use crate::history::{remade, with_dependents};
use crate::learn::Learned;
use crate::run::Run;
use crate::state::KeyParts;

/// What exists at a rest of the undisturbed run is not destroyed and made again more often than there, between two rests at
/// which no disturbance is in force. What the plan itself removed, and what depends on it, is left out.
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
