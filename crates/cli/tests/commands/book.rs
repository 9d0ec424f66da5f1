//! The commands of `evenkeel` in the book are those that the binary understands.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The README and the pages of the book.
fn pages() -> Vec<(String, String)> {
    let book = std::fs::read_dir(root().join("docs/src")).expect("there is a book").flatten();
    let pages = book.map(|entry| entry.path()).chain([root().join("README.md")]);
    let pages = pages.filter(|path| path.extension().is_some_and(|it| it == "md"));
    pages
        .map(|path| (path.display().to_string(), std::fs::read_to_string(&path).expect("a page is text")))
        .collect()
}

/// The arguments of a command line of a page, if it calls `evenkeel`. What a shell does with the output is left out.
fn arguments(line: &str) -> Option<Vec<String>> {
    let words = line.strip_prefix("$ ").unwrap_or(line).strip_prefix("evenkeel ")?;
    // A dependency in a manifest, which begins with the same word.
    if words.starts_with('=') {
        return None;
    }
    let mut arguments = vec![String::new()];
    let mut quoted = false;
    for letter in words.chars() {
        match letter {
            '\'' => quoted = !quoted,
            ' ' if !quoted => arguments.push(String::new()),
            '#' | '|' | '>' | '&' if !quoted && arguments.last().is_some_and(String::is_empty) => break,
            letter => arguments.last_mut()?.push(letter),
        }
    }
    arguments.retain(|argument| !argument.is_empty());
    Some(arguments)
}

fn help(arguments: &[String]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(arguments).arg("--help").output().expect("the binary runs")
}

/// With `--help` behind them, arguments are read and nothing is done.
#[test]
fn the_commands_of_the_book_are_understood() {
    let mut seen = 0;
    for (page, text) in pages() {
        for arguments in text.lines().filter_map(arguments) {
            let output = help(&arguments);
            assert!(
                output.status.success(),
                "{page}: {arguments:?}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            seen += 1;
        }
    }
    assert!(seen >= 12, "{seen}");
    assert!(!help(&["up".into(), "--no-such-flag".into()]).status.success(), "the test can fail");
}

/// The page on `evenkeel new` has a row for each flag.
#[test]
fn the_flags_of_new_are_those_of_its_page() {
    let text = std::fs::read_to_string(root().join("docs/src/new.md")).expect("there is a page");
    let flag = |text: &str| {
        text.split(|letter: char| letter != '-' && !letter.is_alphanumeric()).next().map(str::to_owned)
    };
    let told = text.lines().filter_map(|line| line.strip_prefix("| `--"));
    let mut told: Vec<String> = told.filter_map(flag).collect();
    let output = help(&["new".into()]);
    let help = String::from_utf8(output.stdout).expect("help is text");
    let known = help.lines().filter_map(|line| line.trim_start().strip_prefix("--"));
    let mut known: Vec<String> = known.filter_map(flag).filter(|flag| flag != "log").collect();
    told.sort();
    known.sort();
    assert_eq!(told, known);
}
