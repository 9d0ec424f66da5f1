//! Runs a script, without a process: what it prints, which files it writes, when it ends and how.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::arithmetic;
use super::builtin;
use super::files::Files;
use super::lexer::{Part, Word};
use super::syntax::{AndOr, Command, List, Redirect, Simple, parse};
use crate::node::behaviour::LogLine;
use crate::node::bounds::Effort;

/// How many commands a script may run. A script that runs more counts as running until it is stopped.
const STEPS_MAX: u32 = 5_000;

/// How many lines a script may print. A script that prints more counts as running until it is stopped.
const LINES_MAX: usize = 2_000;

/// How many bytes a word may have, and how many bytes a script may print in all.
const WORD_BYTES_MAX: usize = 1 << 16;
const PRINTED_BYTES_MAX: usize = 1 << 20;

/// What a word costs besides its bytes: the size of a `String`, rounded up. A step and the lookup of a file cost as
/// much.
pub(super) const WORD_COST: usize = 32;

/// How deep functions may call functions.
const CALLS_MAX: u32 = 20;

/// Why a script does not go on with the next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// The script exits with this code.
    Exit(i32),
    /// A function returns.
    Return(i32),
    /// A loop ends, or begins its next round.
    Break,
    Continue,
    /// The script goes on until it is stopped.
    Endless,
    /// A command is not understood.
    Unknown,
}

/// The exit code of a command.
pub(super) type Ran = Result<i32, Halt>;

/// The state of a script that runs.
pub(super) struct Machine<'a, 'f> {
    pub(super) files: &'a mut Files<'f>,
    pub(super) variables: BTreeMap<String, String>,
    /// Whether there may be variables that the node does not know.
    pub(super) has_unknown_variables: bool,
    /// Whether a failing command ends the script: `set -e`.
    pub(super) exits_on_error: bool,
    /// How long the script has run.
    pub(super) time: Duration,
    pub(super) started: (Instant, Timestamp),
    /// The state of `$RANDOM`.
    pub(super) random: u32,
    pub(super) host_name: String,
    pub(super) log: Vec<LogLine>,
    /// Whether the script has used `$RANDOM` or the time of day, so that its next run may differ.
    pub(super) varies: bool,
    /// Whether the last line that was printed has no end.
    pub(super) ends_within_line: bool,
    /// The handler for SIGTERM, if the script has set one: `trap … TERM`.
    pub(super) on_term: Option<String>,
    /// `$0` and the arguments of the script, or of the function that runs.
    pub(super) positional: Vec<String>,
    functions: BTreeMap<String, Rc<List>>,
    /// The printed text that has no end of line yet.
    line: String,
    /// The output of each `$(…)` that is being evaluated; the innermost is the last one.
    captured: Vec<String>,
    status: i32,
    steps: u32,
    printed: usize,
    /// The budget that is left. A script that needs more counts as running until it is stopped.
    effort: &'a Effort,
    calls: u32,
    /// How many conditions are being evaluated. In a condition, `set -e` does not end the script.
    conditions: u32,
}

impl<'a, 'f> Machine<'a, 'f> {
    pub(super) fn new(files: &'a mut Files<'f>, effort: &'a Effort, started: (Instant, Timestamp)) -> Self {
        Self {
            files,
            variables: BTreeMap::new(),
            has_unknown_variables: false,
            exits_on_error: false,
            time: Duration::ZERO,
            started,
            random: 0,
            host_name: String::new(),
            log: Vec::new(),
            varies: false,
            ends_within_line: false,
            on_term: None,
            positional: Vec::new(),
            functions: BTreeMap::new(),
            line: String::new(),
            captured: Vec::new(),
            status: 0,
            steps: 0,
            printed: 0,
            effort,
            calls: 0,
            conditions: 0,
        }
    }

    /// Runs a script. Returns when it ends and with which code, `None` if it does not end by itself; an error if it is not
    /// understood.
    pub(super) fn run(&mut self, text: &str) -> Result<Option<(Duration, i32)>, ()> {
        let list = parse(text, 0).ok_or(())?;
        let ran = self.list(&list);
        self.finish(ran)
    }

    /// Runs one program.
    pub(super) fn run_program(&mut self, words: &[String]) -> Result<Option<(Duration, i32)>, ()> {
        let ran = self.program(words);
        self.finish(ran)
    }

