//! Interprets the command of a container, as far as a simulated node understands it.

use std::time::Duration;

use evenkeel_tree::Tree;

use super::behaviour::LogLine;

/// What a command does in one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    /// When the run ends, and its exit code. `None` if it goes on until it is stopped.
    pub(crate) exit: Option<(Duration, i32)>,
    /// What the run prints.
    pub(crate) log: Vec<LogLine>,
}

/// Returns what the command of a container does, or `None` if the node does not understand the command.
pub(crate) fn interpret(container: &Tree) -> Option<Run> {
    let words: Vec<&str> = container.texts("command").chain(container.texts("args")).collect();
    let (program, arguments) = words.split_first().filter(|_| container.has("command"))?;
    let exit = |after, code| Some(Run { exit: Some((after, code)), log: Vec::new() });
    match (program.rsplit('/').next()?, arguments) {
        ("true", _) => exit(Duration::ZERO, 0),
        ("false", _) => exit(Duration::ZERO, 1),
        ("sleep", [length]) => exit(Duration::from_secs(length.parse().ok()?), 0),
        _ => None,
    }
}
