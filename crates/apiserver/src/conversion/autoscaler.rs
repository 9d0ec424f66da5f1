//! Conversion of HorizontalPodAutoscalers. autoscaling/v2 is the storage version. autoscaling/v1 has a field
//! for the CPU utilization and keeps everything else from v2 in annotations.

use evenkeel_schema::json::{Map, Value, json};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// Converts from autoscaling/v2 to autoscaling/v1.
pub(super) fn from_storage_version(mut scaler: Value) -> Value {
    scaler["apiVersion"] = "autoscaling/v1".into();
    let mut annotations = Map::new();
    let metrics = take(&mut scaler["spec"], "metrics");
    let (cpu, others) = split_cpu(list(metrics), "target");
    if let Some(percent) = cpu {
        scaler["spec"]["targetCPUUtilizationPercentage"] = percent;
    }
    if !others.is_empty() {
        annotations.insert(METRICS.into(), texts(&others, old_metric).into());
    }
    if let Some(behavior) = take(&mut scaler["spec"], "behavior") {
        annotations.insert(BEHAVIOR.into(), behavior.to_string().into());
    }
    let current = take(&mut scaler["status"], "currentMetrics");
    let (cpu, _) = split_cpu(list(current.clone()), "current");
    if let Some(percent) = cpu {
        scaler["status"]["currentCPUUtilizationPercentage"] = percent;
    }
    let current = list(current);
    if !current.is_empty() {
        annotations.insert(CURRENT_METRICS.into(), texts(&current, old_status).into());
    }
    if let Some(conditions) = take(&mut scaler["status"], "conditions") {
        annotations.insert(CONDITIONS.into(), conditions.to_string().into());
    }
    for (key, value) in annotations {
        scaler["metadata"]["annotations"][key] = value;
    }
    settle(scaler, "v1")
}

/// Converts from autoscaling/v1 to autoscaling/v2.
pub(super) fn to_storage_version(mut scaler: Value) -> Value {
    scaler["apiVersion"] = "autoscaling/v2".into();
    let mut metrics: Vec<Value> = Vec::new();
    if let Some(text) = take_annotation(&mut scaler, METRICS) {
        let old: Value = serde_json::from_str(&text).unwrap_or_default();
        metrics.extend(list(Some(old)).into_iter().map(new_metric));
    }
    if let Some(percent) = take(&mut scaler["spec"], "targetCPUUtilizationPercentage") {
        let target = json!({"type": "Utilization", "averageUtilization": percent});
        metrics.push(json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}));
    }
    if !metrics.is_empty() {
        scaler["spec"]["metrics"] = metrics.into();
    }
    for (annotation, part, field) in [(BEHAVIOR, "spec", "behavior"), (CONDITIONS, "status", "conditions")] {
        if let Some(value) = take_annotation(&mut scaler, annotation)
            .and_then(|text| serde_json::from_str::<Value>(&text).ok())
        {
            scaler[part][field] = value;
        }
    }
    let percent = take(&mut scaler["status"], "currentCPUUtilizationPercentage");
    let annotated = take_annotation(&mut scaler, CURRENT_METRICS);
    let annotated = annotated.and_then(|text| serde_json::from_str::<Value>(&text).ok());
    // The annotation says more than the field.
    let current = match (annotated, percent) {
        (Some(old), _) => list(Some(old)).into_iter().map(new_status).collect(),
        (None, Some(percent)) => {
            let current = json!({"averageUtilization": percent});
            vec![json!({"type": "Resource", "resource": {"name": "cpu", "current": current}})]
        }
        (None, None) => Vec::new(),
    };
    if !current.is_empty() {
        scaler["status"]["currentMetrics"] = current.into();
    }
    settle(scaler, "v2")
}

fn settle(mut scaler: Value, version: &str) -> Value {
    evenkeel_schema::normalize::normalize("autoscaling", version, "HorizontalPodAutoscaler", &mut scaler);
    scaler
}

fn take(object: &mut Value, field: &str) -> Option<Value> {
    object.as_object_mut()?.remove(field).filter(|it| !it.is_null())
}

