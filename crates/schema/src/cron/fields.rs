//! The five fields of a schedule, as sets of numbers.

use evenkeel_scalars::go;
use jiff::civil::DateTime;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// For each field, the numbers at which the schedule fires, as a bit set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) minutes: u64,
    pub(super) hours: u64,
    days: u64,
    pub(super) months: u64,
    weekdays: u64,
    /// Whether day of month or day of week is a star. Then both must match; otherwise, one of them is enough.
    both_days: bool,
}

/// The range and the names of a field.
struct Bounds {
    min: u64,
    max: u64,
    names: &'static [&'static str],
}

impl Fields {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields.as_slice() else {
            return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
        };
        let (minutes, _) = field(minutes, &Bounds { min: 0, max: 59, names: &[] })?;
        let (hours, _) = field(hours, &Bounds { min: 0, max: 23, names: &[] })?;
        let (days, any_day) = field(days, &Bounds { min: 1, max: 31, names: &[] })?;
        let (months, _) = field(months, &Bounds { min: 1, max: 12, names: &MONTHS })?;
        let (weekdays, any_weekday) = field(weekdays, &Bounds { min: 0, max: 6, names: &DAYS })?;
        Ok(Fields { minutes, hours, days, months, weekdays, both_days: any_day || any_weekday })
    }

    pub(super) fn fires_on(&self, date: DateTime) -> bool {
        let day = has(self.days, date.day());
        let weekday = has(self.weekdays, date.date().weekday().to_sunday_zero_offset());
        if self.both_days { day && weekday } else { day || weekday }
    }
}

/// Whether a bit set contains a number.
pub(super) fn has(bits: u64, number: i8) -> bool {
    u32::try_from(number).ok().and_then(|shift| bits.checked_shr(shift)).is_some_and(|rest| rest & 1 == 1)
}

/// Parses a field, which is a list of ranges, into a bit set. Also returns whether one of the ranges is a star without a step.
fn field(text: &str, bounds: &Bounds) -> Result<(u64, bool), String> {
    let (mut bits, mut any) = (0, false);
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (more, star) = range(part, bounds)?;
        bits |= more;
        any |= star;
    }
    Ok((bits, any))
}

fn range(text: &str, bounds: &Bounds) -> Result<(u64, bool), String> {
    let steps: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = steps[0].split('-').collect();
    let star = matches!(ends[0], "*" | "?");
    let (start, mut end) = match ends.as_slice() {
        _ if star => (bounds.min, bounds.max),
        [single] => {
            let start = named(single, bounds)?;
            (start, start)
        }
        [first, last] => (named(first, bounds)?, named(last, bounds)?),
        _ => return Err(format!("too many hyphens: {text}")),
    };
    let step = match steps.as_slice() {
        [_] => 1,
        [_, step] => {
            // `5/10` means every tenth number from 5 on.
            if ends.len() == 1 {
                end = bounds.max;
            }
            number(step)?
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    if start < bounds.min {
        return Err(format!("beginning of range ({start}) below minimum ({}): {text}", bounds.min));
    }
    if end > bounds.max {
        return Err(format!("end of range ({end}) above maximum ({}): {text}", bounds.max));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    let step = usize::try_from(step).unwrap_or(usize::MAX);
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    let bits = (start..=end).step_by(step).fold(0, |bits, number| bits | (1 << number));
    Ok((bits, star && step == 1))
}

fn named(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let lower = text.to_lowercase();
    match bounds.names.iter().position(|name| *name == lower) {
        Some(index) => Ok(index as u64 + bounds.min),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u64, String> {
    let parsed: i64 = text.parse().map_err(|error: std::num::ParseIntError| {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};
        let why = match error.kind() {
            PosOverflow | NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        format!("failed to parse int from {text}: strconv.Atoi: parsing {}: {why}", go::quote(text))
    })?;
    u64::try_from(parsed).map_err(|_| format!("negative number ({parsed}) not allowed: {text}"))
}
