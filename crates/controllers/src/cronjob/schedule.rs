//! Schedules in cron's form: minute, hour, day of month, month, day of week.

use jiff::civil::DateTime;
use jiff::{Timestamp, ToSpan, tz::TimeZone};

/// How far ahead the next time is looked for: a schedule may name the 29th of February, which can be eight years away.
const HORIZON_DAYS: i64 = 8 * 366 + 1;

/// A schedule: for each field the values at which it fires, as bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether day of month and day of week are both restricted: then either is enough.
    either_day: bool,
}

impl Schedule {
    /// Reads a schedule; `None` for what cron does not know. The server's validation refuses it before.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = match text.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields.as_slice() else { return None };
        let starred = |field: &str| field.starts_with('*') || field.starts_with('?');
        let weekday_bits = field(weekdays, 0, 7, &WEEKDAYS)?;
        Some(Self {
            minutes: field(minutes, 0, 59, &[])?,
            hours: field(hours, 0, 23, &[])?,
            days: field(days, 1, 31, &[])?,
            months: field(months, 1, 12, &MONTHS)?,
            // Sunday is both 0 and 7.
            weekdays: weekday_bits | (weekday_bits >> 7),
            either_day: !starred(days) && !starred(weekdays),
        })
    }

    /// The first time after `after`, in UTC.
    pub(crate) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let start = after.to_zoned(TimeZone::UTC).datetime();
        let start = start.with().second(0).subsec_nanosecond(0).build().ok()?.checked_add(1.minute()).ok()?;
        let mut day = start.date();
        for _ in 0..HORIZON_DAYS {
            if self.fires_on(day) {
                let from = if day == start.date() { (start.hour(), start.minute()) } else { (0, 0) };
                if let Some((hour, minute)) = self.first_time(from) {
                    let at = DateTime::from_parts(day, jiff::civil::time(hour, minute, 0, 0));
                    return at.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
                }
            }
            day = day.tomorrow().ok()?;
        }
        None
    }

    fn fires_on(&self, day: jiff::civil::Date) -> bool {
        let has = |bits: u64, value: i8| bits & (1 << value) != 0;
        let (by_day, by_weekday) =
            (has(self.days, day.day()), has(self.weekdays, day.weekday().to_sunday_zero_offset()));
        has(self.months, day.month())
            && if self.either_day { by_day || by_weekday } else { by_day && by_weekday }
    }

    /// The first hour and minute of a day that are not before `from`.
    fn first_time(&self, from: (i8, i8)) -> Option<(i8, i8)> {
        let has = |bits: u64, value: i8| bits & (1 << value) != 0;
        (from.0..24).filter(|hour| has(self.hours, *hour)).find_map(|hour| {
            let first = if hour == from.0 { from.1 } else { 0 };
            (first..60).find(|minute| has(self.minutes, *minute)).map(|minute| (hour, minute))
        })
    }
}

const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const MONTHS: [&str; 13] =
    ["", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// `*`, `1-5`, `*/15`, `mon,wed`, and lists of these.
fn field(text: &str, first: u32, last: u32, names: &[&str]) -> Option<u64> {
    text.split(',').try_fold(0, |bits, part| Some(bits | range(part, first, last, names)?))
}

fn range(part: &str, first: u32, last: u32, names: &[&str]) -> Option<u64> {
    let (span, step) = match part.split_once('/') {
        Some((span, step)) => (span, step.parse::<usize>().ok().filter(|step| *step > 0)?),
        None => (part, 1),
    };
    let (low, high) = match span {
        "*" | "?" => (first, last),
        _ => match span.split_once('-') {
            Some((low, high)) => (value(low, names)?, value(high, names)?),
            None if part.contains('/') => (value(span, names)?, last),
            None => (value(span, names)?, value(span, names)?),
        },
    };
    if low < first || high > last || low > high {
        return None;
    }
    Some((low..=high).step_by(step).fold(0, |bits, value| bits | (1 << value)))
}

fn value(text: &str, names: &[&str]) -> Option<u32> {
    let lower = text.to_ascii_lowercase();
    let named = names.iter().position(|name| !name.is_empty() && *name == lower);
    named.and_then(|at| u32::try_from(at).ok()).or_else(|| text.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(schedule: &str, after: &str) -> String {
        Schedule::parse(schedule).unwrap().next(after.parse().unwrap()).unwrap().to_string()
    }

    #[test]
    fn the_next_time_is_found() {
        assert_eq!(next("* * * * *", "2026-01-01T00:00:00Z"), "2026-01-01T00:01:00Z");
        assert_eq!(next("*/15 * * * *", "2026-01-01T00:14:59Z"), "2026-01-01T00:15:00Z");
        assert_eq!(next("30 2 * * mon", "2026-01-01T00:00:00Z"), "2026-01-05T02:30:00Z");
        assert_eq!(next("0 0 29 2 *", "2026-01-01T00:00:00Z"), "2028-02-29T00:00:00Z");
        assert_eq!(
            next("0 0 13 * 5", "2026-01-01T00:00:00Z"),
            "2026-01-02T00:00:00Z",
            "either day is enough"
        );
        assert_eq!(next("@hourly", "2026-12-31T23:30:00Z"), "2027-01-01T00:00:00Z");
        assert_eq!(next("0 0 * * 7", "2026-01-01T00:00:00Z"), "2026-01-04T00:00:00Z");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "* * * *", "60 * * * *", "*/0 * * * *", "5-1 * * * *", "x * * * *"] {
            assert_eq!(Schedule::parse(text), None, "{text}");
        }
    }
}
