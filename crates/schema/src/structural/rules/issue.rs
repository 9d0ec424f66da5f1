//! What is wrong with an expression, and where.

use std::fmt;

/// More errors than these are only counted.
const SHOWN_MAX: usize = 100;
/// A line longer than this is not repeated in the message.
const SNIPPET_MAX: usize = 16_384;

/// A place in the source: the line from one, the column in characters from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Place {
    pub(super) const START: Place = Place { line: 1, column: 0 };

    /// The place of the character that begins at this byte.
    pub(super) fn of(source: &str, byte: usize) -> Place {
        let before = source.char_indices().take_while(|(at, _)| *at < byte).map(|(_, c)| c);
        before.fold(Place::START, |place, c| match c {
            '\n' => Place { line: place.line + 1, column: 0 },
            _ => Place { column: place.column + 1, ..place },
        })
    }
}

/// One error.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Issue {
    pub(super) place: Place,
    pub(super) message: String,
}

/// The errors of an expression, which print with the line that they are about.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Issues {
    source: String,
    issues: Vec<Issue>,
}

impl Issues {
    pub(super) fn new(source: &str, mut issues: Vec<Issue>) -> Self {
        issues.sort_by_key(|issue| issue.place);
        Issues { source: source.to_owned(), issues }
    }

    /// An error that has no place.
    pub(super) fn internal(source: &str, message: &str) -> Self {
        let place = Place { line: 0, column: 0 };
        Issues { source: source.to_owned(), issues: vec![Issue { place, message: message.to_owned() }] }
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
    let Place { line, column } = issue.place;
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
    // A wide character is marked by wide signs, so that the arrow stands below it.
    for c in marks.by_ref().take(column) {
        f.write_str(if c.is_ascii() { "." } else { "\u{ff0e}" })?;
    }
    f.write_str(if marks.next().is_none_or(|c| c.is_ascii()) { "^" } else { "\u{ff3e}" })
}
