//! Regular expressions in Go's syntax, on the `regex` crate.
//!
//! The two syntaxes are nearly equal. Go's `\d`, `\w`, `\s` and `\b` match ASCII only, and inside of a character class a
//! bracket or a doubled operator stands for itself. `translate` rewrites these; everything else is passed on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use regex::{Regex, RegexBuilder};

/// How many compiled patterns are cached: more than the schemas of a busy cluster have, and a few megabytes at most.
const KEPT_MAX: usize = 512;

const NESTED: &str = "invalid nested repetition operator";
const COUNT: &str = "invalid repeat count";

static KEPT: Mutex<BTreeMap<String, Option<Arc<Regex>>>> = Mutex::new(BTreeMap::new());

/// The compiled pattern, from the cache if possible; `None` if it is not a valid pattern in Go.
pub fn compiled(pattern: &str) -> Option<Arc<Regex>> {
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

/// Whether a pattern in Go's syntax matches a string.
pub fn is_match(pattern: &str, text: &str) -> bool {
    compiled(pattern).is_some_and(|regex| regex.is_match(text))
}

/// Whether the compiled pattern is cached.
pub fn is_kept(pattern: &str) -> bool {
    KEPT.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).contains_key(pattern)
}

fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    // The `regex` crate accepts nested repetitions and large counts, which Go refuses.
    let (problem, _) = Scan { pattern, at: 0, groups: 0, before: Before::Nothing }.problem();
    if matches!(problem, NESTED | COUNT) {
        return Err(regex::Error::Syntax(problem.to_owned()));
    }
    RegexBuilder::new(&translate(pattern)).octal(true).build()
}

/// Go's error message for an invalid pattern.
pub fn go_error(pattern: &str) -> String {
    let (problem, part) = Scan { pattern, at: 0, groups: 0, before: Before::Nothing }.problem();
    format!("error parsing regexp: {problem}: `{part}`")
}

/// What precedes the current position of a scan.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    /// Nothing that could be repeated.
    Nothing,
    /// Something that could be repeated.
    Something,
    /// A repetition that begins at this byte.
    Repetition(usize),
}

/// Finds the first syntax error that Go would report.
struct Scan<'a> {
    pattern: &'a str,
    at: usize,
    groups: usize,
    before: Before,
}

impl<'a> Scan<'a> {
    fn problem(mut self) -> (&'static str, &'a str) {
        while let Some(c) = self.pattern[self.at..].chars().next() {
            let start = self.at;
            self.at += c.len_utf8();
            let found = match c {
                '\\' => self.escape(start),
                '[' => self.class(start),
                '(' => self.open(start),
                ')' if self.groups == 0 => Some(("unexpected )", self.pattern)),
                ')' => {
                    self.groups -= 1;
                    self.before = Before::Something;
                    None
                }
                '|' => {
                    self.before = Before::Nothing;
                    None
                }
                '*' | '+' | '?' => self.repeat(start),
                '{' => self.count(start),
                _ => {
                    self.before = Before::Something;
                    None
                }
            };
            if let Some(found) = found {
                return found;
            }
        }
        if self.groups > 0 { ("missing closing )", self.pattern) } else { ("invalid regexp", self.pattern) }
    }

    fn escape(&mut self, start: usize) -> Option<(&'static str, &'a str)> {
        let Some(c) = self.pattern[self.at..].chars().next() else {
            return Some(("trailing backslash at end of expression", ""));
        };
        self.at += c.len_utf8();
        self.before = Before::Something;
        let known = !c.is_ascii_alphanumeric() || "dDsSwWbBAzQECpPafnrtvx0".contains(c);
        (!known).then(|| ("invalid escape sequence", &self.pattern[start..self.at]))
    }

    fn class(&mut self, start: usize) -> Option<(&'static str, &'a str)> {
        let inner = &self.pattern[self.at..];
        let negated = usize::from(inner.starts_with('^'));
        // A closing bracket that comes first stands for itself.
        let first = negated + usize::from(inner[negated..].starts_with(']'));
        let mut rest = inner[first..].char_indices();
        self.before = Before::Something;
        while let Some((at, c)) = rest.next() {
            match c {
                ']' => {
                    self.at += first + at + 1;
                    return None;
                }
                '\\' => {
                    rest.next();
                }
                '[' if inner[first + at..].starts_with("[:") => {
                    rest.by_ref().find(|(_, c)| *c == ']');
                }
                _ => {}
            }
        }
        Some(("missing closing ]", &self.pattern[start..]))
    }

    fn open(&mut self, start: usize) -> Option<(&'static str, &'a str)> {
        self.groups += 1;
        self.before = Before::Nothing;
        let rest = &self.pattern[self.at..];
        if !rest.starts_with('?') {
            return None;
        }
        let end = rest.find([':', ')', '>']).unwrap_or(rest.len());
        let name = rest.starts_with("?P<")
            || (rest.starts_with("?<") && !rest.starts_with("?<=") && !rest.starts_with("?<!"));
        let flags = rest[1..end].bytes().all(|byte| b"imsU-".contains(&byte));
        if !name && !flags {
            let shown = (self.at + 2).min(self.pattern.len());
            return Some(("invalid or unsupported Perl syntax", self.pattern.get(start..shown)?));
        }
        self.at += (end + 1).min(rest.len());
        if rest[..end.min(rest.len())].len() < rest.len() && rest[end..].starts_with(')') {
            self.groups -= 1;
        }
        None
    }

    fn repeat(&mut self, start: usize) -> Option<(&'static str, &'a str)> {
        let lazy = usize::from(self.pattern[self.at..].starts_with('?'));
        self.at += lazy;
        match self.before {
            Before::Nothing => {
                Some(("missing argument to repetition operator", &self.pattern[start..self.at]))
            }
            Before::Repetition(first) => Some((NESTED, &self.pattern[first..self.at])),
            Before::Something => {
                self.before = Before::Repetition(start);
                None
            }
        }
    }

    fn count(&mut self, start: usize) -> Option<(&'static str, &'a str)> {
        /// Go's highest repeat count.
        const COUNT_MAX: u32 = 1000;
        let rest = &self.pattern[self.at..];
        let numbers = rest.split_once('}').map(|(inner, _)| inner);
        let Some(inner) = numbers.filter(|inner| is_count(inner)) else {
            self.before = Before::Something;
            return None;
        };
        self.at += inner.len() + 1;
        let (low, high) = inner.split_once(',').unwrap_or((inner, inner));
        let number = |text: &str| text.parse::<u32>().unwrap_or(u32::MAX);
        let (low, high) = (number(low), if high.is_empty() { COUNT_MAX } else { number(high) });
        if low > COUNT_MAX || high > COUNT_MAX || low > high {
            return Some((COUNT, &self.pattern[start..self.at]));
        }
        self.repeat(start)
    }
}

/// Whether the text between braces is a count: one number, or two with a comma.
fn is_count(text: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match text.split_once(',') {
        Some((low, high)) => !low.is_empty() && digits(low) && digits(high),
        None => !text.is_empty() && digits(text),
    }
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
                // A closing bracket right after the opening one stands for itself.
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
