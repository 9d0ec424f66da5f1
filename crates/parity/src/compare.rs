//! The differences between two answers.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use crate::pointer;

/// How many characters of a value a difference shows.
const SHOWN_CHARS: usize = 300;

/// Whether the wording of messages is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wording {
    /// Every character is compared.
    Strict,
    /// A message must be there, and the number of warnings must be equal; their words are not compared.
    Loose,
}

/// One place where the answer is not what Kubernetes answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The number of the step, from zero.
    pub step: usize,
    /// The JSON pointer into the step's answer.
    pub pointer: String,
    /// The expected and the actual value, in words.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {} {}: {}", self.step, self.pointer, self.what)
    }
}

/// Compares two lists of answers, both [`canonical`](crate::canonical).
pub fn compare(want: &Value, got: &Value, wording: Wording) -> Vec<Difference> {
    let mut out = Vec::new();
    let none = Vec::new();
    let steps = |value: &Value| value.as_array().unwrap_or(&none).clone();
    let (want, got) = (steps(want), steps(got));
    for step in 0..want.len().max(got.len()) {
        let absent = Value::Null;
        let walk = Walk { step, wording };
        walk.values(
            want.get(step).unwrap_or(&absent),
            got.get(step).unwrap_or(&absent),
            &mut Vec::new(),
            &mut out,
        );
    }
    out
}

struct Walk {
    step: usize,
    wording: Wording,
}

impl Walk {
    fn values(&self, want: &Value, got: &Value, path: &mut Vec<String>, out: &mut Vec<Difference>) {
        if self.is_wording(path, want, got) {
            return;
        }
        match (want, got) {
            (Value::Object(a), Value::Object(b)) => {
                for key in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
                    path.push(key.clone());
                    match (a.get(key), b.get(key)) {
                        (Some(a), Some(b)) => self.values(a, b, path, out),
                        (Some(a), None) => self.add(path, format!("missing, expected {}", shown(a)), out),
                        (None, b) => self.add(
                            path,
                            format!("not expected, got {}", shown(b.unwrap_or(&Value::Null))),
                            out,
                        ),
                    }
                    path.pop();
                }
            }
            (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
                for (index, (a, b)) in a.iter().zip(b).enumerate() {
                    path.push(index.to_string());
                    self.values(a, b, path, out);
                    path.pop();
                }
            }
            (Value::Array(a), Value::Array(b)) => {
                let what =
                    format!("expected {} items, got {}: {}, {}", a.len(), b.len(), shown(want), shown(got));
                self.add(path, what, out);
            }
            _ if want == got => {}
            _ => self.add(path, format!("expected {}, got {}", shown(want), shown(got)), out),
        }
    }

    fn is_wording(&self, path: &[String], want: &Value, got: &Value) -> bool {
        let Some(last) = path.last().filter(|_| self.wording == Wording::Loose) else { return false };
        match last.as_str() {
            "message" => want.is_string() && got.is_string(),
            "warnings" => want.as_array().map(Vec::len) == got.as_array().map(Vec::len),
            _ => false,
        }
    }

    fn add(&self, path: &[String], what: String, out: &mut Vec<Difference>) {
        out.push(Difference { step: self.step, pointer: pointer::join(path), what });
    }
}

fn shown(value: &Value) -> String {
    value.to_string().chars().take(SHOWN_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn differences_name_their_place() {
        let want = json!([{"status": 200, "body": {"a/b": 1, "l": [1, 2]}}]);
        let got = json!([{"status": 200, "body": {"a/b": 2, "l": [1]}}]);
        let places: Vec<_> = compare(&want, &got, Wording::Strict).into_iter().map(|d| d.pointer).collect();
        assert_eq!(places, ["/body/a~1b", "/body/l"]);
    }

    #[test]
    fn loose_leaves_the_words_out() {
        let (want, got) =
            (json!([{"message": "a", "warnings": ["x"]}]), json!([{"message": "b", "warnings": ["y"]}]));
        assert_eq!(compare(&want, &got, Wording::Loose), []);
        assert_eq!(compare(&want, &got, Wording::Strict).len(), 2);
    }
}
