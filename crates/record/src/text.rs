//! Text for people: the lines of a timeline, as tests, the command line and the dashboard print them.

use std::fmt::{self, Write as _};
use std::time::Duration;

use crate::entry::{Change, Entry, Outcome, Reconcile, Sent};
use crate::record::Record;

/// Formats one line of a timeline: the time, who acted, and what was done.
///
/// ```
/// use std::time::Duration;
///
/// let line = evenkeel_record::line(Duration::from_millis(1500), "database", "woken for prod/web: retry");
/// assert_eq!(line, "    1.500s  database                 woken for prod/web: retry");
/// ```
pub fn line(at: Duration, by: &str, text: &str) -> String {
    format!("{:>9.3}s  {by:<24} {text}", at.as_secs_f64())
}

/// Formats a number of microseconds, such as `1.5 ms`.
///
/// ```
/// assert_eq!(evenkeel_record::duration(1_500), "1.5 ms");
/// assert_eq!(evenkeel_record::duration(90_000_000), "1m30s");
/// ```
pub fn duration(micros: u64) -> String {
    let seconds = micros / 1_000_000;
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..10_000 => format!("{:.1} ms", micros as f64 / 1e3),
        10_000..1_000_000 => format!("{} ms", micros / 1_000),
        1_000_000..10_000_000 => format!("{:.1} s", micros as f64 / 1e6),
        10_000_000..60_000_000 => format!("{seconds} s"),
        60_000_000..3_600_000_000 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

impl Record {
    /// Returns the timeline of the record, one line for each step, in order of time.
    pub fn timeline(&self) -> Vec<String> {
        let mut lines: Vec<(u64, String)> = self.entries.iter().flat_map(lines_of).collect();
        lines.sort_by_key(|(at, _)| *at);
        lines.into_iter().map(|(_, line)| line).collect()
    }
}

/// Returns the timeline's lines for one entry, with their times.
pub(crate) fn lines_of(entry: &Entry) -> Vec<(u64, String)> {
    let one = |at: u64, by: &str, text: String| vec![(at, line(Duration::from_micros(at), by, &text))];
    match entry {
        Entry::Reconcile(reconcile) => reconcile.lines(),
        Entry::Request(sent) => one(sent.at, &sent.by, sent.to_string()),
        Entry::Webhook(call) => {
            let by = if call.by.is_empty() { "webhook" } else { &call.by };
            one(call.at, by, format!("calls {}{} → {}", call.path, call.what, call.code))
        }
        Entry::Leadership { at, lease, leads } => {
            let text = if *leads { "leads" } else { "does not lead" };
            one(*at, "leader election", format!("{text} ({lease})"))
        }
        Entry::Watch { at, source, what } => one(*at, "watch", format!("{source}: {what}")),
        Entry::Disturbance { at, what } => one(*at, "test", what.clone()),
        Entry::Unknown => Vec::new(),
    }
}

impl Reconcile {
    /// The key, with its namespace.
    pub fn key(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        }
    }

    /// The causes in words, separated by commas.
    pub fn causes_text(&self) -> String {
        let mut text = self.causes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        if self.more_causes > 0 {
            // Writing to a string cannot fail.
            let _ = write!(text, " and {} more", self.more_causes);
        }
        text
    }

    fn lines(&self) -> Vec<(u64, String)> {
        let (key, by) = (self.key(), self.controller.as_str());
        let at = |micros: u64, text: String| (micros, line(Duration::from_micros(micros), by, &text));
        let mut lines = vec![at(self.at, format!("woken for {key}: {}", self.causes_text()))];
        lines.extend(self.requests.iter().map(|sent| at(sent.at.max(self.at), sent.to_string())));
        let took = duration(self.took);
        let again = self.again.map(|again| format!(", again in {}", duration(again))).unwrap_or_default();
        lines.push(at(
            self.end(),
            match (self.outcome, &self.error) {
                (Outcome::Done, _) => format!("done with {key} after {took}"),
                (Outcome::Requeued, _) => format!("done with {key} after {took}{again}"),
                (Outcome::Running, _) => format!("still works on {key}"),
                (Outcome::Failed, error) => {
                    format!("failed for {key} after {took}{again}: {}", error.as_deref().unwrap_or("unknown"))
                }
                (Outcome::FailedForGood, error) => {
                    format!(
                        "failed for {key} after {took}, for good: {}",
                        error.as_deref().unwrap_or("unknown")
                    )
                }
            },
        ));
        lines
    }
}

impl Sent {
    /// The verb and the object, such as `apply deployments/web`.
    pub fn summary(&self) -> String {
        let mut text = format!("{} {}", self.verb, self.resource);
        for part in [&self.name, &self.subresource].into_iter().filter(|part| !part.is_empty()) {
            text.push('/');
            text.push_str(part);
        }
        match self.namespace.as_deref() {
            None | Some("default") => {}
            Some(namespace) => {
                // Writing to a string cannot fail.
                let _ = write!(text, " in {namespace}");
            }
        }
        text
    }
}

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} → ", self.summary())?;
        match self.code {
            0 => f.write_str("no answer")?,
            code => write!(f, "{code}")?,
        }
        if self.revision > 0 {
            write!(f, ", revision {}", self.revision)?;
        }
        if !self.changes.is_empty() {
            let changes: Vec<String> = self.changes.iter().map(ToString::to_string).collect();
            write!(f, " ({}", changes.join(", "))?;
            if self.more_changes > 0 {
                write!(f, " and {} more", self.more_changes)?;
            }
            f.write_str(")")?;
        }
        self.error.iter().try_for_each(|error| write!(f, ": {error}"))
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        match (&self.from, &self.to) {
            (None, None) => Ok(()),
            (from, to) => {
                let shown = |value: &Option<String>| value.as_deref().unwrap_or("none").to_owned();
                write!(f, " {} → {}", shown(from), shown(to))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Cause;

    #[test]
    fn a_reconcile_is_told_from_its_cause_to_its_result() {
        let changes =
            vec![Change { path: "spec.replicas".into(), from: Some("2".into()), to: Some("3".into()) }];
        let sent = Sent {
            at: 1_200_000,
            verb: "patch".into(),
            resource: "deployments".into(),
            name: "web".into(),
            namespace: Some("prod".into()),
            code: 200,
            revision: 7,
            changes,
            ..Sent::default()
        };
        let reconcile = Reconcile {
            at: 1_000_000,
            controller: "site".into(),
            namespace: Some("prod".into()),
            name: "web".into(),
            causes: vec![Cause::word("retry")],
            took: 300_000,
            requests: vec![sent],
            outcome: Outcome::Failed,
            again: Some(5_000),
            error: Some("no disk".into()),
            ..Reconcile::default()
        };
        let record = Record { entries: vec![Entry::Reconcile(Box::new(reconcile))], ..Record::default() };
        let told = record.timeline().join("\n");
        let wanted = "    1.000s  site                     woken for prod/web: retry\n    \
                      1.200s  site                     patch deployments/web in prod → 200, revision 7 (spec.replicas 2 → 3)\n    \
                      1.300s  site                     failed for prod/web after 300 ms, again in 5.0 ms: no disk";
        assert_eq!(told, wanted);
    }
}
