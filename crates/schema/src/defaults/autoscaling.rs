//! The API group `autoscaling`: HorizontalPodAutoscalers.

use crate::json::json;

use super::{Object, child, is_absent, is_empty, set};
use crate::json::Value;

const UTILIZATION: i32 = 80;

pub(super) fn rules(package: &str, name: &str, object: &mut Object) {
    if name != "HorizontalPodAutoscaler" {
        return;
    }
    let spec = child(object, "spec");
    set(spec, "minReplicas", 1);
    if package.ends_with("v1") {
        set(spec, "targetCPUUtilizationPercentage", UTILIZATION);
        return;
    }
    if is_empty(spec, "metrics") {
        let target = json!({"type": "Utilization", "averageUtilization": UTILIZATION});
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
        spec.insert("metrics".into(), Value::Array(vec![metric].into()));
    }
    if !is_absent(spec, "behavior") {
        let behavior = child(spec, "behavior");
        scale_up(child(behavior, "scaleUp"));
        scale_down(child(behavior, "scaleDown"));
    }
}

fn scale_up(rules: &mut Object) {
    set(rules, "stabilizationWindowSeconds", 0);
    set(rules, "selectPolicy", "Max");
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    set(rules, "policies", vec![pods, percent]);
}

fn scale_down(rules: &mut Object) {
    set(rules, "selectPolicy", "Max");
    set(rules, "policies", vec![json!({"type": "Percent", "value": 100, "periodSeconds": 15})]);
}