fn take_annotation(object: &mut Value, key: &str) -> Option<String> {
    let annotations = object["metadata"]["annotations"].as_object_mut()?;
    let taken = annotations.remove(key);
    if annotations.is_empty() {
        take(&mut object["metadata"], "annotations");
    }
    taken?.as_str().map(str::to_owned)
}

fn list(value: Option<Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(items)) => items.into_vec(),
        _ => Vec::new(),
    }
}

/// Separates the CPU utilization from the other metrics.
fn split_cpu(metrics: Vec<Value>, side: &str) -> (Option<Value>, Vec<Value>) {
    let mut cpu = None;
    let mut others = Vec::new();
    for metric in metrics {
        let resource = &metric["resource"];
        let percent = resource[side].get("averageUtilization").filter(|it| !it.is_null());
        match percent {
            Some(percent) if cpu.is_none() && resource["name"] == "cpu" => cpu = Some(percent.clone()),
            _ => others.push(metric),
        }
    }
    (cpu, others)
}

fn texts(metrics: &[Value], print: fn(&Value) -> String) -> String {
    format!("[{}]", metrics.iter().map(print).collect::<Vec<_>>().join(","))
}

/// Prints a metric in the form of v1's annotation, with its fields in the order in which Kubernetes writes
/// them.
fn old_metric(metric: &Value) -> String {
    let kind = metric["type"].as_str().unwrap_or_default();
    let field = lower_first(kind);
    let source = &metric[&field];
    let target = &source["target"];
    let name = ("metricName", &source["metric"]["name"]);
    let selector = &source["metric"]["selector"];
    let value = ("targetAverageValue", &target["averageValue"]);
    let members: Vec<(&str, &Value)> = match kind {
        "Pods" => vec![name, value, ("selector", selector)],
        "Object" => vec![
            ("target", &source["describedObject"]),
            name,
            ("targetValue", &target["value"]),
            ("selector", selector),
            ("averageValue", &target["averageValue"]),
        ],
        "External" => vec![name, ("metricSelector", selector), ("targetValue", &target["value"]), value],
        _ => vec![
            ("name", &source["name"]),
            ("targetAverageUtilization", &target["averageUtilization"]),
            value,
            ("container", &source["container"]),
        ],
    };
    object_text(kind, &field, members)
}

/// Prints the current value of a metric in the form of v1's annotation, with its fields in the order in which Kubernetes
/// writes them.
fn old_status(status: &Value) -> String {
    let kind = status["type"].as_str().unwrap_or_default();
    let field = lower_first(kind);
    let source = &status[&field];
    let current = &source["current"];
    let zero = Value::from("0");
    // v1 has a plain quantity where v2 has an optional one.
    let or_zero = |value| if current[value].is_null() { &zero } else { &current[value] };
    let name = ("metricName", &source["metric"]["name"]);
    let selector = &source["metric"]["selector"];
    let members: Vec<(&str, &Value)> = match kind {
        "Pods" => vec![name, ("currentAverageValue", or_zero("averageValue")), ("selector", selector)],
        "Object" => vec![
            ("target", &source["describedObject"]),
            name,
            ("currentValue", or_zero("value")),
            ("selector", selector),
            ("averageValue", &current["averageValue"]),
        ],
        "External" => vec![
            name,
            ("metricSelector", selector),
            ("currentValue", or_zero("value")),
            ("currentAverageValue", &current["averageValue"]),
        ],
        _ => vec![
            ("name", &source["name"]),
            ("currentAverageUtilization", &current["averageUtilization"]),
            ("currentAverageValue", or_zero("averageValue")),
            ("container", &source["container"]),
        ],
    };
    object_text(kind, &field, members)
}

