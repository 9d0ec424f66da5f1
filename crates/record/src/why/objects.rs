//! What the objects of a cluster say about themselves: finalizers, pods that are not ready, conditions, Events.

use serde_json::Value;

/// Conditions whose normal status is false: true, they are bad.
const GOOD_WHEN_FALSE: [&str; 16] = [
    "Degraded",
    "DiskPressure",
    "Failed",
    "FailureTarget",
    "MemoryPressure",
    "NamespaceContentRemaining",
    "NamespaceDeletionContentFailure",
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionGroupVersionParsingFailure",
    "NamespaceFinalizersRemaining",
    "NetworkUnavailable",
    "NonStructuralSchema",
    "PIDPressure",
    "ReplicaFailure",
    "Stalled",
    "Terminating",
];

/// Conditions that are neither good nor bad: work in progress, and states that somebody asked for.
const NEUTRAL: [&str; 8] = [
    "AbleToScale",
    "Complete",
    "ContainersReady",
    "DisruptionTarget",
    "PodReadyToStartContainers",
    "Reconciling",
    "ScalingLimited",
    "Suspended",
];

/// An object that is being deleted and waits for its finalizers.
pub(super) struct Finalizing {
    /// The deletion timestamp.
    pub(super) since: String,
    pub(super) finalizers: Vec<String>,
}

impl Finalizing {
    pub(super) fn of(object: &Value) -> Option<Self> {
        let meta = &object["metadata"];
        let since = meta["deletionTimestamp"].as_str()?.to_owned();
        let finalizers = meta["finalizers"].as_array()?.iter().filter_map(Value::as_str);
        let finalizers: Vec<String> = finalizers.map(str::to_owned).collect();
        (!finalizers.is_empty()).then_some(Self { since, finalizers })
    }
}

/// The kind and name of an object.
pub(super) fn name_of(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"]))
}

/// Says what a namespace that is being deleted waits for.
pub(super) fn ending_namespace(object: &Value) -> Option<String> {
    let since = object["metadata"]["deletionTimestamp"].as_str().filter(|_| object["kind"] == "Namespace")?;
    let line = format!("deletion, asked for at {since}, waits for the namespace to be empty");
    let bad = all_conditions(object)
        .filter(|it| it["status"] == "True" && GOOD_WHEN_FALSE.contains(&type_of(it)))
        .filter_map(|it| it["message"].as_str());
    // The finalizers say more than the number of objects that have them.
    let why: Vec<&str> = bad.collect();
    Some(match why.last() {
        Some(why) => format!("{line}: {why}"),
        None => line,
    })
}

/// Says what a pod that is being deleted waits for, if it has no finalizers: its node.
pub(super) fn ending_pod(object: &Value) -> Option<String> {
    let meta = &object["metadata"];
    let since = meta["deletionTimestamp"].as_str().filter(|_| object["kind"] == "Pod")?;
    let no_finalizers = meta["finalizers"].as_array().is_none_or(Vec::is_empty);
    let node = object["spec"]["nodeName"].as_str().filter(|_| no_finalizers)?;
    Some(format!("deletion, due at {since}, waits for the node {node} to stop the pod's containers"))
}

