//! Checks that each list shows every object as it was at the revision of the list.

use crate::history::{Answer, Call, History, Key, Listing, Operation};
use crate::revision_log::{Effect, RevisionLog};
use crate::violation::Violation;

/// Compares each list with the log of revisions.
pub(crate) fn check(history: &History, log: &RevisionLog) -> Vec<Violation> {
    let keys = |listing| (0..history.keys).filter_map(move |key| differs(listing, key, log));
    history.listings.iter().flat_map(keys).collect()
}

/// Compares a list with the state of one object at the revision of the list.
fn differs(listing: &Listing, key: Key, log: &RevisionLog) -> Option<Violation> {
    let shows = listing.items.get(&key).map(|object| object.revision);
    let last = log.last(key, listing.revision);
    let mixed = |change| Some(Violation::MixedList { revision: listing.revision, key, shows, change });
    match (shows, last) {
        (Some(shown), Some((at, Effect::Written(_)))) if at == shown => None,
        // The log has the item itself. If it has no change up to the list's revision, the item is newer than the list.
        (Some(shown), last) => mixed(last.map_or(shown, |(at, _)| at)),
        // The object may have been deleted unseen, unless a watch has shown every change.
        (None, Some((at, Effect::Written(_)))) if log.is_whole(at, listing.revision) => mixed(at),
        (None, _) => None,
    }
}

/// Turns a list into one read of each object.
pub(crate) fn reads(listing: &Listing, keys: usize) -> impl Iterator<Item = Operation> {
    (0..keys).map(|key| Operation {
        key,
        call: Call::Get,
        called: listing.called,
        answer: listing.items.get(&key).cloned().map_or(Answer::NotFound, Answer::Object),
        returned: listing.returned,
    })
}
