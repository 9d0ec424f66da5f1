//! What a user of the dashboard can break in the embedded cluster: watches, operators, time.

use std::time::Duration;

use evenkeel_cluster::{Cluster, Matcher};
use serde::Deserialize;

/// The longest time by which one act can move the clock.
const ADVANCE_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);

/// An act on the embedded cluster.
#[derive(Debug, Deserialize)]
#[serde(tag = "act", rename_all = "kebab-case")]
pub(crate) enum Act {
    /// Closes the watches of one client, or of all clients.
    CutWatch {
        #[serde(default)]
        by: Option<String>,
    },
    /// Crashes an operator, which then starts again.
    Crash { operator: String },
    /// Moves the wall clock forward.
    Advance { seconds: u64 },
}

impl Act {
    /// Carries out the act, and returns a sentence that says what was done.
    pub(crate) fn perform(self, cluster: &Cluster) -> Result<String, String> {
        match self {
            Self::CutWatch { by } => {
                let matcher = by.iter().fold(Matcher::any(), |matcher, by| matcher.by(by));
                let cut = cluster.cut_watch(matcher);
                Ok(format!("closed {cut} watches; their clients connect again"))
            }
            Self::Crash { operator } => {
                if !cluster.operators().contains(&operator) {
                    return Err(format!("no operator {operator} runs in this process"));
                }
                cluster.restart(&operator);
                Ok(format!("{operator} crashed and starts again"))
            }
            Self::Advance { seconds } => {
                let by = Duration::from_secs(seconds).min(ADVANCE_MAX);
                cluster.env().shift_clock(by.try_into().map_err(|_| "too long".to_owned())?);
                cluster.note_disturbance(format!("moved the clock by {by:?}"));
                Ok(format!("the clock is {by:?} ahead; timers that run keep their pace"))
            }
        }
    }
}
