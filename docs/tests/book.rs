//! The book and the README are true: links resolve, named paths exist, and code is compiled.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use evenkeel_book::{anchors, blocks, links};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every page: at the root, in the book, and next to the examples.
fn pages() -> Vec<PathBuf> {
    let mut folders = vec![root(), root().join("docs/src")];
    let examples = std::fs::read_dir(root().join("examples")).expect("there are examples");
    folders.extend(examples.flatten().map(|entry| entry.path()));
    let files =
        folders.into_iter().flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten());
    let mut pages: Vec<PathBuf> = files
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|it| it == "md"))
        .collect();
    pages.sort();
    pages
}

/// The problem with a link of a page, if there is one.
fn broken(page: &Path, link: &str) -> Option<String> {
    if link.starts_with("https://") {
        return None;
    }
    let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let target = if file.is_empty() { page.to_owned() } else { page.parent()?.join(file) };
    if !target.exists() {
        return Some(format!("{}: {link} leads nowhere", page.display()));
    }
    let there = anchor.is_none_or(|anchor| anchors(&read(&target)).iter().any(|known| known == anchor));
    (!there).then(|| format!("{}: {link}: there is no such heading", page.display()))
}

#[test]
fn every_link_resolves() {
    let pages = pages();
    assert!(pages.len() > 10, "{pages:?}");
    let wrong: Vec<String> = pages
        .iter()
        .flat_map(|page| {
            links(&read(page)).into_iter().filter_map(|link| broken(page, &link)).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn every_picture_is_shown() {
    let book = root().join("docs/src");
    let files = std::fs::read_dir(&book).expect("there is a book").flatten().filter(|it| it.path().is_file());
    let text: String = files.map(|page| read(&page.path())).collect();
    for entry in std::fs::read_dir(book.join("images")).expect("there are pictures").flatten() {
        let name = entry.file_name().into_string().expect("names are text");
        assert!(text.contains(&format!("images/{name}")), "no page shows {name}");
    }
}

#[test]
fn every_chapter_is_in_the_summary_and_every_include_exists() {
    let book = root().join("docs/src");
    let listed: BTreeSet<String> = links(&read(&book.join("SUMMARY.md"))).into_iter().collect();
    for entry in std::fs::read_dir(&book).expect("there is a book").flatten() {
        let name = entry.file_name().into_string().expect("names are text");
        if entry.path().is_dir() {
            continue;
        }
        assert!(name == "SUMMARY.md" || listed.contains(&name), "{name} is not in SUMMARY.md");
        for include in read(&entry.path()).split("{{#include ").skip(1) {
            let path = include.split("}}").next().unwrap_or_default();
            assert!(book.join(path).is_file(), "{name} includes {path}, which is not there");
        }
    }
}

/// The blocks of the tutorial, put into the files that are named before them, are the crate that CI compiles and tests.
#[test]
fn the_tutorial_is_the_crate() {
    let tutorial = blocks(&read(&root().join("docs/src/tutorial.md")));
    for file in ["src/lib.rs", "src/main.rs", "tests/it.rs"] {
        let told: Vec<String> = tutorial
            .iter()
            .filter(|block| block.file.as_deref() == Some(file))
            .map(|block| block.code.clone())
            .collect();
        assert_eq!(told.join("\n"), read(&root().join("docs/tutorial").join(file)), "{file}");
    }
    let other: Vec<_> =
        tutorial.iter().filter(|block| block.language == "rust" && block.file.is_none()).collect();
    assert!(other.is_empty(), "Rust that belongs to no file is not compiled: {other:#?}");
}

/// Rust code on other pages is quoted from a source file, which is named before the block.
#[test]
fn other_code_is_quoted() {
    let book = std::fs::read_dir(root().join("docs/src")).expect("there is a book").flatten();
    let chapters = book.map(|entry| entry.path()).filter(|path| path.is_file());
    // The blocks of the tutorial are the crate `site`, and those of the guides are compiled by rustdoc.
    let elsewhere = ["tutorial.md", "from-controller-runtime.md", "from-kube-rs.md"];
    let quotes = |path: &PathBuf| path.file_name().is_some_and(|name| elsewhere.iter().all(|it| name != *it));
    let pages: Vec<PathBuf> = chapters.chain([root().join("README.md")]).filter(quotes).collect();
    assert!(pages.len() > 20, "{pages:?}");
    for page in pages {
        let page = page.display().to_string();

        for block in blocks(&read(Path::new(&page))).into_iter().filter(|block| block.language == "rust") {
            let Some(file) = &block.file else { panic!("{page}: no file is named before:\n{}", block.code) };
            let source = read(&root().join(file));
            assert!(source.contains(block.code.trim_end()), "{page}: this is not in {file}:\n{}", block.code);
        }
    }
}

/// The guides for users of other runtimes are part of rustdoc, where their links lead to items. In the book they are whole
/// pages, too, so that they can be read in the repository.
#[test]
fn the_guides_are_pages_of_their_own() {
    for name in ["from-controller-runtime.md", "from-kube-rs.md"] {
        let guide = read(&root().join("crates/runtime/src/docs").join(name));
        let page = root().join("docs/src").join(name);
        let wanted = evenkeel_book::without_api_links(&guide);
        if std::env::var_os("EVENKEEL_UPDATE").is_some() {
            std::fs::write(&page, &wanted).expect("the page can be written");
        }
        assert_eq!(read(&page), wanted, "{name} is not the guide any more; EVENKEEL_UPDATE=1 writes it");
    }
}

/// Every file and folder that the guide for contributors and the map name exists. A path that is not given from the root
/// is the end of one.
#[test]
fn every_named_path_exists() {
    let files = files();
    for page in ["CONTRIBUTING.md", "ARCHITECTURE.md"] {
        let text = read(&root().join(page));
        let named = text.split('`').skip(1).step_by(2).flat_map(alternatives);
        let paths: Vec<String> = named.filter(|name| is_path(name) && !name.contains("NAME")).collect();
        assert!(paths.len() > 20, "{page}: {paths:?}");
        for path in paths {
            let from_root = root().join(&path).exists() || root().join(format!("{path}.rs")).exists();
            let end = format!("/{path}");
            let there =
                from_root || !path.starts_with("crates/") && files.iter().any(|file| file.ends_with(&end));
            assert!(there, "{page} names {path}, which does not exist");
        }
    }
}

/// Whether a name in a page is the path of a folder at the root, or of a source file.
fn is_path(name: &str) -> bool {
    let folders = ["crates/", "docs/", "examples/", "fuzz/", "tests/", ".ci/"];
    let sources = [".rs", ".sh", ".py"];
    let plain = !name.contains([' ', '*', '(', ':']);
    plain && (folders.iter().any(|it| name.starts_with(it)) || sources.iter().any(|it| name.ends_with(it)))
}

/// The paths of all files of the repository, each with a slash at its start.
fn files() -> Vec<String> {
    let mut folders = vec![root()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            match path.is_dir() {
                true if path.ends_with("target") || path.ends_with(".git") => {}
                true => folders.push(path),
                false => files.extend(path.strip_prefix(root()).ok().map(|it| format!("/{}", it.display()))),
            }
        }
    }
    files
}

/// The guide for contributors answers at least twenty tasks, each once.
#[test]
fn the_guide_names_the_files_of_twenty_tasks() {
    let text = read(&root().join("CONTRIBUTING.md"));
    let section = text.split("## Where to change what\n").nth(1).and_then(|rest| rest.split("\n## ").next());
    let rows = section.into_iter().flat_map(str::lines).filter_map(|line| line.strip_prefix("| "));
    let tasks: Vec<&str> = rows.filter_map(|row| row.split(" |").next()).filter(|it| *it != "task").collect();
    let different: BTreeSet<&str> = tasks.iter().copied().collect();
    assert!(tasks.len() >= 20, "{tasks:#?}");
    assert_eq!(tasks.len(), different.len(), "a task stands there twice: {tasks:#?}");
}

/// The paths that `a/{b,c}.rs` stands for.
fn alternatives(path: &str) -> Vec<String> {
    match path.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?))) {
        Some((before, (inner, after))) => {
            inner.split(',').map(|name| format!("{before}{name}{after}")).collect()
        }
        None => vec![path.to_owned()],
    }
}
