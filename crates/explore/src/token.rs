//! Tokens: a plan and its seed in one word. `EVENKEEL_PLAN=TOKEN` plays exactly that run again.
//!
//! ```text
//! 3.0.crash:site:5:before:now+fail:site:7:conflict+until:3
//! │ │ └ the strikes, joined by +, and the rest at which the scenario is broken off
//! │ └ the seed
//! └ the version of this form
//! ```

use std::fmt;
use std::str::FromStr;

use evenkeel_cluster::{CrashMoment, Fault};

use crate::plan::{Back, Late, Mishap, Plan, Point, Stop, Strike};

/// The version of the token format. It changes whenever an old token would play another run.
const VERSION: &str = "3";

/// The largest number of a request or of a rest. Players add such numbers; no scenario comes near it.
const COUNT_MAX: usize = 1_000_000_000;

/// A plan with its seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) seed: u64,
    pub(crate) plan: Plan,
}

/// Why a token cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The token was made by another version of Evenkeel.
    #[error(
        "the token was made by another version of Evenkeel (form {found}, this one reads form {VERSION}): explore again"
    )]
    Version {
        /// The version of the token.
        found: String,
    },
    /// A part of the token is malformed.
    #[error("the part {part:?} of the token is malformed")]
    Malformed {
        /// The malformed part.
        part: String,
    },
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION}.{}.", self.seed)?;
        let until = self.plan.until.map(|until| format!("{UNTIL}{until}"));
        let strikes: Vec<String> = self.plan.strikes.iter().map(written).chain(until).collect();
        f.write_str(&strikes.join("+"))
    }
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let malformed = || TokenError::Malformed { part: text.to_owned() };
        let (version, rest) = text.split_once('.').ok_or_else(malformed)?;
        if version != VERSION {
            return Err(TokenError::Version { found: version.to_owned() });
        }
        let (seed, strikes) = rest.split_once('.').ok_or_else(malformed)?;
        let seed = seed.parse().map_err(|_| malformed())?;
        let (until, strikes): (Vec<&str>, Vec<&str>) =
            strikes.split('+').filter(|strike| !strike.is_empty()).partition(|part| part.starts_with(UNTIL));
        let of = |part: &str| TokenError::Malformed { part: part.to_owned() };
        let until = until.first().map(|part| count(&part[UNTIL.len()..]).ok_or_else(|| of(part)));
        let strikes = strikes.into_iter().map(|part| read(part).ok_or_else(|| of(part)));
        Ok(Self {
            seed,
            plan: Plan { strikes: strikes.collect::<Result<_, _>>()?, until: until.transpose()? },
        })
    }
}

/// The prefix of the part that says where the scenario is broken off.
const UNTIL: &str = "until:";

/// Escapes a name or path for use as a field of a token: replaces the characters that separate fields, strikes and
/// words.
fn escaped(text: &str) -> String {
    let escape = |it: char| match it {
        ':' | '+' | '%' | ' ' | '$' | '&' | ';' | '\'' | '"' => format!("%{:02X}", u32::from(it)),
        it => it.to_string(),
    };
    text.chars().map(escape).collect()
}

fn unescaped(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = u8::from_str_radix(part.get(..2)?, 16).ok()?;
        out.push(code.into());
        out.push_str(&part[2..]);
    }
    Some(out)
}

fn written(strike: &Strike) -> String {
    match strike {
        Strike::Crash { operator, request, moment, back } => {
            let back = match back {
                Back::AtOnce => "now".to_owned(),
                Back::Twice => "twice".to_owned(),
                Back::AfterRests(rests) => rests.to_string(),
            };
            format!("crash:{}:{request}:{}:{back}", escaped(operator), name_of(&MOMENTS, *moment))
        }
        Strike::Fail { operator, request, fault } => {
            format!("fail:{}:{request}:{}", escaped(operator), fault_name(*fault))
        }
        Strike::Failover { operator, request, stop } => {
            format!("failover:{}:{request}:{}", escaped(operator), name_of(&STOPS, *stop))
        }
        Strike::Delay { operator, request, late } => {
            format!("delay:{}:{request}:{}", escaped(operator), name_of(&LATE, *late))
        }
        Strike::Restart { operator, rest } => format!("restart:{}:{rest}", escaped(operator)),
        Strike::Stale { operator, rest, revision, kind } => {
            let kind = kind.as_deref().map_or("all".to_owned(), escaped);
            format!("stale:{}:{rest}:{revision}:{kind}", escaped(operator))
        }
        Strike::Away { operator, from, to } => format!("away:{}:{from}:{to}", escaped(operator)),
        Strike::Hold { operator, kind, from, to } => {
            format!("hold:{}:{}:{from}:{to}", escaped(operator), escaped(kind))
        }
        Strike::Lag { operator, kind, request, requests } => {
            let requests = requests.map_or("rest".to_owned(), |requests| requests.to_string());
            format!("lag:{}:{}:{request}:{requests}", escaped(operator), escaped(kind))
        }
        Strike::Relist { operator, from, to } => format!("relist:{}:{from}:{to}", escaped(operator)),
        Strike::Clock { operator, rest, seconds } => format!("clock:{}:{rest}:{seconds}", escaped(operator)),
        Strike::World { mishap, path, at } => {
            let at = match at {
                Point::Rest(rest) => rest.to_string(),
                Point::Request { operator, number } => format!("{number}:{}", escaped(operator)),
            };
            format!("{}:{}:{at}", name_of(&MISHAPS, *mishap), escaped(path))
        }
    }
}