    /// Runs the script's trap for SIGTERM, if it has set one. Returns after how long the script ends and with which
    /// code; `Some(None)` if it goes on until it is killed. What the trap writes to files is dropped.
    pub(super) fn stop(&mut self) -> Option<Option<(Duration, i32)>> {
        let list = parse(&self.on_term.take()?, 0)?;
        self.files.freeze();
        (self.time, self.steps) = (Duration::ZERO, 0);
        match self.list(&list) {
            Err(Halt::Exit(code)) => Some(Some((self.time, code & 0xff))),
            Err(Halt::Unknown) => None,
            _ => Some(None),
        }
    }

    fn finish(&mut self, ran: Ran) -> Result<Option<(Duration, i32)>, ()> {
        self.ends_within_line = !self.line.is_empty();
        if self.ends_within_line {
            self.end_line();
        }
        match ran {
            Ok(code) | Err(Halt::Exit(code) | Halt::Return(code)) => Ok(Some((self.time, code & 0xff))),
            Err(Halt::Break | Halt::Continue) => Ok(Some((self.time, 0))),
            Err(Halt::Endless) => Ok(None),
            Err(Halt::Unknown) => Err(()),
        }
    }

    /// Notes what a step costs, and ends a script that costs too much.
    pub(super) fn spend(&mut self, cost: usize) -> Result<(), Halt> {
        self.effort.spend(cost).ok_or(Halt::Endless)
    }

    /// Returns the content of a file, or `None` if it does not exist.
    pub(super) fn read_file(&mut self, path: &str) -> Result<Option<String>, Halt> {
        self.spend(self.files.cost_of_finding(path))?;
        let content = self.files.read(path, self.now()).ok_or(Halt::Unknown)?;
        self.spend(content.as_ref().map_or(0, String::len))?;
        Ok(content)
    }

    /// Writes a file, or removes it.
    pub(super) fn write_file(&mut self, path: &str, content: Option<String>) -> Result<(), Halt> {
        self.spend(self.files.cost_of_finding(path) + content.as_ref().map_or(0, String::len))?;
        let now = self.now();
        self.files.write(path, content, now).ok_or(Halt::Unknown)
    }

    /// The present time.
    pub(super) fn now(&self) -> Instant {
        self.started.0.checked_add(self.time).unwrap_or(self.started.0)
    }

    fn list(&mut self, list: &List) -> Ran {
        let mut status = 0;
        for commands in list {
            status = self.and_or(commands)?;
        }
        Ok(status)
    }

    fn and_or(&mut self, commands: &AndOr) -> Ran {
        let last = commands.rest.len();
        let mut status = self.checked(&commands.first, last > 0)?;
        let mut ran_last = last == 0;
        for (index, (on_success, command)) in commands.rest.iter().enumerate() {
            if (status == 0) == *on_success {
                ran_last = index + 1 == last;
                status = self.checked(command, !ran_last)?;
            }
        }
        let inverted = matches!(commands.first, Command::Not(_)) && last == 0;
        if status != 0 && ran_last && self.exits_on_error && self.conditions == 0 && !inverted {
            return Err(Halt::Exit(status));
        }
        Ok(status)
    }

    /// Runs a command. If it is a condition, its failure does not end the script.
    fn checked(&mut self, command: &Command, is_condition: bool) -> Ran {
        self.conditions += u32::from(is_condition);
        let ran = self.command(command);
        self.conditions -= u32::from(is_condition);
        self.status = ran?;
        Ok(self.status)
    }

    fn condition(&mut self, list: &List) -> Result<bool, Halt> {
        self.conditions += 1;
        let ran = self.list(list);
        self.conditions -= 1;
        Ok(ran? == 0)
    }

