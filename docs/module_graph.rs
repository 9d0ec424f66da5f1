//! The graph of the modules of a crate: which module refers to which, and whether they form cycles.
//!
//! The sources are read as tokens, not as text: comments, strings and code for tests do not count. A path is followed to
//! the module that defines its item, through `crate::`, `self::`, `super::`, nested braces, globs and re-exports. Calls
//! of methods are not seen.

mod cycles;
mod source;
mod tokens;

pub use cycles::{Cycle, Edge};

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use source::{Module, Reference};

/// The path of a module, from the root of its crate: empty for the root itself.
type ModulePath = Vec<String>;

/// How many re-exports a path is followed through. Real paths need three at most; the bound ends loops.
const REEXPORTS_MAX: usize = 16;

/// The modules of a crate and the references between them.
#[derive(Debug, Default)]
pub struct ModuleGraph {
    modules: BTreeMap<ModulePath, Module>,
    edges: Vec<Edge>,
}

impl ModuleGraph {
    /// Reads a crate from its root file, `src/lib.rs` or `src/main.rs`, and the files of its modules.
    pub fn read(root: &Path) -> io::Result<Self> {
        Self::from_sources(root, |path| fs::read_to_string(path))
    }

    /// Reads a crate whose files `load` returns.
    fn from_sources(root: &Path, load: impl Fn(&Path) -> io::Result<String>) -> io::Result<Self> {
        let mut graph = Self::default();
        // The path, the file and the folder of submodules of each module that is still to be read.
        let mut waiting = vec![(Vec::new(), root.to_owned(), root.with_file_name(""))];
        while let Some((path, file, folder)) = waiting.pop() {
            let modules = source::read(&load(&file)?, &file);
            for (inner, module) in modules {
                let path: ModulePath = path.iter().cloned().chain(inner.iter().cloned()).collect();
                let folder = inner.iter().fold(folder.clone(), |folder, name| folder.join(name));
                for name in &module.files {
                    let mut path = path.clone();
                    path.push(name.clone());
                    waiting.push((path, file_of(&folder, name, &load), folder.join(name)));
                }
                graph.modules.insert(path, module);
            }
        }
        graph.edges = graph.resolve_all();
        Ok(graph)
    }

    /// The modules below the root, as `lib.rs` declares them.
    pub fn top_level(&self) -> BTreeSet<&str> {
        self.modules.keys().filter(|path| path.len() == 1).map(|path| path[0].as_str()).collect()
    }

    fn resolve_all(&self) -> Vec<Edge> {
        let mut edges = Vec::new();
        for (from, module) in &self.modules {
            for reference in &module.references {
                let Some(to) = self.resolve(from, &reference.path, 0) else { continue };
                if *from != to {
                    edges.push(Edge::new(from.clone(), to, reference));
                }
            }
        }
        edges
    }

    /// The module that defines what a path names, seen from a module; `None` for paths into other crates.
    fn resolve(&self, from: &[String], path: &[String], reexports: usize) -> Option<ModulePath> {
        let (first, mut rest) = path.split_first()?;
        let mut at: ModulePath = match first.as_str() {
            "crate" => Vec::new(),
            "self" => from.to_vec(),
            "super" => from.split_last()?.1.to_vec(),
            // In `use child::Item`, the first word is a module in scope, or else another crate.
            _ => {
                self.modules.get(&child(from, first))?;
                rest = path;
                from.to_vec()
            }
        };
        for (index, name) in rest.iter().enumerate() {
            if name == "super" {
                at.pop()?;
                continue;
            }
            let inner = child(&at, name);
            if self.modules.contains_key(&inner) {
                at = inner;
                continue;
            }
            return Some(self.follow(&at, name, &rest[index + 1..], reexports).unwrap_or(at));
        }
        Some(at)
    }

    /// The module behind a name that a module imports from elsewhere.
    fn follow(&self, at: &[String], name: &str, rest: &[String], reexports: usize) -> Option<ModulePath> {
        let module = self.modules.get(at)?;
        if reexports == REEXPORTS_MAX || module.items.contains(name) {
            return None;
        }
        if let Some(target) = module.imports.get(name) {
            let path: Vec<String> = target.iter().chain(rest).cloned().collect();
            return self.resolve(at, &path, reexports + 1);
        }
        module.globs.iter().find_map(|glob| {
            let target = self.resolve(at, glob, reexports + 1)?;
            let defines = self.modules.get(&target)?.items.contains(name);
            match defines {
                true => Some(target),
                false => self.follow(&target, name, rest, reexports + 1),
            }
        })
    }
}

fn child(path: &[String], name: &str) -> ModulePath {
    path.iter().cloned().chain([name.to_owned()]).collect()
}

/// The file of a module: `name/mod.rs` if it exists, otherwise `name.rs`.
fn file_of(folder: &Path, name: &str, load: impl Fn(&Path) -> io::Result<String>) -> PathBuf {
    let old = folder.join(name).join("mod.rs");
    if load(&old).is_ok() { old } else { folder.join(format!("{name}.rs")) }
}

#[cfg(test)]
mod tests;
