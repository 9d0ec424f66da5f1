//! The functions on strings. Indexes count characters.

use evenkeel_scalars::go;

use crate::value::{Fault, Outcome, Text, Value};

/// The largest string that a function may make, in bytes. The largest request is smaller.
pub(crate) const BYTES_MAX: usize = 8 << 20;

fn out_of_range(index: i64) -> Fault {
    Fault::new(format!("index out of range: {index}"))
}

pub(crate) fn unary<'a>(function: &str, text: &Text<'a>) -> Outcome<Value<'a>> {
    Ok(match function {
        "lowerAscii" => Value::text(text.to_ascii_lowercase()),
        "upperAscii" => Value::text(text.to_ascii_uppercase()),
        "trim" => Value::text(text.trim()),
        "strings.quote" => Value::text(quote(text)),
        _ => return Err(Fault::no_overload()),
    })
}

/// Quotes a string. Unlike Go's `%q`, this leaves characters that cannot be printed as they are.
fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match go::short_escape(c) {
            Some(escape) => out.push_str(escape),
            None => out.push(c),
        }
    }
    out.push('"');
    out
}

pub(crate) fn binary<'a>(function: &str, text: &Text<'a>, b: &Value<'a>) -> Outcome<Value<'a>> {
    Ok(match (function, b) {
        ("startsWith", Value::String(other)) => Value::Bool(text.starts_with(&**other)),
        ("endsWith", Value::String(other)) => Value::Bool(text.ends_with(&**other)),
        ("contains", Value::String(other)) => Value::Bool(text.contains(&**other)),
        ("charAt", Value::Int(index)) => char_at(text, *index)?,
        ("indexOf", Value::String(other)) => Value::Int(index_of(text, other, 0)?),
        ("lastIndexOf", Value::String(other)) => Value::Int(last_index_of(text, other, None)?),
        ("split", Value::String(separator)) => split(text, separator, -1),
        ("substring", Value::Int(start)) => substring(text, *start, None)?,
        _ => return Err(Fault::no_overload()),
    })
}

pub(crate) fn ternary<'a>(
    function: &str,
    text: &Text<'a>,
    b: &Value<'a>,
    c: &Value<'a>,
) -> Outcome<Value<'a>> {
    Ok(match (function, b, c) {
        ("indexOf", Value::String(other), Value::Int(from)) => Value::Int(index_of(text, other, *from)?),
        ("lastIndexOf", Value::String(other), Value::Int(from)) => {
            Value::Int(last_index_of(text, other, Some(*from))?)
        }
        ("replace", Value::String(old), Value::String(new)) => replace(text, old, new, -1)?,
        ("split", Value::String(separator), Value::Int(count)) => split(text, separator, *count),
        ("substring", Value::Int(start), Value::Int(end)) => substring(text, *start, Some(*end))?,
        _ => return Err(Fault::no_overload()),
    })
}

/// The byte offset of the character at an index, which may be one past the last.
fn byte_at(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(index)
}

fn char_at<'a>(text: &str, index: i64) -> Outcome<Value<'a>> {
    let at = byte_at(text, index).ok_or_else(|| out_of_range(index))?;
    Ok(Value::text(text[at..].chars().next().map(String::from).unwrap_or_default()))
}

fn index_of(text: &str, other: &str, from: i64) -> Outcome<i64> {
    if from < 0 {
        return Err(out_of_range(from));
    }
    if other.is_empty() {
        return Ok(from);
    }
    let Some(start) = byte_at(text, from).filter(|start| *start < text.len()) else { return Ok(-1) };
    Ok(match text[start..].find(other) {
        Some(at) => from + text[start..start + at].chars().count() as i64,
        None => -1,
    })
}

fn last_index_of(text: &str, other: &str, from: Option<i64>) -> Outcome<i64> {
    let length = text.chars().count() as i64;
    if let Some(from) = from.filter(|from| *from < 0) {
        return Err(out_of_range(from));
    }
    if other.is_empty() {
        return Ok(from.unwrap_or(length));
    }
    if from.is_some_and(|from| from >= length) {
        return Ok(-1);
    }
    // A match may begin at `from` and reach beyond it.
    let end = match from.and_then(|from| byte_at(text, from)) {
        Some(start) => {
            let others = other.chars().count();
            text[start..].char_indices().map(|(at, _)| start + at).nth(others).unwrap_or(text.len())
        }
        None => text.len(),
    };
    Ok(text[..end].rfind(other).map_or(-1, |at| text[..at].chars().count() as i64))
}

fn substring<'a>(text: &str, start: i64, end: Option<i64>) -> Outcome<Value<'a>> {
    if let Some(end) = end.filter(|end| start > *end) {
        return Err(Fault::new(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let from = byte_at(text, start).ok_or_else(|| out_of_range(start))?;
    let to = match end {
        Some(end) => byte_at(text, end).ok_or_else(|| out_of_range(end))?,
        None => text.len(),
    };
    Ok(Value::text(&text[from..to]))
}

/// Replaces the first `count` occurrences, or all of them if `count` is negative.
pub(crate) fn replace<'a>(text: &str, old: &str, new: &str, count: i64) -> Outcome<Value<'a>> {
    let limit = usize::try_from(count).unwrap_or(usize::MAX);
    let found = match old.is_empty() {
        true => text.chars().count() + 1,
        false => text.matches(old).count(),
    };
    let growth = found.min(limit).saturating_mul(new.len());
    if text.len().saturating_add(growth) > BYTES_MAX {
        return Err(Fault::Limit);
    }
    Ok(Value::text(text.replacen(old, new, limit)))
}

fn split<'a>(text: &str, separator: &str, count: i64) -> Value<'a> {
    if count == 0 {
        return Value::list(Vec::new());
    }
    let limit = usize::try_from(count).unwrap_or(usize::MAX);
    if !separator.is_empty() {
        return Value::texts(text.splitn(limit, separator));
    }
    let mut parts: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if parts.len() + 1 == limit {
            parts.push(rest);
            break;
        }
        let (first, after) = rest.split_at(c.len_utf8());
        parts.push(first);
        rest = after;
    }
    Value::texts(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_cannot_be_printed_are_quoted_as_they_are() {
        assert_eq!(quote("a\n\"\u{1}é"), "\"a\\n\\\"\u{1}é\"");
    }

    #[test]
    fn places_are_counted_in_characters() {
        assert_eq!(index_of("tacocat", "a", 3), Ok(5));
        assert_eq!(index_of("ñaña", "ña", 1), Ok(2));
        assert_eq!(index_of("a", "", 9), Ok(9));
        assert_eq!(last_index_of("tacocat", "at", None), Ok(5));
        assert_eq!(last_index_of("ta©o©αT", "©", Some(3)), Ok(2));
        assert_eq!(last_index_of("hello", "l", Some(9)), Ok(-1));
        assert!(matches!(replace(&"a".repeat(1 << 20), "", &"b".repeat(1 << 20), -1), Err(Fault::Limit)));
    }
}
