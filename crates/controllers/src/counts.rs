//! Counts in specs and statuses. Users can write any number, so that sums must not overflow.

/// Returns the sum, or the `i32` closest to it.
pub(crate) fn sum(numbers: impl IntoIterator<Item = i32>) -> i32 {
    let sum: i64 = numbers.into_iter().map(i64::from).sum();
    i32::try_from(sum).unwrap_or(if sum < 0 { i32::MIN } else { i32::MAX })
}

/// Returns a count for a status; `None` for zero, which Kubernetes leaves out.
pub(crate) fn nonzero(count: i32) -> Option<i32> {
    (count != 0).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_stays_within_bounds() {
        assert_eq!(sum([i32::MAX, i32::MAX, -1]), i32::MAX);
        assert_eq!(sum([i32::MIN, -1]), i32::MIN);
        assert_eq!(sum([i32::MAX, -1, 1]), i32::MAX);
        assert_eq!(sum([]), 0);
    }
}
