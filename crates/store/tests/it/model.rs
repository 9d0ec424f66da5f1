//! Random operations on every backend, compared with a simple model.

use std::collections::BTreeMap;

use evenkeel_env::Env;
use evenkeel_store::{
    Entry, Expect, Op, Options, Range, ReadError, Store, Watch, WatchError, Write, WriteError,
};
use proptest::prelude::*;
use tempfile::TempDir;

/// Few enough that operations collide, with difficult orderings: a name that is the prefix of another, characters that sort
/// before the slash, a key beside a folder of the same name.
const KEYS: [&str; 10] = [
    "/r/pods/ns/a",
    "/r/pods/ns/aa",
    "/r/pods/ns/b",
    "/r/pods/ns-x/a",
    "/r/pods/ns!/a",
    "/r/pods/ns0/a",
    "/r/nodes/n",
    "/r/nodes/n/below",
    "/r/pods/ns",
    "loose",
];
const PREFIXES: [&str; 8] =
    ["", "/", "/r/", "/r/pods/", "/r/pods/ns/", "/r/pods/ns", "/r/pods/ns/a", "/r/nodes/n"];

#[derive(Clone, Debug)]
enum Step {
    Write(Vec<Planned>),
    /// Reads a key at an earlier revision, so many revisions ago.
    Get {
        key: usize,
        back: u64,
    },
    Range {
        prefix: usize,
        after: Option<usize>,
        limit: Option<usize>,
        back: Option<u64>,
    },
    Watch {
        prefix: usize,
        back: i64,
    },
    /// Reads so many changes of one of the watches.
    Read {
        watch: usize,
        changes: usize,
    },
    Unwatch(usize),
    Compact {
        back: u64,
    },
    /// Closes the store and opens it again. Does nothing with the memory backend.
    Reopen,
}

#[derive(Clone, Debug)]
struct Planned {
    key: usize,
    is_put: bool,
    expect: Expected,
}

#[derive(Clone, Copy, Debug)]
enum Expected {
    Any,
    Absent,
    Current,
    Stale,
}

