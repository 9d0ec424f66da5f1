//! Which time of a schedule is due, and how long it is until the next one.

use std::time::Duration;

use evenkeel_schema::cron::Schedule;
use jiff::{SignedDuration, Timestamp};

/// With more missed times than this, the controller records an event, as Kubernetes does.
const MISSED_MAX: i64 = 100;

/// The schedule never fires, because it names a date that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("time difference between two schedules is less than 1 second")]
pub(super) struct NeverFires;

/// The newest time of a schedule that has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Recent {
    /// The newest time, if one has passed since the last run.
    pub(super) due: Option<Timestamp>,
    /// Whether times before the newest one were missed.
    missed: bool,
    /// Whether so many times were missed that something must be wrong.
    pub(super) many_missed: bool,
}

/// Finds the newest time that has passed since `earliest`, the last run or the creation. `@every` counts from there.
pub(super) fn most_recent(
    schedule: &Schedule,
    earliest: Timestamp,
    now: Timestamp,
) -> Result<Recent, NeverFires> {
    let first = schedule.next(earliest).ok_or(NeverFires)?;
    if now < first {
        return Ok(Recent { due: None, missed: false, many_missed: false });
    }
    let second = schedule.next(first).ok_or(NeverFires)?;
    if now < second {
        return Ok(Recent { due: Some(first), missed: false, many_missed: false });
    }
    // Estimate the number of missed times from the interval between the first two. The search begins one interval
    // before the last estimated time, because the times of a schedule need not be evenly spaced.
    let interval = second.duration_since(first).as_secs();
    if interval < 1 {
        return Err(NeverFires);
    }
    let missed = now.duration_since(first).as_secs() / interval + 1;
    let back = SignedDuration::from_secs((missed - 2).saturating_mul(interval));
    let from = first.checked_add(back).unwrap_or(first);
    let times = std::iter::successors(schedule.next(from), |time| schedule.next(*time));
    let due = times.take_while(|time| *time <= now).last();
    Ok(Recent { due, missed: true, many_missed: missed > MISSED_MAX })
}

/// Returns how long it is until the next time; `None` if the schedule has no more times.
pub(super) fn wait(schedule: &Schedule, earliest: Timestamp, now: Timestamp) -> Option<Duration> {
    let after = match most_recent(schedule, earliest, now) {
        Ok(Recent { due: Some(due), .. }) => due,
        Ok(Recent { missed: false, .. }) => earliest,
        Ok(_) | Err(NeverFires) => now,
    };
    let next = schedule.next(after)?;
    Some(Duration::try_from(next.duration_since(now)).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(schedule: &str, earliest: &str, now: &str) -> (String, bool) {
        let schedule = Schedule::parse(schedule).unwrap();
        match most_recent(&schedule, earliest.parse().unwrap(), now.parse().unwrap()) {
            Ok(recent) => (recent.due.map_or("none".to_owned(), |time| time.to_string()), recent.many_missed),
            Err(error) => (error.to_string(), false),
        }
    }

    #[test]
    fn the_newest_time_is_due() {
        let never = "time difference between two schedules is less than 1 second";
        for (schedule, earliest, now, expected, many) in [
            ("0 * * * *", "2026-01-01T00:10:00Z", "2026-01-01T00:59:00Z", "none", false),
            ("0 * * * *", "2026-01-01T00:10:00Z", "2026-01-01T01:00:00Z", "2026-01-01T01:00:00Z", false),
            ("0 * * * *", "2026-01-01T00:10:00Z", "2026-01-01T05:30:00Z", "2026-01-01T05:00:00Z", false),
            ("* * * * *", "2026-01-01T00:00:00Z", "2026-01-03T00:00:30Z", "2026-01-03T00:00:00Z", true),
            // The times of this schedule are not evenly spaced.
            (
                "30 6-16/4 * * 1-5",
                "2026-01-02T06:00:00Z",
                "2026-01-05T07:00:00Z",
                "2026-01-05T06:30:00Z",
                false,
            ),
            // Counted from the creation, not from the full hour.
            ("@every 1h", "2026-01-01T00:10:05Z", "2026-01-01T05:30:00Z", "2026-01-01T05:10:05Z", false),
            ("@every 5s", "2026-01-01T00:00:03Z", "2026-01-02T00:00:00Z", "2026-01-01T23:59:58Z", true),
            ("59 23 31 2 *", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", never, false),
        ] {
            assert_eq!(due(schedule, earliest, now), (expected.to_owned(), many), "{schedule}");
        }
    }

    #[test]
    fn the_wait_ends_at_the_next_time() {
        let wait = |schedule: &str, earliest: &str, now: &str| {
            let schedule = Schedule::parse(schedule).unwrap();
            wait(&schedule, earliest.parse().unwrap(), now.parse().unwrap()).map(|wait| wait.as_secs())
        };
        assert_eq!(wait("@every 1h", "2026-01-01T00:10:00Z", "2026-01-01T00:20:00Z"), Some(3000));
        assert_eq!(wait("@every 1h", "2026-01-01T00:10:00Z", "2026-01-01T02:30:00Z"), Some(2400));
        assert_eq!(wait("@hourly", "2026-01-01T00:10:00Z", "2026-01-01T02:30:00Z"), Some(1800));
        assert_eq!(wait("59 23 31 2 *", "2026-01-01T00:10:00Z", "2026-01-01T02:30:00Z"), None);
    }
}
