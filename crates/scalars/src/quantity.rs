//! Quantities of resources: `500m`, `1Gi`, `1e3`.
//!
//! A quantity is a fixed-point number of nano units with a preferred format. Parsing keeps the text if it passes
//! Kubernetes' (generous) test for being canonical, and otherwise prints the number anew. So a client reads back exactly the
//! text that Kubernetes would return.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, Neg, Sub};

use evenkeel_tree::value::Value;

const FORMAT_WRONG: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const NUMERIC: &str = "unable to parse numeric part of quantity";
const SUFFIX: &str = "unable to parse quantity's suffix";
/// The most decimal digits on the fast path of Kubernetes' parser. Only that path keeps the text.
const FAST_DIGITS: i32 = 18;
const NANO: i128 = 1_000_000_000;
const NANO_DIGITS: i32 = 9;
const DECIMAL_SUFFIXES: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY_SUFFIXES: [(&str, u32); 6] =
    [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

/// The format in which a quantity is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `12e6`
    DecimalExponent,
    /// `12Mi`
    BinarySi,
    /// `12M`
    DecimalSi,
}

/// The error for a text that is not a quantity, with Kubernetes' message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct QuantityError(&'static str);

/// An amount of a resource.
///
/// ```
/// use evenkeel_scalars::quantity::Quantity;
/// let quantity: Quantity = "1500m".parse().unwrap();
/// assert!(quantity < "2".parse().unwrap());
/// assert_eq!((quantity + "0.5".parse().unwrap()).to_string(), "2");
/// ```
#[derive(Clone, Debug)]
pub struct Quantity {
    /// The amount in nano units. Amounts beyond the range (about 10^29) saturate; their text is exact.
    nano: i128,
    format: Format,
    /// The text, if it is canonical or the amount is beyond the range.
    text: Option<String>,
    /// Whether Kubernetes stores the amount with at most three decimals. Then rounding to milli units keeps the text.
    milli: bool,
}

struct Parts<'a> {
    negative: bool,
    /// The integer digits without leading zeros, at least one.
    integer: &'a str,
    /// The digits after the point.
    fraction: &'a str,
    suffix: &'a str,
}

fn split(text: &str) -> Result<Parts<'_>, QuantityError> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let negative = text.starts_with('-');
    let stripped = unsigned.trim_start_matches('0');
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (integer, rest) = stripped.split_at(digits(stripped));
    let integer = if integer.is_empty() { "0" } else { integer };
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    let letters = suffix.bytes().take_while(|byte| b"eEinumkKMGTP".contains(byte)).count();
    let exponent = &suffix[letters..];
    let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    match exponent.bytes().all(|byte| byte.is_ascii_digit()) {
        true => Ok(Parts { negative, integer, fraction, suffix }),
        false => Err(QuantityError(FORMAT_WRONG)),
    }
}

enum Suffix {
    Decimal(i32),
    Exponent(i32),
    Binary(u32),
}

fn interpret(suffix: &str) -> Result<Suffix, QuantityError> {
    if let Some((_, exponent)) = DECIMAL_SUFFIXES.iter().find(|(name, _)| *name == suffix) {
        return Ok(Suffix::Decimal(*exponent));
    }
    if let Some((_, exponent)) = BINARY_SUFFIXES.iter().find(|(name, _)| *name == suffix) {
        return Ok(Suffix::Binary(*exponent));
    }
    let number = suffix.strip_prefix(['e', 'E']).filter(|number| !number.is_empty());
    let parsed = number.and_then(|number| number.parse::<i64>().ok()).ok_or(QuantityError(SUFFIX))?;
    // Kubernetes truncates the exponent to 32 bits.
    Ok(Suffix::Exponent(parsed as i32))
}

impl Quantity {
    /// Makes a quantity from a whole number of units.
    pub fn new(value: i64, format: Format) -> Self {
        Quantity { nano: i128::from(value) * NANO, format, text: None, milli: true }
    }

    /// Makes a quantity from a number of thousandths.
    pub fn from_milli(value: i64, format: Format) -> Self {
        Quantity { nano: i128::from(value) * (NANO / 1000), format, text: None, milli: true }
    }

