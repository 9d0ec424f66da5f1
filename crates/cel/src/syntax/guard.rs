//! Refuses expressions that are too long or too deep for the parser, before it sees them.
//!
//! The generated parser recurses for every bracket and for every operator of a chain such as `1 + 1 + 1`, and does not
//! bound the latter. [`check`] counts both on the raw text, so that no text can overflow the parser's stack.

use crate::issue::{Issue, Issues, Position};

/// How many code points an expression may have.
const LENGTH_MAX: usize = 100_000;
/// How deep brackets may be nested, and how long a chain of operators may be.
pub(crate) const DEPTH_MAX: u16 = 250;
/// How many levels, of brackets and operators together, may be open at one position.
const LEVELS_MAX: usize = 2_000;

/// The error of an expression that is nested too deep.
pub(crate) fn too_deep() -> Issue {
    Issue {
        position: Position { line: 0, column: 0 },
        message: format!("expression recursion limit exceeded: {DEPTH_MAX}"),
    }
}

/// Refuses a text that is too long or too deep for the parser. Returns the most levels that are open at one position.
pub(crate) fn check(source: &str) -> Result<usize, Issues> {
    let length = source.chars().count();
    if length > LENGTH_MAX {
        let message = format!("expression code point size exceeds limit: size: {length}, limit {LENGTH_MAX}");
        return Err(Issues::internal(source, &message));
    }
    let mut scan = Scan { open: vec![0], levels: 0, most: 0 };
    match scan.text(source) {
        true => Ok(scan.most),
        false => Err(Issues::internal(source, &too_deep().message)),
    }
}

/// The length of the operator chain inside of each open bracket.
struct Scan {
    open: Vec<usize>,
    levels: usize,
    /// The most levels that were open together.
    most: usize,
}

impl Scan {
    /// Scans the text. Returns whether it stays within the limits.
    fn text(&mut self, source: &str) -> bool {
        let mut rest = source;
        while let Some(c) = rest.chars().next() {
            let after = &rest[c.len_utf8()..];
            if is_word(c) {
                let (word, after) = rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()));
                rest = skip_raw_string(word, after);
                if is_in(word) && !(self.deeper() && self.deeper()) {
                    return false;
                }
                continue;
            }
            rest = match c {
                '"' | '\'' => skip_string(rest, c, true),
                '/' if after.starts_with('/') => after.find('\n').map_or("", |at| &after[at..]),
                _ => after,
            };
            let within = match c {
                '(' | '[' | '{' => self.deeper() && self.enter(),
                ')' | ']' | '}' => self.leave(),
                '+' | '-' | '*' | '/' | '%' | '.' | '=' | '<' | '>' | '!' | '?' => self.deeper(),
                ',' | '&' | '|' => self.restart(),
                _ => true,
            };
            if !within {
                return false;
            }
        }
        true
    }

    fn deeper(&mut self) -> bool {
        self.levels += 1;
        self.most = self.most.max(self.levels);
        let Some(chain) = self.open.last_mut() else { return true };
        *chain += 1;
        // Operators of two characters count twice.
        *chain <= 2 * usize::from(DEPTH_MAX) && self.levels <= LEVELS_MAX
    }

    fn enter(&mut self) -> bool {
        self.open.push(0);
        self.open.len() <= usize::from(DEPTH_MAX) + 1
    }

    fn leave(&mut self) -> bool {
        if self.open.len() > 1 {
            self.levels -= self.open.pop().unwrap_or(0);
        }
        true
    }

    fn restart(&mut self) -> bool {
        if let Some(chain) = self.open.last_mut() {
            self.levels -= *chain;
            *chain = 0;
        }
        true
    }
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_ascii_alphanumeric()
}

/// Whether a word is the operator `in`, which may stand right after a number.
fn is_in(word: &str) -> bool {
    word == "in" || word.starts_with(|c: char| c.is_ascii_digit()) && word.ends_with("in")
}

/// Skips a raw string literal, if the word is its prefix, and returns the rest of the text.
fn skip_raw_string<'a>(word: &str, after: &'a str) -> &'a str {
    let raw = matches!(word.to_ascii_lowercase().as_str(), "r" | "br" | "rb");
    match after.chars().next() {
        Some(quote @ ('"' | '\'')) if raw => skip_string(after, quote, false),
        _ => after,
    }
}

/// Skips a string literal and returns the rest of the text. The parser reports a string that does not end.
fn skip_string(text: &str, quote: char, escapes: bool) -> &str {
    let triple: String = [quote; 3].iter().collect();
    let (body, end) = match text.strip_prefix(&triple) {
        Some(body) => (body, triple),
        None => (&text[1..], quote.to_string()),
    };
    let mut escaped = false;
    for (at, c) in body.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if escapes => escaped = true,
            _ if body[at..].starts_with(&end) => return &body[at + end.len()..],
            _ => {}
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_chains_and_deep_brackets_are_refused() {
        assert!(check(&"1+".repeat(240)).is_ok());
        assert!(check(&"1+".repeat(1000)).is_err());
        assert!(check(&"a.".repeat(5000)).is_err());
        assert!(check(&"(".repeat(300)).is_err());
        assert!(check(&"a || ".repeat(5000)).is_ok());
        assert!(check(&"x".repeat(100_001)).is_err());
        assert!(check("'...........' == \"((((\"").is_ok());
        assert_eq!(check("f(a.b, (c))").unwrap_or_default(), 2);
        assert!(check(&format!("'{}'", "(".repeat(3000))).is_ok());
        assert!(check(&"1 in ".repeat(300)).is_err());
        assert!(check(&"1e5in ".repeat(300)).is_err());
        assert!(check(&"inn.in_ + ".repeat(100)).is_ok());
        assert!(
            check(&format!(r#"r"\" + {}"#, "(".repeat(3000))).is_err(),
            "a raw string ends at its first quote"
        );
        assert!(check(&format!(r#"R"""\""" + {}"#, "(".repeat(3000))).is_err());
    }
}
