//! Settings from environment variables.

use std::fmt::{self, Display};
use std::str::FromStr;

/// An environment variable has a value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    name: String,
    value: String,
    reason: String,
}

impl Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={:?}: {}", self.name, self.value, self.reason)
    }
}

impl std::error::Error for SettingError {}

/// Reads a setting from the environment variable `name`. Returns `None` if the variable is not set.
///
/// # Errors
/// When the value cannot be parsed. A malformed setting never becomes the default: whoever set it would not notice.
pub fn setting<T: FromStr<Err: Display>>(name: &str) -> Result<Option<T>, SettingError> {
    let Some(value) = std::env::var_os(name) else { return Ok(None) };
    let value = value.to_string_lossy();
    parse(name, &value).map(Some)
}

/// Reads a setting that is on or off from the environment variable `name`: `1` and `true`, or `0` and `false`. Returns
/// `false` if the variable is not set.
///
/// # Errors
/// When the value is anything else.
pub fn flag(name: &str) -> Result<bool, SettingError> {
    Ok(setting::<Flag>(name)?.is_some_and(|flag| flag.0))
}

struct Flag(bool);

impl FromStr for Flag {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "1" | "true" => Ok(Self(true)),
            "0" | "false" => Ok(Self(false)),
            _ => Err("expected 1 or 0"),
        }
    }
}

fn parse<T: FromStr<Err: Display>>(name: &str, value: &str) -> Result<T, SettingError> {
    value.parse().map_err(|error: T::Err| SettingError {
        name: name.to_owned(),
        value: value.to_owned(),
        reason: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_setting_is_an_error_that_names_it() {
        assert_eq!(parse::<u64>("EVENKEEL_SEED", "7"), Ok(7));
        let error = parse::<u64>("EVENKEEL_SEED", "abc").unwrap_err();
        assert_eq!(error.to_string(), r#"EVENKEEL_SEED="abc": invalid digit found in string"#);
        let error = parse::<Flag>("EVENKEEL_REAL_TIME", "yes").map(|flag| flag.0).unwrap_err();
        assert_eq!(error.to_string(), r#"EVENKEEL_REAL_TIME="yes": expected 1 or 0"#);
        assert!(parse::<Flag>("X", "1").is_ok_and(|flag| flag.0));
        assert!(parse::<Flag>("X", "0").is_ok_and(|flag| !flag.0));
        assert_eq!(setting::<u64>("EVENKEEL_THAT_NOBODY_SETS"), Ok(None));
        assert_eq!(flag("EVENKEEL_THAT_NOBODY_SETS"), Ok(false));
    }
}
