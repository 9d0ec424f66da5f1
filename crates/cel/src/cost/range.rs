//! Lower and upper bounds of sizes and costs. Their arithmetic saturates.

/// A lower and an upper bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) min: u64,
    pub(crate) max: u64,
}

impl Range {
    /// The bounds of an unknown size.
    pub(crate) const UNKNOWN: Range = Range { min: 0, max: u64::MAX };

    pub(crate) const fn fixed(value: u64) -> Range {
        Range { min: value, max: value }
    }

    pub(crate) fn add(self, other: Range) -> Range {
        Range { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(crate) fn times(self, other: Range) -> Range {
        Range { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    pub(crate) fn union(self, other: Range) -> Range {
        Range { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// Multiplies by a factor and rounds up.
    pub(crate) fn scaled(self, factor: f64) -> Range {
        let scale = |value: u64| {
            let scaled = (value as f64 * factor).ceil();
            // The constant is 2^64: a float at or above it does not fit into a u64.
            if scaled >= 18_446_744_073_709_551_616.0 { u64::MAX } else { scaled as u64 }
        };
        Range { min: scale(self.min), max: scale(self.max) }
    }
}
