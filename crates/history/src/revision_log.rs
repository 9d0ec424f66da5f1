//! The log of revisions: which change each revision stands for, as far as any client saw it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::history::{Answer, Call, ChangeKind, Content, History, Key, Object, Revision, Tick};
use crate::violation::Violation;

/// A change of one object that some client saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownChange {
    pub(crate) key: Key,
    pub(crate) uid: String,
    pub(crate) effect: Effect,
}

/// What a change did to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Written(Content),
    Deleted,
}

/// All changes that any client saw, and the ranges of revisions in which there are certainly no others.
#[derive(Debug, Default)]
pub(crate) struct RevisionLog {
    changes: BTreeMap<Revision, KnownChange>,
    by_key: BTreeMap<(Key, Revision), Effect>,
    /// Disjoint ranges `(from, until]` in which a watch has shown every change: from the start to the end of each.
    watched: BTreeMap<Revision, Revision>,
}

impl RevisionLog {
    /// Collects the changes of a history, and reports revisions that stand for two different changes.
    pub(crate) fn of(history: &History) -> (Self, Vec<Violation>) {
        let (mut log, mut violations) = (Self::default(), Vec::new());
        for operation in &history.operations {
            if let Answer::Object(object) = &operation.answer {
                violations.extend(log.add(operation.key, object, Effect::Written(object.content)));
            }
        }
        for listing in &history.listings {
            for (key, object) in &listing.items {
                violations.extend(log.add(*key, object, Effect::Written(object.content)));
            }
        }
        for change in history.streams.iter().flat_map(|stream| &stream.changes) {
            let effect = match change.kind {
                ChangeKind::Deleted => Effect::Deleted,
                ChangeKind::Added | ChangeKind::Modified => Effect::Written(change.object.content),
            };
            violations.extend(log.add(change.key, &change.object, effect));
        }
        log.watch(history);
        (log, violations)
    }

    fn add(&mut self, key: Key, object: &Object, effect: Effect) -> Option<Violation> {
        let change = KnownChange { key, uid: object.uid.clone(), effect };
        match self.changes.entry(object.revision) {
            Entry::Vacant(entry) => {
                entry.insert(change);
                self.by_key.insert((key, object.revision), effect);
                None
            }
            Entry::Occupied(known) if *known.get() == change => None,
            Entry::Occupied(known) => {
                let seen = [format!("{:?}", known.get()), format!("{change:?}")];
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

    /// Whether a watch has shown every change after `from` up to `until`.
    pub(crate) fn is_whole(&self, from: Revision, until: Revision) -> bool {
        self.watched.range(..=from).next_back().is_some_and(|(_, end)| until <= *end)
    }

    /// Returns the changes after `from` up to `until`.
    pub(crate) fn between(
        &self,
        from: Revision,
        until: Revision,
    ) -> impl Iterator<Item = (Revision, &KnownChange)> {
        let range = (from < until).then(|| self.changes.range(from + 1..=until));
        range.into_iter().flatten().map(|(revision, change)| (*revision, change))
    }

    /// Returns the last change of an object up to `revision`.
    pub(crate) fn last(&self, key: Key, revision: Revision) -> Option<(Revision, Effect)> {
        let ((_, at), effect) = self.by_key.range((key, 0)..=(key, revision)).next_back()?;
        Some((*at, *effect))
    }

    /// Completes answers with what other clients saw: the revision of a write that got no answer and did happen, and the
    /// revision of a deletion.
    pub(crate) fn complete(&self, history: &mut History) {
        let (mut written, mut deleted) = (BTreeMap::new(), BTreeMap::new());
        for (revision, change) in &self.changes {
            match change.effect {
                Effect::Deleted => drop(deleted.insert(change.uid.as_str(), *revision)),
                Effect::Written(content) => {
                    let tokens = [Some(content.set), content.merged];
                    for token in tokens.into_iter().flatten() {
                        written.entry((change.key, token)).or_insert((
                            *revision,
                            content,
                            change.uid.as_str(),
                        ));
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
                    // The first change with the value is the write itself only if no change before it was missed.
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

    /// Checks that objects keep their uid until they are deleted, and that no uid is used again.
    pub(crate) fn check_uids(&self) -> Vec<Violation> {
        let mut last: BTreeMap<Key, (Revision, &KnownChange)> = BTreeMap::new();
        let mut violations = Vec::new();
        for (revision, change) in &self.changes {
            let before = last.insert(change.key, (*revision, change));
            let Some((at, before)) = before.filter(|(at, _)| self.is_whole(*at, *revision)) else { continue };
            let same = before.uid == change.uid;
            let why = match (before.effect, change.effect) {
                (Effect::Written(_), _) if !same => "the uid has changed, though the object was not deleted",
                (Effect::Deleted, Effect::Written(_)) if same => {
                    "an object came back with the uid of a deleted one"
                }
                (Effect::Deleted, Effect::Deleted) => "an object was deleted that did not exist",
                _ => continue,
            };
            debug_assert!(at < *revision);
            violations.push(Violation::Misnamed { revision: *revision, why });
        }
        violations
    }
}

/// Checks that revisions agree with real time: a write gets a revision above every revision that was seen before the write
/// was sent, and a list is not older than any of them.
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
