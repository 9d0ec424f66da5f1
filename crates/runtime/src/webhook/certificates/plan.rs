//! What to do next with the certificates, by what the Secret holds and the time.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::state::State;

/// How long a certificate is valid, in whole days: as long as those of cert-manager by default.
pub(super) const VALID: SignedDuration = SignedDuration::from_hours(90 * 24);

/// How long before its making a certificate is valid, for API servers whose clocks are behind.
pub(super) const EARLY: SignedDuration = SignedDuration::from_hours(24);

/// How long before its end a certificate is renewed: a third of its life. A replica that cannot reach the API server has
/// that long to come back, and whoever watches over the operator has that long to see why a renewal fails.
const RENEW_BEFORE: SignedDuration = SignedDuration::from_hours(30 * 24);

/// How long all API servers may take to see a `caBundle` that was written. A watch takes milliseconds; an API server whose
/// watch broke lists again within a minute.
pub(super) const SETTLE: SignedDuration = SignedDuration::from_mins(10);

/// The next step. Every configuration trusts what the Secret holds by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Make a certificate that is to be the current one.
    Make,
    /// Note that every configuration trusts the next certificate.
    NotePublished,
    /// Make the next certificate the current one.
    Promote,
    /// Remove CAs that are no longer needed.
    Forget,
    /// Wait until this time.
    Wait(Timestamp),
}

/// The next step for a server with these names.
pub(super) fn step(state: &State, names: &[String], now: Timestamp) -> Step {
    let current = state.current.as_ref().filter(|pair| pair.facts.is_valid(now));
    match (&state.next, current) {
        (Some(next), _) if !next.pair.facts.is_valid(now) => Step::Make,
        // Nobody can serve now. Waiting would only make that longer.
        (Some(_), None) => Step::Promote,
        (Some(next), Some(_)) => match next.published.map(|at| at.saturating_add(SETTLE).unwrap_or(at)) {
            None => Step::NotePublished,
            // The clock was set back since: the time of the note says nothing.
            Some(settled) if settled > now.saturating_add(SETTLE).unwrap_or(now) => Step::NotePublished,
            Some(settled) if settled > now => Step::Wait(settled),
            Some(_) => Step::Promote,
        },
        (None, None) => Step::Make,
        (None, Some(current)) => {
            let renewal = current.facts.until.saturating_sub(RENEW_BEFORE).unwrap_or(current.facts.until);
            let ends = state.retired.iter().map(|retired| retired.until).min();
            if renewal <= now || lacks(&current.facts.names, names) {
                Step::Make
            } else if ends.is_some_and(|end| end <= now) {
                Step::Forget
            } else {
                Step::Wait(ends.map_or(renewal, |end| end.min(renewal)))
            }
        }
    }
}

/// The names of a new certificate: those that are wanted here, and those of a current certificate that lacks some of
/// them. A replica of another release may want the others; without them, the two would replace each other's certificates
/// for ever.
pub(super) fn names_of_next(state: &State, wanted: &[String]) -> Vec<String> {
    let current = state.current.iter().map(|pair| &pair.facts.names);
    let kept = current.filter(|names| lacks(names, wanted)).flatten();
    kept.chain(wanted).cloned().collect::<BTreeSet<_>>().into_iter().collect()
}

fn lacks(names: &[String], wanted: &[String]) -> bool {
    wanted.iter().any(|name| !names.contains(name))
}

#[cfg(test)]
mod tests;
