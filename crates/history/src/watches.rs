//! Watches: each shows all changes since its beginning, once, in order and by their right names.

use std::collections::BTreeMap;

use crate::history::{Change, ChangeKind, History, Revision, Stream};
use crate::line::{Line, What};
use crate::violation::Violation;

/// Compares each watch with the line of revisions.
pub(crate) fn check(history: &History, line: &Line) -> Vec<Violation> {
    let mut violations = Vec::new();
    for stream in &history.streams {
        let before = violations.len();
        violations.extend(repeated(stream));
        if before == violations.len() {
            violations.extend(missed(stream, line));
            violations.extend(stream.changes.iter().filter_map(|change| misnamed(change, line)));
        }
    }
    violations.extend(unfinished(history));
    violations
}

/// Events that do not come in ascending order.
fn repeated(stream: &Stream) -> impl Iterator<Item = Violation> {
    let revisions = stream.changes.iter().map(|change| change.object.revision);
    let befores = std::iter::once(stream.from).chain(revisions.clone());
    let wrong = befores.zip(revisions).filter(|(after, revision)| revision <= after);
    wrong.map(|(after, revision)| Violation::Repeated { watcher: stream.watcher, revision, after })
}

/// Changes that the stream has passed over.
fn missed(stream: &Stream, line: &Line) -> Vec<Violation> {
    let mut shown = stream.changes.iter().map(|change| change.object.revision).peekable();
    let mut violations = Vec::new();
    for (revision, _) in line.between(stream.from, stream.until()) {
        if shown.next_if_eq(&revision).is_none() {
            violations.push(Violation::Missed { watcher: stream.watcher, revision });
        }
    }
    violations
}

/// An event whose type does not fit the change before it.
fn misnamed(change: &Change, line: &Line) -> Option<Violation> {
    let revision = change.object.revision;
    let (at, before) = line.last(change.key, revision - 1)?;
    let why = match (change.kind, before) {
        (ChangeKind::Added, What::Written(_)) => "ADDED, though the object was there",
        (ChangeKind::Modified, What::Deleted) => "MODIFIED, though the object was not there",
        (ChangeKind::Deleted, What::Written(content)) if content != change.object.content => {
            "DELETED shows other values than the last write"
        }
        _ => return None,
    };
    line.is_whole(at, revision).then_some(Violation::Misnamed { revision, why })
}

/// Watchers that did not see the end.
fn unfinished(history: &History) -> Vec<Violation> {
    let Some(end) = history.end else { return Vec::new() };
    let mut seen: BTreeMap<usize, Revision> = BTreeMap::new();
    for stream in &history.streams {
        seen.insert(stream.watcher, stream.until());
    }
    let behind = seen.into_iter().filter(|(_, seen)| *seen < end);
    behind.map(|(watcher, seen)| Violation::Unfinished { watcher, seen, end }).collect()
}
