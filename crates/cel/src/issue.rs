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
}

/// Finds positions in one source. Every node of an expression has a position, and counting the characters before each
/// of them would take time quadratic in the length of the source.
#[derive(Debug)]
pub(crate) struct Positions {
    /// The number of characters before each line.
    lines: Vec<usize>,
    /// The byte offset of each character, or `None` if each character has one byte.
    characters: Option<Vec<usize>>,
}

impl Positions {
    pub(crate) fn new(source: &str) -> Self {
        let ends = source.chars().enumerate().filter(|(_, c)| *c == '\n').map(|(at, _)| at + 1);
        let wide = !source.is_ascii();
        Self {
            lines: std::iter::once(0).chain(ends).collect(),
            characters: wide.then(|| source.char_indices().map(|(at, _)| at).collect()),
        }
    }

    /// The position of the character that begins at this byte.
    pub(crate) fn of(&self, byte: usize) -> Position {
        let before = match &self.characters {
            Some(characters) => characters.partition_point(|at| *at < byte),
            None => byte,
        };
        let line = self.lines.partition_point(|start| *start <= before).max(1);
        Position { line, column: before - self.lines[line - 1] }
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
    if source.is_empty() {
        return write!(f, "ERROR: <input>:{line}:0: {}", issue.message);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_counted_in_lines_and_characters() {
        for source in ["", "a", "ab\ncd\n\ne", "é日\n日a\u{301}b\n", "\n\n", "\u{1f600}x"] {
            let positions = Positions::new(source);
            let mut wanted = Position::START;
            for (at, c) in source.char_indices() {
                assert_eq!(positions.of(at), wanted, "{source:?} {at}");
                wanted = match c {
                    '\n' => Position { line: wanted.line + 1, column: 0 },
                    _ => Position { column: wanted.column + 1, ..wanted },
                };
            }
            assert_eq!(positions.of(source.len()), wanted, "the end of {source:?}");
        }
    }
}
