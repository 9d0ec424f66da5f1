//! The change log: the kept changes, and an index of the watchers they concern.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use evenkeel_env::HashMap;
use tokio::time::Instant;

use crate::scope::Scopes;
use crate::{Change, Entry, Options};

/// The memory of a change beside its value: about 120 bytes for the change, its record and its revision in five or six
/// scopes; the rest is an estimate for the previous entry and its header, whose size the store does not know.
const CHANGE_BYTES: usize = 512;

/// How many changes that are too old are dropped while the lock is held. It is more than one, so that writes, which add one
/// change each, catch up.
const AGED_AT_ONCE: usize = 64;

#[derive(Debug)]
pub(crate) struct Log<H> {
    /// In the order of revisions. The memory and disk journals use every number; a journal that several servers share may
    /// skip some.
    records: VecDeque<Record<H>>,
    /// The revision of the newest change that was dropped. The state at this revision and later ones can be read, and
    /// changes after it can be watched.
    floor: u64,
    /// The memory that the log keeps alive.
    bytes: usize,
    /// The revisions of the deletions of keys that do not exist, as far as the log has them.
    deleted: HashMap<Arc<str>, u64>,
    pub(crate) scopes: Scopes,
    options: Options,
}

#[derive(Debug)]
struct Record<H> {
    change: Arc<Change<H>>,
    /// The revision of the previous change of the same key; zero if it is not known.
    previous: u64,
    made: Instant,
}

impl<H> Change<H> {
    /// The key of the change.
    pub fn key(&self) -> &Arc<str> {
        let entry = self.after.as_ref().or(self.before.as_ref());
        &entry.expect("a change has a value before or after").key
    }

    /// Returns the memory that only the log keeps alive: the value after the change is current, or belongs to a later
    /// change.
    fn kept_bytes(&self) -> usize {
        CHANGE_BYTES + self.before.as_ref().map_or(0, |entry| entry.key.len() + entry.value.len())
    }
}

impl<H> Log<H> {
    pub(crate) fn new(floor: u64, options: Options) -> Self {
        Self {
            records: VecDeque::new(),
            floor,
            bytes: 0,
            deleted: HashMap::default(),
            scopes: Scopes::default(),
            options,
        }
    }

    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    pub(crate) fn push(&mut self, change: Arc<Change<H>>, made: Instant, wakers: &mut Vec<Waker>) {
        let key = change.key();
        let previous = match &change.before {
            Some(before) => before.revision,
            None => self.deleted.remove(key).unwrap_or(0),
        };
        if change.after.is_none() {
            self.deleted.insert(key.clone(), change.revision);
        }
        self.scopes.push(key, change.revision, wakers);
        self.bytes += change.kept_bytes();
        self.records.push_back(Record { change, previous, made });
    }

    /// Whether the oldest change is older than the options allow.
    pub(crate) fn has_aged(&self, now: Instant) -> bool {
        let age = self.records.front().map(|oldest| now.saturating_duration_since(oldest.made));
        age.is_some_and(|age| age > self.options.keep_for)
    }

    fn is_too_large(&self) -> bool {
        self.records.len() > self.options.keep_changes
            || (self.bytes > self.options.keep_bytes && !self.records.is_empty())
    }

    /// Drops all changes beyond the size limits, and some that are too old: after a quiet time there may be very many.
    /// Appends the dropped changes to `gone`, oldest first.
    pub(crate) fn trim(&mut self, now: Instant, gone: &mut Vec<Arc<Change<H>>>) {
        while self.is_too_large() {
            gone.extend(self.pop());
        }
        for _ in 0..AGED_AT_ONCE {
            if !self.has_aged(now) {
                break;
            }
            gone.extend(self.pop());
        }
    }

    /// Drops all changes up to a revision.
    pub(crate) fn drop_to(&mut self, revision: u64, gone: &mut Vec<Arc<Change<H>>>) {
        while self.records.front().is_some_and(|oldest| oldest.change.revision <= revision) {
            gone.extend(self.pop());
        }
        self.floor = self.floor.max(revision);
    }

    /// Returns the change of a kept revision.
    pub(crate) fn change(&self, revision: u64) -> Option<&Arc<Change<H>>> {
        self.record(revision).map(|record| &record.change)
    }

    /// Returns the kept revisions of one key, given its current entry.
    pub(crate) fn history(&self, key: &str, current: Option<&Entry<H>>) -> VecDeque<u64> {
        let newest = current.map(|entry| entry.revision).or_else(|| self.deleted.get(key).copied());
        let mut revisions: VecDeque<u64> =
            std::iter::successors(newest, |revision| Some(self.record(*revision)?.previous))
                .take_while(|revision| *revision > self.floor)
                .collect();
        revisions.make_contiguous().reverse();
        revisions
    }

    fn record(&self, revision: u64) -> Option<&Record<H>> {
        let first = self.records.front()?.change.revision;
        let guess = usize::try_from(revision.checked_sub(first)?).ok()?;
        if let Some(record) = self.records.get(guess)
            && record.change.revision == revision
        {
            return Some(record);
        }
        let at = self.records.binary_search_by_key(&revision, |record| record.change.revision).ok()?;
        self.records.get(at)
    }

    fn pop(&mut self) -> Option<Arc<Change<H>>> {
        let Record { change, .. } = self.records.pop_front()?;
        self.floor = change.revision;
        self.bytes -= change.kept_bytes();
        if change.after.is_none() && self.deleted.get(change.key()) == Some(&change.revision) {
            self.deleted.remove(change.key());
        }
        self.scopes.pop(change.key(), change.revision);
        Some(change)
    }
}