    /// Zero, in the decimal format.
    pub fn zero() -> Self {
        Quantity::new(0, Format::DecimalSi)
    }

    /// Parses a quantity as Kubernetes does.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError(FORMAT_WRONG));
        }
        let parts = split(text)?;
        match interpret(parts.suffix)? {
            Suffix::Decimal(exponent) => decimal(text, &parts, exponent, Format::DecimalSi),
            Suffix::Exponent(exponent) => decimal(text, &parts, exponent, Format::DecimalExponent),
            Suffix::Binary(exponent) => binary(text, &parts, exponent),
        }
    }

    /// Parses the quantity in a JSON value: a string, or a number.
    pub fn from_json(value: &Value) -> Result<Self, QuantityError> {
        match value {
            Value::Null => Ok(Quantity::zero()),
            Value::String(text) => Quantity::parse(text.trim()),
            other => Quantity::parse(&other.to_string()),
        }
    }

    /// Whether the quantity is zero.
    pub fn is_zero(&self) -> bool {
        self.nano == 0
    }

    /// Whether the quantity is below zero.
    pub fn is_negative(&self) -> bool {
        self.nano < 0
    }

    /// The format in which the quantity is printed.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The amount in whole units, rounded away from zero.
    pub fn value(&self) -> i64 {
        scaled(self.nano, NANO)
    }

    /// The amount in thousandths, rounded away from zero.
    pub fn milli_value(&self) -> i64 {
        scaled(self.nano, NANO / 1000)
    }

    /// Whether Kubernetes takes the quantity for a whole number. It decides that by the thousandths in 64 bits: too many of
    /// them count as none if the quantity is decimal, and lose their upper bits if it is binary.
    pub fn counts_as_whole(&self) -> bool {
        self.milli_in_64_bits() % 1000 == 0
    }

    /// The amount in thousandths as Kubernetes computes it, without a check for overflow.
    pub fn milli_in_64_bits(&self) -> i64 {
        self.in_64_bits(NANO / 1000)
    }

    /// The amount in whole units as Kubernetes computes it, without a check for overflow.
    pub fn value_in_64_bits(&self) -> i64 {
        self.in_64_bits(NANO)
    }

    fn in_64_bits(&self, unit: i128) -> i64 {
        let amount = self.nano / unit + if self.nano % unit == 0 { 0 } else { self.nano.signum() };
        match (i64::try_from(amount), self.format) {
            (Ok(amount), _) => amount,
            (Err(_), Format::BinarySi) => amount as i64,
            (Err(_), _) => 0,
        }
    }

    /// Whether the quantity is a whole number of thousandths.
    pub fn is_whole_milli(&self) -> bool {
        self.nano % (NANO / 1000) == 0
    }

    /// Whether the quantity is a whole number of units.
    pub fn is_whole(&self) -> bool {
        self.nano % NANO == 0
    }

    /// Whether the amount in whole units fits into 64 bits.
    pub fn fits_int(&self) -> bool {
        i64::try_from(self.nano / NANO).is_ok()
    }

    /// The amount as a float, which may lose precision.
    pub fn to_f64(&self) -> f64 {
        self.nano as f64 / NANO as f64
    }

    /// Rounds away from zero to thousandths, the precision of stored resource lists.
    pub fn round_up_milli(&mut self) {
        if self.milli {
            return;
        }
        let step = NANO / 1000;
        if self.nano % step != 0 {
            self.nano = (self.nano / step + self.nano.signum()).saturating_mul(step);
        }
        self.text = None;
        self.milli = true;
    }

    fn canonical(&self) -> String {
        if self.nano == 0 {
            return "0".into();
        }
        let small = self.nano.unsigned_abs() < (1024 * NANO).unsigned_abs();
        let format = match self.format {
            Format::BinarySi if small || !self.is_whole() => Format::DecimalSi,
            format => format,
        };
        match format {
            Format::BinarySi => canonical_binary(self.nano / NANO),
            format => {
                let digits = self.nano.unsigned_abs().to_string();
                canonical_decimal(self.nano < 0, &digits, -NANO_DIGITS, format)
            }
        }
    }
}

