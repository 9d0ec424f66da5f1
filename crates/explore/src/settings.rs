//! The settings of an exploration, read from environment variables.

use std::fmt;
use std::num::NonZero;
use std::str::FromStr;
use std::time::Duration;

use evenkeel_env::setting;

use crate::token::Token;

/// How many plans `quick` plays: a few seconds of `cargo test` in a development build.
const QUICK_PLANS: usize = 120;
/// How many pairs `full` plays after all plans with one strike.
const FULL_PAIRS: usize = 500;

/// How much an exploration may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Budget {
    /// A fixed number of plans, spread over all classes. The default.
    #[default]
    Quick,
    /// Every single strike, and 500 pairs.
    Full,
    /// As many plans as can be played in this time.
    Time(Duration),
    /// This many plans, in the order of all plans.
    Plans(usize),
}

impl Budget {
    /// The budget of this process: `EVENKEEL_EXPLORE`, or [`Budget::Quick`].
    ///
    /// # Panics
    /// Panics if the variable is malformed.
    pub fn from_environment() -> Self {
        setting("EVENKEEL_EXPLORE").unwrap_or_else(|error| panic!("{error}")).unwrap_or_default()
    }

    /// Returns how many plans are played at most, and how many pairs are made.
    pub(crate) fn plans(self) -> (usize, usize) {
        match self {
            Self::Quick => (QUICK_PLANS, 0),
            Self::Full => (usize::MAX, FULL_PAIRS),
            Self::Time(_) => (usize::MAX, usize::MAX),
            Self::Plans(plans) => (plans, plans),
        }
    }

    pub(crate) fn time(self) -> Option<Duration> {
        match self {
            Self::Time(time) => Some(time),
            Self::Quick | Self::Full | Self::Plans(_) => None,
        }
    }
}

impl FromStr for Budget {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "expected quick, full, a time such as 90s or 10m, or a number of plans such as 200";
        if let Ok(plans) = text.parse::<NonZero<usize>>() {
            return Ok(Self::Plans(plans.get()));
        }
        match text {
            "quick" => return Ok(Self::Quick),
            "full" => return Ok(Self::Full),
            _ => {}
        }
        let units = [("s", 1), ("m", 60), ("h", 3600)];
        let seconds = units
            .into_iter()
            .find_map(|(unit, seconds)| text.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(seconds));
        seconds.map(|seconds| Self::Time(Duration::from_secs(seconds))).ok_or(wrong)
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quick => f.write_str("quick"),
            Self::Full => f.write_str("full"),
            Self::Time(time) => write!(f, "{}s", time.as_secs()),
            Self::Plans(plans) => write!(f, "{plans}"),
        }
    }
}

/// Returns the plan that `EVENKEEL_PLAN` asks to play, if it is set.
///
/// # Panics
/// Panics if the token cannot be read.
pub(crate) fn token() -> Option<Token> {
    setting("EVENKEEL_PLAN").unwrap_or_else(|error| panic!("{error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_a_word_a_time_or_a_number() {
        assert_eq!("quick".parse(), Ok(Budget::Quick));
        assert_eq!("10m".parse(), Ok(Budget::Time(Duration::from_secs(600))));
        assert_eq!("200".parse(), Ok(Budget::Plans(200)));
        for wrong in ["", "m", "0", "10\u{b5}", "-1s", "18446744073709551615h"] {
            assert!(wrong.parse::<Budget>().is_err(), "{wrong}");
        }
    }
}
