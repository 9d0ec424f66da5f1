//! Fields such as `maxSurge` that hold a number or a percentage of another number.

use evenkeel_schema::int_or_string;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// How a percentage that yields no whole number is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// To the next whole number. `maxSurge` and PodDisruptionBudgets round up.
    Up,
    /// To the whole number below. `maxUnavailable` of a Deployment rounds down.
    Down,
}

/// Returns the number that `value` stands for out of `total`.
///
/// A missing field, and a string that is no percentage, count as zero; validation rejects the latter.
pub(crate) fn scaled_value(value: Option<&IntOrString>, total: i32, rounding: Rounding) -> i32 {
    let value = match value {
        None => return 0,
        Some(IntOrString::Int(number)) => int_or_string::IntOrString::Int(*number),
        Some(IntOrString::String(text)) => int_or_string::IntOrString::String(text.clone()),
    };
    value.scaled(total, rounding == Rounding::Up).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_round_as_asked() {
        let quarter = IntOrString::String("25%".to_owned());
        assert_eq!(scaled_value(Some(&quarter), 10, Rounding::Up), 3);
        assert_eq!(scaled_value(Some(&quarter), 10, Rounding::Down), 2);
        assert_eq!(scaled_value(Some(&quarter), 0, Rounding::Up), 0);
        assert_eq!(scaled_value(Some(&IntOrString::Int(4)), 10, Rounding::Down), 4);
        assert_eq!(scaled_value(None, 10, Rounding::Up), 0);
        let huge = IntOrString::String("99999999999%".to_owned());
        assert_eq!(scaled_value(Some(&huge), 1000, Rounding::Down), i32::MAX);
    }
}
