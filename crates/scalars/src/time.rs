//! Times and durations as Kubernetes reads and writes them.
//!
//! A time is RFC 3339 and comes back in UTC, to the second ([`Precision::Seconds`], `metav1.Time`) or the
//! microsecond ([`Precision::Micros`], `metav1.MicroTime`). Durations are Go's: `1h30m0s`.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};

use crate::go::quote;

/// The precision of a time type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// Whole seconds; a fraction is read and dropped.
    Seconds,
    /// Microseconds; exactly six digits must be written.
    Micros,
}

impl Precision {
    const fn layout(self) -> &'static str {
        match self {
            Precision::Seconds => "2006-01-02T15:04:05Z07:00",
            Precision::Micros => "2006-01-02T15:04:05.000000Z07:00",
        }
    }
}

/// Parses a time. The error is that of Go's parser.
pub fn parse(text: &str, precision: Precision) -> Result<Timestamp, String> {
    Reader { text, rest: text, precision }.time()
}

/// Prints a time in UTC.
pub fn print(time: Timestamp, precision: Precision) -> String {
    let civil = TimeZone::UTC.to_datetime(time);
    let date = format!("{:04}-{:02}-{:02}", civil.year(), civil.month(), civil.day());
    let clock = format!("{:02}:{:02}:{:02}", civil.hour(), civil.minute(), civil.second());
    match precision {
        Precision::Seconds => format!("{date}T{clock}Z"),
        Precision::Micros => format!("{date}T{clock}.{:06}Z", civil.subsec_nanosecond() / 1000),
    }
}

/// The form in which a time is stored; `None` if the text is not a time.
pub fn canonical(text: &str, precision: Precision) -> Option<String> {
    if is_plain(text, precision) {
        return Some(text.to_owned());
    }
    parse(text, precision).ok().map(|time| print(time, precision))
}

/// Whether a text is certainly a time in the form in which it is stored. Nearly all times are, and need not be parsed and
/// printed again. Days that only some months have, and years before 1000, are left to the parser.
pub fn is_plain(text: &str, precision: Precision) -> bool {
    let layout: &[u8] = match precision {
        Precision::Seconds => b"0000-00-00T00:00:00Z",
        Precision::Micros => b"0000-00-00T00:00:00.000000Z",
    };
    let text = text.as_bytes();
    let fits = |(text, layout): (&u8, &u8)| text == layout || (*layout == b'0' && text.is_ascii_digit());
    if text.len() != layout.len() || !text.iter().zip(layout).all(fits) {
        return false;
    }
    let number = |at: usize| (text[at] - b'0') * 10 + (text[at + 1] - b'0');
    text[0] != b'0'
        && (1..=12).contains(&number(5))
        && (1..=28).contains(&number(8))
        && number(11) < 24
        && number(14) < 60
        && number(17) < 60
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    precision: Precision,
}

impl<'a> Reader<'a> {
    fn time(mut self) -> Result<Timestamp, String> {
        let year = self.number(4, "2006")?;
        self.literal("-")?;
        let month = self.ranged("01", 1, 12, "month")?;
        self.literal("-")?;
        let day = self.number(2, "02")?;
        self.literal("T")?;
        let hour = self.ranged("15", 0, 23, "hour")?;
        self.literal(":")?;
        let minute = self.ranged("04", 0, 59, "minute")?;
        self.literal(":")?;
        let second = self.ranged("05", 0, 59, "second")?;
        let nanos = self.fraction()?;
        let offset = self.offset()?;
        if !self.rest.is_empty() {
            return Err(self.out_of_place(&format!(": extra text: {}", quote(self.rest))));
        }
        let day_error = || self.out_of_place(": day out of range");
        let narrow = |value: i64| i8::try_from(value).unwrap_or_default();
        let year = i16::try_from(year).map_err(|_| day_error())?;
        let civil = DateTime::new(
            year,
            narrow(month),
            narrow(day),
            narrow(hour),
            narrow(minute),
            narrow(second),
            nanos,
        );
        let offset = Offset::from_seconds(offset).map_err(|_| day_error())?;
        offset.to_timestamp(civil.map_err(|_| day_error())?).map_err(|_| day_error())
    }

