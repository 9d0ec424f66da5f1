//! Values that are an integer or a string, such as `maxSurge: 25%` or `targetPort: http`.

use crate::json::Value;

/// An integer of 32 bits, or a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntOrString {
    /// A number.
    Int(i32),
    /// A name or a percentage.
    String(String),
}

/// How a percentage that yields no whole number is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the next whole number. `maxSurge` and PodDisruptionBudgets round up.
    Up,
    /// To the whole number below. `maxUnavailable` of a Deployment rounds down.
    Down,
}

impl IntOrString {
    /// Converts a JSON value; `None` if it is neither an integer nor a string.
    pub fn from_json(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Some(IntOrString::String(text.clone().to_string())),
            Value::Number(number) => Some(IntOrString::Int(i32::try_from(number.as_i64()?).ok()?)),
            _ => None,
        }
    }

    /// Returns the percentage, or `None` if the value is not a percentage. One beyond 32 bits is the largest number.
    pub fn percent(&self) -> Option<i32> {
        match self {
            IntOrString::Int(_) => None,
            IntOrString::String(text) => {
                let digits = text.strip_suffix('%')?;
                let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
                plain.then(|| digits.parse().unwrap_or(i32::MAX))
            }
        }
    }

    /// Returns the number itself, or the rounded percentage of `total`; `None` if the string is not a percentage.
    ///
    /// ```
    /// use evenkeel_schema::int_or_string::{IntOrString, Rounding};
    /// let quarter = IntOrString::String("25%".into());
    /// assert_eq!(quarter.scaled(10, Rounding::Up), Some(3));
    /// assert_eq!(quarter.scaled(10, Rounding::Down), Some(2));
    /// ```
    pub fn scaled(&self, total: i32, rounding: Rounding) -> Option<i32> {
        let percent = match self {
            IntOrString::Int(value) => return Some(*value),
            string => i64::from(string.percent()?),
        };
        let product = percent * i64::from(total);
        let scaled = match rounding {
            Rounding::Up => (product + 99).div_euclid(100),
            Rounding::Down => product.div_euclid(100),
        };
        Some(i32::try_from(scaled).unwrap_or(if scaled < 0 { i32::MIN } else { i32::MAX }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn scales_percentages() {
        let read = |value: Value| IntOrString::from_json(&value);
        assert_eq!(read(json!(3)).unwrap().scaled(10, Rounding::Up), Some(3));
        assert_eq!(read(json!("0%")).unwrap().scaled(10, Rounding::Up), Some(0));
        assert_eq!(read(json!("100%")).unwrap().scaled(7, Rounding::Down), Some(7));
        assert_eq!(read(json!("99999999999%")).unwrap().scaled(1000, Rounding::Up), Some(i32::MAX));
        assert_eq!(read(json!("http")).unwrap().scaled(10, Rounding::Up), None);
        assert_eq!(read(json!("-5%")).unwrap().percent(), None);
        assert_eq!(read(json!(true)), None);
        assert_eq!(read(json!(3_000_000_000_i64)), None);
    }
}