/// The moments of crashes, by their names in tokens.
const MOMENTS: [(&str, CrashMoment); 3] =
    [("before", CrashMoment::Before), ("unanswered", CrashMoment::Unanswered), ("after", CrashMoment::After)];

/// The ways in which leaders stop, by their names in tokens.
const STOPS: [(&str, Stop); 6] = [
    ("before", Stop::Crash(CrashMoment::Before)),
    ("unanswered", Stop::Crash(CrashMoment::Unanswered)),
    ("after", Stop::Crash(CrashMoment::After)),
    ("cut", Stop::CutOff),
    ("cut-unanswered", Stop::CutOffUnanswered),
    ("lose-lease", Stop::LoseLease),
];

/// The late halves of a request, by their names in tokens.
const LATE: [(&str, Late); 2] = [("request", Late::Request), ("answer", Late::Answer)];

/// The mishaps, by their names in tokens.
const MISHAPS: [(&str, Mishap); 6] = [
    ("delete", Mishap::Delete),
    ("change", Mishap::Change),
    ("evict", Mishap::Evict),
    ("crash-pod", Mishap::CrashPod),
    ("unready-pod", Mishap::UnreadyPod),
    ("lose-node", Mishap::LoseNode),
];

fn name_of<T: PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    names.iter().find(|(_, it)| *it == value).map_or("", |(name, _)| name)
}

fn named<T: Copy>(names: &[(&str, T)], name: Option<&&str>) -> Option<T> {
    names.iter().find(|(it, _)| Some(it) == name).map(|(_, value)| *value)
}

/// The faults by their names in tokens.
const FAULTS: [(&str, Fault); 7] = [
    ("conflict", Fault::Conflict),
    ("busy", Fault::TooManyRequests),
    ("error", Fault::InternalError),
    ("timeout", Fault::Timeout),
    ("lost", Fault::LostAnswer),
    ("quota", Fault::QuotaExceeded),
    ("denied", Fault::Denied),
];

pub(crate) fn fault_name(fault: Fault) -> &'static str {
    FAULTS.iter().find(|(_, it)| *it == fault).map_or("error", |(name, _)| name)
}

fn count(text: &str) -> Option<usize> {
    text.parse().ok().filter(|number| *number <= COUNT_MAX)
}

