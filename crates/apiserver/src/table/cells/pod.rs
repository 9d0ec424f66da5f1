//! The row of a Pod: the status column condenses phase, reasons and container states into one word.

use evenkeel_schema::json::{Value, json};
use jiff::Timestamp;

use super::view::{NONE, View};
use crate::table::age;

const CONDITIONS: &str = "/status/conditions";

pub(super) fn pod(pod: View<'_>) -> Vec<Value> {
    let summary = Summary::of(pod);
    let total =
        pod.len("/spec/containers") + pod.list("/spec/initContainers").filter(|c| is_sidecar(*c)).count();
    vec![
        pod.name().into(),
        format!("{}/{total}", summary.ready).into(),
        summary.reason.into(),
        restarts(summary.restarts, summary.last_restart, pod.now).into(),
        pod.age().into(),
        pod.list("/status/podIPs").next().map_or(NONE, |ip| ip.text_or("/ip", NONE)).into(),
        pod.text_or("/spec/nodeName", NONE).into(),
        pod.text_or("/status/nominatedNodeName", NONE).into(),
        readiness_gates(pod).into(),
    ]
}

/// The conditions of the row of a pod that has succeeded or failed.
pub(super) fn row_conditions(pod: View<'_>) -> Option<Value> {
    let (reason, message) = match pod.text("/status/phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{ "type": "Completed", "status": "True", "reason": reason, "message": message }]))
}

pub(super) fn template(object: View<'_>) -> Vec<Value> {
    let (names, images) = object.containers("/template/spec/containers");
    vec![object.name().into(), names.into(), images.into(), object.labels("/template/metadata/labels").into()]
}

/// The cells that need a walk over the container statuses.
struct Summary {
    ready: usize,
    reason: String,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

/// The result of a walk over the statuses of the init containers.
struct Initialization {
    /// The reason why initialization has not finished; `None` once it has.
    blocked_by: Option<String>,
    ready: usize,
    all: Restarts,
    sidecars: Restarts,
}

#[derive(Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, status: View<'_>) {
        self.count += status.int("/restartCount");
        self.last = self.last.max(status.time("/lastState/terminated/finishedAt"));
    }
}

impl Summary {
    fn of(pod: View<'_>) -> Self {
        let init = Initialization::of(pod);
        let mut reason = phase_reason(pod);
        let mut ready = init.ready;
        let mut restarts = init.all;
        let blocked = init.blocked_by.is_some();
        if let Some(blocking) = init.blocked_by {
            reason = blocking;
        }
        if !blocked || pod.condition_is_true(CONDITIONS, "Initialized") {
            restarts = init.sidecars;
            let main = Containers::of(pod, reason, &mut restarts);
            ready += main.ready;
            reason = main.reason(pod);
        }
        let phase = pod.text("/status/phase");
        if pod.deleting() && pod.text("/status/reason") == "NodeLost" {
            reason = "Unknown".to_owned();
        } else if pod.deleting() && phase != "Succeeded" && phase != "Failed" {
            reason = "Terminating".to_owned();
        }
        Self { ready, reason, restarts: restarts.count, last_restart: restarts.last }
    }
}

fn phase_reason(pod: View<'_>) -> String {
    let gated = pod
        .list(CONDITIONS)
        .any(|c| c.text("/type") == "PodScheduled" && c.text("/reason") == "SchedulingGated");
    if gated {
        return "SchedulingGated".to_owned();
    }
    pod.text_or("/status/reason", pod.text("/status/phase")).to_owned()
}

impl Initialization {
    fn of(pod: View<'_>) -> Self {
        let mut result =
            Self { blocked_by: None, ready: 0, all: Restarts::default(), sidecars: Restarts::default() };
        let declared = pod.len("/spec/initContainers");
        for (index, status) in pod.list("/status/initContainerStatuses").enumerate() {
            let sidecar = pod
                .list("/spec/initContainers")
                .any(|c| c.text("/name") == status.text("/name") && is_sidecar(c));
            result.all.add(status);
            if sidecar {
                result.sidecars.add(status);
            }
            let terminated = status.get("/state/terminated");
            if terminated.is_some_and(|state| state.int("/exitCode") == 0) {
                continue;
            }
            if sidecar && status.flag("/started") {
                result.ready += usize::from(status.flag("/ready"));
                continue;
            }
            result.blocked_by = Some(init_reason(status, index, declared));
            break;
        }
        result
    }
}

fn init_reason(status: View<'_>, index: usize, declared: usize) -> String {
    if let Some(terminated) = status.get("/state/terminated") {
        return format!("Init:{}", terminated_reason(terminated));
    }
    match status.text("/state/waiting/reason") {
        "" | "PodInitializing" => format!("Init:{index}/{declared}"),
        reason => format!("Init:{reason}"),
    }
}

/// The result of a walk over the statuses of the main containers. The walk goes from the last container to
/// the first, so that the first one decides the reason.
struct Containers {
    reason: String,
    error: Option<String>,
    running: bool,
    ready: usize,
}

impl Containers {
    fn of(pod: View<'_>, reason: String, restarts: &mut Restarts) -> Self {
        let mut result = Self { reason, error: None, running: false, ready: 0 };
        for status in pod.list("/status/containerStatuses").rev() {
            restarts.add(status);
            let waiting = status.text("/state/waiting/reason");
            if !waiting.is_empty() {
                result.reason = waiting.to_owned();
            } else if let Some(terminated) = status.get("/state/terminated") {
                result.reason = terminated_reason(terminated);
                if terminated.int("/exitCode") != 0 {
                    result.error = Some(result.reason.clone());
                }
            } else if status.flag("/ready") && status.has("/state/running") {
                result.running = true;
                result.ready += 1;
            }
        }
        result
    }

    /// The reason to show. A pod with one completed and one running container is not `Completed`.
    fn reason(self, pod: View<'_>) -> String {
        if self.reason != "Completed" {
            return self.reason;
        }
        match self.error {
            _ if self.running && pod.condition_is_true(CONDITIONS, "Ready") => "Running".to_owned(),
            Some(error) => error,
            None if self.running => "NotReady".to_owned(),
            None => self.reason,
        }
    }
}

fn terminated_reason(terminated: View<'_>) -> String {
    match (terminated.text("/reason"), terminated.int("/signal")) {
        ("", 0) => format!("ExitCode:{}", terminated.int("/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// Whether an init container is a sidecar, which keeps running beside the main containers.
fn is_sidecar(container: View<'_>) -> bool {
    container.text("/restartPolicy") == "Always"
}

fn restarts(count: i64, last: Option<Timestamp>, now: Timestamp) -> String {
    match last {
        Some(last) if count != 0 => format!("{count} ({} ago)", age::human(age::between(last, now))),
        _ => count.to_string(),
    }
}

fn readiness_gates(pod: View<'_>) -> String {
    let gates = pod.list("/spec/readinessGates");
    if gates.len() == 0 {
        return NONE.to_owned();
    }
    let total = gates.len();
    let open = gates.filter(|gate| pod.condition_is_true(CONDITIONS, gate.text("/conditionType"))).count();
    format!("{open}/{total}")
}
