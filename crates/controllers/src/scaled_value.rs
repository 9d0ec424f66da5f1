//! Fields such as `maxSurge` that hold a number or a percentage of another number.

use evenkeel_schema::int_or_string::IntOrString;
pub(crate) use evenkeel_schema::int_or_string::Rounding;
use evenkeel_tree::Tree;

/// Returns the number that `value` stands for out of `total`.
///
/// A missing field counts as zero. So does a string that is not a percentage, which validation rejects.
pub(crate) fn scaled_value(value: &Tree, total: i32, rounding: Rounding) -> i32 {
    let value = IntOrString::from_json(&value.into());
    value.and_then(|value| value.scaled(total, rounding)).unwrap_or(0)
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
