//! The operations of clients: they are generated from a seed, and can be replayed in a shorter run.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{KEPT, Object, fields};
use crate::random::Random;

/// The two kinds: a built-in one, and one that a CRD defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    ConfigMap,
    Widget,
}

impl Kind {
    /// The field that holds the object's data.
    pub(crate) fn root(self) -> &'static str {
        match self {
            Self::ConfigMap => "data",
            Self::Widget => "spec",
        }
    }

    pub(crate) fn counts_generations(self) -> bool {
        self == Self::Widget
    }

    /// Whether a PUT must contain the resource version that it replaces.
    pub(crate) fn demands_version(self) -> bool {
        self == Self::Widget
    }
}

/// The identity of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id {
    pub(crate) kind: Kind,
    pub(crate) namespace: &'static str,
    pub(crate) name: String,
}

/// The resource version that a write contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    None,
    Current,
    Stale,
}

/// The propagation policy of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    Background,
    Foreground,
    Orphan,
}

/// The content of an object that a client creates or applies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    pub(crate) manager: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) data: BTreeMap<String, String>,
    pub(crate) finalizers: BTreeSet<String>,
}

impl Config {
    /// The fields that are set, with their values.
    pub(crate) fn fields(&self, id: &Id) -> BTreeMap<String, String> {
        fields(id, &self.labels, &self.data)
    }
}

/// A change of an existing object.
#[derive(Clone, Debug)]
pub(crate) enum Edit {
    /// A PUT.
    Replace(Config),
    /// A merge patch.
    Merge(Patch),
    /// A strategic merge patch.
    Strategic(Patch),
    /// A JSON patch of the data, by this manager.
    Json(String, Vec<Step>),
}

/// A patch of labels and data; a key without a value is removed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Patch {
    pub(crate) manager: String,
    pub(crate) labels: BTreeMap<String, Option<String>>,
    pub(crate) data: BTreeMap<String, Option<String>>,
    /// The new list of finalizers; `None` to leave it unchanged.
    pub(crate) finalizers: Option<BTreeSet<String>>,
}

/// An operation of a JSON patch on one key of the data.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Add(String, String),
    Replace(String, String),
    Remove(String),
    Test(String, String),
}

impl Edit {
    pub(crate) fn manager(&self) -> &str {
        match self {
            Self::Replace(config) => &config.manager,
            Self::Merge(patch) | Self::Strategic(patch) => &patch.manager,
            Self::Json(manager, _) => manager,
        }
    }

    pub(crate) fn replaces(&self) -> bool {
        matches!(self, Self::Replace(_))
    }

    /// The object after the change; `None` if the change is not possible.
    pub(crate) fn apply(&self, old: &Object) -> Option<Object> {
        let mut new = old.clone();
        match self {
            Self::Replace(config) => {
                (new.labels, new.data) = (config.labels.clone(), config.data.clone());
                new.finalizers = config.finalizers.clone();
            }
            Self::Merge(patch) | Self::Strategic(patch) => {
                merge(&mut new.labels, &patch.labels);
                merge(&mut new.data, &patch.data);
                new.finalizers = patch.finalizers.clone().unwrap_or(new.finalizers);
            }
            Self::Json(_, steps) => {
                for step in steps {
                    match step {
                        Step::Add(key, value) | Step::Replace(key, value) => {
                            new.data.insert(key.clone(), value.clone());
                        }
                        Step::Remove(key) => drop(new.data.remove(key)?),
                        Step::Test(key, value) => {
                            new.data.get(key).filter(|it| *it == value)?;
                        }
                    }
                }
            }
        }
        Some(new)
    }
}

fn merge(map: &mut BTreeMap<String, String>, patch: &BTreeMap<String, Option<String>>) {
    for (key, value) in patch {
        match value {
            Some(value) => map.insert(key.clone(), value.clone()),
            None => map.remove(key),
        };
    }
}

/// A label requirement.
#[derive(Clone, Debug)]
pub(crate) enum Demand {
    Is(String, String),
    IsNot(String, String),
    In(String, Vec<String>),
    Has(String),
    HasNot(String),
}

