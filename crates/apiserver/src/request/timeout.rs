//! The query parameter `timeout`: a duration in Go's syntax.

use std::time::Duration;

use evenkeel_schema::time::parse_duration;

use crate::status::{Result, Status, quote};

/// The longest `timeout` that has an effect: the default of kube-apiserver's `--request-timeout`.
const REQUEST_TIMEOUT_MAX: Duration = Duration::from_mins(1);

/// Parses a `timeout`. As in Kubernetes, one that is negative, zero or longer than the server's own limit has
/// no effect.
pub(crate) fn limit(text: &str) -> Option<Duration> {
    let nanoseconds = u64::try_from(parse_duration(text)?).ok()?;
    Some(Duration::from_nanos(nanoseconds)).filter(|it| !it.is_zero() && *it < REQUEST_TIMEOUT_MAX)
}

/// Refuses a `timeout` that is not a duration.
pub(crate) fn check_timeout(text: &str) -> Result<()> {
    if text.is_empty() || parse_duration(text).is_some() {
        return Ok(());
    }
    let why = refusal(text);
    Err(Status::bad_request(format!("invalid timeout specified in the request URL - time: {why}")))
}

/// The reason with which Go's parser refuses a duration.
fn refusal(text: &str) -> String {
    const UNITS: [&str; 8] = ["ns", "us", "\u{b5}s", "\u{3bc}s", "ms", "s", "m", "h"];
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let invalid = || format!("invalid duration {}", quote(text));
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    while !rest.is_empty() {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let fraction = after.strip_prefix('.').unwrap_or(after);
        let unit_on = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = rest.len() - unit_on.len() - (after.len() - fraction.len());
        if digits == 0 {
            return invalid();
        }
        let unit = &unit_on[..unit_on.find(is_number).unwrap_or(unit_on.len())];
        if unit.is_empty() {
            return format!("missing unit in duration {}", quote(text));
        }
        if !UNITS.contains(&unit) {
            return format!("unknown unit {} in duration {}", quote(unit), quote(text));
        }
        rest = &unit_on[unit.len()..];
    }
    invalid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_positive_and_shorter_than_that_of_the_server() {
        assert_eq!(limit("1500ms"), Some(Duration::from_millis(1500)));
        for text in ["", "x", "0", "0s", "-1s", "60s", "2562047h"] {
            assert_eq!(limit(text), None, "{text}");
        }
    }

    #[test]
    fn durations_are_refused_in_the_words_of_go() {
        for text in ["", "0", "1s", "-1.5h30m", "+.5s"] {
            assert_eq!(check_timeout(text), Ok(()), "{text}");
        }
        for (text, why) in [
            ("abc", "invalid duration \"abc\""),
            ("1", "missing unit in duration \"1\""),
            ("1s2", "missing unit in duration \"1s2\""),
            ("1x", "unknown unit \"x\" in duration \"1x\""),
            (".s", "invalid duration \".s\""),
            ("-", "invalid duration \"-\""),
            ("5000000h", "invalid duration \"5000000h\""),
        ] {
            let message = format!("invalid timeout specified in the request URL - time: {why}");
            assert_eq!(check_timeout(text).unwrap_err().message, message, "{text}");
        }
    }
}
