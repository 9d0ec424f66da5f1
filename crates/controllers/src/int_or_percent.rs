//! Numbers that a user may write as a percentage of another.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// How a percentage that gives no whole number is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// To the next whole number: how surges and budgets are counted.
    Up,
    /// To the whole number below: how unavailability is counted.
    Down,
}

/// The number that `value` stands for out of `total`. What the server's validation refuses counts as zero.
pub(crate) fn of(value: Option<&IntOrString>, total: i32, round: Round) -> i32 {
    match value {
        None => 0,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(text)) => {
            let percent = text.strip_suffix('%').and_then(|digits| digits.parse::<i64>().ok()).unwrap_or(0);
            let parts = percent.saturating_mul(i64::from(total));
            let whole = match round {
                Round::Up => parts.div_euclid(100) + i64::from(parts.rem_euclid(100) != 0),
                Round::Down => parts.div_euclid(100),
            };
            i32::try_from(whole).unwrap_or(i32::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_round_as_asked() {
        let quarter = IntOrString::String("25%".to_owned());
        assert_eq!(of(Some(&quarter), 10, Round::Up), 3);
        assert_eq!(of(Some(&quarter), 10, Round::Down), 2);
        assert_eq!(of(Some(&quarter), 0, Round::Up), 0);
        assert_eq!(of(Some(&IntOrString::Int(4)), 10, Round::Down), 4);
        assert_eq!(of(None, 10, Round::Up), 0);
    }
}