    /// Counts a step, and ends a script that takes too many.
    fn step(&mut self) -> Result<(), Halt> {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return Err(Halt::Endless);
        }
        self.spend(WORD_COST)
    }

    fn command(&mut self, command: &Command) -> Ran {
        self.step()?;
        match command {
            Command::Simple(simple) => self.simple(simple),
            Command::Not(command) => Ok(i32::from(self.checked(command, true)? == 0)),
            Command::Group(list) => self.list(list),
            Command::Function { name, body } => {
                self.functions.insert(name.clone(), body.clone());
                Ok(0)
            }
            Command::If { branches, otherwise } => {
                for (condition, body) in branches {
                    if self.condition(condition)? {
                        return self.list(body);
                    }
                }
                self.list(otherwise)
            }
            Command::While { until, condition, body } => {
                let mut status = 0;
                while self.condition(condition)? != *until {
                    // An empty body needs a step, too, so that the loop ends.
                    self.step()?;
                    match self.list(body) {
                        Ok(code) => status = code,
                        Err(Halt::Continue) => {}
                        Err(Halt::Break) => break,
                        Err(halt) => return Err(halt),
                    }
                }
                Ok(status)
            }
            Command::For { name, words, body } => self.each(name, words, body),
        }
    }

    fn each(&mut self, name: &str, words: &[Word], body: &List) -> Ran {
        let mut values = Vec::new();
        for word in words {
            values.extend(self.expand(word)?);
        }
        let mut status = 0;
        for value in values {
            self.variables.insert(name.to_owned(), value);
            match self.list(body) {
                Ok(code) => status = code,
                Err(Halt::Continue) => {}
                Err(Halt::Break) => break,
                Err(halt) => return Err(halt),
            }
        }
        Ok(status)
    }

    fn simple(&mut self, simple: &Simple) -> Ran {
        let mut words = Vec::new();
        for word in &simple.words {
            words.extend(self.expand(word)?);
        }
        let mut before = Vec::new();
        for (name, word) in &simple.assignments {
            let value = self.text(word)?;
            before.push((name.clone(), self.variables.insert(name.clone(), value)));
        }
        let output = self.output(&simple.redirects)?;
        if output.is_some() {
            self.captured.push(String::new());
        }
        let ran = if words.is_empty() { Ok(0) } else { self.program(&words) };
        if let Some((path, appends)) = output {
            let printed = self.captured.pop().unwrap_or_default();
            self.write(&path, appends, &printed)?;
        }
        // An assignment before a program applies to that program alone.
        if !words.is_empty() {
            for (name, value) in before {
                match value {
                    Some(value) => drop(self.variables.insert(name, value)),
                    None => drop(self.variables.remove(&name)),
                }
            }
        }
        ran
    }

    /// Returns the file to which the output goes, and whether it is added at the end.
    fn output(&mut self, redirects: &[Redirect]) -> Result<Option<(String, bool)>, Halt> {
        let mut output = None;
        for redirect in redirects {
            let path = self.text(&redirect.target)?;
            if redirect.is_output {
                output = Some((path, redirect.appends));
            } else if path != "/dev/null" {
                return Err(Halt::Unknown);
            }
        }
        Ok(output)
    }

    fn write(&mut self, path: &str, appends: bool, printed: &str) -> Result<(), Halt> {
        match path {
            "/dev/null" | "/dev/stderr" => return Ok(()),
            "/dev/stdout" => {
                self.print(printed)?;
                return Ok(());
            }
            _ => {}
        }
        let mut content = match appends {
            true => self.read_file(path)?.unwrap_or_default(),
            false => String::new(),
        };
        content.push_str(printed);
        self.write_file(path, Some(content))
    }

    /// Runs a function or a program.
    pub(super) fn program(&mut self, words: &[String]) -> Ran {
        let Some((name, arguments)) = words.split_first() else { return Ok(0) };
        if let Some(body) = self.functions.get(name).cloned() {
            if self.calls >= CALLS_MAX {
                return Err(Halt::Unknown);
            }
            self.calls += 1;
            let of_function = self.positional.first().into_iter().chain(arguments).cloned().collect();
            let of_caller = std::mem::replace(&mut self.positional, of_function);
            let ran = self.list(&body);
            self.positional = of_caller;
            self.calls -= 1;
            return match ran {
                Err(Halt::Return(code)) => Ok(code),
                ran => ran,
            };
        }
        builtin::run(self, name, arguments)
    }

    /// Returns the exit code of the last command.
    pub(super) fn last_status(&self) -> i32 {
        self.status
    }

    /// Prints text.
    pub(super) fn print(&mut self, text: &str) -> Result<(), Halt> {
        self.spend(text.len())?;
        self.printed += text.len();
        if self.printed > PRINTED_BYTES_MAX {
            return Err(Halt::Endless);
        }
        if let Some(captured) = self.captured.last_mut() {
            captured.push_str(text);
            return Ok(());
        }
        for piece in text.split_inclusive('\n') {
            self.line.push_str(piece.trim_end_matches('\n'));
            if piece.ends_with('\n') {
                if self.log.len() >= LINES_MAX {
                    return Err(Halt::Endless);
                }
                self.spend(WORD_COST)?;
                self.end_line();
            }
        }
        Ok(())
    }

    fn end_line(&mut self) {
        self.log.push(LogLine { after: self.time, text: std::mem::take(&mut self.line) });
    }

    /// Expands a word to one text.
    fn text(&mut self, word: &Word) -> Result<String, Halt> {
        Ok(self.expand(word)?.join(" "))
    }

    /// Expands a word. What is not quoted is divided at blanks.
    fn expand(&mut self, word: &Word) -> Result<Vec<String>, Halt> {
        let mut fields = Vec::new();
        let mut field: Option<String> = None;
        let mut bytes = 0;
        for part in &word.parts {
            let (text, quoted) = match part {
                // The shell would expand these to the names of files.
                Part::Text { text, quoted: false } if text.contains(['*', '?', '~']) => {
                    return Err(Halt::Unknown);
                }
                Part::Text { text, .. } => (text.clone(), true),
                Part::Variable { name, default, quoted } => {
                    (self.variable(name, default.as_deref())?, *quoted)
                }
                Part::Output { list, quoted } => (self.output_of(list)?, *quoted),
                Part::Arithmetic(text) => (self.arithmetic(text)?.to_string(), true),
            };
            self.spend(text.len() + WORD_COST)?;
            bytes += text.len();
            if bytes > WORD_BYTES_MAX {
                return Err(Halt::Unknown);
            }
            if quoted {
                field.get_or_insert_default().push_str(&text);
                continue;
            }
            let mut pieces = text.split_ascii_whitespace();
            if text.starts_with(|c: char| c.is_ascii_whitespace()) {
                fields.extend(field.take());
            }
            if let Some(first) = pieces.next() {
                field.get_or_insert_default().push_str(first);
            }
            for piece in pieces {
                fields.extend(field.replace(piece.to_owned()));
            }
            if text.ends_with(|c: char| c.is_ascii_whitespace()) {
                fields.extend(field.take());
            }
        }
        fields.extend(field);
        self.spend(fields.len() * WORD_COST)?;
        Ok(fields)
    }

    fn variable(&mut self, name: &str, default: Option<&str>) -> Result<String, Halt> {
        let value = match name {
            "?" => Some(self.status.to_string()),
            "$" => Some("1".to_owned()),
            "#" => Some(self.positional.len().saturating_sub(1).to_string()),
            number if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                number.parse().ok().and_then(|number: usize| self.positional.get(number).cloned())
            }
            "RANDOM" if !self.variables.contains_key(name) => Some(self.next_random().to_string()),
            "HOSTNAME" if !self.variables.contains_key(name) => Some(self.host_name.clone()),
            _ => self.variables.get(name).cloned(),
        };
        self.spend(value.as_ref().map_or(0, String::len))?;
        match (value.filter(|value| !value.is_empty()), default) {
            (Some(value), _) => Ok(value),
            (None, _) if self.has_unknown_variables && !self.variables.contains_key(name) => {
                Err(Halt::Unknown)
            }
            // All arguments at once.
            (None, _) if matches!(name, "@" | "*") && self.positional.len() > 1 => Err(Halt::Unknown),
            // What the image sets.
            (None, _) if matches!(name, "PATH" | "HOME" | "PWD") => Err(Halt::Unknown),
            (None, default) => Ok(default.unwrap_or_default().to_owned()),
        }
    }

    /// Returns a number from 0 to 32767, as bash does.
    fn next_random(&mut self) -> u32 {
        self.varies = true;
        // The generator of the C standard's example.
        self.random = self.random.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        (self.random >> 16) & 0x7fff
    }

    fn output_of(&mut self, list: &List) -> Result<String, Halt> {
        self.captured.push(String::new());
        let ran = self.list(list);
        let printed = self.captured.pop().unwrap_or_default();
        match ran {
            Ok(code) | Err(Halt::Exit(code) | Halt::Return(code)) => self.status = code,
            Err(halt) => return Err(halt),
        }
        Ok(printed.trim_end_matches('\n').to_owned())
    }

    fn arithmetic(&mut self, text: &str) -> Result<i64, Halt> {
        self.spend(text.len())?;
        arithmetic::evaluate(text, &mut |name| self.variable(name, None).ok()).ok_or(Halt::Unknown)
    }
}
