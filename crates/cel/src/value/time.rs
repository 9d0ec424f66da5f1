//! Timestamps and durations.

use std::cmp::Ordering;
use std::fmt;

use crate::value::{Fault, Outcome, Value};
use evenkeel_scalars::time;

const NANOS: i128 = 1_000_000_000;
/// The first second of year 1.
const SECONDS_MIN: i64 = -62_135_596_800;
/// The last second of year 9999.
const SECONDS_MAX: i64 = 253_402_300_799;
const DAY_SECONDS: i64 = 86_400;

/// A point in time, with the offset that it was written with. Comparisons ignore the offset.
#[derive(Debug, Clone, Copy)]
pub struct Instant {
    nanos: i128,
    offset_seconds: i32,
}

impl PartialEq for Instant {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Instant {}

impl PartialOrd for Instant {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Instant {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Instant {
    fn new(nanos: i128, offset_seconds: i32) -> Option<Self> {
        let seconds = i64::try_from(nanos.div_euclid(NANOS)).ok()?;
        (SECONDS_MIN..=SECONDS_MAX).contains(&seconds).then_some(Instant { nanos, offset_seconds })
    }

    pub(crate) fn from_seconds(seconds: i64) -> Option<Self> {
        Instant::new(i128::from(seconds) * NANOS, 0)
    }

    /// Parses a date such as `2006-01-02`, which denotes midnight.
    pub(crate) fn from_date(text: &str) -> Option<Self> {
        parse_timestamp(&format!("{text}T00:00:00Z")).ok()
    }

    pub(crate) fn seconds(&self) -> i64 {
        // The conversion cannot fail: every instant is within the years 1 to 9999.
        i64::try_from(self.nanos.div_euclid(NANOS)).unwrap_or_default()
    }

    pub(crate) fn plus(&self, nanos: i128) -> Option<Self> {
        Instant::new(self.nanos.checked_add(nanos)?, self.offset_seconds)
    }

    pub(crate) fn since(&self, other: &Instant) -> Option<i64> {
        i64::try_from(self.nanos - other.nanos).ok()
    }

    fn civil(&self, offset_seconds: i32) -> Civil {
        let shifted = self.nanos + i128::from(offset_seconds) * NANOS;
        let seconds = i64::try_from(shifted.div_euclid(NANOS)).unwrap_or_default();
        let (days, second) = (seconds.div_euclid(DAY_SECONDS), seconds.rem_euclid(DAY_SECONDS));
        let (year, month, day) = date_of(days);
        Civil { days, year, month, day, second, millisecond: (shifted.rem_euclid(NANOS) / 1_000_000) as i64 }
    }
}

/// The date and the time of day of an instant, in one time zone.
struct Civil {
    /// The days since the beginning of 1970.
    days: i64,
    year: i64,
    month: i64,
    day: i64,
    /// The second of the day.
    second: i64,
    millisecond: i64,
}

/// The days from the beginning of 1970 to a date of the Gregorian calendar.
///
/// The computation lets years begin in March, so that the leap day comes last. 400 years always have the same number of days.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The date that is so many days from the beginning of 1970.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Civil { year, month, day, second, .. } = self.civil(self.offset_seconds);
        write!(f, "{year:04}-{month:02}-{day:02}T")?;
        write!(f, "{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)?;
        let nanos = self.nanos.rem_euclid(NANOS);
        if nanos != 0 {
            write!(f, ".{}", format!("{nanos:09}").trim_end_matches('0'))?;
        }
        match self.offset_seconds {
            0 => f.write_str("Z"),
            offset => {
                let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.abs() / 60);
                write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
            }
        }
    }
}

pub(crate) fn duration_overflow() -> Fault {
    Fault::new("duration overflow")
}

pub(crate) fn timestamp_overflow() -> Fault {
    Fault::new("timestamp overflow")
}

/// Parses a time in the format of RFC 3339.
pub(crate) fn parse_timestamp(text: &str) -> Outcome<Instant> {
    let (nanos, offset_seconds) =
        parse_rfc3339(text).ok_or_else(|| Fault::conversion("google.protobuf.Timestamp"))?;
    Instant::new(nanos, offset_seconds).ok_or_else(timestamp_overflow)
}

/// Parses a time into nanoseconds since 1970 and an offset in seconds.
fn parse_rfc3339(text: &str) -> Option<(i128, i32)> {
    let digits = |from: usize, to: usize| {
        let part = text.get(from..to)?;
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse::<i64>().ok())?
    };
    let is = |at: usize, byte: u8| text.as_bytes().get(at) == Some(&byte);
    let marks = is(4, b'-') && is(7, b'-') && is(10, b'T') && is(13, b':') && is(16, b':');
    let (year, month, day) = (digits(0, 4)?, digits(5, 7)?, digits(8, 10)?);
    let (hour, minute, second) = (digits(11, 13)?, digits(14, 16)?, digits(17, 19)?);
    let in_range = (1..=12).contains(&month) && hour < 24 && minute < 60 && second < 60;
    let days = days_of(year, month, day);
    if !marks || !in_range || day < 1 || date_of(days) != (year, month, day) {
        return None;
    }
    let rest = text.get(19..)?;
    let (fraction, zone) = match rest.strip_prefix(['.', ',']) {
        Some(after) => {
            let end = after.find(|c: char| !c.is_ascii_digit()).filter(|end| *end > 0)?;
            after.split_at(end)
        }
        None => ("", rest),
    };
    // Digits beyond nanoseconds are ignored.
    let nanos: i128 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    let offset = offset_of(zone)?;
    let seconds = days * DAY_SECONDS + hour * 3600 + minute * 60 + second - i64::from(offset);
    Some((i128::from(seconds) * NANOS + nanos, offset))
}

