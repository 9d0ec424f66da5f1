//! Explains a finding: describes what the plan did, and shows where the run departs from the undisturbed one.

use jiff::SignedDuration;

use crate::director::{fault_words, mishap_words, moment_words};
use crate::learn::Learned;
use crate::oracle::Finding;
use crate::plan::{Back, Late, Plan, Point, Stop, Strike};

/// How many lines of each timeline are shown after the point where the two differ.
const TIMELINE_LINES: usize = 16;
/// How many common lines are shown before that point.
const LINES_BEFORE: usize = 2;

/// Describes a plan, one sentence for each strike.
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
        Strike::Lag { operator, kind, request: number, requests } => {
            let until = match requests {
                Some(requests) => format!("only with the request {} of the operator", number + requests),
                None => "only when the cluster was at rest".to_owned(),
            };
            let since = request(operator, *number);
            format!("the events of {} reached {operator} late: those after {since} {until}", plural(kind))
        }
        Strike::Delay { operator, request: number, late } => {
            let what = match late {
                Late::Request => "arrived late: everything else that went on came first",
                Late::Answer => {
                    "was served at once, and answered late: everything else that went on came first"
                }
            };
            format!("{operator} sent {}, which {what}", request(operator, *number))
        }
        Strike::Failover { operator, request: number, stop: Stop::LoseLease } => format!(
            "two replicas of {operator} ran; {} was answered slowly, the leader's lease expired meanwhile, and the reconcile \
             went on when the other replica led",
            request(operator, *number)
        ),
        Strike::Failover { operator, request: number, stop } => {
            let what = match stop {
                Stop::Crash(moment) => format!("crashed {}", moment_words(*moment)),
                Stop::CutOff => "was cut off from the API server before".to_owned(),
                Stop::CutOffUnanswered => "was cut off from the API server before the answer to".to_owned(),
                Stop::LoseLease => "lost its lease at".to_owned(),
            };
            let at = request(operator, *number);
            format!(
                "two replicas of {operator} ran; the leader {what} {at}, the other took over when the lease had expired, \
                 and the first came back"
            )
        }
        Strike::World { mishap, path, at } => {
            let at = match at {
                Point::Rest(rest) => format!("at rest {rest}"),
                Point::Request { operator, number } => {
                    format!("just before {operator} sent {}", request(operator, *number))
                }
            };
            format!("{} {at}", mishap_words(*mishap, path))
        }
        at_rest => sentence_at_rest(at_rest, learned),
    }
}

/// Describes a strike that happens at a rest or between two rests.
fn sentence_at_rest(strike: &Strike, learned: &Learned) -> String {
    match strike {
        Strike::Restart { operator, rest } => format!("{operator} restarted at rest {rest}"),
        Strike::Clock { operator, rest, seconds } => {
            let (time, way) =
                (SignedDuration::from_secs(seconds.abs()), if *seconds < 0 { "back" } else { "forward" });
            format!("the clock of {operator} jumped {way} by {time:#} at rest {rest}")
        }
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
            format!(
                "{operator} was stopped from rest {from} to rest {to}, and never saw the states in between"
            )
        }
        Strike::Hold { operator, kind, from, to } => {
            format!(
                "the events of {} reached {operator} late: those after rest {from} only at rest {to}",
                plural(kind)
            )
        }
        Strike::Relist { operator, from, to } if to > from => format!(
            "the watches of {operator} broke at rest {from} and could not resume until rest {to} (410 Gone): it listed \
             again, and never saw the states in between"
        ),
        Strike::Relist { operator, from, .. } => {
            format!(
                "the watches of {operator} broke at rest {from} and could not resume (410 Gone): it listed again"
            )
        }
        // `sentence` describes all other strikes.
        _ => String::new(),
    }
}

fn plural(kind: &str) -> &str {
    kind.rsplit('/').next().unwrap_or(kind)
}

/// Describes between which rests a revision lies.
fn since(revision: u64, learned: &Learned) -> String {
    match learned.rests.iter().position(|rest| revision <= *rest) {
        Some(0) => " (before rest 1)".to_owned(),
        Some(at) => format!(" (between rest {at} and rest {})", at + 1),
        None => String::new(),
    }
}

/// Returns the last line of a timeline that mentions an object; it tells who changed it.
fn last_touch<'a>(timeline: &'a [String], object: &str) -> Option<&'a str> {
    let name = object.trim_end_matches(|it: char| it == '#' || it.is_ascii_digit());
    timeline.iter().rev().find(|line| !name.is_empty() && line.contains(name)).map(|line| line.trim())
}

/// Returns the full explanation of a finding.
pub(crate) fn explanation(finding: &Finding, learned: &Learned, test: &str) -> String {
    let mut out = format!("{}: {}\n", finding.name(), finding.what);
    out.push_str("what happened:\n");
    for sentence in words(&finding.plan, learned) {
        out.push_str(&format!("  - {sentence}.\n"));
    }
    if let Some(until) = finding.plan.until {
        out.push_str(&format!("The scenario up to rest {until} of {} suffices.\n", learned.rests.len() - 1));
    }
    if let Some(line) = last_touch(&finding.timeline, &finding.object) {
        out.push_str(&format!("the last event about {}:\n  {line}\n", finding.object));
    }
    let (undisturbed, disturbed) = parted(&learned.timeline, &finding.timeline);
    out.push_str("the undisturbed run, from where the two differ:\n");
    undisturbed.iter().for_each(|line| out.push_str(&format!("  {line}\n")));
    out.push_str("in this run:\n");
    disturbed.iter().for_each(|line| out.push_str(&format!("  {line}\n")));
    let test = test.rsplit("::").next().unwrap_or(test);
    out.push_str(&format!("play it again: EVENKEEL_PLAN={} cargo test {test}\n", finding.token()));
    out
}

/// Returns both timelines from the point where they differ.
pub(crate) fn parted<'a>(undisturbed: &'a [String], disturbed: &'a [String]) -> (&'a [String], &'a [String]) {
    let same = undisturbed.iter().zip(disturbed).take_while(|(a, b)| a == b).count();
    let from = same.saturating_sub(LINES_BEFORE);
    let part = |lines: &'a [String]| &lines[from.min(lines.len())..lines.len().min(from + TIMELINE_LINES)];
    (part(undisturbed), part(disturbed))
}
