use super::*;
use serde_json::{Value, json};

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

/// A Job whose steps take effect at once.
struct World {
    job: Job,
    pods: Vec<Pod>,
    made: usize,
}

impl World {
    fn new(spec: Value) -> Self {
        let mut full = json!({"template": {"spec": {"containers": [], "restartPolicy": "Never"}}, "completions": 1, "parallelism": 1, "backoffLimit": 6});
        full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let job = crate::object::object(json!({"metadata": {"name": "j", "uid": "j"}, "spec": full}));
        Self { job, pods: Vec::new(), made: 0 }
    }

    fn run(&mut self) -> Plan {
        for _ in 0..20 {
            let pods: Vec<_> = self.pods.iter().cloned().map(Arc::new).collect();
            let plan = plan(&self.job, &pods, now());
            let quiet = *self.job.at("status") == plan.status
                && plan.release.is_empty()
                && plan.delete.is_empty()
                && plan.create == 0;
            self.job.set("status", &plan.status);
            for pod in &plan.release {
                let pod = self.pods.iter_mut().find(|other| other.metadata.uid == pod.metadata.uid).unwrap();
                pod.metadata.finalizers = None;
            }
            self.pods.retain(|pod| pod.metadata.deletion_timestamp.is_none() || is_tracked(pod));
            for pod in &plan.delete {
                let pod = self.pods.iter_mut().find(|other| other.metadata.uid == pod.metadata.uid).unwrap();
                if !plan.counts_deleted {
                    pod.metadata.finalizers = None;
                }
                pod.metadata.deletion_timestamp =
                    Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
            }
            for number in 0..plan.create {
                self.made += 1;
                let name = format!("p{}", self.made);
                let mut pod = crate::object::object(
                    json!({"metadata": {"name": name, "uid": name, "finalizers": [TRACKING]}}),
                );
                if let Some((index, failures)) = plan.indexes.get(number) {
                    indexes::give(&mut pod, "j", *index);
                    failures.iter().for_each(|failures| failures.give(&mut pod));
                }
                self.pods.push(pod);
            }
            if quiet {
                return plan;
            }
        }
        panic!("the Job does not settle: {:?}", self.job);
    }

    fn end(&mut self, phase: &str) {
        let pod = self.pods.iter_mut().find(|pod| pod::is_active(pod)).unwrap();
        pod.set("status/phase", phase);
    }

    fn status(&self) -> Value {
        self.job.at("status").to_value()
    }

    fn conditions(&self) -> Vec<(String, String)> {
        let text = |condition: &Tree, field: &str| condition.str(field).unwrap().to_owned();
        let conditions = self.job.list("status/conditions").iter();
        conditions.map(|condition| (text(condition, "type"), text(condition, "reason"))).collect()
    }
}

#[test]
fn a_job_ends_when_its_pod_has() {
    let mut world = World::new(json!({}));
    world.run();
    assert_eq!(
        world.status(),
        json!({"active": 1, "ready": 0, "startTime": "2026-01-01T01:00:00Z", "terminating": 0, "uncountedTerminatedPods": {}})
    );
    world.end("Succeeded");
    world.run();
    let status = world.status();
    assert_eq!(
        (&status["succeeded"], &status["uncountedTerminatedPods"], &status["active"]),
        (&json!(1), &json!({}), &Value::Null)
    );
    let kinds: Vec<_> = world.conditions().into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["SuccessCriteriaMet", "Complete"]);
    assert!(world.pods.iter().all(|pod| !is_tracked(pod)));
}

#[test]
fn a_job_fails_at_its_backoff_limit() {
    let mut world = World::new(json!({"backoffLimit": 0}));
    world.run();
    world.end("Failed");
    world.run();
    assert_eq!(world.status()["failed"], json!(1));
    assert_eq!(
        world.conditions(),
        [
            ("FailureTarget".to_owned(), "BackoffLimitExceeded".to_owned()),
            ("Failed".to_owned(), "BackoffLimitExceeded".to_owned())
        ]
    );
}

