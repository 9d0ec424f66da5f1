//! The syntax and type errors of an expression, with their positions.

use std::fmt;

/// How many errors are printed; the rest is only counted.
const SHOWN_MAX: usize = 100;
/// The longest source line that is printed below an error.
const SNIPPET_MAX: usize = 16_384;

/// A position in the source: the line from one, the column in characters from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Position {
    pub(crate) const START: Position = Position { line: 1, column: 0 };

    /// The position of the character that begins at this byte.
    pub(crate) fn of(source: &str, byte: usize) -> Position {
        let before = source.char_indices().take_while(|(at, _)| *at < byte).map(|(_, c)| c);
        before.fold(Position::START, |position, c| match c {
            '\n' => Position { line: position.line + 1, column: 0 },
            _ => Position { column: position.column + 1, ..position },
        })
    }
}

/// One error.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Issue {
    pub(crate) position: Position,
    pub(crate) message: String,
}

/// The errors of an expression. Each prints with its position and source line.
#[derive(Debug, Clone, PartialEq)]
pub struct Issues {
    source: String,
    issues: Vec<Issue>,
}

impl Issues {
    pub(crate) fn new(source: &str, mut issues: Vec<Issue>) -> Self {
        issues.sort_by_key(|issue| issue.position);
        Issues { source: source.to_owned(), issues }
    }

    /// An error that has no position.
    pub(crate) fn internal(source: &str, message: &str) -> Self {
        let position = Position { line: 0, column: 0 };
        Issues { source: source.to_owned(), issues: vec![Issue { position, message: message.to_owned() }] }
    }
}

impl fmt::Display for Issues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, issue) in self.issues.iter().take(SHOWN_MAX).enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            show(f, issue, &self.source)?;
        }
        match self.issues.len().saturating_sub(SHOWN_MAX) {
            0 => Ok(()),
            more => write!(f, "\n{more} more errors were truncated"),
        }
    }
}

fn show(f: &mut fmt::Formatter<'_>, issue: &Issue, source: &str) -> fmt::Result {
    let Position { line, column } = issue.position;
    if line == 0 {
        return write!(f, "ERROR: <input>:-1:0: {}", issue.message);
    }
    write!(f, "ERROR: <input>:{line}:{}: {}", column + 1, issue.message)?;
    let Some(text) = source.split('\n').nth(line - 1).filter(|text| text.len() <= SNIPPET_MAX) else {
        return Ok(());
    };
    let text = text.replace('\t', " ");
    write!(f, "\n | {text}\n | ")?;
    let mut marks = text.chars();
    // A wide character is marked by a wide sign, so that the arrow lines up with the column.
    for c in marks.by_ref().take(column) {
        f.write_str(if c.is_ascii() { "." } else { "\u{ff0e}" })?;
    }
    f.write_str(if marks.next().is_none_or(|c| c.is_ascii()) { "^" } else { "\u{ff3e}" })
}
