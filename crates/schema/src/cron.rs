//! Schedules of CronJobs: one reader for validation and for the controller.
//!
//! A schedule is five fields (minute, hour, day of month, month, day of week), a descriptor such as `@daily`, or
//! `@every` and a duration. It is interpreted in the time zone of the CronJob. The parser accepts and refuses what
//! Kubernetes does, with its messages. There is no clock here: the caller passes the time after which the next run is
//! wanted.
//!
//! A local time that a change to daylight saving time skips is skipped by the schedule, and one that comes twice fires
//! twice.

mod fields;
mod next;
mod zone;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::time::read_duration;

pub use zone::{UnknownZone, time_zone};

use fields::Fields;

/// A schedule with its time zone.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    when: When,
    zone: TimeZone,
}

#[derive(Clone, Debug, PartialEq)]
enum When {
    Fields(Fields),
    /// A fixed time after the last run; whole seconds, at least one.
    Every(SignedDuration),
}

impl Schedule {
    /// Parses `spec.schedule`. A prefix `TZ=` or `CRON_TZ=`, which only CronJobs older than `spec.timeZone` may have, sets the
    /// time zone; without it the schedule is in UTC.
    ///
    /// ```
    /// use evenkeel_schema::cron::Schedule;
    /// let schedule = Schedule::parse("*/15 * * * *").unwrap();
    /// let next = schedule.next("2026-01-01T00:14:59Z".parse().unwrap()).unwrap();
    /// assert_eq!(next.to_string(), "2026-01-01T00:15:00Z");
    /// ```
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("empty spec string".to_owned());
        }
        if !(text.starts_with("TZ=") || text.starts_with("CRON_TZ=")) {
            return Ok(Schedule { when: when(text)?, zone: TimeZone::UTC });
        }
        // The library that Kubernetes uses panics without a blank; Kubernetes recovers and reports the panic.
        let (prefix, rest) = text.split_once(' ').ok_or_else(|| {
            "invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned()
        })?;
        let name = prefix.split_once('=').map_or("", |(_, name)| name);
        let zone = zone::load(name).map_err(|error| format!("provided bad location {name}: {error}"))?;
        Ok(Schedule { when: when(rest.trim())?, zone })
    }

    /// Parses `spec.schedule` in the time zone of `spec.timeZone`. A schedule with a time zone of its own keeps it.
    pub fn parse_in(text: &str, zone: TimeZone) -> Result<Self, String> {
        let schedule = Self::parse(text)?;
        Ok(if text.contains("TZ") { schedule } else { Schedule { zone, ..schedule } })
    }

    /// The first run after `after`; `None` if the schedule does not fire within five years.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.when {
            When::Fields(fields) => next::next(fields, &self.zone, after),
            When::Every(delay) => {
                let whole = Timestamp::from_second(after.as_second()).ok()?;
                whole.checked_add(*delay).ok()
            }
        }
    }
}

fn when(text: &str) -> Result<When, String> {
    match text.strip_prefix('@') {
        Some(_) => descriptor(text),
        None => Ok(When::Fields(Fields::parse(text)?)),
    }
}

fn descriptor(text: &str) -> Result<When, String> {
    let fields = match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => {
            let Some(duration) = text.strip_prefix("@every ") else {
                return Err(format!("unrecognized descriptor: {text}"));
            };
            let nanos = read_duration(duration)
                .map_err(|error| format!("failed to parse duration {text}: {error}"))?;
            let seconds = SignedDuration::from_nanos(nanos).as_secs();
            return Ok(When::Every(SignedDuration::from_secs(seconds.max(1))));
        }
    };
    Ok(When::Fields(Fields::parse(fields)?))
}

#[cfg(test)]
mod tests;