impl Demand {
    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        match self {
            Self::Is(key, value) => labels.get(key) == Some(value),
            Self::IsNot(key, value) => labels.get(key) != Some(value),
            Self::In(key, values) => labels.get(key).is_some_and(|it| values.contains(it)),
            Self::Has(key) => labels.contains_key(key),
            Self::HasNot(key) => !labels.contains_key(key),
        }
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Self::Is(key, value) => format!("{key}={value}"),
            Self::IsNot(key, value) => format!("{key}!={value}"),
            Self::In(key, values) => format!("{key} in ({})", values.join(",")),
            Self::Has(key) => key.clone(),
            Self::HasNot(key) => format!("!{key}"),
        }
    }
}

/// A selection of objects of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Selector {
    pub(crate) kind: Kind,
    /// The namespace; `None` for all namespaces.
    pub(crate) namespace: Option<&'static str>,
    pub(crate) labels: Vec<Demand>,
    pub(crate) name: Option<String>,
}

impl Selector {
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.name.is_none()
    }

    /// Whether an object is in the collection that the selector reads.
    pub(crate) fn reaches(&self, id: &Id) -> bool {
        id.kind == self.kind && self.namespace.is_none_or(|it| it == id.namespace)
    }

    pub(crate) fn selects(&self, id: &Id, object: &Object) -> bool {
        let named = self.name.as_ref().is_none_or(|it| *it == id.name);
        self.reaches(id) && named && self.labels.iter().all(|it| it.holds(&object.labels))
    }

    pub(crate) fn of(&self, objects: &BTreeMap<Id, Object>) -> Vec<(Id, Object)> {
        let selected = objects.iter().filter(|(id, object)| self.selects(id, object));
        selected.map(|(id, object)| (id.clone(), object.clone())).collect()
    }
}

/// Where a watch begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum From {
    /// After the revision this many revisions ago.
    Ago(u64),
    /// With the current state, without bookmarks.
    Now,
    /// With the current state, with bookmarks.
    Bookmarked,
    /// With the current state (`sendInitialEvents`), and a bookmark at its end.
    Streamed,
}

/// One action of a client or of the server's administrator.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Create(Id, Config),
    Update(Id, Edit, Version),
    Apply(Id, Config, bool),
    /// A deletion, with preconditions (whether the UID is right, and the resource version) and propagation
    /// policy.
    Delete(Id, Option<bool>, Version, Option<Policy>),
    DeleteCollection(Selector),
    Get(Id),
    /// A list with a page size (zero for no limit); later pages are read by [`Operation::NextPage`].
    List(Selector, usize),
    /// The next page of an unfinished list, by its index.
    NextPage(usize),
    /// A list of the state this many revisions ago.
    ListAt(Selector, u64),
    Watch(Selector, From),
    EndWatch(usize),
    /// Compacts revisions older than this many revisions ago.
    Compact(u64),
    /// A new server with the same store.
    Restart,
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const KEYS: [&str; 4] = ["k", "l", "m", "n"];
const LABELS: [&str; 3] = ["x", "y", "z"];
const VALUES: [&str; 3] = ["1", "2", "3"];
const HOLDS: [&str; 2] = ["example.com/p", "example.com/q"];
const MANAGERS: [&str; 3] = ["ann", "bob", "cat"];

impl Operation {
    /// Generates a random operation.
    pub(crate) fn random(random: &mut Random) -> Self {
        match random.below(100) {
            0..18 => Self::Create(id(random), config(random, true)),
            18..46 => Self::update(random),
            46..60 => {
                let (id, config) = (id(random), config(random, false));
                Self::Apply(id, config, random.chance(30))
            }
            60..70 => {
                let uid = random.chance(30).then(|| random.chance(70));
                let (id, version) = (id(random), version(random, 60));
                let policies = [Policy::Background, Policy::Foreground, Policy::Orphan];
                Self::Delete(id, uid, version, random.chance(30).then(|| random.choose(&policies)))
            }
            70..72 => Self::DeleteCollection(Selector {
                namespace: Some(random.choose(&["one", "two"])),
                ..selector(random)
            }),
            72..78 => Self::Get(id(random)),
            78..84 => {
                let selector = selector(random);
                Self::List(selector, random.below(4))
            }
            84..88 => Self::NextPage(random.below(4)),
            88..90 => {
                let selector = selector(random);
                Self::ListAt(selector, random.below(60) as u64)
            }
            90..94 => {
                let selector = selector(random);
                let from = match random.below(10) {
                    0..6 => From::Ago(random.below(60) as u64),
                    6..8 => From::Now,
                    8 => From::Bookmarked,
                    _ => From::Streamed,
                };
                Self::Watch(selector, from)
            }
            94..98 => Self::EndWatch(random.below(4)),
            98 => Self::Compact(random.below(80) as u64),
            _ => Self::Restart,
        }
    }