/// Rounds away from zero to a multiple of `unit`, within 64 bits.
fn scaled(nano: i128, unit: i128) -> i64 {
    let mut value = nano / unit;
    if nano % unit != 0 {
        value += nano.signum();
    }
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

fn canonical_binary(value: i128) -> String {
    let (mut value, mut exponent) = (value, 0);
    while value.unsigned_abs() >= 1024 && value % 1024 == 0 {
        value /= 1024;
        exponent += 10;
    }
    let suffix = BINARY_SUFFIXES.iter().find(|(_, known)| *known == exponent).map_or("", |(name, _)| name);
    format!("{value}{suffix}")
}

/// Prints digits and a power of ten, with an exponent that is a multiple of three. A power without a suffix is omitted, as
/// in Kubernetes.
fn canonical_decimal(negative: bool, digits: &str, exponent: i32, format: Format) -> String {
    let mut mantissa = digits.trim_start_matches('0').to_owned();
    let mut exponent = exponent;
    while mantissa.len() > 1 && mantissa.ends_with('0') {
        mantissa.pop();
        exponent += 1;
    }
    while exponent % 3 != 0 {
        mantissa.push('0');
        exponent -= 1;
    }
    let suffix = match format {
        Format::DecimalExponent if exponent == 0 => String::new(),
        Format::DecimalExponent => format!("e{exponent}"),
        _ => {
            let known = DECIMAL_SUFFIXES.iter().find(|(_, known)| *known == exponent);
            known.map_or("", |(name, _)| name).to_owned()
        }
    };
    format!("{}{mantissa}{suffix}", if negative { "-" } else { "" })
}

fn decimal(text: &str, parts: &Parts<'_>, exponent: i32, format: Format) -> Result<Quantity, QuantityError> {
    let digits = format!("{}{}", parts.integer, parts.fraction);
    let fast = i32::try_from(digits.len()).is_ok_and(|length| length <= FAST_DIGITS);
    let scale = exponent.wrapping_sub(i32::try_from(parts.fraction.len()).unwrap_or(i32::MAX));
    let zero = digits.bytes().all(|byte| byte == b'0');
    if zero {
        return Ok(Quantity { nano: 0, format, text: None, milli: true });
    }
    let (nano, exact) = to_nano(&digits, scale);
    let nano = if parts.negative { -nano } else { nano };
    if fast && scale >= -NANO_DIGITS {
        let kept = scale % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0');
        let text = match (kept, exact) {
            (true, _) => Some(text.to_owned()),
            (false, true) => None,
            (false, false) => Some(canonical_decimal(parts.negative, &digits, scale, format)),
        };
        return Ok(Quantity { nano, format, text, milli: scale >= -3 });
    }
    let text = (!exact).then(|| canonical_decimal(parts.negative, &digits, scale, format));
    Ok(Quantity { nano, format, text, milli: false })
}

/// The amount in nano units, rounded up, and whether it fits into the range.
fn to_nano(digits: &str, scale: i32) -> (i128, bool) {
    let digits = digits.trim_start_matches('0');
    let shift = i64::from(scale) + i64::from(NANO_DIGITS);
    let whole_digits = digits.len() as i64 + shift;
    // Any 38 digits fit into 127 bits.
    if whole_digits > 38 {
        return (i128::MAX, false);
    }
    if shift >= 0 {
        let padded = format!("{digits}{}", "0".repeat(usize::try_from(shift).unwrap_or_default()));
        return (padded.parse().unwrap_or(i128::MAX), true);
    }
    let kept = usize::try_from(whole_digits.max(0)).unwrap_or_default();
    let (whole, rest) = digits.split_at(kept);
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().unwrap_or(i128::MAX) };
    let up = rest.bytes().any(|byte| byte != b'0');
    (whole + i128::from(up), true)
}

