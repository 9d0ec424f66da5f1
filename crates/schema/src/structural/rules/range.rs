//! Bounds on sizes and costs, which stay at the end of their range instead of overflowing it.

/// At least and at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Range {
    /// Nothing is known.
    pub(super) const UNKNOWN: Range = Range { min: 0, max: u64::MAX };

    pub(super) const fn fixed(value: u64) -> Range {
        Range { min: value, max: value }
    }

    pub(super) fn add(self, other: Range) -> Range {
        Range { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(super) fn times(self, other: Range) -> Range {
        Range { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    pub(super) fn union(self, other: Range) -> Range {
        Range { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// Times a factor, rounded up.
    pub(super) fn scaled(self, factor: f64) -> Range {
        let scale = |value: u64| {
            let scaled = (value as f64 * factor).ceil();
            // The comparison is with 2^64, which no u64 reaches.
            if scaled >= 18_446_744_073_709_551_616.0 { u64::MAX } else { scaled as u64 }
        };
        Range { min: scale(self.min), max: scale(self.max) }
    }
}
