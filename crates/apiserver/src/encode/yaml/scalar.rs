//! Strings in YAML: their style, and where they are folded.

use std::fmt::Write as _;

/// The column after which a string is folded at the next space.
const WIDTH: usize = 80;

/// The position at which a string is written.
pub(super) struct Position {
    /// The indentation of the enclosing mapping or sequence.
    pub(super) indent: usize,
    /// Whether the string is a key; keys are never folded.
    pub(super) is_key: bool,
}

/// Writes a string in the style that Go's library chooses for it.
pub(super) fn write(out: &mut String, text: &str, place: &Position) {
    let styles = Styles::of(text);
    if text.contains('\n') {
        match styles.block && !place.is_key {
            true => literal(out, text, place),
            false => double_quoted(out, text, place),
        }
    } else if reads_as_other_type(text) || styles.special {
        double_quoted(out, text, place);
    } else if styles.plain {
        folded(out, text, place, |c, out| out.push(c));
    } else {
        out.push('\'');
        folded(out, text, place, |c, out| out.extend(std::iter::repeat_n(c, if c == '\'' { 2 } else { 1 })));
        out.push('\'');
    }
}

/// The styles that a string's characters allow.
struct Styles {
    plain: bool,
    block: bool,
    /// Whether the string has characters that must be escaped.
    special: bool,
}

impl Styles {
    fn of(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let is_blank = |at: usize| chars.get(at).is_none_or(|it| matches!(it, ' ' | '\t' | '\n' | '\r'));
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let mut special = false;
        let mut space_break = false;
        for (at, c) in chars.iter().enumerate() {
            indicators |= match (at, c) {
                (
                    0,
                    '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@'
                    | '`',
                ) => true,
                (0, '-' | '?') | (_, ':') => is_blank(at + 1),
                (_, '#') => is_blank(at - 1),
                _ => false,
            };
            special |= !is_printable(*c);
            space_break |= *c == '\n' && at > 0 && chars[at - 1] == ' ';
        }
        let edge = |c: Option<&char>| matches!(c, Some(' ' | '\n'));
        let plain = !(indicators || edge(chars.first()) || edge(chars.last()) || special);
        let block = !(special || space_break || chars.last() == Some(&' '));
        Self { plain, block, special }
    }
}

fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
        && c != '\u{feff}'
}

/// Whether YAML would read the unquoted string as something other than a string.
fn reads_as_other_type(text: &str) -> bool {
    const WORDS: [&str; 46] = [
        "", "~", "null", "Null", "NULL", "true", "True", "TRUE", "false", "False", "FALSE", "y", "Y", "yes",
        "Yes", "YES", "on", "On", "ON", "n", "N", "no", "No", "NO", "off", "Off", "OFF", ".nan", ".NaN",
        ".NAN", ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF", "<<", "+.nan",
        "-.nan", "+.NaN", "-.NaN", "+.NAN", "-.NAN",
    ];
    let first = text.chars().next();
    WORDS.contains(&text)
        || first.is_some_and(|it| it.is_ascii_digit() || matches!(it, '+' | '-' | '.'))
            && (is_number(text) || is_sexagesimal(text) || is_time(text))
}