fn planned() -> impl Strategy<Value = Planned> {
    let expect = prop_oneof![
        4 => Just(Expected::Any), 1 => Just(Expected::Absent), 2 => Just(Expected::Current), 1 => Just(Expected::Stale)
    ];
    (0..KEYS.len(), prop::bool::weighted(0.7), expect).prop_map(|(key, is_put, expect)| Planned {
        key,
        is_put,
        expect,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let prefix = || 0..PREFIXES.len();
    prop_oneof![
        12 => prop::collection::vec(planned(), 1..5).prop_map(Step::Write),
        3 => (0..KEYS.len(), 0..20u64).prop_map(|(key, back)| Step::Get { key, back }),
        5 => (prefix(), prop::option::of(0..KEYS.len()), prop::option::of(0..5usize), prop::option::of(0..20u64))
            .prop_map(|(prefix, after, limit, back)| Step::Range { prefix, after, limit, back }),
        3 => (prefix(), -3..20i64).prop_map(|(prefix, back)| Step::Watch { prefix, back }),
        5 => (0..8usize, 0..5usize).prop_map(|(watch, changes)| Step::Read { watch, changes }),
        1 => (0..8usize).prop_map(Step::Unwatch),
        1 => (0..20u64).prop_map(|back| Step::Compact { back }),
        1 => Just(Step::Reopen),
    ]
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Value {
    value: String,
    create_revision: u64,
    revision: u64,
}

/// All changes, and the oldest revision that must be readable.
#[derive(Default)]
struct Model {
    changes: Vec<(u64, &'static str, Option<Value>)>,
    floor: u64,
}

impl Model {
    fn revision(&self) -> u64 {
        self.changes.last().map_or(1, |change| change.0)
    }

    fn state_at(&self, revision: u64) -> BTreeMap<&'static str, Value> {
        let mut state = BTreeMap::new();
        for (_, key, value) in self.changes.iter().take_while(|change| change.0 <= revision) {
            match value {
                Some(value) => state.insert(*key, value.clone()),
                None => state.remove(key),
            };
        }
        state
    }

    /// Returns the changes that a watch after a revision must return.
    fn changes_in(&self, prefix: &str, after: u64) -> Vec<(u64, &'static str, Option<Value>)> {
        let covers = |key: &str| match prefix.is_empty() || prefix.ends_with('/') {
            true => key.starts_with(prefix),
            false => key == prefix,
        };
        self.changes.iter().filter(|change| change.0 > after && covers(change.1)).cloned().collect()
    }
}

struct Followed {
    watch: Watch<()>,
    prefix: &'static str,
    /// The last revision that the watch returned, or its start revision.
    last: u64,
}

struct Run {
    options: Options,
    dir: Option<TempDir>,
    store: Store<()>,
    model: Model,
    watches: Vec<Followed>,
}

fn value_of(entry: &Entry<()>) -> Value {
    Value {
        value: String::from_utf8(entry.value.to_vec()).unwrap(),
        create_revision: entry.create_revision,
        revision: entry.revision,
    }
}

impl Run {
    async fn new(is_durable: bool) -> Self {
        let options = Options::default().keep_changes(25).checkpoint_bytes(400);
        let dir = is_durable.then(|| tempfile::tempdir().unwrap());
        let store = open(dir.as_ref(), &options).await;
        Self { options, dir, store, model: Model { changes: vec![], floor: 1 }, watches: vec![] }
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Write(writes) => self.write(writes).await,
            Step::Get { key, back } => self.get(KEYS[key], self.model.revision().saturating_sub(back)),
            Step::Range { prefix, after, limit, back } => self.range(Range {
                prefix: PREFIXES[prefix].into(),
                after: after.map(|key| KEYS[key].into()),
                limit,
                at: back.map(|back| self.model.revision().saturating_sub(back)),
            }),
            Step::Watch { prefix, back } => {
                self.watch(PREFIXES[prefix], self.model.revision().saturating_add_signed(-back));
            }
            Step::Read { watch, changes } => self.read(watch, changes),
            Step::Unwatch(watch) if watch < self.watches.len() => drop(self.watches.remove(watch)),
            Step::Unwatch(_) => {}
            Step::Compact { back } => {
                let revision = self.model.revision().saturating_sub(back);
                self.store.compact(revision);
                self.model.floor = self.model.floor.max(revision);
            }
            Step::Reopen => self.reopen().await,
        }
        assert_eq!(self.store.revision(), self.model.revision());
    }

    async fn write(&mut self, planned: Vec<Planned>) {
        let mut writes = Vec::new();
        let mut expected = Vec::new();
        for Planned { key, is_put, expect } in planned {
            let key = KEYS[key];
            let current = self.model.state_at(u64::MAX).remove(key);
            let current_revision = current.as_ref().map(|value| value.revision);
            let expect = match expect {
                Expected::Any => Expect::Any,
                Expected::Absent => Expect::Absent,
                Expected::Current => current_revision.map_or(Expect::Absent, Expect::Revision),
                Expected::Stale => Expect::Revision(current_revision.map_or(7, |revision| revision - 1)),
            };
            let holds = match expect {
                Expect::Any => true,
                Expect::Absent => current.is_none(),
                Expect::Revision(revision) => current_revision == Some(revision),
            };
            let revision = self.model.revision() + 1;
            let value = format!("value {revision}");
            let op = if is_put { Op::Put(value.clone().into(), ()) } else { Op::Delete };
            writes.push(Write { key: key.into(), expect, op });
            if holds && (is_put || current.is_some()) {
                let create_revision = current.as_ref().map_or(revision, |value| value.create_revision);
                let after = is_put.then_some(Value { value, create_revision, revision });
                self.model.changes.push((revision, key, after.clone()));
                expected.push(Ok((revision, current, after)));
            } else {
                expected.push(Err(current));
            }
        }
        let answers = self.store.write_all(writes).await.into_iter().map(|answer| match answer {
            Ok(written) => Ok((
                written.revision,
                written.before.map(|e| value_of(&e)),
                written.entry.map(|e| value_of(&e)),
            )),
            Err(WriteError::Conflict { current }) => Err(current.map(|entry| value_of(&entry))),
            Err(error) => panic!("{error}"),
        });
        assert_eq!(answers.collect::<Vec<_>>(), expected);
        self.model.floor = self.model.floor.max(self.model.revision().saturating_sub(25));
    }

    fn get(&self, key: &str, at: u64) {
        let newest = self.store.get(key).map(|entry| value_of(&entry));
        assert_eq!(newest.as_ref(), self.model.state_at(u64::MAX).get(key));
        match self.store.get_at(key, at) {
            Ok(entry) => {
                assert_eq!(entry.map(|entry| value_of(&entry)).as_ref(), self.model.state_at(at).get(key));
                assert!(at >= self.model.floor);
            }
            Err(error) => assert_eq!(error, ReadError::Compacted { asked: at, oldest: self.model.floor }),
        }
    }

    fn range(&self, range: Range) {
        let at = range.at.unwrap_or(self.model.revision());
        let state = self.model.state_at(at);
        assert_eq!(
            self.store.count(&range.prefix),
            self.model.state_at(u64::MAX).keys().filter(|key| key.starts_with(&range.prefix)).count()
        );
        let page = match self.store.range(&range) {
            Ok(page) => page,
            Err(error) => {
                return assert_eq!(error, ReadError::Compacted { asked: at, oldest: self.model.floor });
            }
        };
        assert_eq!(page.revision, at);
        let inside = |key: &str| {
            key.starts_with(&range.prefix) && range.after.as_deref().is_none_or(|after| key > after)
        };
        let all: Vec<_> = state.into_iter().filter(|(key, _)| inside(key)).collect();
        let taken = all.len().min(range.limit.unwrap_or(usize::MAX));
        let found: Vec<_> = page.entries.iter().map(|entry| (&*entry.key, value_of(entry))).collect();
        assert_eq!(found, all[..taken]);
        assert_eq!(page.remaining, all.len() - taken);
    }

    fn watch(&mut self, prefix: &'static str, after: u64) {
        match self.store.watch(prefix, after) {
            Ok(watch) => {
                assert!(after >= self.model.floor);
                self.watches.push(Followed { watch, prefix, last: after });
            }
            Err(error) => assert_eq!(error, WatchError::Compacted { asked: after, oldest: self.model.floor }),
        }
    }

    fn read(&mut self, watch: usize, changes: usize) {
        if watch >= self.watches.len() {
            return;
        }
        for _ in 0..changes {
            let Followed { watch: followed, prefix, last } = &mut self.watches[watch];
            let expected = self.model.changes_in(prefix, *last).into_iter().next();
            let bookmark = followed.revision();
            match followed.try_next() {
                None => {
                    assert_eq!(expected, None);
                    assert_eq!(bookmark, self.model.revision().max(*last));
                    return;
                }
                Some(Ok(change)) => {
                    let found = (change.revision, &**change.key(), change.after.as_deref().map(value_of));
                    let expected = expected.unwrap();
                    assert_eq!(found, (expected.0, expected.1, expected.2));
                    let before = self.model.state_at(change.revision - 1).remove(expected.1);
                    assert_eq!(change.before.as_deref().map(value_of), before);
                    assert!(bookmark >= *last && bookmark < change.revision);
                    *last = change.revision;
                }
                Some(Err(error)) => {
                    assert_eq!(error, WatchError::Overrun { last: *last });
                    assert!(expected.unwrap().0 <= self.model.floor, "only what is gone may be missed");
                    self.watches.remove(watch);
                    return;
                }
            }
        }
    }

    /// Reopens the store. All watches end; the state is the same, and there is at least as much history.
    async fn reopen(&mut self) {
        if self.dir.is_none() {
            return;
        }
        self.store.close();
        for followed in &mut self.watches {
            let end = std::iter::from_fn(|| followed.watch.try_next()).find_map(Result::err);
            assert!(matches!(end, Some(WatchError::Closed | WatchError::Overrun { .. })), "{end:?}");
        }
        self.watches.clear();
        self.store = open(self.dir.as_ref(), &self.options).await;
        let oldest = match self.store.watch("", 0) {
            Err(WatchError::Compacted { oldest, .. }) => oldest,
            other => panic!("revision 0 never exists: {other:?}"),
        };
        assert!(oldest <= self.model.floor);
        self.model.floor = oldest;
        self.watch("", oldest);
        self.read(0, 100);
    }
}

async fn open(dir: Option<&TempDir>, options: &Options) -> Store<()> {
    match dir {
        Some(dir) => Store::open(dir.path(), Env::system(), options.clone()).await.unwrap(),
        None => Store::memory(Env::system(), options.clone()),
    }
}

fn check(is_durable: bool, steps: Vec<Step>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut run = Run::new(is_durable).await;
        for step in steps {
            run.step(step).await;
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_memory_store_is_its_model(steps in prop::collection::vec(step(), 1..120)) {
        check(false, steps);
    }
}

proptest! {
    // Every write is synced, so that there are fewer cases with more steps each.
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_disk_store_is_its_model(steps in prop::collection::vec(step(), 60..160)) {
        check(true, steps);
    }
}