/// The offset of a zone such as `+02:00`, in seconds.
fn offset_of(zone: &str) -> Option<i32> {
    if zone == "Z" {
        return Some(0);
    }
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    let number = |text: &str| {
        let plain = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| text.parse::<i32>().ok())?
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    (hours <= 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// Parses a time as the `date-time` format does: the offset may lack its colon, or be missing.
pub(crate) fn parse_loose_timestamp(text: &str) -> Option<Instant> {
    if let Ok(instant) = parse_timestamp(text) {
        return Some(instant);
    }
    let (head, zone) = text.split_at(text.len().checked_sub(5).filter(|at| text.is_char_boundary(*at))?);
    let attempts = [format!("{head}{}:{}", zone.get(..3)?, zone.get(3..)?), format!("{text}Z")];
    attempts.iter().find_map(|attempt| parse_timestamp(attempt).ok())
}

/// Parses a duration in Go's format.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    time::parse_duration(text)
}

/// Calls a getter of a timestamp, such as `getFullYear`, in UTC or another zone.
pub(crate) fn part<'a>(instant: &Instant, function: &str, zone: Option<&str>) -> Outcome<Value<'a>> {
    let offset = zone.map_or(Ok(0), zone_offset)?;
    let civil = instant.civil(offset);
    Ok(Value::Int(match function {
        "getFullYear" => civil.year,
        "getMonth" => civil.month - 1,
        "getDayOfYear" => civil.days - days_of(civil.year, 1, 1),
        "getDayOfMonth" => civil.day - 1,
        "getDate" => civil.day,
        // The first day of 1970 was a Thursday.
        "getDayOfWeek" => (civil.days + 4).rem_euclid(7),
        "getHours" => civil.second / 3600,
        "getMinutes" => civil.second / 60 % 60,
        "getSeconds" => civil.second % 60,
        "getMilliseconds" => civil.millisecond,
        _ => return Err(Fault::no_overload()),
    }))
}

/// The offset of a zone, in seconds east of UTC. UTC is the only zone known by name: this crate has no time zone data.
fn zone_offset(zone: &str) -> Outcome<i32> {
    let Some((hours, minutes)) = zone.split_once(':') else {
        return match zone {
            "" | "UTC" | "Etc/UTC" | "Etc/GMT" | "GMT" | "Local" => Ok(0),
            zone => Err(Fault::new(format!("unknown time zone {zone}"))),
        };
    };
    let number = |text: &str| {
        text.parse::<i32>()
            .ok()
            .filter(|number| number.abs() < 100)
            .ok_or_else(|| Fault::new(format!("strconv.Atoi: parsing {text:?}: invalid syntax")))
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let minutes = if zone.starts_with('-') { -minutes } else { minutes };
    Ok((hours * 60 + minutes) * 60)
}

/// Calls a getter of a duration, such as `getHours`, which returns whole units.
pub(crate) fn duration_part<'a>(nanos: i64, function: &str) -> Outcome<Value<'a>> {
    Ok(Value::Int(match function {
        "getHours" => nanos / 3_600_000_000_000,
        "getMinutes" => nanos / 60_000_000_000,
        "getSeconds" => nanos / 1_000_000_000,
        "getMilliseconds" => nanos / 1_000_000,
        _ => return Err(Fault::no_overload()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_their_offset() {
        let instant = parse_timestamp("2020-05-06T07:08:09.5+02:00").unwrap();
        assert_eq!(instant.to_string(), "2020-05-06T07:08:09.5+02:00");
        assert!(matches!(part(&instant, "getHours", None), Ok(Value::Int(5))));
        assert!(matches!(part(&instant, "getHours", Some("-01:00")), Ok(Value::Int(4))));
        assert!(parse_loose_timestamp("é").is_none());
        assert_eq!(parse_timestamp("9999-12-31T23:59:59Z").unwrap().seconds(), SECONDS_MAX);
        assert_eq!(parse_timestamp("0001-01-01T00:00:00Z").unwrap().seconds(), SECONDS_MIN);
        for bad in
            ["2021-02-29T00:00:00Z", "2020-01-01T24:00:00Z", "2020-01-01 00:00:00Z", "2020-01-01T00:00:00"]
        {
            assert!(parse_timestamp(bad).is_err(), "{bad}");
        }
    }
}
