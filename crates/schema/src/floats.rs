//! The numbers of a body that are written with a fraction or an exponent, but are whole.
//!
//! Go decodes `1.0` as a float and prints it as `1`. The tree has it as an integer from the start, but the messages about
//! custom resources tell integers from floats.

use crate::json::Value;

/// The places of whole floats in an object, as JSON pointers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Floats(Vec<String>);

/// How many places are kept: more than any object that is written by hand has, and few enough to be nothing beside it.
const PLACES_MAX: usize = 64;

/// Finds the whole floats of a JSON body. Most bodies have none, which a scan of the bytes shows.
pub fn find(body: &[u8]) -> Floats {
    let mut found = Floats::default();
    if may_have_floats(body)
        && let Ok(object) = serde_json::from_slice::<Value>(body)
    {
        walk(&object, &mut String::new(), &mut found);
    }
    found
}

/// Whether a digit is followed by a fraction of zeros or by an exponent, as in a whole float (and in many a text).
fn may_have_floats(body: &[u8]) -> bool {
    let is_one = |at: usize| {
        let digit = |at: usize| body.get(at).is_some_and(u8::is_ascii_digit);
        at > 0 && digit(at - 1) && (body[at] != b'.' || body.get(at + 1) == Some(&b'0') || digit(at + 1))
    };
    memchr::memchr3_iter(b'.', b'e', b'E', body).any(is_one)
}

fn walk(value: &Value, path: &mut String, found: &mut Floats) {
    let before = path.len();
    match value {
        Value::Number(number) => {
            let whole = number.is_f64() && number.as_f64().is_some_and(|it| it.fract() == 0.0);
            if whole && found.0.len() < PLACES_MAX {
                found.0.push(path.clone());
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push_str(&format!("/{index}"));
                walk(item, path, found);
                path.truncate(before);
            }
        }
        Value::Object(fields) => {
            for (name, item) in fields {
                path.push('/');
                path.push_str(&name.replace('~', "~0").replace('/', "~1"));
                walk(item, path, found);
                path.truncate(before);
            }
        }
        _ => {}
    }
}

impl Floats {
    /// Returns the object with the numbers at these places as floats; `None` if there is no number at any of them.
    pub fn restore(&self, object: &Value) -> Option<Value> {
        let number = |place: &&String| object.pointer(place).is_some_and(Value::is_i64);
        let places: Vec<&String> = self.0.iter().filter(number).collect();
        let mut restored = if places.is_empty() { return None } else { object.clone() };
        for place in places {
            if let Some(value) = restored.pointer_mut(place) {
                *value = Value::from(value.as_f64());
            }
        }
        Some(restored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn whole_floats_are_found_and_restored() {
        let floats = find(br#"{"a": 1.0, "b": [2, 1e3, 1.5], "c/d": -0.0, "text": "v1.0"}"#);
        let object = json!({"a": 1, "b": [2, 1000, 1.5], "c/d": 0, "text": "v1.0"});
        let restored = floats.restore(&object).expect("there are floats");
        assert_eq!(restored.to_string(), r#"{"a":1.0,"b":[2,1000.0,1.5],"c/d":0.0,"text":"v1.0"}"#);
        assert_eq!(floats.restore(&json!({"a": "x"})), None);
        assert_eq!(find(br#"{"a": 1, "b": "see v1.29"}"#), Floats::default());
    }
}
