//! Decides the next step for the certificates, from the contents of the Secret and the time.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::state::State;

/// How long a certificate is valid, in whole days: cert-manager's default.
pub(super) const VALID: SignedDuration = SignedDuration::from_hours(90 * 24);

/// How far before its creation a certificate's validity begins, for API servers whose clocks are behind.
pub(super) const EARLY: SignedDuration = SignedDuration::from_hours(24);

/// How long before its expiry a certificate is renewed: a third of its life. That is how much time a replica has to
/// reach the API server again, and an administrator to find out why renewals fail.
const RENEW_BEFORE: SignedDuration = SignedDuration::from_hours(30 * 24);

/// How long all API servers may take to see a changed `caBundle`. A watch takes milliseconds, and an API server whose
/// watch broke lists again within a minute.
pub(super) const SETTLE: SignedDuration = SignedDuration::from_mins(10);

/// How long a replica itself must have seen that every configuration trusts the next certificate before it promotes it,
/// by the monotonic clock. The wall clocks of two replicas may differ by more than [`SETTLE`]; API servers see a change
/// within milliseconds.
pub(super) const SEEN: Duration = Duration::from_secs(3);

/// The next step. At that point, every configuration trusts what the Secret contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Make a certificate that will become the current one.
    Make,
    /// Record that every configuration trusts the next certificate.
    NotePublished,
    /// Make the next certificate the current one.
    Promote,
    /// Remove CAs that are no longer needed.
    Forget,
    /// Wait until this time.
    Wait(Timestamp),
}

/// Returns the next step for a server with these names. `trusted` is how long this replica has seen that every
/// configuration trusts the next certificate.
pub(super) fn step(state: &State, names: &[String], now: Timestamp, trusted: Duration) -> Step {
    let current = state.current.as_ref().filter(|pair| pair.facts.is_valid(now));
    match (&state.next, current) {
        (Some(next), _) if !next.pair.facts.is_valid(now) => Step::Make,
        // There is no valid certificate to serve with, so waiting would not help.
        (Some(_), None) => Step::Promote,
        (Some(next), Some(_)) => match next.published.map(|at| at.saturating_add(SETTLE).unwrap_or(at)) {
            None => Step::NotePublished,
            // The clock was set back after the time was recorded, so that time is meaningless.
            Some(settled) if settled > now.saturating_add(SETTLE).unwrap_or(now) => Step::NotePublished,
            Some(settled) if settled > now => Step::Wait(settled),
            Some(_) => match SEEN.saturating_sub(trusted) {
                Duration::ZERO => Step::Promote,
                left => Step::Wait(now.saturating_add(left).unwrap_or(now)),
            },
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

/// Returns the names for a new certificate: the wanted ones, and those of a current certificate that lacks some of
/// them. A replica of another release may want the latter; without them, the two replicas would replace each other's
/// certificates forever.
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
