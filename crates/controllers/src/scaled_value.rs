//! Fields such as `maxSurge` that hold a number or a percentage of another number.

use evenkeel_schema::int_or_string;
use evenkeel_tree::Tree;

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
pub(crate) fn scaled_value(value: &Tree, total: i32, rounding: Rounding) -> i32 {
    let value = int_or_string::IntOrString::from_json(&value.into());
    value.and_then(|value| value.scaled(total, rounding == Rounding::Up)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_round_as_asked() {
        let quarter = Tree::from("25%");
        assert_eq!(scaled_value(&quarter, 10, Rounding::Up), 3);
        assert_eq!(scaled_value(&quarter, 10, Rounding::Down), 2);
        assert_eq!(scaled_value(&quarter, 0, Rounding::Up), 0);
        assert_eq!(scaled_value(&4.into(), 10, Rounding::Down), 4);
        assert_eq!(scaled_value(&Tree::Null, 10, Rounding::Up), 0);
        let huge = Tree::from("99999999999%");
        assert_eq!(scaled_value(&huge, 1000, Rounding::Down), i32::MAX);
    }
}