fn read(part: &str) -> Option<Strike> {
    let fields: Vec<&str> = part.split(':').collect();
    let text = |at: usize| fields.get(at).and_then(|text| unescaped(text));
    let number = |at: usize| count(fields.get(at)?);
    let range = |at: usize| Some((number(at)?, number(at + 1)?)).filter(|(from, to)| from <= to);
    let strike = match *fields.first()? {
        "crash" => Strike::Crash {
            operator: text(1)?,
            request: number(2)?,
            moment: named(&MOMENTS, fields.get(3))?,
            back: match *fields.get(4)? {
                "now" => Back::AtOnce,
                "twice" => Back::Twice,
                rests => Back::AfterRests(count(rests)?),
            },
        },
        "fail" => {
            Strike::Fail { operator: text(1)?, request: number(2)?, fault: named(&FAULTS, fields.get(3))? }
        }
        "failover" => {
            Strike::Failover { operator: text(1)?, request: number(2)?, stop: named(&STOPS, fields.get(3))? }
        }
        "delay" => {
            Strike::Delay { operator: text(1)?, request: number(2)?, late: named(&LATE, fields.get(3))? }
        }
        "restart" => Strike::Restart { operator: text(1)?, rest: number(2)? },
        "stale" => Strike::Stale {
            operator: text(1)?,
            rest: number(2)?,
            revision: fields.get(3)?.parse().ok()?,
            kind: Some(text(4)?).filter(|kind| kind != "all"),
        },
        "away" => {
            let (from, to) = range(2)?;
            Strike::Away { operator: text(1)?, from, to }
        }
        "hold" => {
            let (from, to) = range(3)?;
            Strike::Hold { operator: text(1)?, kind: text(2)?, from, to }
        }
        "lag" => Strike::Lag {
            operator: text(1)?,
            kind: text(2)?,
            request: number(3)?,
            requests: if *fields.get(4)? == "rest" { None } else { Some(number(4)?) },
        },
        "relist" => {
            let (from, to) = range(2)?;
            Strike::Relist { operator: text(1)?, from, to }
        }
        "clock" => {
            Strike::Clock { operator: text(1)?, rest: number(2)?, seconds: fields.get(3)?.parse().ok()? }
        }
        mishap => Strike::World {
            mishap: named(&MISHAPS, Some(&mishap))?,
            path: text(1)?,
            at: match fields.get(3) {
                Some(_) => Point::Request { operator: text(3)?, number: number(2)? },
                None => Point::Rest(number(2)?),
            },
        },
    };
    Some(strike)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written() {
        let operator = || "site".to_owned();
        let strikes = vec![
            Strike::Crash {
                operator: operator(),
                request: 5,
                moment: CrashMoment::Unanswered,
                back: Back::AfterRests(2),
            },
            Strike::Fail { operator: operator(), request: 7, fault: Fault::LostAnswer },
            Strike::Restart { operator: operator(), rest: 1 },
            Strike::Stale {
                operator: operator(),
                rest: 2,
                revision: 88,
                kind: Some("apps/statefulsets".into()),
            },
            Strike::Stale { operator: operator(), rest: 2, revision: 88, kind: None },
            Strike::Away { operator: operator(), from: 1, to: 3 },
            Strike::Hold { operator: operator(), kind: "/secrets".into(), from: 1, to: 2 },
            Strike::Lag { operator: operator(), kind: "/secrets".into(), request: 3, requests: None },
            Strike::Lag { operator: operator(), kind: "/secrets".into(), request: 3, requests: Some(2) },
            Strike::Relist { operator: operator(), from: 2, to: 4 },
            Strike::Failover { operator: operator(), request: 3, stop: Stop::CutOffUnanswered },
            Strike::Failover { operator: operator(), request: 3, stop: Stop::LoseLease },
            Strike::Clock { operator: operator(), rest: 2, seconds: -3600 },
            Strike::Delay { operator: "my site: two+%".into(), request: 3, late: Late::Answer },
            Strike::World {
                mishap: Mishap::Delete,
                path: "/api/v1/namespaces/default/secrets/a:b".into(),
                at: Point::Rest(1),
            },
            Strike::World {
                mishap: Mishap::CrashPod,
                path: "/api/v1/namespaces/default/pods/a".into(),
                at: Point::Request { operator: operator(), number: 3 },
            },
        ];
        let token = Token { seed: 7, plan: Plan { strikes, until: Some(3) } };
        let text = token.to_string();
        assert!(!text.contains(' '), "{text}");
        assert_eq!(text.parse(), Ok(token));
    }

    #[test]
    fn an_old_token_says_so() {
        let old: Result<Token, _> = "1.7.crash:site:5".parse();
        assert_eq!(old, Err(TokenError::Version { found: "1".into() }));
        let broken: Result<Token, _> = "3.7.crush:site:5".parse();
        assert_eq!(broken, Err(TokenError::Malformed { part: "crush:site:5".into() }));
    }

    /// The numbers of a token come from whoever typed it. Players add to them, and subtract one end of a time from the other.
    #[test]
    fn numbers_that_no_run_can_reach_are_refused() {
        let huge = usize::MAX;
        for part in [
            format!("crash:site:{huge}:before:now"),
            format!("crash:site:1:before:{huge}"),
            format!("fail:site:{huge}:conflict"),
            format!("lag:site:/secrets:1:{huge}"),
            format!("away:site:1:{huge}"),
            "away:site:3:1".to_owned(),
            "hold:site:/secrets:3:1".to_owned(),
            "relist:site:3:1".to_owned(),
            format!("delete:/api/v1/pods/a:{huge}"),
            format!("until:{huge}"),
            "until:99999999999999999999999".to_owned(),
        ] {
            let refused: Result<Token, _> = format!("{VERSION}.7.{part}").parse();
            assert_eq!(refused, Err(TokenError::Malformed { part }));
        }
    }
}