#[test]
fn more_completions_than_parallelism_are_made_up_one_by_one() {
    let mut world = World::new(json!({"completions": 3, "parallelism": 2}));
    world.run();
    assert_eq!(world.made, 2);
    for _ in 0..3 {
        world.end("Succeeded");
        world.run();
    }
    assert_eq!((world.made, world.status()["succeeded"].clone()), (3, json!(3)));
}

#[test]
fn indexes_are_filled() {
    let mut world = World::new(json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3}));
    world.run();
    assert_eq!(world.pods.iter().filter_map(indexes::of).collect::<Vec<_>>(), [0, 1, 2]);
    world.end("Succeeded");
    world.run();
    assert_eq!(world.status()["completedIndexes"], "0");
    world.end("Failed");
    world.run();
    assert_eq!(
        world.pods.iter().filter(|pod| pod::is_active(pod)).filter_map(indexes::of).collect::<Vec<_>>(),
        [2, 1]
    );
}

/// Pods that are deleted at once used to count as ready, and the API server refused the status for ever.
#[test]
fn no_more_pods_are_ready_than_active() {
    let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    for change in [json!({"suspend": true}), json!({"suspend": false, "parallelism": 1})] {
        let mut world = World::new(json!({"completions": 4, "parallelism": 2}));
        world.run();
        world.pods.iter_mut().for_each(|pod| pod.set("status", ready.clone()));
        for (field, value) in change.as_object().unwrap() {
            world.job.set(&format!("spec/{field}"), value.clone());
        }
        let pods: Vec<_> = world.pods.iter().cloned().map(Arc::new).collect();
        let status = plan(&world.job, &pods, now()).status;
        let number = |field: &str| status.i32(field).unwrap_or(0);
        assert!(number("ready") <= number("active"), "{status:?}");
        assert_eq!(number("active") + number("terminating"), 2, "{status:?}");
    }
}

/// A pod whose create was answered with an error, and one that a smaller `parallelism` leaves over, counted as failed.
#[test]
fn surplus_pods_and_those_of_a_suspended_job_do_not_count_as_failed() {
    for change in [json!({"suspend": true}), json!({"suspend": false, "parallelism": 1})] {
        let mut world = World::new(json!({"completions": 4, "parallelism": 2}));
        world.run();
        for (field, value) in change.as_object().unwrap() {
            world.job.set(&format!("spec/{field}"), value.clone());
        }
        world.run();
        let status = world.status();
        assert_eq!(
            (&status["failed"], &status["uncountedTerminatedPods"]),
            (&Value::Null, &json!({})),
            "{status}"
        );
    }
}

#[test]
fn a_deadline_and_a_suspension_take_the_pods_away() {
    let mut late = World::new(json!({"activeDeadlineSeconds": 60}));
    late.run();
    late.job.set("status/startTime", time(clock::after(now(), -61)));
    late.run();
    assert_eq!(late.conditions()[1], ("Failed".to_owned(), "DeadlineExceeded".to_owned()));
    assert_eq!((late.pods.len(), late.status()["failed"].clone()), (0, json!(1)));
    let mut suspended = World::new(json!({"suspend": true}));
    suspended.run();
    assert_eq!(
        (suspended.made, suspended.conditions()),
        (0, vec![("Suspended".to_owned(), "JobSuspended".to_owned())])
    );
    suspended.job.set("spec/suspend", false);
    suspended.run();
    assert_eq!(suspended.made, 1);
}

impl World {
    /// Terminates the active pod of an index with an exit code.
    fn exit(&mut self, index: i32, code: i32) {
        let mut pods = self.pods.iter_mut();
        let pod = pods.find(|pod| pod::is_active(pod) && indexes::of(pod).unwrap_or(0) == index).unwrap();
        pod.set("status/phase", if code == 0 { "Succeeded" } else { "Failed" });
        pod.set(
            "status/containerStatuses",
            json!([{"name": "c", "state": {"terminated": {"exitCode": code}}}]),
        );
        self.run();
    }

