//! Cycles in the graph.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::path::PathBuf;

use super::{ModuleGraph, ModulePath, Reference};

/// A reference from one module to an item of another module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    from: ModulePath,
    to: ModulePath,
    file: PathBuf,
    line: usize,
}

impl Edge {
    pub(super) fn new(from: ModulePath, to: ModulePath, reference: &Reference) -> Self {
        Self { from, to, file: reference.file.clone(), line: reference.line }
    }

    /// The modules below the root that the ends are in; `None` for the root itself.
    pub(super) fn ends(&self) -> (Option<&str>, Option<&str>) {
        (self.from.first().map(String::as_str), self.to.first().map(String::as_str))
    }
}

/// A set of modules of which each one reaches all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// The names of the modules.
    pub modules: BTreeSet<String>,
    /// A shortest cycle among them: each module with the file and line where it refers to the next.
    pub way: Vec<(String, PathBuf, usize)>,
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.modules.iter().map(String::as_str).collect();
        write!(f, "{} modules reach each other: {}", names.len(), names.join(", "))?;
        self.way.iter().enumerate().try_for_each(|(index, (name, file, line))| {
            let next = &self.way[(index + 1) % self.way.len()].0;
            write!(f, "\n    {name} uses {next} in {}:{line}", file.display())
        })
    }
}

/// For each module, the modules that it uses, with one reference to each.
type Uses<'a> = BTreeMap<&'a str, BTreeMap<&'a str, &'a Edge>>;

impl ModuleGraph {
    /// The cycles among the modules below the root.
    pub fn cycles(&self) -> Vec<Cycle> {
        let uses = self.uses();
        let reach: BTreeMap<&str, BTreeSet<&str>> =
            uses.keys().map(|name| (*name, reachable(&uses, name))).collect();
        let mut found: Vec<Cycle> = Vec::new();
        for (name, reached) in &reach {
            let known = found.iter().any(|cycle| cycle.modules.contains(*name));
            if known || !reached.contains(name) {
                continue;
            }
            let back = |other: &&str| reach.get(other).is_some_and(|reached| reached.contains(name));
            let modules: BTreeSet<&str> = reached.iter().copied().filter(back).collect();
            found.push(Cycle {
                way: shortest(&uses, &modules),
                modules: modules.iter().map(|it| (*it).to_owned()).collect(),
            });
        }
        found
    }

    /// The first use that violates an order, in which a module must come before the modules that use it.
    pub fn against(&self, order: &[&str]) -> Option<String> {
        let place = |name: &str| order.iter().position(|it| *it == name);
        self.uses()
            .into_iter()
            .flat_map(|(from, uses)| uses.into_iter().map(move |(to, edge)| (from, to, edge)))
            .find_map(|(from, to, edge)| {
                let ordered = place(to)? < place(from)?;
                (!ordered).then(|| format!("{from} uses {to} in {}:{}", edge.file.display(), edge.line))
            })
    }

    /// The uses between modules below the root. Submodules count as parts of them; the root itself is left out.
    fn uses(&self) -> Uses<'_> {
        let mut uses = Uses::new();
        for edge in &self.edges {
            if let (Some(from), Some(to)) = edge.ends()
                && from != to
            {
                uses.entry(from).or_default().entry(to).or_insert(edge);
            }
        }
        uses
    }
}

/// The modules that a module reaches through any number of uses, which include itself only in a cycle.
fn reachable<'a>(uses: &Uses<'a>, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut waiting: Vec<&str> = vec![from];
    while let Some(name) = waiting.pop() {
        for next in uses.get(name).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(*next) {
                waiting.push(next);
            }
        }
    }
    reached
}

/// A shortest cycle within a set of modules that reach each other.
fn shortest(uses: &Uses<'_>, modules: &BTreeSet<&str>) -> Vec<(String, PathBuf, usize)> {
    modules.iter().filter_map(|start| way_back(uses, start)).min_by_key(Vec::len).unwrap_or_default()
}

/// A shortest way from a module back to itself.
fn way_back(uses: &Uses<'_>, start: &str) -> Option<Vec<(String, PathBuf, usize)>> {
    let mut waiting = VecDeque::from([vec![start]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = waiting.pop_front() {
        let last = *way.last()?;
        for next in uses.get(last).into_iter().flat_map(BTreeMap::keys) {
            if *next == start {
                let place = |(index, name): (usize, &&str)| {
                    let next = way.get(index + 1).copied().unwrap_or(start);
                    let edge = uses.get(name)?.get(next)?;
                    Some(((*name).to_owned(), edge.file.clone(), edge.line))
                };
                return way.iter().enumerate().map(place).collect();
            }
            if seen.insert(*next) {
                waiting.push_back(way.iter().copied().chain([*next]).collect());
            }
        }
    }
    None
}
