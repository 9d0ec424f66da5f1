//! The modules of every crate form no cycle, and ARCHITECTURE.md lists them in their order.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use evenkeel_book::module_graph::ModuleGraph;

/// The heading of the section that lists the modules, up to the next heading.
const SECTION: &str = "## The order of the modules\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("docs is a folder of the repository").to_owned()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// The root file of every library and binary of the workspace, with the name of its folder.
fn crates() -> Vec<(String, PathBuf)> {
    let mut folders = entries(&root().join("crates"));
    folders.extend(entries(&root().join("examples")));
    folders.extend([root().join("docs"), root().join("docs/tutorial")]);
    let files = folders.iter().flat_map(|folder| {
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let binaries = entries(&folder.join("src/bin")).into_iter().map(|binary| binary.join("main.rs"));
        let roots = ["lib.rs", "src/lib.rs", "src/main.rs"].into_iter().map(|file| folder.join(file));
        roots.chain(binaries).map(move |file| (name.clone(), file))
    });
    files.filter(|(_, file)| file.is_file()).collect()
}

fn read(file: &Path) -> ModuleGraph {
    ModuleGraph::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

#[test]
fn the_modules_of_every_crate_form_no_cycle() {
    let crates = crates();
    assert!(crates.len() > 20, "{crates:?}");
    let cycles = |(name, file): &(String, PathBuf)| -> Vec<String> {
        read(file).cycles().iter().map(|cycle| format!("{name}: {cycle}")).collect()
    };
    let found: Vec<String> = crates.iter().flat_map(cycles).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The modules that ARCHITECTURE.md lists for each crate, in their order.
fn listed(architecture: &str) -> BTreeMap<&str, Vec<&str>> {
    let section = architecture.split(SECTION).nth(1).expect("the section is there").split("\n## ").next();
    let line = |line| -> Option<(&str, Vec<&str>)> {
        let mut names = str::strip_prefix(line, "- ")?.split('`').skip(1).step_by(2);
        Some((names.next()?, names.collect()))
    };
    section.into_iter().flat_map(str::lines).filter_map(line).collect()
}

#[test]
fn the_map_lists_every_module_after_those_that_it_uses() {
    let architecture = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("there is a map");
    let listed = listed(&architecture);
    let libraries = crates().into_iter().filter(|(_, file)| file.starts_with(root().join("crates")));
    for (name, file) in libraries.filter(|(_, file)| file.ends_with("src/lib.rs")) {
        let graph = read(&file);
        if graph.top_level().len() < 2 {
            continue;
        }
        let order = listed.get(name.as_str()).map(Vec::as_slice).unwrap_or_default();
        let known: BTreeSet<&str> = order.iter().copied().collect();
        assert_eq!(known, graph.top_level(), "ARCHITECTURE.md lists other modules of {name} than there are");
        assert_eq!(graph.against(order), None, "ARCHITECTURE.md has the modules of {name} in another order");
    }
}
