//! What the command of a container does, as far as a simulated node understands it.
//!
//! No process runs. A script is read once, when its container starts, and what it would do is computed: the lines that it
//! prints with their times, the files that it writes, and when it ends with which code. The [documentation of
//! behaviours](super::behaviour) says which commands are understood. If one command of a
//! script is not understood, the whole script counts as not understood, and the container behaves as if it had no command.

mod arithmetic;
mod builtin;
mod files;
mod lexer;
mod machine;
mod syntax;

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_tree::Tree;
use files::Files;
pub(crate) use files::Volumes;
use jiff::Timestamp;
use machine::Machine;
use tokio::time::Instant;

use super::behaviour::LogLine;
use super::bounds::{Effort, PrintRoom, Printed};
use crate::kinds::Pod;

/// What one run of a command does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    /// How long the run lasts, and its exit code. `None` if the run goes on until it is stopped.
    pub(crate) exit: Option<(Duration, i32)>,
    /// What the run prints.
    pub(crate) log: Printed,
    /// What the run writes to the file for its termination message.
    pub(crate) message: Option<String>,
    /// Whether every run of the command does the same.
    pub(crate) repeats: bool,
    /// How the run reacts to SIGTERM, if the command has a `trap` for it: after how long it ends, and with which code;
    /// `Some(None)` if it goes on until it is killed.
    pub(crate) stops: Option<Option<(Duration, i32)>>,
}

impl Run {
    /// A run that goes on until it is stopped, and prints nothing.
    fn endless() -> Self {
        Self { exit: None, log: Printed::default(), message: None, repeats: true, stops: None }
    }
}

/// Where a command runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site<'a> {
    pub(crate) pod: &'a Pod,
    /// The index of the node.
    pub(crate) node: usize,
    pub(crate) volumes: &'a Volumes,
    pub(crate) prints: &'a PrintRoom,
    /// The budget that is left for the pod's commands.
    pub(crate) effort: &'a Effort,
    pub(crate) started: (Instant, Timestamp),
    /// How often the container has been started again.
    pub(crate) restarts: i32,
}

/// How many bytes the arguments and the environment of a process may have: Linux's usual limit. A container with more does not
/// start on a real node, and is not understood here.
const ARGUMENTS_BYTES_MAX: usize = 2 << 20;

/// Returns what the command of a container does; `None` if the node does not understand it.
pub(crate) fn interpret(container: &Tree, site: &Site<'_>) -> Option<Run> {
    if !container.has("command") {
        return None;
    }
    let Arguments { words, variables, complete } = match arguments(container, site) {
        Ok(arguments) => arguments,
        Err(TooLong::ForProcess) => return None,
        Err(TooLong::ForEffort) => return Some(Run::endless()),
    };
    let mut files = Files::new(site.volumes, site.pod, container, site.node);
    let mut machine = Machine::new(&mut files, site.effort, site.started);
    machine.has_unknown_variables = !complete;
    machine.variables = variables;
    machine.host_name = site.pod.str("spec/hostname").unwrap_or(site.pod.name()).to_owned();
    machine.random = seed(site, container);
    let exit = match shell_script(&words) {
        Some(shell) => {
            machine.exits_on_error = shell.exits_on_error;
            machine.positional = shell.positional;
            machine.run(shell.script)
        }
        None => machine.run_program(&words),
    };
    let (log, varies) = (std::mem::take(&mut machine.log), machine.varies);
    let end = if machine.ends_within_line { "" } else { "\n" };
    let exit = exit.ok()?;
    let stops = machine.stop();
    let path = container.str("terminationMessagePath").unwrap_or("/dev/termination-log");
    let message = files.own(path).map(|text| end_of(text, FILE_MESSAGE_BYTES).to_owned());
    let message = message.or_else(|| from_log(container, exit, &log, end));
    Some(Run {
        exit,
        log: site.prints.keep(log.into()),
        message: message.filter(|message| !message.is_empty()),
        repeats: !varies && !files.is_shared(),
        stops,
    })
}

/// Why the arguments of a command and its environment are too long.
enum TooLong {
    /// No process can have them.
    ForProcess,
    /// The commands of the pod have cost too much before.
    ForEffort,
}

/// What a process is given.
struct Arguments {
    /// The command and its arguments.
    words: Vec<String>,
    /// The environment variables that the node knows.
    variables: BTreeMap<String, String>,
    /// Whether these are all variables.
    complete: bool,
}

/// Returns what the process of a container is given.
fn arguments(container: &Tree, site: &Site<'_>) -> Result<Arguments, TooLong> {
    let room_before = ARGUMENTS_BYTES_MAX.min(site.effort.left());
    let mut room = room_before;
    let mut expand = || {
        let (variables, complete) = environment(container, site.pod, &mut room)?;
        let words = container.texts("command").chain(container.texts("args"));
        let words = words.map(|word| references(word, &variables, &mut room)).collect::<Option<_>>()?;
        Some(Arguments { words, variables, complete })
    };
    let too_long = if room_before < ARGUMENTS_BYTES_MAX { TooLong::ForEffort } else { TooLong::ForProcess };
    let expanded = expand();
    // What turns out to be too long has cost something, too.
    let paid = site.effort.spend(room_before - room);
    let expanded = expanded.ok_or(too_long)?;
    paid.map(|()| expanded).ok_or(TooLong::ForEffort)
}

/// A shell that runs a script.
struct Shell<'a> {
    script: &'a str,
    /// Whether a failing command ends the script.
    exits_on_error: bool,
    /// `$0` and the arguments.
    positional: Vec<String>,
}