fn binary(text: &str, parts: &Parts<'_>, exponent: u32) -> Result<Quantity, QuantityError> {
    let sign = if parts.negative { -1 } else { 1 };
    let room = 15
        - i32::try_from(parts.integer.len()).unwrap_or(i32::MAX).min(1000)
        - (exponent as i32 * 3 / 10)
        - 1;
    if parts.fraction.is_empty() && room >= 0 {
        let value: i128 = parts.integer.parse().map_err(|_| QuantityError(NUMERIC))?;
        let nano = sign * (value << exponent) * NANO;
        let text = (value & 7 != 0).then(|| text.to_owned());
        return Ok(Quantity { nano, format: Format::BinarySi, text, milli: true });
    }
    let (integer, wide) = to_nano(&format!("{}{}", parts.integer, parts.fraction), {
        -i32::try_from(parts.fraction.len()).unwrap_or(i32::MAX)
    });
    let exact = exact_binary(parts, exponent);
    let cap = i128::from(i64::MAX) * NANO;
    let amount = match (wide, exact) {
        (true, Some(nano)) => nano.min(cap),
        (true, None) => integer.checked_shl(exponent).unwrap_or(cap).min(cap),
        (false, _) => cap,
    };
    let format = if amount < NANO { Format::DecimalSi } else { Format::BinarySi };
    Ok(Quantity { nano: sign * amount, format, text: None, milli: false })
}

/// `integer.fraction * 2^exponent` in nano units, rounded up; `None` if there are too many digits for an exact result.
fn exact_binary(parts: &Parts<'_>, exponent: u32) -> Option<i128> {
    let digits = format!("{}{}", parts.integer, parts.fraction.trim_end_matches('0'));
    let places = parts.fraction.trim_end_matches('0').len() as u32;
    let unscaled: i128 = digits.parse().ok()?;
    let product = unscaled.checked_mul(1_i128.checked_shl(exponent)?)?;
    let divisor = 10_i128.checked_pow(places)?;
    let (whole, rest) = (product / divisor, product % divisor);
    let fine = rest.checked_mul(NANO)?;
    let nano = whole.checked_mul(NANO)?.checked_add(fine / divisor)?;
    Some(nano + i128::from(fine % divisor != 0))
}

impl std::str::FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Quantity::parse(text)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.write_str(text),
            None => f.write_str(&self.canonical()),
        }
    }
}

impl Default for Quantity {
    fn default() -> Self {
        Quantity::zero()
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nano.cmp(&other.nano)
    }
}

impl Add for Quantity {
    type Output = Quantity;

    /// Adds two quantities. The sum has the format of the first, or of the second if the first is zero.
    fn add(self, other: Quantity) -> Quantity {
        let format = if self.is_zero() { other.format } else { self.format };
        Quantity {
            nano: self.nano.saturating_add(other.nano),
            format,
            text: None,
            milli: self.milli && other.milli,
        }
    }
}

impl Neg for Quantity {
    type Output = Quantity;

    fn neg(self) -> Quantity {
        Quantity { nano: self.nano.saturating_neg(), text: None, ..self }
    }
}

impl Sub for Quantity {
    type Output = Quantity;

