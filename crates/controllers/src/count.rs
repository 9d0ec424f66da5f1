//! Counts of objects. Users can write any number into a size or a status, so that sums of them must not overflow.

/// The sum, or the number closest to it.
pub(crate) fn sum(counts: impl IntoIterator<Item = i32>) -> i32 {
    let sum: i64 = counts.into_iter().map(i64::from).sum();
    i32::try_from(sum).unwrap_or(if sum < 0 { i32::MIN } else { i32::MAX })
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
