use super::*;
use serde_json::{Value, json};

fn host() -> Host {
    Host {
        address: "10.0.0.1".to_owned(),
        pod_address: "10.244.0.2".to_owned(),
        now: "2026-01-01T00:00:00Z".parse().unwrap(),
    }
}

fn pod(spec: Value, behaviour: Option<&str>) -> Pod {
    let mut full =
        json!({"nodeName": "n", "restartPolicy": "Always", "containers": [{"name": "c", "image": "i:1"}]});
    full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let mut pod = crate::pod::tests::pod(json!({
        "metadata": {"name": "p", "namespace": "default", "uid": "u", "generation": 1}, "spec": full, "status": {"phase": "Pending"},
    }));
    if let Some(behaviour) = behaviour {
        pod.metadata.annotations =
            Some([("node.evenkeel.dev/behaviour".to_owned(), behaviour.to_owned())].into());
    }
    pod
}

/// Takes steps until the pod rests, is deleted, or restarts for ever. Returns the stages.
fn live(pod: &mut Pod) -> Vec<String> {
    let mut stages = Vec::new();
    for _ in 0..10 {
        match next(pod, &host()) {
            NextStep::Rest => return stages,
            NextStep::Write { upkeep: true, .. } => {
                stages.push("restarts".to_owned());
                return stages;
            }
            NextStep::Write { status, .. } => {
                assert_ne!(*pod.at("status"), status, "a write that changes nothing");
                pod.set("status", status);
                stages.push(format!("{:?}", stage(pod)));
            }
            NextStep::Remove { status, .. } => {
                stages.push(format!("gone {}", status.str("phase").unwrap_or_default()));
                return stages;
            }
        }
    }
    panic!("the pod does not settle: {stages:?}");
}

#[test]
fn a_pod_starts_and_becomes_ready() {
    let mut pod = pod(json!({}), None);
    assert_eq!(live(&mut pod), ["Starting(0)", "Running"]);
    let status = pod.at("status").to_value();
    assert_eq!(status["phase"], "Running");
    assert_eq!(status["podIP"], "10.244.0.2");
    assert_eq!(status["hostIP"], "10.0.0.1");
    let conditions: Vec<_> = status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (c["type"].as_str().unwrap(), c["status"].as_str().unwrap()))
        .collect();
    assert_eq!(
        conditions,
        [
            ("PodReadyToStartContainers", "True"),
            ("Initialized", "True"),
            ("Ready", "True"),
            ("ContainersReady", "True"),
            ("PodScheduled", "True")
        ]
    );
    assert_eq!(status.pointer("/containerStatuses/0/ready"), Some(&json!(true)));
}

#[test]
fn init_containers_run_one_after_the_other() {
    let inits = json!([{"name": "a", "image": "i"}, {"name": "b", "image": "i", "restartPolicy": "Always"}]);
    let mut pod = pod(json!({"initContainers": inits}), None);
    assert_eq!(live(&mut pod), ["Starting(0)", "Starting(1)", "Starting(2)", "Running"]);
    let status = pod.at("status").to_value();
    assert_eq!(status.pointer("/initContainerStatuses/0/state/terminated/reason"), Some(&json!("Completed")));
    assert!(status.pointer("/initContainerStatuses/1/state/running").is_some());
}

#[test]
fn a_pod_that_is_not_restarted_ends() {
    let mut job = pod(json!({"restartPolicy": "Never"}), None);
    assert_eq!(live(&mut job), ["Starting(0)", "Running", "Finished"]);
    assert_eq!(crate::pod::phase(&job), "Succeeded");
    let mut failing = pod(json!({"restartPolicy": "Never"}), Some("fail"));
    live(&mut failing);
    assert_eq!(crate::pod::phase(&failing), "Failed");
    let failed = failing.at("status").to_value();
    assert_eq!(failed.pointer("/containerStatuses/0/state/terminated/exitCode"), Some(&json!(1)));
}

#[test]
fn a_crash_loop_backs_off_and_does_not_hold_the_world_up() {
    let mut pod = pod(json!({}), Some("crash-loop"));
    assert_eq!(live(&mut pod), ["Starting(0)", "Running", "BackingOff(1)", "restarts"]);
    let status = pod.at("status").to_value();
    assert_eq!(status.pointer("/containerStatuses/0/state/waiting/reason"), Some(&json!("CrashLoopBackOff")));
    assert_eq!(status.pointer("/containerStatuses/0/lastState/terminated/exitCode"), Some(&json!(1)));
    assert_eq!(status["phase"], "Running");
}

#[test]
fn other_fates() {
    assert_eq!(live(&mut pod(json!({}), Some("never-start"))), ["Starting(0)"]);
    let mut unready = pod(json!({}), Some("never-ready"));
    assert_eq!(live(&mut unready), ["Starting(0)", "Running"]);
    assert!(!crate::pod::is_ready(&unready));
    let mut unpulled = pod(json!({}), Some("image-pull-error"));
    assert_eq!(live(&mut unpulled), ["Starting(0)", "Starting(0)"]);
}

#[test]
fn a_readiness_gate_holds_the_pod_back() {
    let mut gated = pod(json!({"readinessGates": [{"conditionType": "example.com/ok"}]}), None);
    live(&mut gated);
    assert!(!crate::pod::is_ready(&gated));
    gated.push("status/conditions", json!({"type": "example.com/ok", "status": "True"}));
    assert_eq!(live(&mut gated), ["Running"]);
    assert!(crate::pod::is_ready(&gated));
}

#[test]
fn a_pod_that_is_told_to_stop_goes() {
    let mut pod = pod(json!({}), None);
    live(&mut pod);
    pod.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(host().now));
    pod.metadata.deletion_grace_period_seconds = Some(30);
    assert_eq!(live(&mut pod), ["gone Succeeded"]);
}
