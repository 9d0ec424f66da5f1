//! The logs of containers on simulated nodes.
//!
//! A container prints the lines of its [behaviour](super::behaviour) and of its command, in each run. [`Logs::append`]
//! adds further lines. The log of a container that prints nothing is derived from its status: when it started, and how
//! it ended.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use evenkeel_tree::Tree;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::behaviour::{LINES_MAX, LogLine};
use super::bounds::{PrintRoom, Printed};
use super::status::{CONTAINERS, EPHEMERAL_CONTAINERS, INIT_CONTAINERS, find};
use crate::object::Fields;

/// How many runs of a container are kept: the current and the previous one, like on a real node.
const RUNS_MAX: usize = 2;

/// A line that a container has printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrintedLine {
    /// When the line was printed.
    pub at: Timestamp,
    /// The line, without its end.
    pub text: String,
}

/// The logs of all containers on the nodes of a cluster. Clones share them.
#[derive(Clone)]
pub struct Logs {
    shared: Arc<Mutex<BTreeMap<String, PodLogs>>>,
    changes: watch::Sender<u64>,
    /// The room for what containers print.
    room: PrintRoom,
}

/// The runs of the containers of one pod, by the name of the container.
type PodLogs = BTreeMap<String, Vec<RunLog>>;

/// What one run of a container prints.
#[derive(Clone, Debug)]
struct RunLog {
    restarts: i32,
    started: Timestamp,
    /// The lines that the run will print, including future ones.
    planned: Printed,
    appended: Vec<PrintedLine>,
}

impl Default for Logs {
    fn default() -> Self {
        Self { shared: Arc::default(), changes: watch::Sender::new(0), room: PrintRoom::default() }
    }
}

impl fmt::Debug for Logs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Logs")
    }
}