    fn update(random: &mut Random) -> Self {
        let id = id(random);
        let edit = match random.below(8) {
            0..3 => Edit::Replace(config(random, true)),
            3..5 => Edit::Merge(patch(random, true)),
            5 if id.kind == Kind::ConfigMap => Edit::Strategic(patch(random, false)),
            _ => {
                let steps = (0..1 + random.below(3)).map(|_| step(random)).collect();
                return Self::Update(id, Edit::Json(manager(random), steps), Version::None);
            }
        };
        let version = version(random, 40);
        Self::Update(id, edit, version)
    }
}

fn id(random: &mut Random) -> Id {
    let kind = if random.chance(60) { Kind::ConfigMap } else { Kind::Widget };
    Id { kind, namespace: random.choose(&["one", "two"]), name: random.choose(&NAMES).to_owned() }
}

fn version(random: &mut Random, none: usize) -> Version {
    match random.below(100) {
        it if it < none => Version::None,
        it if it < 90 => Version::Current,
        _ => Version::Stale,
    }
}

fn manager(random: &mut Random) -> String {
    random.choose(&MANAGERS).to_owned()
}

fn values(random: &mut Random, keys: &[&'static str], percent: usize) -> BTreeMap<String, String> {
    let chosen: Vec<_> = keys.iter().filter(|_| random.chance(percent)).collect();
    chosen.into_iter().map(|it| ((*it).to_owned(), random.choose(&VALUES).to_owned())).collect()
}

fn holds(random: &mut Random) -> BTreeSet<String> {
    HOLDS.iter().filter(|_| random.chance(20)).map(|it| (*it).to_owned()).collect()
}

fn config(random: &mut Random, finalizers: bool) -> Config {
    let mut data = values(random, &KEYS, 40);
    data.insert(KEPT.to_owned(), "0".to_owned());
    let labels = values(random, &LABELS, 40);
    let finalizers = if finalizers { holds(random) } else { BTreeSet::new() };
    Config { manager: manager(random), labels, data, finalizers }
}

fn optional(random: &mut Random, keys: &[&'static str]) -> BTreeMap<String, Option<String>> {
    let some = values(random, keys, 30).into_iter();
    some.map(|(key, value)| (key, random.chance(60).then_some(value))).collect()
}

fn patch(random: &mut Random, finalizers: bool) -> Patch {
    let finalizers = (finalizers && random.chance(40)).then(|| holds(random));
    Patch {
        manager: manager(random),
        labels: optional(random, &LABELS),
        data: optional(random, &KEYS),
        finalizers,
    }
}

fn step(random: &mut Random) -> Step {
    let (key, value) = (random.choose(&KEYS).to_owned(), random.choose(&VALUES).to_owned());
    match random.below(4) {
        0 => Step::Add(key, value),
        1 => Step::Replace(key, value),
        2 => Step::Remove(key),
        _ => Step::Test(key, value),
    }
}

fn selector(random: &mut Random) -> Selector {
    let kind = if random.chance(60) { Kind::ConfigMap } else { Kind::Widget };
    let namespace = random.chance(60).then(|| random.choose(&["one", "two"]));
    let labels = (0..random.below(3)).map(|_| demand(random)).collect();
    let name = random.chance(15).then(|| random.choose(&NAMES).to_owned());
    Selector { kind, namespace, labels, name }
}

fn demand(random: &mut Random) -> Demand {
    let (key, value) = (random.choose(&LABELS).to_owned(), random.choose(&VALUES).to_owned());
    match random.below(5) {
        0 => Demand::Is(key, value),
        1 => Demand::IsNot(key, value),
        2 => Demand::In(key, vec![value, "2".to_owned()]),
        3 => Demand::Has(key),
        _ => Demand::HasNot(key),
    }
}