    fn last(&self) -> (String, String, String) {
        let last = self.job.list("status/conditions").last().unwrap();
        let text = |field: &str| last.str(field).unwrap().to_owned();
        (text("type"), text("reason"), text("message"))
    }
}

fn indexed(completions: i32, more: Value) -> World {
    let mut spec =
        json!({"completionMode": "Indexed", "completions": completions, "parallelism": completions});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut world = World::new(spec);
    world.run();
    world
}

#[test]
fn the_failure_policy_decides_what_a_failure_means() {
    let rules = json!([
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"containerName": "c", "operator": "In", "values": [42]}},
    ]);
    let spec =
        json!({"backoffLimit": 0, "podReplacementPolicy": "Failed", "podFailurePolicy": {"rules": rules}});
    let mut world = World::new(spec);
    world.run();
    world.pods[0].set("status/conditions", json!([{"type": "DisruptionTarget", "status": "True"}]));
    world.exit(0, 137);
    assert_eq!((world.made, world.job.i32("status/failed")), (2, None), "an ignored failure does not count");
    world.exit(0, 42);
    let message = "Container c for pod /p2 failed with exit code 42 matching FailJob rule at index 1";
    assert_eq!(world.last(), ("Failed".to_owned(), "PodFailurePolicy".to_owned(), message.to_owned()));
    assert_eq!(world.job.i32("status/failed"), Some(1));
}

#[test]
fn failures_are_counted_by_index() {
    let mut world = indexed(2, json!({"backoffLimit": i32::MAX, "backoffLimitPerIndex": 1}));
    world.exit(0, 1);
    let again = world.pods.iter().find(|pod| pod::is_active(pod) && indexes::of(pod) == Some(0)).unwrap();
    assert_eq!(IndexFailures::before(again).counted, 1);
    world.exit(0, 1);
    assert_eq!((world.made, world.job.str("status/failedIndexes")), (3, Some("0")), "the index has failed");
    world.exit(1, 0);
    assert_eq!(world.last().1, "FailedIndexes");
    let status = world.status();
    assert_eq!(
        (&status["failed"], &status["succeeded"], &status["completedIndexes"]),
        (&json!(2), &json!(1), &json!("1"))
    );
}

#[test]
fn a_rule_fails_an_index_at_once_and_too_many_fail_the_job() {
    let rules = json!([{"action": "FailIndex", "onExitCodes": {"operator": "NotIn", "values": [0]}}]);
    let spec = json!({"backoffLimitPerIndex": 9, "maxFailedIndexes": 1, "podFailurePolicy": {"rules": rules}, "backoffLimit": i32::MAX});
    let mut world = indexed(4, spec);
    world.exit(0, 1);
    assert_eq!((world.made, world.job.str("status/failedIndexes")), (4, Some("0")));
    world.exit(2, 1);
    assert_eq!((world.last().1.as_str(), world.last().0.as_str()), ("MaxFailedIndexesExceeded", "Failed"));
}

#[test]
fn the_success_policy_ends_the_job_early() {
    for (rule, ends) in [
        (json!({"succeededCount": 2}), true),
        (json!({"succeededIndexes": "0,3"}), true),
        (json!({"succeededIndexes": "0-3"}), false),
        (json!({"succeededIndexes": "1-3", "succeededCount": 2}), false),
    ] {
        let mut world = indexed(4, json!({"successPolicy": {"rules": [rule]}}));
        world.exit(0, 0);
        world.exit(3, 0);
        let met = world.conditions().contains(&("SuccessCriteriaMet".to_owned(), "SuccessPolicy".to_owned()));
        assert_eq!(met, ends, "{rule}");
    }
}

#[test]
fn with_the_policy_failed_a_pod_is_replaced_when_it_has_ended() {
    for (policy, made) in [("Failed", 1), ("TerminatingOrFailed", 2)] {
        let mut world = World::new(json!({"podReplacementPolicy": policy}));
        world.run();
        world.pods[0].metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
        world.run();
        assert_eq!(world.made, made, "{policy}");
    }
}