    fn out_of_place(&self, what: &str) -> String {
        format!("parsing time {}{what}", quote(self.text))
    }

    fn cannot(&self, rest: &str, element: &str) -> String {
        let layout = self.precision.layout();
        self.out_of_place(&format!(
            " as {}: cannot parse {} as {}",
            quote(layout),
            quote(rest),
            quote(element)
        ))
    }

    fn number(&mut self, digits: usize, element: &str) -> Result<i64, String> {
        let plain = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit());
        let Some(number) = self.rest.get(..digits).filter(plain) else {
            return Err(self.cannot(self.rest, element));
        };
        self.rest = &self.rest[digits..];
        number.parse().map_err(|_| self.cannot(self.rest, element))
    }

    fn ranged(&mut self, element: &str, low: i64, high: i64, name: &str) -> Result<i64, String> {
        let value = self.number(2, element)?;
        match (low..=high).contains(&value) {
            true => Ok(value),
            false => Err(self.out_of_place(&format!(": {name} out of range"))),
        }
    }

    fn literal(&mut self, literal: &str) -> Result<(), String> {
        match self.rest.strip_prefix(literal) {
            Some(rest) => self.rest = rest,
            None => return Err(self.cannot(self.rest, literal)),
        }
        Ok(())
    }

    fn fraction(&mut self) -> Result<i32, String> {
        let digits = match self.rest.strip_prefix(['.', ',']) {
            Some(rest) => rest.bytes().take_while(u8::is_ascii_digit).count(),
            None => 0,
        };
        if self.precision == Precision::Micros && digits != 6 {
            return Err(self.cannot(self.rest, ".000000"));
        }
        if digits == 0 {
            return Ok(0);
        }
        let fraction = &self.rest[1..=digits];
        self.rest = &self.rest[digits + 1..];
        let nine = format!("{:0<9}", &fraction[..digits.min(9)]);
        Ok(nine.parse().unwrap_or_default())
    }

    fn offset(&mut self) -> Result<i32, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let bytes = self.rest.as_bytes();
        let digit = |index: usize| {
            bytes.get(index).filter(|byte| byte.is_ascii_digit()).map(|byte| i32::from(byte - b'0'))
        };
        let parts = (bytes.first(), digit(1), digit(2), bytes.get(3), digit(4), digit(5));
        let (Some(sign @ (b'+' | b'-')), Some(h1), Some(h2), Some(b':'), Some(m1), Some(m2)) = parts else {
            return Err(self.cannot(self.rest, "Z07:00"));
        };
        let (hours, minutes) = (h1 * 10 + h2, m1 * 10 + m2);
        if hours > 24 || minutes > 60 {
            return Err(self.out_of_place(": time zone offset out of range"));
        }
        self.rest = &self.rest[6..];
        let seconds = hours * 3600 + minutes * 60;
        Ok(if *sign == b'-' { -seconds } else { seconds })
    }
}

/// Parses a duration in Go's format, in nanoseconds; `None` if the text is not a duration.
///
/// ```
/// use evenkeel_scalars::time::{parse_duration, print_duration};
/// assert_eq!(parse_duration("1.5h"), Some(5_400_000_000_000));
/// assert_eq!(print_duration(5_400_000_000_000), "1h30m0s");
/// ```
pub fn parse_duration(text: &str) -> Option<i64> {
    read_duration(text).ok()
}

/// Parses a duration in Go's format, in nanoseconds. The error is that of Go's parser.
pub fn read_duration(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {}", quote(text));
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (digits, after) = rest.split_at(number);
        if !digits.bytes().any(|byte| byte.is_ascii_digit()) || digits.matches('.').count() > 1 {
            return Err(invalid());
        }
        let length = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(length);
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quote(text)));
        }
        let Some(nanos) = unit_nanos(unit) else {
            return Err(format!("time: unknown unit {} in duration {}", quote(unit), quote(text)));
        };
        total = part(digits, nanos).and_then(|part| total.checked_add(part)).ok_or_else(invalid)?;
        rest = after;
    }
    i64::try_from(if negative { -total } else { total }).map_err(|_| invalid())
}

