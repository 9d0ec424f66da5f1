//! Regular expressions as Go has them, on the engine that Rust has.
//!
//! The two languages are nearly one. Go's `\d`, `\w`, `\s` and `\b` know ASCII only, and in a class of Go's a bracket
//! or a doubled operator stands for itself; the rest is passed on as it is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use regex::{Regex, RegexBuilder};

/// How many compiled patterns are kept: more than the schemas of a busy cluster have, and a few megabytes at most.
const KEPT_MAX: usize = 512;

static KEPT: Mutex<BTreeMap<String, Option<Arc<Regex>>>> = Mutex::new(BTreeMap::new());

/// The compiled pattern, or none where it is no regular expression.
pub(super) fn compiled(pattern: &str) -> Option<Arc<Regex>> {
    let mut kept = KEPT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(regex) = kept.get(pattern) {
        return regex.clone();
    }
    let regex = compile(pattern).ok().map(Arc::new);
    if kept.len() >= KEPT_MAX {
        kept.clear();
    }
    kept.insert(pattern.to_owned(), regex.clone());
    regex
}

/// Compiles without keeping; the error is the engine's own.
pub(super) fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(&translate(pattern)).octal(true).build()
}

fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.next() {
                Some('Q') => {
                    let text: String = rest.by_ref().collect();
                    let (quoted, after) = text.split_once("\\E").unwrap_or((&text, ""));
                    out.push_str(&regex::escape(quoted));
                    out.push_str(&translate(after));
                    return out;
                }
                Some(escaped) => out.push_str(&escape(escaped)),
                None => out.push('\\'),
            },
            '[' if in_class && rest.peek() == Some(&':') => {
                out.push('[');
                for c in rest.by_ref() {
                    out.push(c);
                    if c == ']' {
                        break;
                    }
                }
            }
            '[' if in_class => out.push_str("\\["),
            '[' => {
                in_class = true;
                out.push('[');
                if rest.peek() == Some(&'^') {
                    out.extend(rest.next());
                }
                // A bracket right after the opening stands for itself.
                if rest.peek() == Some(&']') {
                    rest.next();
                    out.push_str("\\]");
                }
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            '-' if in_class && rest.peek() == Some(&'-') => out.push_str("\\-"),
            c => out.push(c),
        }
    }
    out
}

fn escape(c: char) -> String {
    match c {
        'd' => "[0-9]".into(),
        'D' => "[^0-9]".into(),
        'w' => "[0-9A-Za-z_]".into(),
        'W' => "[^0-9A-Za-z_]".into(),
        's' => r"[\t\n\x0C\r ]".into(),
        'S' => r"[^\t\n\x0C\r ]".into(),
        'b' => r"(?-u:\b)".into(),
        'B' => r"(?-u:\B)".into(),
        c => format!("\\{c}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_go() {
        let matches = |pattern: &str, text: &str| compiled(pattern).expect(pattern).is_match(text);
        assert!(matches(r"^\d+$", "12") && !matches(r"^\d+$", "١٢"));
        assert!(matches(r"^[\w.-]+$", "a_b.c-d") && !matches(r"^\w+$", "é"));
        assert!(matches(r"^[[]$", "[") && matches(r"^[]a]+$", "]a"));
        assert!(matches(r"^[a&&b]+$", "a&b") && matches(r"^[[:alpha:]]+$", "ab"));
        assert!(matches(r"\Qa.b\E$", "a.b") && !matches(r"^\Qa.b\E$", "axb"));
        assert!(matches(r"^.$", "é"));
        assert!(compiled("(").is_none());
    }
}
