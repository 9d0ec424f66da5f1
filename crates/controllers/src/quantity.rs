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

/// How an amount is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// With powers of ten.
    Decimal,
    /// With powers of two.
    Binary,
}

impl Form {
    /// The form that a quantity is written in.
    pub(crate) fn of(quantity: &Quantity) -> Self {
        if quantity.0.ends_with('i') { Self::Binary } else { Self::Decimal }
    }
}

impl Milli {
    /// The amount in its shortest exact form.
    pub(crate) fn write(self, form: Form) -> Quantity {
        const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
        const DECIMAL: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
        if self.0 % 1000 != 0 {
            return Quantity(format!("{}m", self.0));
        }
        let (step, suffixes) = match form {
            Form::Binary => (1024, BINARY),
            Form::Decimal => (1000, DECIMAL),
        };
        let (mut number, mut power) = (self.0 / 1000, 0);
        while number != 0 && number % step == 0 && power + 1 < suffixes.len() {
            number /= step;
            power += 1;
        }
        Quantity(format!("{number}{}", suffixes[power]))
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

    #[test]
    fn amounts_are_written_in_their_shortest_form() {
        assert_eq!(Milli(1500).write(Form::Decimal).0, "1500m");
        assert_eq!(Milli(2_000_000).write(Form::Decimal).0, "2k");
        assert_eq!(Milli(1_536_000 * 1024).write(Form::Binary).0, "1536Ki");
        assert_eq!(Milli(0).write(Form::Binary).0, "0");
    }
}
