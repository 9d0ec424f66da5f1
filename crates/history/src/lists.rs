//! Lists: each shows every object as it was at one revision.

use crate::history::{Answer, Call, History, Key, Listing, Operation};
use crate::line::{Line, What};
use crate::violation::Violation;

/// Compares each list with the line of revisions.
pub(crate) fn check(history: &History, line: &Line) -> Vec<Violation> {
    let keys = |listing| (0..history.keys).filter_map(move |key| differs(listing, key, line));
    history.listings.iter().flat_map(keys).collect()
}

/// How a list differs from the state of an object at the revision of the list.
fn differs(listing: &Listing, key: Key, line: &Line) -> Option<Violation> {
    let shows = listing.items.get(&key).map(|object| object.revision);
    let last = line.last(key, listing.revision);
    let mixed = |change| Some(Violation::MixedList { revision: listing.revision, key, shows, change });
    match (shows, last) {
        (Some(shown), Some((at, What::Written(_)))) if at == shown => None,
        // The item itself is on the line, so that there is none before it only if the item is newer than the list.
        (Some(shown), last) => mixed(last.map_or(shown, |(at, _)| at)),
        // It may have been deleted unseen, unless a watch has seen all.
        (None, Some((at, What::Written(_)))) if line.is_whole(at, listing.revision) => mixed(at),
        (None, _) => None,
    }
}

/// A list as a read of each object.
pub(crate) fn reads(listing: &Listing, keys: usize) -> impl Iterator<Item = Operation> {
    (0..keys).map(|key| Operation {
        key,
        call: Call::Get,
        called: listing.called,
        answer: listing.items.get(&key).cloned().map_or(Answer::NotFound, Answer::Object),
        returned: listing.returned,
    })
}
