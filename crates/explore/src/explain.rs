//! Says in words what happened in a run, and shows where it parts from the undisturbed one.

use crate::director::{fault_words, moment_words};
use crate::learn::Learned;
use crate::oracle::Finding;
use crate::plan::{Back, Plan, Strike};

/// How many lines of each timeline are shown from where they part.
const TIMELINE_LINES: usize = 16;
/// How many lines are shown before they part.
const LINES_BEFORE: usize = 2;

/// What a plan does, one sentence for each strike.
pub(crate) fn words(plan: &Plan, learned: &Learned) -> Vec<String> {
    plan.strikes.iter().map(|strike| sentence(strike, learned)).collect()
}

fn sentence(strike: &Strike, learned: &Learned) -> String {
    let request = |operator: &str, number: usize| {
        let asked = learned.requests.iter().find(|it| it.operator == operator && it.number == number);
        match asked {
            Some(asked) => format!("its request {number} ({})", asked.summary),
            None => format!("its request {number}"),
        }
    };
    match strike {
        Strike::Crash { operator, request: number, moment, back } => {
            let back = match back {
                Back::AtOnce => "and started again at once".to_owned(),
                Back::Twice => "started again at once, and crashed again before its first write".to_owned(),
                Back::AfterRests(1) => {
                    "and started again when the cluster had come to rest without it".to_owned()
                }
                Back::AfterRests(rests) => {
                    format!("and started again when the cluster had come to rest without it {rests} times")
                }
            };
            format!("{operator} crashed {} {}, {back}", moment_words(*moment), request(operator, *number))
        }
        Strike::Fail { operator, request: number, fault } => {
            format!("{operator} sent {}: {}, once", request(operator, *number), fault_words(*fault))
        }
        Strike::Restart { operator, rest } => format!("{operator} restarted at rest {rest}"),
        Strike::Stale { operator, rest, revision, kind } => {
            let what = kind
                .as_deref()
                .map_or("everything it lists".to_owned(), |kind| format!("its list of {}", plural(kind)));
            format!(
                "{operator} restarted at rest {rest}, and {what} was that of revision {revision}{}, a legal answer of a \
                 lagging API server",
                since(*revision, learned)
            )
        }
        Strike::Away { operator, from, to } => {
            format!("{operator} was away from rest {from} to rest {to}, and never saw the states between")
        }
        Strike::Hold { operator, kind, from, to } => {
            format!(
                "the events of {} reached {operator} late: those after rest {from} only at rest {to}",
                plural(kind)
            )
        }
        Strike::Lag { operator, kind, request: number } => {
            format!(
                "the events of {} reached {operator} late: those after {} only when the cluster was at rest",
                plural(kind),
                request(operator, *number)
            )
        }
        Strike::Relist { operator, rest } => {
            format!(
                "the watches of {operator} broke at rest {rest} and could not resume (410 Gone): it listed again"
            )
        }
        Strike::Delete { path, rest } => format!("somebody deleted {path} at rest {rest}"),
    }
}

fn plural(kind: &str) -> &str {
    kind.rsplit('/').next().unwrap_or(kind)
}

/// At which rest a revision was, in words.
fn since(revision: u64, learned: &Learned) -> String {
    match learned.rests.iter().position(|rest| revision <= *rest) {
        Some(0) => " (before rest 1)".to_owned(),
        Some(at) => format!(" (between rest {at} and rest {})", at + 1),
        None => String::new(),
    }
}

/// The last line of a timeline that touches an object, in words: who did it.
fn last_touch<'a>(timeline: &'a [String], object: &str) -> Option<&'a str> {
    let name = object.trim_end_matches(|it: char| it == '#' || it.is_ascii_digit());
    timeline.iter().rev().find(|line| !name.is_empty() && line.contains(name)).map(|line| line.trim())
}

/// The whole explanation of a finding.
pub(crate) fn explanation(finding: &Finding, learned: &Learned, test: &str) -> String {
    let mut out = format!("{}: {}\n", finding.name(), finding.what);
    out.push_str("what happened:\n");
    for sentence in words(&finding.plan, learned) {
        out.push_str(&format!("  - {sentence}.\n"));
    }
    if let Some(line) = last_touch(&finding.timeline, &finding.object) {
        out.push_str(&format!("the last that happened to {}:\n  {line}\n", finding.object));
    }
    let (undisturbed, disturbed) = parted(&learned.timeline, &finding.timeline);
    out.push_str("undisturbed, from where the runs part:\n");
    undisturbed.iter().for_each(|line| out.push_str(&format!("  {line}\n")));
    out.push_str("in this run:\n");
    disturbed.iter().for_each(|line| out.push_str(&format!("  {line}\n")));
    let test = test.rsplit("::").next().unwrap_or(test);
    out.push_str(&format!("play it again: EVENKEEL_PLAN={} cargo test {test}\n", finding.token()));
    out
}

/// Both timelines from where they part.
pub(crate) fn parted<'a>(undisturbed: &'a [String], disturbed: &'a [String]) -> (&'a [String], &'a [String]) {
    let same = undisturbed.iter().zip(disturbed).take_while(|(a, b)| a == b).count();
    let from = same.saturating_sub(LINES_BEFORE);
    let part = |lines: &'a [String]| &lines[from.min(lines.len())..lines.len().min(from + TIMELINE_LINES)];
    (part(undisturbed), part(disturbed))
}
