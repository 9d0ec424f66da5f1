//! Writes JSON values and strings as Rust literals.

use serde_json::Value;

/// The number of values in a JSON value up to which `json!` is used. The macro expands once for every few tokens, and
/// the compiler gives up at 128 nested expansions; 24 values leave room for strings as keys and for nesting.
const MACRO_MAX: usize = 24;

/// Writes a string as a Rust literal, raw if that is easier to read.
pub(crate) fn string(text: &str) -> String {
    let plain = text.chars().all(|letter| (' '..='~').contains(&letter));
    if !plain || !text.contains(['\\', '"']) {
        return format!("{text:?}");
    }
    let hashes = (0..).map(|count| "#".repeat(count)).find(|hashes| !text.contains(&format!("\"{hashes}")));
    let hashes = hashes.expect("a text has no end of hashes");
    format!("r{hashes}\"{text}\"{hashes}")
}

/// Writes a number as a Rust literal. If it does not fit into 32 bits, the literal names its type, because an integer
/// literal defaults to `i32`.
pub(crate) fn number(number: &serde_json::Number) -> String {
    let text = number.to_string();
    match (number.as_i64(), number.as_u64()) {
        (Some(small), _) if i32::try_from(small).is_ok() => text,
        (Some(_), _) => format!("{text}i64"),
        (None, Some(_)) => format!("{text}u64"),
        (None, None) => format!("{text}f64"),
    }
}

/// Writes a JSON value as an argument of `json!` and of schemars' `extend`. A long value becomes text that the
/// preamble's function `parsed` parses.
pub(crate) fn json(value: &Value) -> String {
    if size(value) > MACRO_MAX { format!("parsed({})", string(&value.to_string())) } else { tokens(value) }
}

fn tokens(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Number(it) => number(it),
        Value::String(text) => string(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(tokens).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(name, value)| format!("{}: {}", string(name), tokens(value))).collect();
            format!("{{{}}}", fields.join(", "))
        }
    }
}

fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(|value| 1 + size(value)).sum::<usize>(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn strings_are_raw_where_that_helps() {
        assert_eq!(string("plain"), r#""plain""#);
        assert_eq!(string(r"^\d+$"), r#"r"^\d+$""#);
        assert_eq!(string(r##"a"#b"##), r###"r##"a"#b"##"###);
        assert_eq!(string("a\nb"), r#""a\nb""#);
        assert_eq!(string("\u{202e}"), r#""\u{202e}""#);
    }

    #[test]
    fn integers_that_are_no_i32_name_their_type() {
        assert_eq!(
            json(&json!({"a": 1, "b": 3_000_000_000_i64, "c": u64::MAX})),
            r#"{"a": 1, "b": 3000000000i64, "c": 18446744073709551615u64}"#
        );
        assert_eq!(json(&json!([0.5, null])), "[0.5f64, null]");
    }

    #[test]
    fn a_long_value_is_parsed() {
        let long: Vec<u32> = (0..100).collect();
        assert!(json(&json!(long)).starts_with("parsed(\"[0,1,2"));
    }
}