fn unit_nanos(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

fn part(digits: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // More than eighteen digits are finer than any unit.
    let fraction = &fraction[..fraction.len().min(18)];
    let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
    let fine: i128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    whole.checked_mul(unit)?.checked_add(fine * unit / scale)
}

/// Prints a duration of nanoseconds as Go does.
pub fn print_duration(nanos: i64) -> String {
    let magnitude = nanos.unsigned_abs();
    let sign = if nanos < 0 { "-" } else { "" };
    let decimal = |value: u64, unit: u64| {
        let text = format!("{}.{:09}", value / unit, (value % unit) * (1_000_000_000 / unit));
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match magnitude {
        0 => "0s".into(),
        1..1_000 => format!("{sign}{magnitude}ns"),
        1_000..1_000_000 => format!("{sign}{}µs", decimal(magnitude, 1_000)),
        1_000_000..1_000_000_000 => format!("{sign}{}ms", decimal(magnitude, 1_000_000)),
        _ => {
            let seconds = magnitude / 1_000_000_000;
            let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
            let rest = decimal(magnitude % 60_000_000_000, 1_000_000_000);
            match (hours, minutes) {
                (0, 0) => format!("{sign}{rest}s"),
                (0, minutes) => format!("{sign}{minutes}m{rest}s"),
                (hours, minutes) => format!("{sign}{hours}h{minutes}m{rest}s"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_come_back_in_utc() {
        let check =
            |text, precision, printed: &str| assert_eq!(canonical(text, precision).as_deref(), Some(printed));
        check("2026-01-02T03:04:05Z", Precision::Seconds, "2026-01-02T03:04:05Z");
        check("2026-01-02T03:04:05.999+02:00", Precision::Seconds, "2026-01-02T01:04:05Z");
        check("2026-01-02T03:04:05.123456Z", Precision::Micros, "2026-01-02T03:04:05.123456Z");
    }

    proptest! {
        /// What is not parsed is what parsing and printing would return.
        #[test]
        fn a_plain_time_is_its_own_canonical_form(
            text in "[0-2][0-9]{3}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9](\\.[0-9]{6})?Z?"
        ) {
            for precision in [Precision::Seconds, Precision::Micros] {
                let parsed = parse(&text, precision).ok().map(|time| print(time, precision));
                prop_assert_eq!(canonical(&text, precision), parsed);
            }
        }
    }

    #[test]
    fn errors_are_those_of_go() {
        let check = |text, precision, error: &str| assert_eq!(parse(text, precision).expect_err(text), error);
        check(
            "yesterday",
            Precision::Seconds,
            r#"parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006""#,
        );
        check(
            "2026-13-01T00:00:00Z",
            Precision::Seconds,
            r#"parsing time "2026-13-01T00:00:00Z": month out of range"#,
        );
        check(
            "2026-01-01T00:00:00Z",
            Precision::Micros,
            r#"parsing time "2026-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#,
        );
        check(
            "2026-02-30T00:00:00Z",
            Precision::Seconds,
            r#"parsing time "2026-02-30T00:00:00Z": day out of range"#,
        );
    }

    #[test]
    fn durations_print_like_go() {
        for (text, printed) in [
            ("90s", "1m30s"),
            ("1500ms", "1.5s"),
            ("1h", "1h0m0s"),
            ("-1.5µs", "-1.5µs"),
            ("0", "0s"),
            ("72h3m0.5s", "72h3m0.5s"),
        ] {
            assert_eq!(print_duration(parse_duration(text).expect(text)), printed);
        }
        for text in ["", "1", "s", "1x", ".s", "1h-1m"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn durations_survive_their_text(nanos in any::<i64>()) {
            prop_assert_eq!(parse_duration(&print_duration(nanos)), Some(nanos));
        }

        #[test]
        fn times_survive_their_text(seconds in -60_000_000_000_i64..200_000_000_000) {
            let time = Timestamp::from_second(seconds).expect("in range");
            prop_assert_eq!(parse(&print(time, Precision::Seconds), Precision::Seconds), Ok(time));
        }

        #[test]
        fn never_panics(text in ".{0,32}") {
            let _ = (parse(&text, Precision::Seconds), parse_duration(&text));
        }
    }
}
