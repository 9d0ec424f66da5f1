//! Computes the next run of a schedule, field by field like the library that Kubernetes uses, so that changes to and from
//! daylight saving time have the same effect.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, Timestamp};

use super::fields::{Fields, has};
use super::zone::{at, local};

/// A schedule that does not fire within this many years never does.
const YEARS_MAX: i16 = 5;
/// The most steps of a search, far more than any schedule needs. The bound protects against a time zone with unusual
/// transitions.
const STEPS_MAX: usize = 100_000;

const MINUTE: SignedDuration = SignedDuration::from_mins(1);
const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// A search that moves forward until all fields match.
struct Search<'a> {
    fields: &'a Fields,
    zone: &'a TimeZone,
    time: Timestamp,
    /// Whether a field was moved. Then the smaller fields start from their beginning.
    moved: bool,
    steps: usize,
}

/// The result of matching a field: it matches, or it passed the end of its range, so that the search starts over with the
/// larger fields.
#[derive(PartialEq, Eq)]
enum Step {
    Right,
    Wrapped,
}

/// The first time after `after` at which all fields match.
pub(super) fn next(fields: &Fields, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
    let time = Timestamp::from_second(after.as_second().checked_add(1)?).ok()?;
    let mut search = Search { fields, zone, time, moved: false, steps: 0 };
    let last_year = local(zone, time).year().checked_add(YEARS_MAX)?;
    while local(zone, search.time).year() <= last_year {
        let right = search.month()? == Step::Right
            && search.day()? == Step::Right
            && search.hour()? == Step::Right
            && search.minute()? == Step::Right
            && search.second()? == Step::Right;
        if right {
            return Some(search.time);
        }
    }
    None
}

impl Search<'_> {
    fn local(&self) -> jiff::civil::DateTime {
        local(self.zone, self.time)
    }

    fn step(&mut self) -> Option<()> {
        self.steps += 1;
        (self.steps <= STEPS_MAX).then_some(())
    }

    /// Moves to a local time.
    fn go(&mut self, to: jiff::civil::DateTime) -> Option<()> {
        self.time = at(self.zone, to)?;
        Some(())
    }

    fn advance(&mut self, by: SignedDuration) -> Option<()> {
        self.time = self.time.checked_add(by).ok()?;
        Some(())
    }

    fn month(&mut self) -> Option<Step> {
        while !has(self.fields.months, self.local().month()) {
            self.step()?;
            if !self.moved {
                self.moved = true;
                let first = self.local().date().first_of_month();
                self.go(first.to_datetime(jiff::civil::Time::midnight()))?;
            }
            self.go(self.local().checked_add(Span::new().months(1)).ok()?)?;
            if self.local().month() == 1 {
                return Some(Step::Wrapped);
            }
        }
        Some(Step::Right)
    }

    fn day(&mut self) -> Option<Step> {
        while !self.fields.fires_on(self.local()) {
            self.step()?;
            if !self.moved {
                self.moved = true;
                self.go(self.local().date().to_datetime(jiff::civil::Time::midnight()))?;
            }
            self.go(self.local().checked_add(Span::new().days(1)).ok()?)?;
            // A day has no midnight if daylight saving time begins then.
            match i64::from(self.local().hour()) {
                0 => {}
                hour if hour > 12 => self.advance(SignedDuration::from_hours(24 - hour))?,
                hour => self.advance(SignedDuration::from_hours(-hour))?,
            }
            if self.local().day() == 1 {
                return Some(Step::Wrapped);
            }
        }
        Some(Step::Right)
    }

    fn hour(&mut self) -> Option<Step> {
        while !has(self.fields.hours, self.local().hour()) {
            self.step()?;
            if !self.moved {
                self.moved = true;
                let local = self.local();
                self.go(local.date().at(local.hour(), 0, 0, 0))?;
            }
            self.advance(HOUR)?;
            if self.local().hour() == 0 {
                return Some(Step::Wrapped);
            }
        }
        Some(Step::Right)
    }

    fn minute(&mut self) -> Option<Step> {
        while !has(self.fields.minutes, self.local().minute()) {
            self.step()?;
            if !self.moved {
                self.moved = true;
                let seconds = self.time.as_second();
                self.time = Timestamp::from_second(seconds - seconds.rem_euclid(60)).ok()?;
            }
            self.advance(MINUTE)?;
            if self.local().minute() == 0 {
                return Some(Step::Wrapped);
            }
        }
        Some(Step::Right)
    }

    /// Schedules fire at the full minute.
    fn second(&mut self) -> Option<Step> {
        while self.local().second() != 0 {
            self.step()?;
            self.moved = true;
            self.advance(SignedDuration::from_secs(1))?;
            if self.local().second() == 0 {
                return Some(Step::Wrapped);
            }
        }
        Some(Step::Right)
    }
}