/// Returns the shell if the words run a script in one.
fn shell_script(words: &[String]) -> Option<Shell<'_>> {
    let (shell, rest) = words.split_first()?;
    if !["sh", "bash", "ash", "dash"].contains(&shell.rsplit('/').next()?) {
        return None;
    }
    let [options, script, positional @ ..] = rest else { return None };
    if !options.starts_with('-') || !options.ends_with('c') {
        return None;
    }
    let positional = if positional.is_empty() { vec![shell.clone()] } else { positional.to_vec() };
    Some(Shell { script, exits_on_error: options.contains('e'), positional })
}

/// Returns the environment variables that the node knows, and whether these are all. `None` if there is no room for them.
fn environment(container: &Tree, pod: &Pod, room: &mut usize) -> Option<(BTreeMap<String, String>, bool)> {
    let mut known = BTreeMap::new();
    let mut complete = container.list("envFrom").is_empty();
    for variable in container.list("env") {
        let name = variable.str("name").unwrap_or_default().to_owned();
        let value = match variable.str("valueFrom/fieldRef/fieldPath") {
            Some(path) => match field(pod, path) {
                Some(value) => {
                    *room = room.checked_sub(value.len())?;
                    Some(value)
                }
                None => None,
            },
            None if variable.has("valueFrom") => None,
            None => Some(references(variable.str("value").unwrap_or_default(), &known, room)?),
        };
        match value {
            Some(value) => drop(known.insert(name, value)),
            None => complete = false,
        }
    }
    Some((known, complete))
}

/// Returns the value of a field of a pod that a variable refers to.
fn field(pod: &Pod, path: &str) -> Option<String> {
    let entry = |prefix: &str| path.strip_prefix(prefix)?.strip_suffix("']");
    if let Some(key) = entry("metadata.labels['") {
        return Some(pod.label(key).unwrap_or_default().to_owned());
    }
    if let Some(key) = entry("metadata.annotations['") {
        return Some(pod.annotation(key).unwrap_or_default().to_owned());
    }
    match path {
        "metadata.name" => Some(pod.name().to_owned()),
        "metadata.namespace" => Some(pod.in_namespace().to_owned()),
        "metadata.uid" => pod.metadata.uid.clone(),
        "spec.nodeName" => pod.str("spec/nodeName").map(str::to_owned),
        "spec.serviceAccountName" => pod.str("spec/serviceAccountName").map(str::to_owned),
        "status.hostIP" => pod.str("status/hostIP").map(str::to_owned),
        "status.podIP" => pod.str("status/podIP").map(str::to_owned),
        _ => None,
    }
}

/// Replaces `$(NAME)` by the value of a variable, as Kubernetes does in commands. Unknown names stay, and `$$` is `$`. Takes
/// the length of the result from `room`; returns `None` if there is not enough.
fn references(text: &str, variables: &BTreeMap<String, String>, room: &mut usize) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut push = |piece: &str| {
        *room = room.checked_sub(piece.len())?;
        out.push_str(piece);
        Some(())
    };
    // The position of the next closing bracket. It is searched for again only when it has been passed, so that many
    // opening brackets do not make the search quadratic.
    let mut closing = text.find(')');
    let mut at = 0;
    while let Some(dollar) = text[at..].find('$').map(|found| at + found) {
        push(&text[at..dollar])?;
        let after = &text[dollar + 1..];
        if after.starts_with('$') {
            push("$")?;
            at = dollar + 2;
            continue;
        }
        if closing.is_some_and(|closing| closing <= dollar) {
            closing = after.find(')').map(|found| dollar + 1 + found);
        }
        let closed = closing.filter(|_| after.starts_with('('));
        let known = closed.and_then(|closing| Some((variables.get(&text[dollar + 2..closing])?, closing)));
        let (piece, end) = known.map_or(("$", dollar), |(value, closing)| (value.as_str(), closing));
        push(piece)?;
        at = end + 1;
    }
    push(&text[at..])?;
    Some(out)
}

/// How many bytes of the termination message file are used: kubelet's limit.
const FILE_MESSAGE_BYTES: usize = 4_096;

/// Returns the end of a text, of at most this many bytes.
fn end_of(text: &str, bytes: usize) -> &str {
    let from = (text.len().saturating_sub(bytes)..=text.len()).find(|at| text.is_char_boundary(*at));
    &text[from.unwrap_or_default()..]
}

/// How many bytes of a log become a termination message: kubelet's limit.
const MESSAGE_BYTES: usize = 2_048;
/// How many lines of a log become a termination message: kubelet's limit.
const MESSAGE_LINES: usize = 80;

/// Returns the end of the log as the message of a run that fails, if the container asks for that. `end` is the end of the
/// last line.
fn from_log(container: &Tree, exit: Option<(Duration, i32)>, log: &[LogLine], end: &str) -> Option<String> {
    let failed = exit.is_some_and(|(_, code)| code != 0);
    if !failed || !container.is("terminationMessagePolicy", "FallbackToLogsOnError") {
        return None;
    }
    let mut lines: Vec<&str> = Vec::new();
    let mut bytes = 0;
    for line in log.iter().rev().take(MESSAGE_LINES) {
        bytes += line.text.len() + 1;
        if bytes > MESSAGE_BYTES {
            break;
        }
        lines.push(&line.text);
    }
    lines.reverse();
    Some(lines.join("\n") + end).filter(|_| !lines.is_empty())
}

/// Returns the seed of a run's `$RANDOM`: different for each run, and the same whenever the test is repeated.
fn seed(site: &Site<'_>, container: &Tree) -> u32 {
    let uid = site.pod.metadata.uid.as_deref().unwrap_or_default();
    let name = container.str("name").unwrap_or_default();
    let restarts = site.restarts.to_string();
    let bytes = [uid, name, &restarts].into_iter().flat_map(str::bytes);
    // FNV-1a.
    bytes.fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests;
