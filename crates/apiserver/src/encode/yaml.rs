//! A YAML writer that produces the same text as Go's library (quotes, folds and key order), because clients
//! compare it as text.

mod scalar;

use std::cmp::Ordering;

use evenkeel_schema::json::{Map, Text, Value};

use self::scalar::Position;

/// The number of spaces per level of indentation.
const INDENT: usize = 2;

/// Prints a value as a YAML document.
pub(crate) fn print(value: &Value) -> String {
    let mut printer = Printer { out: String::new() };
    match value {
        Value::Object(fields) if !fields.is_empty() => printer.mapping(fields, 0),
        Value::Array(items) if !items.is_empty() => printer.sequence(items, 0),
        other => printer.scalar(other, 0),
    }
    printer.out
}

struct Printer {
    out: String,
}

impl Printer {
    /// Writes the fields of a mapping, the first one at the current position in the line.
    fn mapping(&mut self, fields: &Map, indent: usize) {
        let mut sorted: Vec<(&Text, &Value)> = fields.iter().collect();
        sorted.sort_by(|(a, _), (b, _)| natural(a, b));
        for (index, (key, value)) in sorted.into_iter().enumerate() {
            if index > 0 {
                self.indent(indent);
            }
            scalar::write(&mut self.out, key, &Position { indent, is_key: true });
            self.out.push(':');
            match value {
                Value::Object(fields) if !fields.is_empty() => {
                    self.out.push('\n');
                    self.indent(indent + INDENT);
                    self.mapping(fields, indent + INDENT);
                }
                // List items are indented as far as the list's key.
                Value::Array(items) if !items.is_empty() => {
                    self.out.push('\n');
                    self.indent(indent);
                    self.sequence(items, indent);
                }
                other => {
                    self.out.push(' ');
                    self.scalar(other, indent);
                }
            }
        }
    }

    fn sequence(&mut self, items: &[Value], indent: usize) {
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.indent(indent);
            }
            self.out.push_str("- ");
            match item {
                Value::Object(fields) if !fields.is_empty() => self.mapping(fields, indent + INDENT),
                Value::Array(items) if !items.is_empty() => self.sequence(items, indent + INDENT),
                other => self.scalar(other, indent),
            }
        }
    }

    /// Writes a scalar or an empty collection after a key or a dash, and ends the line.
    fn scalar(&mut self, value: &Value, indent: usize) {
        match value {
            Value::Null => self.out.push_str("null"),
            Value::Bool(value) => self.out.push_str(if *value { "true" } else { "false" }),
            Value::Number(number) => self.out.push_str(&number.to_string()),
            Value::Array(_) => self.out.push_str("[]"),
            Value::Object(_) => self.out.push_str("{}"),
            Value::String(text) => scalar::write(&mut self.out, text, &Position { indent, is_key: false }),
        }
        if !self.out.ends_with('\n') {
            self.out.push('\n');
        }
    }

    fn indent(&mut self, indent: usize) {
        self.out.extend(std::iter::repeat_n(' ', indent));
    }
}

/// The order of keys: other characters before letters, and digits by their numeric value.
fn natural(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(at) = a.iter().zip(&b).position(|(a, b)| a != b) else { return a.len().cmp(&b.len()) };
    let (x, y) = (a[at], b[at]);
    match (x.is_alphabetic(), y.is_alphabetic()) {
        (true, true) => return x.cmp(&y),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // A zero within a number is one of its digits; only leading zeros are skipped.
    let zero = x == '0' || y == '0';
    let before = a[..at].iter().rev().take_while(|it| it.is_ascii_digit());
    let inside = zero && before.clone().any(|it| *it != '0');
    let number = |text: &[char]| {
        let digits = text[at..].iter().take_while(|it| it.is_ascii_digit());
        let (mut length, mut value) = (0_usize, u64::from(inside));
        for digit in digits {
            length += 1;
            value =
                value.saturating_mul(10).saturating_add(u64::from(digit.to_digit(10).unwrap_or_default()));
        }
        (value, length)
    };
    number(&a).cmp(&number(&b)).then(x.cmp(&y))
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_schema::json::json;

    #[test]
    fn it_reads_as_go_would_have_written_it() {
        let long = "configmaps is forbidden: User \"alice\" cannot list resource \"configmaps\" in API group \"\" \
                    in the namespace \"a\"";
        let value = json!({
            "message": long, "code": 403, "metadata": {}, "items": [],
            "f:data": {".": {}, "f:a": {}, "k:{\"name\":\"c\"}": {}},
            "time": "2024-01-02T03:04:05Z", "number": "12", "yes": "yes", "empty": "", "none": null,
            "list": [{"b": 1, "a": [1, [2, "x"]]}, "- x", "a: b", "a:b", "#a", "a #b", "'", "\t", " a"],
            "text": "one\ntwo\n", "cut": "one\n two", "a10": 1, "a9": 2, "half": 0.5, "port": "80:80",
        });
        let wanted = r##"a9: 2
a10: 1
code: 403
cut: |-
  one
   two
empty: ""
f:data:
  .: {}
  f:a: {}
  k:{"name":"c"}: {}
half: 0.5
items: []
list:
- a:
  - 1
  - - 2
    - x
  b: 1
- '- x'
- 'a: b'
- a:b
- '#a'
- 'a #b'
- ''''
- "\t"
- ' a'
message: 'configmaps is forbidden: User "alice" cannot list resource "configmaps"
  in API group "" in the namespace "a"'
metadata: {}
none: null
number: "12"
port: 80:80
text: |
  one
  two
time: "2024-01-02T03:04:05Z"
"yes": "yes"
"##;
        assert_eq!(print(&value), wanted);
    }
}
