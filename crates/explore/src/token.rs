//! Tokens: a plan and its seed as one word, by which `EVENKEEL_PLAN=…` plays exactly that run again.
//!
//! ```text
//! 1.0.crash:site:5:before:now+fail:site:7:conflict
//! │ │ └ the strikes, joined by +
//! │ └ the seed
//! └ the version of this form
//! ```

use std::fmt;
use std::str::FromStr;

use evenkeel_cluster::{CrashMoment, Fault};

use crate::plan::{Back, Plan, Strike};

/// The version of the form of tokens. It changes with anything that makes an old token play another run.
const VERSION: &str = "1";

/// A plan with its seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) seed: u64,
    pub(crate) plan: Plan,
}

/// A token cannot be read.
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
        /// The part.
        part: String,
    },
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION}.{}.", self.seed)?;
        let strikes: Vec<String> = self.plan.strikes.iter().map(written).collect();
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
        let strikes = strikes.split('+').filter(|strike| !strike.is_empty());
        let read = |part: &str| read(part).ok_or_else(|| TokenError::Malformed { part: part.to_owned() });
        Ok(Self { seed, plan: Plan { strikes: strikes.map(read).collect::<Result<_, _>>()? } })
    }
}

fn written(strike: &Strike) -> String {
    match strike {
        Strike::Crash { operator, request, moment, back } => {
            let moment = match moment {
                CrashMoment::Before => "before",
                CrashMoment::Unanswered => "unanswered",
                CrashMoment::After => "after",
            };
            let back = match back {
                Back::AtOnce => "now".to_owned(),
                Back::Twice => "twice".to_owned(),
                Back::AfterRests(rests) => rests.to_string(),
            };
            format!("crash:{operator}:{request}:{moment}:{back}")
        }
        Strike::Fail { operator, request, fault } => {
            format!("fail:{operator}:{request}:{}", fault_name(*fault))
        }
        Strike::Restart { operator, rest } => format!("restart:{operator}:{rest}"),
        Strike::Stale { operator, rest, revision, kind } => {
            format!("stale:{operator}:{rest}:{revision}:{}", kind.as_deref().unwrap_or("all"))
        }
        Strike::Away { operator, from, to } => format!("away:{operator}:{from}:{to}"),
        Strike::Hold { operator, kind, from, to } => format!("hold:{operator}:{kind}:{from}:{to}"),
        Strike::Lag { operator, kind, request } => format!("lag:{operator}:{kind}:{request}"),
        Strike::Relist { operator, rest } => format!("relist:{operator}:{rest}"),
        Strike::Delete { path, rest } => format!("delete:{path}:{rest}"),
    }
}

/// The faults by their names in tokens.
const FAULTS: [(&str, Fault); 5] = [
    ("conflict", Fault::Conflict),
    ("busy", Fault::TooManyRequests),
    ("error", Fault::InternalError),
    ("timeout", Fault::Timeout),
    ("lost", Fault::LostAnswer),
];

pub(crate) fn fault_name(fault: Fault) -> &'static str {
    FAULTS.iter().find(|(_, it)| *it == fault).map_or("error", |(name, _)| name)
}

fn read(part: &str) -> Option<Strike> {
    let fields: Vec<&str> = part.split(':').collect();
    let text = |at: usize| fields.get(at).map(|text| (*text).to_owned());
    let number = |at: usize| fields.get(at)?.parse().ok();
    let strike = match *fields.first()? {
        "crash" => Strike::Crash {
            operator: text(1)?,
            request: number(2)?,
            moment: match *fields.get(3)? {
                "before" => CrashMoment::Before,
                "unanswered" => CrashMoment::Unanswered,
                "after" => CrashMoment::After,
                _ => return None,
            },
            back: match *fields.get(4)? {
                "now" => Back::AtOnce,
                "twice" => Back::Twice,
                rests => Back::AfterRests(rests.parse().ok()?),
            },
        },
        "fail" => {
            let fault = FAULTS.iter().find(|(name, _)| Some(name) == fields.get(3))?.1;
            Strike::Fail { operator: text(1)?, request: number(2)?, fault }
        }
        "restart" => Strike::Restart { operator: text(1)?, rest: number(2)? },
        "stale" => Strike::Stale {
            operator: text(1)?,
            rest: number(2)?,
            revision: fields.get(3)?.parse().ok()?,
            kind: text(4).filter(|kind| kind != "all"),
        },
        "away" => Strike::Away { operator: text(1)?, from: number(2)?, to: number(3)? },
        "hold" => Strike::Hold { operator: text(1)?, kind: text(2)?, from: number(3)?, to: number(4)? },
        "lag" => Strike::Lag { operator: text(1)?, kind: text(2)?, request: number(3)? },
        "relist" => Strike::Relist { operator: text(1)?, rest: number(2)? },
        "delete" => Strike::Delete { path: text(1)?, rest: number(2)? },
        _ => return None,
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
            Strike::Lag { operator: operator(), kind: "/secrets".into(), request: 3 },
            Strike::Relist { operator: operator(), rest: 2 },
            Strike::Delete { path: "/api/v1/namespaces/default/secrets/a".into(), rest: 1 },
        ];
        let token = Token { seed: 7, plan: Plan { strikes } };
        assert_eq!(token.to_string().parse(), Ok(token));
    }

    #[test]
    fn an_old_token_says_so() {
        let old: Result<Token, _> = "0.7.crash:site:5".parse();
        assert_eq!(old, Err(TokenError::Version { found: "0".into() }));
        let broken: Result<Token, _> = "1.7.crush:site:5".parse();
        assert_eq!(broken, Err(TokenError::Malformed { part: "crush:site:5".into() }));
    }
}
