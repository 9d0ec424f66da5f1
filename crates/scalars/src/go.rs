//! Prints strings and values as Go does, because Kubernetes' messages contain them in that form.

use std::fmt::Write;

use evenkeel_tree::value::{Number, Value};

/// Prints a string as Go's `%q` does.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    quote_into(&mut out, text);
    out
}

/// Appends a string as Go's `%q` prints it.
pub fn quote_into(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match short_escape(c) {
            Some(escape) => out.push_str(escape),
            None if is_print(c) => out.push(c),
            None => escape_into(out, c),
        }
    }
    out.push('"');
}

/// The escape of two characters that a character has in a quoted Go string, such as `\n`; `None` for characters without one.
pub fn short_escape(c: char) -> Option<&'static str> {
    Some(match c {
        '"' => "\\\"",
        '\\' => "\\\\",
        '\x07' => "\\a",
        '\x08' => "\\b",
        '\x0c' => "\\f",
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        '\x0b' => "\\v",
        _ => return None,
    })
}

fn escape_into(out: &mut String, c: char) {
    let code = u32::from(c);
    // Writing to a String cannot fail.
    let _ = match code {
        0..=0x7f => write!(out, "\\x{code:02x}"),
        0x80..=0xffff => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    };
}

/// Whether Go's `unicode.IsPrint` holds: letters, marks, numbers, punctuation, symbols and the ASCII space.
pub fn is_print(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    // The standard library escapes a combining mark only at the start of a string, hence the letter before it.
    let mut buffer = ['a', c].iter().collect::<String>();
    let escaped = buffer.escape_debug().count();
    buffer.clear();
    escaped == 2
}

/// Prints a list of strings as Go's `%q` does: `["a" "b"]`.
pub fn quote_list(list: &[String]) -> String {
    let quoted: Vec<String> = list.iter().map(|item| quote(item)).collect();
    format!("[{}]", quoted.join(" "))
}

/// Prints a number as Go's `%v` does: integers plainly, floats in their shortest form.
pub fn number(number: &Number) -> String {
    if number.is_i64() || number.is_u64() {
        return number.to_string();
    }
    let value = number.as_f64().unwrap_or_default();
    float(value)
}

/// Prints a float as Go's `%v` does: in its shortest form, with an exponent below 1e-4 and from 1e6 on.
pub fn float(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-4..1e6).contains(&magnitude) {
        let text = format!("{value:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, digits) = match exponent.strip_prefix('-') {
            Some(digits) => ('-', digits),
            None => ('+', exponent),
        };
        return format!("{mantissa}e{sign}{digits:0>2}");
    }
    format!("{value}")
}

/// Prints a value as Go's `%v` does.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.to_string(),
        Value::Number(value) => number(value),
        Value::Array(items) => format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let fields: Vec<_> = map.iter().map(|(key, value)| format!("{key}:{}", text(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
        Value::Bool(value) => value.to_string(),
    }
}

/// The Go type that a JSON value is decoded to, as Go's `%T` prints it.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Prints a value as Go's JSON encoder does: compact, with sorted keys, and with `<`, `>`, `&`, U+2028 and U+2029 escaped.
pub fn json(value: &Value) -> String {
    match value {
        Value::String(text) => json_string(text),
        Value::Number(number) => json_number(number),
        Value::Array(items) => format!("[{}]", items.iter().map(json).collect::<Vec<_>>().join(",")),
        Value::Object(map) => {
            let fields: Vec<_> =
                map.iter().map(|(key, value)| format!("{}:{}", json_string(key), json(value))).collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Null | Value::Bool(_) => value.to_string(),
    }
}

/// Prints a number in JSON. Floats below 1e-6 and from 1e21 on have an exponent, with as few digits as possible.
fn json_number(number: &Number) -> String {
    let value = match number.as_f64() {
        Some(value) if number.is_f64() => value,
        _ => return number.to_string(),
    };
    if value == 0.0 || (1e-6..1e21).contains(&value.abs()) {
        return format!("{value}");
    }
    let text = format!("{value:e}");
    if text.contains("e-") { text } else { text.replace('e', "e+") }
}

fn json_string(text: &str) -> String {
    let plain = Value::from(text).to_string();
    if !plain.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return plain;
    }
    let escape = |character| match character {
        '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => format!("\\u{:04x}", u32::from(character)),
        other => other.to_string(),
    };
    plain.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_like_go() {
        assert_eq!(quote("a\n\x01\x7fé\u{a0}\u{301}日"), "\"a\\n\\x01\\x7fé\\u00a0\u{301}日\"");
    }

    /// The message about missing permissions printed groups as Rust does: `\u{7f}` instead of `\x7f`.
    #[test]
    fn lists_are_quoted_like_go() {
        assert_eq!(quote_list(&["a\x7f".into(), "b".into()]), r#"["a\x7f" "b"]"#);
        assert_eq!(quote_list(&[]), "[]");
    }

    #[test]
    fn floats_print_like_go() {
        for (value, text) in [
            (1.5, "1.5"),
            (1e21, "1e+21"),
            (1e20, "1e+20"),
            (123_456_789.0, "1.23456789e+08"),
            (1e6, "1e+06"),
            (999_999.5, "999999.5"),
            (0.00001, "1e-05"),
            (-2.0, "-2"),
        ] {
            assert_eq!(float(value), text);
        }
    }

    #[test]
    fn values_print_like_go() {
        let value = evenkeel_tree::value::json!({"b": [1, 2.5, null], "a": "x<y", "c": 0.00001, "d": 1e-7, "e": 1e21});
        assert_eq!(text(&value), "map[a:x<y b:[1 2.5 <nil>] c:1e-05 d:1e-07 e:1e+21]");
        assert_eq!(json(&value), r#"{"a":"x\u003cy","b":[1,2.5,null],"c":0.00001,"d":1e-7,"e":1e+21}"#);
    }
}