/// Converts the current value of a metric in v1's annotation to v2.
fn new_status(old: Value) -> Value {
    let kind = old["type"].as_str().unwrap_or_default().to_owned();
    let field = lower_first(&kind);
    let source = &old[&field];
    let mut current = Map::new();
    for (new, name) in [
        ("averageUtilization", "currentAverageUtilization"),
        ("averageValue", "currentAverageValue"),
        ("averageValue", "averageValue"),
        ("value", "currentValue"),
    ] {
        if !source[name].is_null() {
            current.insert(new.into(), source[name].clone());
        }
    }
    let selector = if kind == "External" { &source["metricSelector"] } else { &source["selector"] };
    let metric = json!({"name": source["metricName"], "selector": selector});
    let source = match kind.as_str() {
        "Pods" | "External" => json!({"metric": metric, "current": current}),
        "Object" => json!({"describedObject": source["target"], "metric": metric, "current": current}),
        _ => json!({"name": source["name"], "container": source["container"], "current": current}),
    };
    json!({"type": kind, field: source})
}

/// Prints a metric of v1 from those of its fields that have a value.
fn object_text(kind: &str, field: &str, members: Vec<(&str, &Value)>) -> String {
    let members = members.into_iter().filter(|(_, value)| !value.is_null());
    let members = members.map(|(key, value)| format!("\"{key}\":{value}"));
    format!("{{\"type\":\"{kind}\",\"{field}\":{{{}}}}}", members.collect::<Vec<_>>().join(","))
}

/// Converts a metric in v1's annotation to v2.
fn new_metric(old: Value) -> Value {
    let kind = old["type"].as_str().unwrap_or_default().to_owned();
    let field = lower_first(&kind);
    let source = &old[&field];
    let target = [
        ("Utilization", "averageUtilization", "targetAverageUtilization"),
        ("AverageValue", "averageValue", "targetAverageValue"),
        ("AverageValue", "averageValue", "averageValue"),
        ("Value", "value", "targetValue"),
    ];
    let target = target.into_iter().find(|(_, _, old)| !source[*old].is_null());
    let target = target.map_or(Value::Null, |(kind, new, old)| json!({"type": kind, new: source[old]}));
    let selector = if kind == "External" { &source["metricSelector"] } else { &source["selector"] };
    let source = match kind.as_str() {
        "Pods" | "External" => {
            json!({"metric": {"name": source["metricName"], "selector": selector}, "target": target})
        }
        "Object" => json!({
            "describedObject": source["target"],
            "metric": {"name": source["metricName"], "selector": selector},
            "target": target,
        }),
        _ => json!({"name": source["name"], "container": source["container"], "target": target}),
    };
    json!({"type": kind, field: source})
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_ascii_lowercase()).into_iter().chain(chars).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The current utilization of v1 used to be lost, and the annotation had the form of v2.
    #[test]
    fn the_current_utilization_of_v1_is_kept_with_its_annotation() {
        let v1 = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "x"},
            "spec": {"maxReplicas": 1}, "status": {"currentReplicas": 1, "currentCPUUtilizationPercentage": 7}});
        let v2 = to_storage_version(v1);
        let metric =
            json!([{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 7}}}]);
        assert_eq!(v2["status"]["currentMetrics"], metric);
        let again = from_storage_version(v2);
        assert_eq!(again["status"]["currentCPUUtilizationPercentage"], 7);
        assert_eq!(
            again["metadata"]["annotations"][CURRENT_METRICS],
            r#"[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":7,"currentAverageValue":"0"}}]"#
        );
        let back = to_storage_version(again);
        let current = json!({"averageUtilization": 7, "averageValue": "0"});
        assert_eq!(back["status"]["currentMetrics"][0]["resource"]["current"], current);
    }

    #[test]
    fn other_current_metrics_survive_v1() {
        let current = json!([
            {"type": "Pods", "pods": {"metric": {"name": "m"}, "current": {"averageValue": "3"}}},
            {"type": "External", "external": {"metric": {"name": "e"}, "current": {"value": "4"}}}]);
        let v2 = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "x"},
            "spec": {"maxReplicas": 1}, "status": {"currentMetrics": current}});
        let back = to_storage_version(from_storage_version(v2));
        assert_eq!(back["status"]["currentMetrics"], current);
    }
}
