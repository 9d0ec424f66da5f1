//! The line of revisions: which change each revision names, as far as anybody saw it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::history::{Answer, Call, ChangeKind, Content, History, Key, Object, Revision, Tick};
use crate::violation::Violation;

/// A change of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fact {
    pub(crate) key: Key,
    pub(crate) uid: String,
    pub(crate) what: What,
}

/// What a change did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Written(Content),
    Deleted,
}

/// All changes that anybody saw, and where on the line it is certain that there are no others.
#[derive(Debug, Default)]
pub(crate) struct Line {
    facts: BTreeMap<Revision, Fact>,
    by_key: BTreeMap<(Key, Revision), What>,
    /// Disjoint stretches `(from, until]` that some watch has shown whole, by their beginnings.
    watched: BTreeMap<Revision, Revision>,
}

impl Line {
    /// Gathers what was seen, and says where two saw different changes under one revision.
    pub(crate) fn of(history: &History) -> (Self, Vec<Violation>) {
        let (mut line, mut violations) = (Self::default(), Vec::new());
        for operation in &history.operations {
            if let Answer::Object(object) = &operation.answer {
                violations.extend(line.add(operation.key, object, What::Written(object.content)));
            }
        }
        for listing in &history.listings {
            for (key, object) in &listing.items {
                violations.extend(line.add(*key, object, What::Written(object.content)));
            }
        }
        for change in history.streams.iter().flat_map(|stream| &stream.changes) {
            let what = match change.kind {
                ChangeKind::Deleted => What::Deleted,
                ChangeKind::Added | ChangeKind::Modified => What::Written(change.object.content),
            };
            violations.extend(line.add(change.key, &change.object, what));
        }
        line.watch(history);
        (line, violations)
    }

    fn add(&mut self, key: Key, object: &Object, what: What) -> Option<Violation> {
        let fact = Fact { key, uid: object.uid.clone(), what };
        match self.facts.entry(object.revision) {
            Entry::Vacant(entry) => {
                entry.insert(fact);
                self.by_key.insert((key, object.revision), what);
                None
            }
            Entry::Occupied(known) if *known.get() == fact => None,
            Entry::Occupied(known) => {
                let seen = [format!("{:?}", known.get()), format!("{fact:?}")];
                Some(Violation::Reused { revision: object.revision, seen })
            }
        }
    }

    fn watch(&mut self, history: &History) {
        let stretches = history.streams.iter().map(|stream| (stream.from, stream.until()));
        let mut stretches: Vec<_> = stretches.collect();
        stretches.sort_unstable();
        let mut last: Option<(Revision, Revision)> = None;
        for (from, until) in stretches {
            last = match last {
                Some((start, end)) if from <= end => Some((start, end.max(until))),
                _ => Some((from, until)),
            };
            self.watched.extend(last);
        }
    }

    /// Whether some watch has shown all changes after `from` up to `until`.
    pub(crate) fn is_whole(&self, from: Revision, until: Revision) -> bool {
        self.watched.range(..=from).next_back().is_some_and(|(_, end)| until <= *end)
    }

    /// The changes after `from` up to `until`.
    pub(crate) fn between(&self, from: Revision, until: Revision) -> impl Iterator<Item = (Revision, &Fact)> {
        let range = (from < until).then(|| self.facts.range(from + 1..=until));
        range.into_iter().flatten().map(|(revision, fact)| (*revision, fact))
    }

    /// The last change of an object up to `revision`.
    pub(crate) fn last(&self, key: Key, revision: Revision) -> Option<(Revision, What)> {
        let ((_, at), what) = self.by_key.range((key, 0)..=(key, revision)).next_back()?;
        Some((*at, *what))
    }

    /// Fills in what others saw: at which revision a lost write that did happen was written, and at which one an object
    /// was deleted.
    pub(crate) fn complete(&self, history: &mut History) {
        let (mut written, mut deleted) = (BTreeMap::new(), BTreeMap::new());
        for (revision, fact) in &self.facts {
            match fact.what {
                What::Deleted => drop(deleted.insert(fact.uid.as_str(), *revision)),
                What::Written(content) => {
                    let tokens = [Some(content.set), content.merged];
                    for token in tokens.into_iter().flatten() {
                        written.entry((fact.key, token)).or_insert((*revision, content, fact.uid.as_str()));
                    }
                }
            }
        }
        for operation in &mut history.operations {
            match (&mut operation.answer, operation.call.token()) {
                (answer @ Answer::Lost, Some(token)) => {
                    let Some((revision, content, uid)) = written.get(&(operation.key, token)) else {
                        continue;
                    };
                    let (revision, content, uid) = (*revision, *content, (*uid).to_owned());
                    // The first time that the value was seen is the write itself only if nobody can have missed one.
                    let certain = self
                        .last(operation.key, revision - 1)
                        .map_or_else(|| self.is_whole(0, revision), |(at, _)| self.is_whole(at, revision));
                    if certain {
                        *answer = Answer::Object(Object { revision, uid, content });
                    }
                }
                (Answer::Deleted { uid, revision }, _) => *revision = deleted.get(uid.as_str()).copied(),
                _ => {}
            }
        }
    }

    /// Objects keep their uid until they are deleted, and never get it back.
    pub(crate) fn check_uids(&self) -> Vec<Violation> {
        let mut last: BTreeMap<Key, (Revision, &Fact)> = BTreeMap::new();
        let mut violations = Vec::new();
        for (revision, fact) in &self.facts {
            let before = last.insert(fact.key, (*revision, fact));
            let Some((at, before)) = before.filter(|(at, _)| self.is_whole(*at, *revision)) else { continue };
            let same = before.uid == fact.uid;
            let why = match (before.what, fact.what) {
                (What::Written(_), _) if !same => "the uid is another, though nobody deleted the object",
                (What::Deleted, What::Written(_)) if same => {
                    "an object came back with the uid of a deleted one"
                }
                (What::Deleted, What::Deleted) => "an object was deleted that did not exist",
                _ => continue,
            };
            debug_assert!(at < *revision);
            violations.push(Violation::Misnamed { revision: *revision, why });
        }
        violations
    }
}

/// Revisions and real time agree: a write gets a revision above every one that was seen before the write was sent, and a
/// list is not older than any of them.
pub(crate) fn check_order(history: &History) -> Vec<Violation> {
    let mut seen: Vec<(Tick, Revision)> = Vec::new();
    let mut asked: Vec<(Tick, Revision, bool)> = Vec::new();
    for operation in &history.operations {
        if let Answer::Object(object) = &operation.answer {
            seen.push((operation.returned, object.revision));
            if operation.call != Call::Get {
                asked.push((operation.called, object.revision, true));
            }
        }
    }
    for listing in &history.listings {
        seen.push((listing.returned, listing.revision));
        asked.push((listing.called, listing.revision, false));
    }
    let changes = history.streams.iter().flat_map(|stream| &stream.changes);
    seen.extend(changes.map(|change| (change.seen, change.object.revision)));
    seen.sort_unstable();
    asked.sort_unstable();
    let (mut highest, mut next, mut violations) = (0, 0, Vec::new());
    for (called, revision, is_write) in asked {
        while let Some((_, earlier)) = seen.get(next).filter(|(at, _)| *at < called) {
            highest = highest.max(*earlier);
            next += 1;
        }
        if revision < highest || (is_write && revision == highest) {
            violations.push(Violation::Backwards { revision, before: highest });
        }
    }
    violations
}
