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
        parse(&quantity.0).map(Self)
    }
}

/// The decimal point and the exponent may both be there: everything is brought to thousandths at once.
fn parse(text: &str) -> Option<i128> {
    let end = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (multiplier, mut exponent) = scale(suffix)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mut value: i128 = format!("{whole}{fraction}").parse().ok()?;
    value = value.checked_mul(multiplier)?;
    exponent += 3 - i32::try_from(fraction.len()).ok()?;
    while exponent > 0 {
        value = value.checked_mul(10)?;
        exponent -= 1;
    }
    while exponent < 0 {
        value = value.div_euclid(10) + i128::from(value.rem_euclid(10) != 0);
        exponent += 1;
    }
    Some(value)
}

/// A factor and a power of ten.
fn scale(suffix: &str) -> Option<(i128, i32)> {
    let binary = |power: u32| Some((1_i128 << (10 * power), 0));
    match suffix {
        "" => Some((1, 0)),
        "n" => Some((1, -9)),
        "u" => Some((1, -6)),
        "m" => Some((1, -3)),
        "k" => Some((1, 3)),
        "M" => Some((1, 6)),
        "G" => Some((1, 9)),
        "T" => Some((1, 12)),
        "P" => Some((1, 15)),
        "E" => Some((1, 18)),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            (-30..=18).contains(&exponent).then_some((1, exponent))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read() {
        let milli = |text: &str| Milli::parse(&Quantity(text.to_owned())).map(|milli| milli.0);
        assert_eq!(milli("100m"), Some(100));
        assert_eq!(milli("1.5"), Some(1500));
        assert_eq!(milli("1Ki"), Some(1_024_000));
        assert_eq!(milli("0.5Gi"), Some(536_870_912_000));
        assert_eq!(milli("2e3"), Some(2_000_000));
        assert_eq!(milli("1n"), Some(1));
        assert_eq!(milli("-2"), Some(-2000));
        assert_eq!(milli("two"), None);
        assert_eq!(Milli::whole(2), Milli(2000));
    }
}