    fn sub(self, other: Quantity) -> Quantity {
        self + -other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amounts_beyond_all_bounds_are_rounded_and_written() {
        for text in
            ["9223372036854775807E", "-9223372036854775808E", "1e2147483647", "-1e30", "9Ei", "-99999999Ei"]
        {
            let mut quantity = Quantity::parse(text).unwrap();
            quantity.round_up_milli();
            let sum = quantity.clone() + quantity.clone() - -quantity.clone();
            assert!(!sum.to_string().is_empty(), "{text}");
            assert_eq!(sum.is_negative(), text.starts_with('-'), "{text}");
        }
    }

    #[test]
    fn writes_as_kubernetes_does() {
        for (text, canonical) in [
            ("0", "0"),
            ("0.5", "500m"),
            ("1024Mi", "1Gi"),
            ("1e3", "1e3"),
            ("10e2", "1e3"),
            ("2", "2"),
            ("134217728", "134217728"),
            ("1000Ki", "1000Ki"),
            ("1500m", "1500m"),
            ("1000m", "1"),
            ("0.5Gi", "512Mi"),
            ("1.5G", "1500M"),
            ("128974848000m", "128974848"),
            ("12E", "12E"),
            ("1000M", "1G"),
            ("1000", "1k"),
            ("0.0001", "100u"),
            ("1.500", "1.500"),
            ("1.5Gi", "1536Mi"),
            ("-1.5", "-1500m"),
            ("0.0000000001", "1n"),
            ("1Ki", "1Ki"),
            ("1023", "1023"),
            ("0Mi", "0"),
            ("10Ei", "9223372036854775807"),
            ("100000000000000000000", "100E"),
            ("1000E", "1"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("1e60", "1e60"),
            ("10e60", "10e60"),
            ("1e61", "10e60"),
            ("0.1Ki", "102400m"),
            ("0.5Ki", "512"),
        ] {
            assert_eq!(Quantity::parse(text).expect(text).to_string(), canonical, "{text}");
        }
    }

    #[test]
    fn refuses_what_kubernetes_refuses() {
        for (text, error) in [
            ("", FORMAT_WRONG),
            ("lots", FORMAT_WRONG),
            ("1GB", FORMAT_WRONG),
            ("true", FORMAT_WRONG),
            ("1.2.3", FORMAT_WRONG),
            ("1e", SUFFIX),
            ("1ki", SUFFIX),
            ("1ee3", SUFFIX),
            ("1K", SUFFIX),
        ] {
            assert_eq!(Quantity::parse(text).expect_err(text), QuantityError(error), "{text}");
        }
    }

    #[test]
    fn rounds_up_to_milli() {
        for (text, rounded) in [("0.0001", "1m"), ("1.0001", "1001m"), ("-0.0001", "-1m"), ("1.500", "1.500")]
        {
            let mut quantity = Quantity::parse(text).expect(text);
            quantity.round_up_milli();
            assert_eq!(quantity.to_string(), rounded);
        }
        assert_eq!(Quantity::parse("1.1").expect("parses").value(), 2);
        assert_eq!(Quantity::parse("1.1").expect("parses").milli_value(), 1100);
    }

    proptest! {
        #[test]
        fn never_panics(text in "[-+0-9.eEinumkKMGTP]{0,30}") {
            let _ = Quantity::parse(&text);
        }

        #[test]
        fn writing_keeps_the_amount(nano in -1_000_000_000_000_000_000_i64..1_000_000_000_000_000_000) {
            let quantity = Quantity { nano: nano.into(), format: Format::DecimalSi, text: None, milli: false };
            let again = Quantity::parse(&quantity.to_string()).expect("own text");
            prop_assert_eq!(&again, &quantity);
            prop_assert_eq!(again.to_string(), quantity.to_string());
        }

        #[test]
        fn binary_writing_keeps_the_amount(value in -1_000_000_000_000_i64..1_000_000_000_000) {
            let quantity = Quantity::new(value, Format::BinarySi);
            prop_assert_eq!(Quantity::parse(&quantity.to_string()).expect("own text"), quantity);
        }

        #[test]
        fn sums_agree_with_integers(a in -1_000_000_000_i64..1_000_000_000, b in -1_000_000_000_i64..1_000_000_000) {
            let sum = Quantity::from_milli(a, Format::DecimalSi) + Quantity::from_milli(b, Format::DecimalSi);
            prop_assert_eq!(sum.milli_value(), a + b);
        }
    }

    #[test]
    fn overflows_are_those_of_64_bits() {
        let of = |text: &str| Quantity::parse(text).unwrap();
        assert_eq!((of("1500m").milli_in_64_bits(), of("1500m").value_in_64_bits()), (1500, 2));
        assert!(of("2").counts_as_whole() && !of("1500m").counts_as_whole());
        // 1.5Ei are 3 << 59; times a thousand, that is more than 64 bits hold.
        assert_eq!(of("1.5Ei").milli_in_64_bits(), -(4 << 60));
        assert!(!of("1.5Ei").counts_as_whole());
        assert_eq!(of("1e100").milli_in_64_bits(), 0);
        assert!(of("1e100").counts_as_whole());
    }
}
