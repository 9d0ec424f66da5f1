//! Amounts of resources, as sums and comparisons need them.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// An amount in thousandths; finer parts are rounded up, as Kubernetes rounds them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Milli(pub(crate) i128);

impl Milli {
    /// The amount of a whole number.
    pub(crate) fn whole(number: i64) -> Self {
        Self(i128::from(number) * 1000)
    }

    /// What a quantity says; `None` where it is none, which the server's validation rules out.
    pub(crate) fn parse(quantity: &Quantity) -> Option<Self> {
        let quantity = evenkeel_schema::quantity::Quantity::parse(&quantity.0).ok()?;
        Some(Self(i128::from(quantity.milli_value())))
    }
}

impl std::ops::Add for Milli {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_become_thousandths() {
        let cases = [
            ("1", Some(1_000)),
            ("500m", Some(500)),
            ("0.5", Some(500)),
            ("1Ki", Some(1_024_000)),
            ("1e3", Some(1_000_000)),
            ("1u", Some(1)),
            ("x", None),
        ];
        for (text, expected) in cases {
            assert_eq!(Milli::parse(&Quantity(text.into())), expected.map(Milli), "{text}");
        }
    }
}
