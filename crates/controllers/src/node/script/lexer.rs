//! Divides a script into words and operators.

use super::syntax::{List, parse};

/// A word or an operator.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Word(Word),
    Operator(&'static str),
}

/// A word, of which parts may be expanded.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Word {
    pub(super) parts: Vec<Part>,
}

/// A part of a word.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    Text {
        text: String,
        quoted: bool,
    },
    /// A variable, with the value that it has if it is empty.
    Variable {
        name: String,
        default: Option<String>,
        quoted: bool,
    },
    /// `$(…)`: what commands print.
    Output {
        list: List,
        quoted: bool,
    },
    /// `$((…))`: a number.
    Arithmetic(String),
}

impl Word {
    fn push(&mut self, c: char, quoted: bool) {
        match self.parts.last_mut() {
            Some(Part::Text { text, quoted: was }) if *was == quoted => text.push(c),
            _ => self.parts.push(Part::Text { text: c.to_string(), quoted }),
        }
    }
}

/// The operators, the longest first.
const OPERATORS: [&str; 15] =
    ["2>&1", "2>>", "2>", "&&", "||", ">>", ";;", "()", ";", "\n", ">", "<", "|", "&", "("];

/// Divides a script into tokens; `None` if a quote or a bracket is not closed, or an expansion is not understood.
pub(super) fn lex(text: &str, depth: usize) -> Option<Vec<Token>> {
    let mut rest = text;
    let mut tokens = Vec::new();
    let mut word: Option<Word> = None;
    while let Some(c) = rest.chars().next() {
        let operator = OPERATORS.iter().find(|operator| {
            // A number before `>` is a redirection only if it stands alone.
            rest.starts_with(**operator) && (word.is_none() || !operator.starts_with('2'))
        });
        if let Some(operator) = operator {
            tokens.extend(word.take().map(Token::Word));
            tokens.push(Token::Operator(operator));
            rest = &rest[operator.len()..];
        } else if c == ' ' || c == '\t' || c == '\r' {
            tokens.extend(word.take().map(Token::Word));
            rest = &rest[1..];
        } else if c == '#' && word.is_none() {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
        } else if let Some(after) = rest.strip_prefix("\\\n") {
            rest = after;
        } else {
            rest = part(rest, word.get_or_insert_default(), depth)?;
        }
    }
    tokens.extend(word.take().map(Token::Word));
    Some(tokens)
}

/// Reads one part of a word. Returns what follows it.
fn part<'a>(text: &'a str, word: &mut Word, depth: usize) -> Option<&'a str> {
    let mut chars = text.chars();
    match chars.next()? {
        '\'' => {
            let end = text[1..].find('\'')?;
            word.parts.push(Part::Text { text: text[1..=end].to_owned(), quoted: true });
            Some(&text[end + 2..])
        }
        '"' => double_quoted(&text[1..], word, depth),
        '\\' => {
            word.push(chars.next()?, true);
            Some(chars.as_str())
        }
        '$' => expansion(text, word, false, depth),
        // Other forms of the shell's language.
        '`' | ')' => None,
        c => {
            word.push(c, false);
            Some(chars.as_str())
        }
    }
}

fn double_quoted<'a>(text: &'a str, word: &mut Word, depth: usize) -> Option<&'a str> {
    // Even an empty text in quotes is a word.
    word.parts.push(Part::Text { text: String::new(), quoted: true });
    let mut rest = text;
    loop {
        let mut chars = rest.chars();
        match chars.next()? {
            '"' => return Some(chars.as_str()),
            '\\' => {
                let next = chars.next()?;
                if !matches!(next, '"' | '\\' | '$' | '`') {
                    word.push('\\', true);
                }
                word.push(next, true);
                rest = chars.as_str();
            }
            '$' => rest = expansion(rest, word, true, depth)?,
            '`' => return None,
            c => {
                word.push(c, true);
                rest = chars.as_str();
            }
        }
    }
}

/// Reads what a dollar sign begins.
fn expansion<'a>(text: &'a str, word: &mut Word, quoted: bool, depth: usize) -> Option<&'a str> {
    let after = &text[1..];
    if after.starts_with("((") {
        let inner = &after[1..];
        let end = closing(inner)?;
        let expression = inner[..end].strip_prefix('(')?.strip_suffix(')')?;
        word.parts.push(Part::Arithmetic(expression.to_owned()));
        return Some(&inner[end + 1..]);
    }
    if let Some(inner) = after.strip_prefix('(') {
        let end = closing(inner)?;
        word.parts.push(Part::Output { list: parse(&inner[..end], depth + 1)?, quoted });
        return Some(&inner[end + 1..]);
    }
    if let Some(inner) = after.strip_prefix('{') {
        let end = inner.find('}')?;
        let (name, default) = match inner[..end].split_once(":-") {
            Some((name, default)) => (name, Some(default.to_owned())),
            None => (&inner[..end], None),
        };
        // Defaults with expansions, and other operators than `:-`.
        let simple = name.chars().all(is_name) && !name.is_empty();
        if !simple || default.as_deref().is_some_and(|default| default.contains(['$', '"', '\'', '`'])) {
            return None;
        }
        word.parts.push(Part::Variable { name: name.to_owned(), default, quoted });
        return Some(&inner[end + 1..]);
    }
    let length = match after.chars().next() {
        Some(c) if matches!(c, '?' | '$' | '#' | '@' | '*') || c.is_ascii_digit() => 1,
        Some(c) if is_name(c) => after.find(|c: char| !is_name(c)).unwrap_or(after.len()),
        _ => {
            word.push('$', true);
            return Some(after);
        }
    };
    word.parts.push(Part::Variable { name: after[..length].to_owned(), default: None, quoted });
    Some(&after[length..])
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns the place of the bracket that closes one that is open.
fn closing(text: &str) -> Option<usize> {
    let (mut open, mut quote) = (1, None);
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match (quote, c) {
            (None | Some('"'), '\\') => drop(chars.next()),
            (Some(mark), c) if c == mark => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(') => open += 1,
            (None, ')') => {
                open -= 1;
                if open == 0 {
                    return Some(at);
                }
            }
            (None, _) => {}
        }
    }
    None
}