fn is_number(text: &str) -> bool {
    let digits = text.replace('_', "");
    let unsigned = digits.strip_prefix(['+', '-']).unwrap_or(&digits);
    // Go's parser accepts no sign after the prefix of a base, except after `0b`.
    let based = |prefix: &str, base: u32| {
        let digits = unsigned.strip_prefix(prefix).filter(|it| !it.starts_with('+'));
        digits.is_some_and(|it| u64::from_str_radix(it, base).is_ok())
    };
    if based("0x", 16)
        || based("0X", 16)
        || based("0b", 2)
        || based("0B", 2)
        || based("0o", 8)
        || based("0O", 8)
        || digits.strip_prefix("0b").is_some_and(|it| i64::from_str_radix(it, 2).is_ok())
    {
        return true;
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let all_digits = |text: &str| text.bytes().all(|it| it.is_ascii_digit());
    let whole = match mantissa.split_once('.') {
        Some((whole, part)) => all_digits(whole) && !part.is_empty() && all_digits(part),
        None => !mantissa.is_empty() && all_digits(mantissa),
    };
    let exponent = exponent.is_none_or(|it| {
        let digits = it.strip_prefix(['+', '-']).unwrap_or_default();
        !digits.is_empty() && all_digits(digits)
    });
    whole && exponent
}

/// Whether a string is a number in base 60, such as `1:30`, which YAML 1.1 parsers recognize.
fn is_sexagesimal(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut parts = unsigned.split(':');
    let digits = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit() || it == b'_');
    let Some(first) = parts.next().filter(|it| digits(it)) else { return false };
    let rest: Vec<&str> = parts.collect();
    let below_sixty = |it: &&str| {
        let it = it.split('.').next().unwrap_or_default();
        matches!(it.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9'])
    };
    first.as_bytes()[0].is_ascii_digit() && !rest.is_empty() && rest.iter().all(below_sixty)
}

/// Whether a string is a date such as `2024-01-02`, with or without a time.
fn is_time(text: &str) -> bool {
    let digits = |it: &str, length: std::ops::RangeInclusive<usize>| {
        length.contains(&it.len()) && it.bytes().all(|it| it.is_ascii_digit())
    };
    let (date, time) = match text.split_once(['T', 't', ' ']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let parts: Vec<&str> = date.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return false };
    let is_date = digits(year, 4..=4) && digits(month, 1..=2) && digits(day, 1..=2);
    let parsed = time.is_none_or(|_| text.parse::<jiff::Timestamp>().is_ok());
    is_date && parsed
}

/// Writes characters and replaces single spaces by line breaks where the line is too long.
fn folded(out: &mut String, text: &str, place: &Position, put: impl Fn(char, &mut String)) {
    let chars: Vec<char> = text.chars().collect();
    let line = out.rfind('\n').map_or(0, |it| it + 1);
    let mut column = out[line..].chars().count();
    let mut was_space = false;
    for (at, c) in chars.iter().enumerate() {
        let inside = at > 0 && at + 1 < chars.len();
        if *c == ' ' && !place.is_key && !was_space && column > WIDTH && inside && chars[at + 1] != ' ' {
            column = line_break(out, place);
        } else {
            let before = out.len();
            put(*c, out);
            column += out[before..].chars().count();
        }
        was_space = *c == ' ';
    }
}

fn line_break(out: &mut String, place: &Position) -> usize {
    let indent = place.indent + super::INDENT;
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', indent));
    indent
}

fn double_quoted(out: &mut String, text: &str, place: &Position) {
    let chars: Vec<char> = text.chars().collect();
    out.push('"');
    let line = out.rfind('\n').map_or(0, |it| it + 1);
    let mut column = out[line..].chars().count();
    let mut was_space = false;
    for (at, c) in chars.iter().enumerate() {
        let inside = at > 0 && at + 1 < chars.len();
        if *c == ' ' && !place.is_key && !was_space && column > WIDTH && inside {
            column = line_break(out, place);
            if chars[at + 1] == ' ' {
                out.push('\\');
                column += 1;
            }
            was_space = true;
            continue;
        }
        let before = out.len();
        escape(out, *c);
        column += out[before..].chars().count();
        was_space = *c == ' ';
    }
    out.push('"');
}

fn escape(out: &mut String, c: char) {
    let short = match c {
        '\0' => '0',
        '\u{7}' => 'a',
        '\u{8}' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\u{b}' => 'v',
        '\u{c}' => 'f',
        '\r' => 'r',
        '\u{1b}' => 'e',
        '"' | '\\' => c,
        '\u{85}' => 'N',
        '\u{a0}' => '_',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        c if is_printable(c) => return out.push(c),
        c => {
            let number = u32::from(c);
            let _ = match number {
                0..=0xff => write!(out, "\\x{number:02X}"),
                0x100..=0xffff => write!(out, "\\u{number:04X}"),
                _ => write!(out, "\\U{number:08X}"),
            };
            return;
        }
    };
    out.push('\\');
    out.push(short);
}

/// Writes a literal block. Its indicator says whether the text ends with a line break.
fn literal(out: &mut String, text: &str, place: &Position) {
    out.push('|');
    if text.starts_with([' ', '\n']) {
        let _ = write!(out, "{}", super::INDENT);
    }
    if !text.ends_with('\n') {
        out.push('-');
    } else if text == "\n" || text.ends_with("\n\n") {
        out.push('+');
    }
    let indent = place.indent + super::INDENT;
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        out.push('\n');
        if !line.is_empty() {
            out.extend(std::iter::repeat_n(' ', indent));
            out.push_str(line);
        }
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_go() {
        for text in ["1", "-1_000", "+0x1F", "0b101", "0b+1", "0b-1", "-0b1", "0o17", "1.5", "1e+3"] {
            assert!(is_number(text), "{text}");
        }
        for text in ["0x+5", "0x-5", "0x", "0o+7", "0B+1", "-0b+1", "+0b-1", "0xg", "1.", "a"] {
            assert!(!is_number(text), "{text}");
        }
    }
}