/// Two handles are equal if they share one set of logs.
impl PartialEq for Logs {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Eq for Logs {}

impl Logs {
    /// Adds a line to the current run of a container in the pod with this uid.
    pub fn append(&self, pod_uid: &str, container: &str, at: Timestamp, text: impl Into<String>) {
        {
            let mut shared = self.shared.lock();
            let runs = shared.entry(pod_uid.to_owned()).or_default().entry(container.to_owned()).or_default();
            if runs.is_empty() {
                runs.push(RunLog {
                    restarts: 0,
                    started: at,
                    planned: Printed::default(),
                    appended: Vec::new(),
                });
            }
            if let Some(run) = runs.last_mut() {
                if run.appended.len() >= LINES_MAX {
                    run.appended.remove(0);
                }
                run.appended.push(PrintedLine { at, text: text.into() });
            }
        }
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Returns a receiver for readers that follow a log: it changes whenever a line is added, or a run begins or ends.
    /// It does not change for lines that a run prints later; [`Logs::next_line_at`] says when to look again.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Returns the lines that a container has printed so far, in its current run or in the `previous` one. `pod` is the
    /// pod as JSON. Returns `None` if there was no such run.
    pub fn lines(
        &self,
        pod: &Tree,
        container: &str,
        previous: bool,
        now: Timestamp,
    ) -> Option<Vec<PrintedLine>> {
        let status = container_status(pod, container);
        let restarts = status.i32("restartCount").unwrap_or(0);
        let state = life_of(status, previous)?;
        let wanted = if state.is_present { restarts } else { restarts.saturating_sub(1) };
        let uid = pod.str("metadata/uid").unwrap_or_default();
        let shared = self.shared.lock();
        let runs = shared.get(uid).and_then(|pod| pod.get(container));
        let run = runs.and_then(|runs| runs.iter().rev().find(|run| run.restarts == wanted));
        let until = state.ended.map_or(now, |(at, _)| at.min(now));
        let printed = run.map(|run| run.until(until)).unwrap_or_default();
        Some(if printed.is_empty() { state.lines(container) } else { printed })
    }

    /// Returns when the current run of a container prints its next line.
    pub fn next_line_at(&self, pod_uid: &str, container: &str, now: Timestamp) -> Option<Timestamp> {
        let shared = self.shared.lock();
        let run = shared.get(pod_uid)?.get(container)?.last()?;
        run.planned.iter().map(|line| run.time_of(line)).find(|at| *at > now)
    }

    /// The room for what containers print.
    pub(crate) fn room(&self) -> &PrintRoom {
        &self.room
    }

    /// Begins a run. If there is no room for its lines, they are lost.
    pub(crate) fn begin(
        &self,
        pod_uid: &str,
        container: &str,
        restarts: i32,
        started: Timestamp,
        planned: Printed,
    ) {
        let planned = self.room.keep(planned);
        {
            let mut shared = self.shared.lock();
            let known = shared.get(pod_uid).is_some_and(|pod| pod.contains_key(container));
            // A container that prints nothing needs no memory.
            if planned.is_empty() && !known {
                return;
            }
            let runs = shared.entry(pod_uid.to_owned()).or_default().entry(container.to_owned()).or_default();
            if runs.len() >= RUNS_MAX {
                runs.remove(0);
            }
            runs.push(RunLog { restarts, started, planned, appended: Vec::new() });
        }
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Drops the logs of a removed pod.
    pub(crate) fn forget(&self, pod_uid: &str) {
        let known = self.shared.lock().remove(pod_uid).is_some();
        if known {
            self.changes.send_modify(|changes| *changes += 1);
        }
    }
}

impl RunLog {
    fn time_of(&self, line: &LogLine) -> Timestamp {
        let after = SignedDuration::try_from(line.after).unwrap_or(SignedDuration::MAX);
        self.started.checked_add(after).unwrap_or(Timestamp::MAX)
    }

    /// Returns the lines printed until a time.
    fn until(&self, end: Timestamp) -> Vec<PrintedLine> {
        let planned =
            self.planned.iter().map(|line| PrintedLine { at: self.time_of(line), text: line.text.clone() });
        let mut lines: Vec<_> =
            planned.filter(|line| line.at <= end).chain(self.appended.iter().cloned()).collect();
        lines.sort_by_key(|line| line.at);
        lines
    }
}

fn container_status<'a>(pod: &'a Tree, container: &str) -> &'a Tree {
    let lists = [CONTAINERS.1, INIT_CONTAINERS.1, EPHEMERAL_CONTAINERS.1];
    let mut found = lists.iter().map(|list| find(pod.at("status").list(list), container));
    found.find(|status| !status.is_null()).unwrap_or(find(&[], ""))
}

/// One run of a container, as read from its status.
struct Life {
    /// Whether this is the run that the current number of restarts belongs to.
    is_present: bool,
    started: Timestamp,
    ended: Option<(Timestamp, i32)>,
}

fn life_of(status: &Tree, previous: bool) -> Option<Life> {
    let ended = |state: &Tree, is_present| {
        let (started, finished) = (state.time("terminated/startedAt")?, state.time("terminated/finishedAt")?);
        Some(Life { is_present, started, ended: Some((finished, state.i32("terminated/exitCode")?)) })
    };
    let (state, last) = (status.at("state"), status.at("lastState"));
    // A container that waits for its restart has no current run, and its restart count still belongs to the last run.
    let waits = state.has("waiting");
    match previous {
        _ if waits => ended(last, true),
        true => ended(last, false),
        false => match state.time("running/startedAt") {
            Some(started) => Some(Life { is_present: true, started, ended: None }),
            None => ended(state, true),
        },
    }
}

impl Life {
    fn lines(&self, container: &str) -> Vec<PrintedLine> {
        let mut lines = vec![PrintedLine { at: self.started, text: format!("{container} started") }];
        if let Some((at, code)) = self.ended {
            lines.push(PrintedLine { at, text: format!("{container} exited with code {code}") });
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn texts(lines: Option<Vec<PrintedLine>>) -> Vec<String> {
        lines
            .unwrap_or_default()
            .into_iter()
            .map(|line| format!("{} {}", line.at.as_second(), line.text))
            .collect()
    }

    #[test]
    fn a_container_has_printed_what_its_run_prints_until_now() {
        let pod = Tree::from(json!({"metadata": {"uid": "u"}, "status": {"containerStatuses": [{"name": "c",
            "restartCount": 1, "state": {"running": {"startedAt": "1970-01-01T00:01:40Z"}},
            "lastState": {"terminated": {"startedAt": "1970-01-01T00:00:10Z", "finishedAt": "1970-01-01T00:00:12Z", "exitCode": 3}}}]}}));
        let logs = Logs::default();
        let life = ["10 c started", "12 c exited with code 3"];
        assert_eq!(texts(logs.lines(&pod, "c", true, at(200))), life);
        let line = |after, text: &str| LogLine { after: Duration::from_secs(after), text: text.to_owned() };
        logs.begin("u", "c", 0, at(10), vec![line(0, "one"), line(9, "too late")].into());
        logs.begin("u", "c", 1, at(100), vec![line(0, "two"), line(50, "three")].into());
        logs.append("u", "c", at(120), "by hand");
        assert_eq!(texts(logs.lines(&pod, "c", true, at(200))), ["10 one"]);
        assert_eq!(texts(logs.lines(&pod, "c", false, at(130))), ["100 two", "120 by hand"]);
        assert_eq!(texts(logs.lines(&pod, "c", false, at(150))), ["100 two", "120 by hand", "150 three"]);
        assert_eq!(logs.next_line_at("u", "c", at(130)), Some(at(150)));
        assert!(logs.lines(&pod, "d", false, at(150)).is_none());
        logs.forget("u");
        assert_eq!(texts(logs.lines(&pod, "c", true, at(200))), life);
    }

    /// The lines of annotations had no bound for all pods together.
    #[test]
    fn lines_for_which_there_is_no_room_are_lost() {
        let pod = |uid: usize| {
            Tree::from(
                json!({"metadata": {"uid": uid.to_string()}, "status": {"containerStatuses": [{"name": "c",
                "restartCount": 0, "state": {"running": {"startedAt": "1970-01-01T00:00:00Z"}}}]}}),
            )
        };
        let logs = Logs::default();
        let begin = |uid: usize| {
            let line = LogLine { after: Duration::ZERO, text: "x".repeat(1 << 20) };
            logs.begin(&uid.to_string(), "c", 0, at(0), vec![line].into());
        };
        let kept = |uid: usize| logs.lines(&pod(uid), "c", false, at(1)).unwrap()[0].text.starts_with('x');
        (0..200).for_each(begin);
        assert_eq!((0..200).filter(|uid| kept(*uid)).count(), 127);
        logs.forget("0");
        begin(199);
        assert!(kept(199), "the logs of a pod that is gone leave their room");
    }
}