/// Returns the name of a pod that should be ready but is not, and the reason.
pub(super) fn unready_pod(object: &Value, events: &[Value]) -> Option<(String, String)> {
    if object["kind"] != "Pod" || !object["metadata"]["deletionTimestamp"].is_null() {
        return None;
    }
    let status = &object["status"];
    if status["phase"] == "Succeeded" {
        return None;
    }
    let ready = condition(object, "Ready");
    if ready.is_some_and(|ready| ready["status"] == "True") {
        return None;
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let scheduled = condition(object, "PodScheduled").filter(|it| it["status"] == "False");
    let why = scheduled
        .map(|scheduled| format!("it is not scheduled: {}", reason_of(scheduled)))
        .or_else(|| waiting_container(object, events))
        .or_else(|| failing_probe(object, events))
        .or_else(|| status["reason"].as_str().map(|_| reason_of(status)))
        .or_else(|| ready.map(reason_of))
        .unwrap_or_else(|| "it has no status yet".to_owned());
    Some((name, why))
}

/// Returns the first container that is not running, and the reason.
fn waiting_container(pod: &Value, events: &[Value]) -> Option<String> {
    let all = ["initContainerStatuses", "containerStatuses"].into_iter();
    let mut containers = all.filter_map(|field| pod["status"][field].as_array()).flatten();
    containers.find_map(|container| {
        let name = container["name"].as_str().unwrap_or_default();
        let (state, last) = (&container["state"], &container["lastState"]["terminated"]);
        let (word, state) = match (&state["waiting"], &state["terminated"]) {
            (waiting @ Value::Object(_), _) => ("waits", waiting),
            (_, ended @ Value::Object(_)) if ended["exitCode"] != 0 => ("has ended", ended),
            _ => return None,
        };
        let mut why = reason_of(state);
        // A container that is being created says nothing; a mount that fails is only in the Events.
        if matches!(state["reason"].as_str(), Some("ContainerCreating" | "PodInitializing"))
            && let Some(event) = event_about(pod, events)
        {
            why = event;
        }
        let code = if word == "has ended" { &state["exitCode"] } else { &last["exitCode"] };
        if let Some(code) = code.as_i64() {
            why.push_str(&format!(", exit code {code}"));
        }
        Some(format!("its container {name} {word}: {why}"))
    })
}

/// Returns the message of a failing probe of a pod whose containers run.
fn failing_probe(pod: &Value, events: &[Value]) -> Option<String> {
    let is_probe = |event: &&Value| event["reason"] == "Unhealthy";
    let event = events.iter().rev().filter(|event| is_about(event, pod)).find(is_probe)?;
    let unready = pod["status"]["containerStatuses"].as_array()?.iter().find(|it| it["ready"] != true)?;
    let name = unready["name"].as_str().unwrap_or_default();
    Some(format!("its container {name} is not ready: {}", reason_of(event)))
}

/// The newest of these Events about an object.
fn event_about(object: &Value, events: &[Value]) -> Option<String> {
    events.iter().rev().find(|event| is_about(event, object)).map(reason_of)
}

fn is_about(event: &Value, object: &Value) -> bool {
    let involved = &event["involvedObject"];
    let same_uid = involved["uid"].as_str().is_some_and(|uid| object["metadata"]["uid"] == uid);
    same_uid || (involved["kind"] == object["kind"] && involved["name"] == object["metadata"]["name"])
}

/// Explains a claim that is not bound.
pub(super) fn pending(object: &Value, events: &[Value]) -> Option<String> {
    let is_claim = object["kind"] == "PersistentVolumeClaim" && object["status"]["phase"] == "Pending";
    let why = event_about(object, events).filter(|_| is_claim)?;
    Some(format!("{} is not bound: {why}", name_of(object)))
}

/// Returns the first condition that is bad, with its status, and the reason.
pub(super) fn bad_condition(object: &Value) -> Option<(String, String)> {
    // Nobody waits for a pod that has ended, and a Job that is complete has conditions that were true before.
    if object["status"]["phase"] == "Succeeded" {
        return None;
    }
    // A condition of a pod says less than the state of its containers; see `unready_pod`.
    if object["kind"] == "Pod" {
        return None;
    }
    let stuck = |it: &Value| it["type"] == "Progressing" && it["reason"] == "ProgressDeadlineExceeded";
    let is_bad = |it: &&Value| {
        let name = type_of(it);
        match it["status"].as_str() {
            Some("True") => GOOD_WHEN_FALSE.contains(&name),
            Some("False") => {
                let good =
                    GOOD_WHEN_FALSE.contains(&name) || NEUTRAL.contains(&name) || name == "Progressing";
                !good || stuck(it)
            }
            _ => name == "Ready" && object["kind"] == "Node",
        }
    };
    // What failed says more than what is not yet true.
    let bad: Vec<&Value> = all_conditions(object).filter(is_bad).collect();
    let wrong = bad.iter().find(|it| it["status"] == "True").or_else(|| bad.first())?;
    let name = type_of(wrong);
    let state = match wrong["status"].as_str() {
        Some("True") => format!("{name} is true"),
        _ => format!("{name} is not true"),
    };
    Some((state, reason_of(wrong)))
}

fn all_conditions(object: &Value) -> impl Iterator<Item = &Value> {
    object["status"]["conditions"].as_array().into_iter().flatten()
}

fn type_of(condition: &Value) -> &str {
    condition["type"].as_str().unwrap_or_default()
}

fn condition<'v>(object: &'v Value, name: &str) -> Option<&'v Value> {
    all_conditions(object).find(|condition| condition["type"] == name)
}

/// Returns the reason and message of a condition, a container state or an Event.
fn reason_of(value: &Value) -> String {
    let text = |field: &str| value[field].as_str().filter(|text| !text.is_empty());
    match (text("reason"), text("message")) {
        (Some(reason), Some(message)) => format!("{reason}: {message}"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => "no reason is given".to_owned(),
    }
}
