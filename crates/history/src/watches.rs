//! Checks that each watch shows all changes since its start, once, in order and with the right event type.

use std::collections::BTreeMap;

use crate::history::{Change, ChangeKind, History, Revision, Stream};
use crate::revision_log::{Effect, RevisionLog};
use crate::violation::Violation;

/// Compares each watch with the log of revisions.
pub(crate) fn check(history: &History, log: &RevisionLog) -> Vec<Violation> {
    let mut violations = Vec::new();
    for stream in &history.streams {
        let before = violations.len();
        violations.extend(repeated(stream));
        if before == violations.len() {
            violations.extend(missed(stream, log));
            violations.extend(stream.changes.iter().filter_map(|change| misnamed(change, log)));
        }
    }
    violations.extend(unfinished(history));
    violations
}

/// Finds events whose revision is not above that of the event before.
fn repeated(stream: &Stream) -> impl Iterator<Item = Violation> {
    let revisions = stream.changes.iter().map(|change| change.object.revision);
    let befores = std::iter::once(stream.from).chain(revisions.clone());
    let wrong = befores.zip(revisions).filter(|(after, revision)| revision <= after);
    wrong.map(|(after, revision)| Violation::Repeated { watcher: stream.watcher, revision, after })
}

/// Finds changes that the stream has skipped.
fn missed(stream: &Stream, log: &RevisionLog) -> Vec<Violation> {
    let mut shown = stream.changes.iter().map(|change| change.object.revision).peekable();
    let mut violations = Vec::new();
    for (revision, _) in log.between(stream.from, stream.until()) {
        if shown.next_if_eq(&revision).is_none() {
            violations.push(Violation::Missed { watcher: stream.watcher, revision });
        }
    }
    violations
}

/// Checks that the type of an event fits the change before it.
fn misnamed(change: &Change, log: &RevisionLog) -> Option<Violation> {
    let revision = change.object.revision;
    let (at, before) = log.last(change.key, revision - 1)?;
    let why = match (change.kind, before) {
        (ChangeKind::Added, Effect::Written(_)) => "ADDED, though the object was there",
        (ChangeKind::Modified, Effect::Deleted) => "MODIFIED, though the object was not there",
        (ChangeKind::Deleted, Effect::Written(content)) if content != change.object.content => {
            "DELETED shows other values than the last write"
        }
        _ => return None,
    };
    log.is_whole(at, revision).then_some(Violation::Misnamed { revision, why })
}

/// Finds watchers that have not seen the last revision.
fn unfinished(history: &History) -> Vec<Violation> {
    let Some(end) = history.end else { return Vec::new() };
    let mut seen: BTreeMap<usize, Revision> = BTreeMap::new();
    for stream in &history.streams {
        seen.insert(stream.watcher, stream.until());
    }
    let behind = seen.into_iter().filter(|(_, seen)| *seen < end);
    behind.map(|(watcher, seen)| Violation::Unfinished { watcher, seen, end }).collect()
}
