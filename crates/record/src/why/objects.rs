//! What the objects of a cluster say about themselves: finalizers, pods that are not ready, conditions.

use serde_json::Value;

/// Conditions whose normal status is false.
const GOOD_WHEN_FALSE: [&str; 8] = [
    "Degraded",
    "DiskPressure",
    "Failed",
    "MemoryPressure",
    "NetworkUnavailable",
    "PIDPressure",
    "Progressing",
    "Stalled",
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

/// Returns the name of a pod that should be ready but is not, and the reason.
pub(super) fn unready_pod(object: &Value) -> Option<(String, String)> {
    if object["kind"] != "Pod" || !object["metadata"]["deletionTimestamp"].is_null() {
        return None;
    }
    let status = &object["status"];
    if status["phase"] == "Succeeded" {
        return None;
    }
    let ready = condition(status, "Ready");
    if ready.is_some_and(|ready| ready["status"] == "True") {
        return None;
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let scheduled = condition(status, "PodScheduled").filter(|it| it["status"] == "False");
    let why = scheduled
        .map(|scheduled| format!("it is not scheduled: {}", reason_of(scheduled)))
        .or_else(|| waiting_container(status))
        .or_else(|| ready.map(reason_of))
        .unwrap_or_else(|| "it has no status yet".to_owned());
    Some((name, why))
}

/// Returns the first container that is not running, and the reason.
fn waiting_container(status: &Value) -> Option<String> {
    let all = ["initContainerStatuses", "containerStatuses"].into_iter();
    let mut containers = all.filter_map(|field| status[field].as_array()).flatten();
    containers.find_map(|container| {
        let name = container["name"].as_str().unwrap_or_default();
        let state = &container["state"];
        let (word, state) = match (&state["waiting"], &state["terminated"]) {
            (waiting @ Value::Object(_), _) => ("waits", waiting),
            (_, ended @ Value::Object(_)) if ended["exitCode"] != 0 => ("has ended", ended),
            _ => return None,
        };
        Some(format!("its container {name} {word}: {}", reason_of(state)))
    })
}

/// Returns the first condition that is false but should be true, and the reason.
pub(super) fn first_false_condition(object: &Value) -> Option<(String, String)> {
    let conditions = object["status"]["conditions"].as_array()?;
    let wrong = conditions.iter().find(|condition| {
        let name = condition["type"].as_str().unwrap_or_default();
        condition["status"] == "False" && !GOOD_WHEN_FALSE.contains(&name)
    })?;
    Some((wrong["type"].as_str().unwrap_or_default().to_owned(), reason_of(wrong)))
}

fn condition<'v>(status: &'v Value, name: &str) -> Option<&'v Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == name)
}

/// Returns the reason and message of a condition or a container state.
fn reason_of(value: &Value) -> String {
    let text = |field: &str| value[field].as_str().filter(|text| !text.is_empty());
    match (text("reason"), text("message")) {
        (Some(reason), Some(message)) => format!("{reason}: {message}"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => "no reason is given".to_owned(),
    }
}
