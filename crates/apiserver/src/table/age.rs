//! Durations in the short form that kubectl prints: two or three significant figures.

use evenkeel_schema::json::Value;
use jiff::Timestamp;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// The most negative duration that still prints as `0s`, because the clocks of two machines differ slightly.
const SKEW_SECONDS: i64 = -1;

/// Prints a duration in whole seconds the way kubectl does: `119s`, `5m3s`, `3h15m`, `2d4h`, `400d`, `3y2d`.
pub(crate) fn human(seconds: i64) -> String {
    match seconds {
        s if s < SKEW_SECONDS => "<invalid>".to_owned(),
        s if s < 0 => "0s".to_owned(),
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => two_units(s / MINUTE, 'm', s % MINUTE, 's'),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => two_units(s / HOUR, 'h', s / MINUTE % 60, 'm'),
        s if s < 48 * HOUR => format!("{}h", s / HOUR),
        s if s < 8 * DAY => two_units(s / DAY, 'd', s / HOUR % 24, 'h'),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => two_units(s / YEAR, 'y', s / DAY % 365, 'd'),
        s => format!("{}y", s / YEAR),
    }
}

/// Prints how long ago a timestamp was; `<unknown>` if it is missing or cannot be parsed.
pub(crate) fn since(timestamp: Option<&Value>, now: Timestamp) -> String {
    match timestamp.and_then(parse) {
        Some(then) => human(between(then, now)),
        None => "<unknown>".to_owned(),
    }
}

/// Returns the whole seconds between two times, rounded towards zero.
pub(crate) fn between(from: Timestamp, to: Timestamp) -> i64 {
    to.duration_since(from).as_secs()
}

/// Parses a timestamp field; `None` if it is not an RFC 3339 string.
pub(crate) fn parse(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

fn two_units(large: i64, large_unit: char, small: i64, small_unit: char) -> String {
    match small {
        0 => format!("{large}{large_unit}"),
        _ => format!("{large}{large_unit}{small}{small_unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_kubectl_prints_them() {
        let table = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (599, "9m59s"),
            (600, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 61, "3h1m"),
            (8 * HOUR, "8h"),
            (48 * HOUR - 1, "47h"),
            (48 * HOUR, "2d"),
            (49 * HOUR, "2d1h"),
            (8 * DAY, "8d"),
            (2 * YEAR - 1, "729d"),
            (2 * YEAR, "2y"),
            (2 * YEAR + DAY, "2y1d"),
            (8 * YEAR, "8y"),
        ];
        for (seconds, text) in table {
            assert_eq!(human(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn a_missing_timestamp_is_unknown() {
        assert_eq!(since(None, Timestamp::UNIX_EPOCH), "<unknown>");
        assert_eq!(since(Some(&Value::Null), Timestamp::UNIX_EPOCH), "<unknown>");
        assert_eq!(since(Some(&"1970-01-01T00:00:00Z".into()), Timestamp::constant(90, 0)), "90s");
    }
}
