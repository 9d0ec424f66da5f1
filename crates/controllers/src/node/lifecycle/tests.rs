use super::*;
use crate::node::bounds::{Effort, PrintRoom};
use crate::node::rules::Rules;
use crate::node::script::{Site, Volumes, interpret};
use serde_json::{Value, json};

fn host() -> Host {
    Host { address: "10.0.0.1".to_owned(), pod_address: "10.244.0.2".to_owned() }
}

fn pod(spec: Value, annotations: &[(&str, &str)]) -> Pod {
    let mut full =
        json!({"nodeName": "n", "restartPolicy": "Always", "containers": [{"name": "c", "image": "i:1"}]});
    full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let annotations: serde_json::Map<_, _> =
        annotations.iter().map(|(word, value)| (format!("node.evenkeel.dev/{word}"), json!(value))).collect();
    crate::pod::tests::pod(json!({
        "metadata": {"name": "p", "namespace": "default", "uid": "u", "generation": 1, "annotations": annotations},
        "spec": full, "status": {"phase": "Pending"},
    }))
}

/// A pod on a node with a clock that follows the pod's deadlines.
struct World {
    pod: Pod,
    memory: PodMemory,
    missing: Missing,
    begin: Instant,
    passed: Duration,
    notes: Vec<String>,
    writes: usize,
    volumes: Volumes,
}

impl World {
    fn new(spec: Value, annotations: &[(&str, &str)]) -> Self {
        Self {
            pod: pod(spec, annotations),
            memory: PodMemory::default(),
            missing: Missing::default(),
            begin: Instant::now(),
            passed: Duration::ZERO,
            notes: Vec::new(),
            writes: 0,
            volumes: Volumes::default(),
        }
    }

    fn look(&mut self) -> Step {
        let time = clock::after(
            "2026-01-01T00:00:00Z".parse().unwrap(),
            i64::try_from(self.passed.as_secs()).unwrap(),
        );
        let rules = Rules::default();
        let now = Now { time, instant: self.begin + self.passed };
        let interpret = |container: &Tree, restarts: i32| {
            let (pod, volumes, started) = (&self.pod, &self.volumes, (now.instant, now.time));
            let (prints, effort) = (&PrintRoom::default(), &Effort::new());
            interpret(container, &Site { pod, node: 0, volumes, prints, effort, started, restarts })
        };
        let around = Surroundings {
            host: &host(),
            now,
            behaviour: &|container, image| rules.behaviours(&self.pod).of(container, image),
            interpret: &interpret,
            missing: &self.missing,
            refusal: None,
        };
        step(&self.pod, &around, &mut self.memory)
    }

    /// Takes one step.
    fn turn(&mut self) -> Step {
        let step = self.look();
        self.notes.extend(step.notes.iter().map(|note| format!("{} {}", note.reason, note.text)));
        if let Some(status) = &step.status {
            self.pod.set("status", status.clone());
            self.writes += 1;
        }
        step
    }

    /// Takes steps until only upkeep is left. Returns when the upkeep is due.
    fn settle(&mut self) -> Option<Duration> {
        for _ in 0..50 {
            let step = self.turn();
            if step.remove {
                return None;
            }
            match (step.status, step.wakes.work) {
                (Some(_), _) => {}
                (None, Some(after)) => self.passed += after,
                (None, None) => return step.wakes.upkeep,
            }
        }
        panic!("the pod does not settle: {:?}", self.pod);
    }

    fn restart(&mut self) -> Option<Duration> {
        let after = self.settle()?;
        self.passed += after;
        self.settle()
    }

    fn container(&self, list: &str) -> String {
        let status = &self.pod.list(list)[0];
        let (kind, state) = status.at("state").members().next().unwrap();
        let detail = state.str("reason").unwrap_or_default();
        format!("{kind} {detail} {}", status.i32("restartCount").unwrap())
    }

    fn main(&self) -> String {
        self.container("status/containerStatuses")
    }

    fn phase(&self) -> &str {
        crate::pod::phase(&self.pod)
    }
}

fn always() -> Value {
    json!({})
}

fn never() -> Value {
    json!({"restartPolicy": "Never"})
}

#[test]
fn a_pod_starts_and_becomes_ready_with_two_writes() {
    let mut world = World::new(always(), &[]);
    assert_eq!(world.settle(), None);
    assert_eq!((world.writes, world.phase(), world.main().as_str()), (2, "Running", "running  0"));
    assert_eq!(world.passed, START);
    let status = world.pod.at("status").to_value();
    assert_eq!((&status["podIP"], &status["hostIP"]), (&json!("10.244.0.2"), &json!("10.0.0.1")));
    let conditions: Vec<_> =
        status["conditions"].as_array().unwrap().iter().map(|it| it["status"].clone()).collect();
    assert_eq!(conditions, ["True"; 5]);
    let reasons: Vec<_> = world.notes.iter().filter_map(|note| note.split(' ').next()).collect();
    assert_eq!(reasons, ["Pulled", "Created", "Started"]);
}

#[test]
fn init_containers_run_one_after_the_other() {
    let inits = json!([{"name": "a", "image": "i"}, {"name": "b", "image": "i", "restartPolicy": "Always"}]);
    let mut world = World::new(json!({"initContainers": inits}), &[]);
    world.settle();
    assert_eq!((world.writes, world.phase()), (4, "Running"));
    let status = world.pod.at("status").to_value();
    assert_eq!(status.pointer("/initContainerStatuses/0/state/terminated/reason"), Some(&json!("Completed")));
    assert!(status.pointer("/initContainerStatuses/1/state/running").is_some());
}

#[test]
fn an_init_container_that_fails_ends_the_pod_or_is_run_again() {
    let inits = json!([{"name": "a", "image": "i", "command": ["/bin/false"]}]);
    let mut once = World::new(json!({"initContainers": inits, "restartPolicy": "Never"}), &[]);
    once.settle();
    assert_eq!((once.phase(), once.main().as_str()), ("Failed", "waiting PodInitializing 0"));
    let mut again = World::new(json!({"initContainers": inits}), &[]);
    again.settle();
    assert_eq!(again.container("status/initContainerStatuses"), "waiting CrashLoopBackOff 1");
    assert_eq!((again.phase(), again.main().as_str()), ("Pending", "waiting PodInitializing 0"));
    again.pod.metadata.annotations =
        Some([("node.evenkeel.dev/exit-code.a".to_owned(), "0".to_owned())].into());
    again.restart();
    assert_eq!((again.phase(), again.main().as_str()), ("Running", "running  0"));
}

#[test]
fn a_pod_that_is_not_restarted_ends() {
    let mut job = World::new(never(), &[]);
    job.settle();
    assert_eq!((job.phase(), job.main().as_str()), ("Succeeded", "terminated Completed 0"));
    let mut failing = World::new(never(), &[("exit-code", "3"), ("exit-reason", "OOMKilled")]);
    failing.settle();
    assert_eq!((failing.phase(), failing.main().as_str()), ("Failed", "terminated OOMKilled 0"));
    let code = failing.pod.i32("status/containerStatuses/0/state/terminated/exitCode");
    assert_eq!(code, Some(3));
}

#[test]
fn images_that_pause_run_until_they_are_stopped() {
    for (image, args, state) in [
        ("registry.k8s.io/pause:3.10", json!([]), "running  0"),
        ("registry.k8s.io/e2e-test-images/agnhost:2.59", json!([]), "running  0"),
        ("registry.k8s.io/e2e-test-images/agnhost:2.59", json!(["pause"]), "running  0"),
        (
            "registry.k8s.io/e2e-test-images/agnhost:2.59",
            json!(["crd-conversion-webhook"]),
            "terminated Completed 0",
        ),
    ] {
        let containers = json!([{"name": "c", "image": image, "args": args}]);
        let mut world = World::new(json!({"restartPolicy": "Never", "containers": containers}), &[]);
        world.settle();
        assert_eq!(world.main(), state, "{image} {args}");
    }
}

#[test]
fn the_restart_policy_decides_by_the_exit_code() {
    let mut on_failure = World::new(json!({"restartPolicy": "OnFailure"}), &[("exit-code", "1,1,0")]);
    on_failure.settle();
    assert_eq!((on_failure.phase(), on_failure.main().as_str()), ("Running", "waiting CrashLoopBackOff 1"));
    on_failure.restart();
    assert_eq!((on_failure.phase(), on_failure.main().as_str()), ("Succeeded", "terminated Completed 2"));
    let mut always = World::new(always(), &[("exit-code", "0")]);
    always.settle();
    assert_eq!(always.main(), "waiting CrashLoopBackOff 1");
}

#[test]
fn one_container_with_its_own_policy() {
    let rules = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]);
    let container = json!({"name": "c", "image": "i", "restartPolicy": "Never", "restartPolicyRules": rules});
    let spec = json!({"containers": [container]});
    let mut world = World::new(spec.clone(), &[("exit-code", "42,7")]);
    world.settle();
    assert_eq!((world.phase(), world.main().as_str()), ("Failed", "terminated Error 1"));
}

/// The action `RestartAllContainers` was accepted and restarted one container alone.
#[test]
fn a_rule_can_ask_for_a_restart_of_all_containers() {
    let rules = json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]);
    let script = "if [ -f /mnt/again ]; then sleep 10000; else touch /mnt/again; sleep 3; exit 42; fi";
    let mut world = World::new(
        json!({
            "restartPolicy": "Never",
            "initContainers": [
                {"name": "i", "image": "i"}, {"name": "s", "image": "i", "restartPolicy": "Always"}],
            "containers": [
                {"name": "c", "image": "i", "restartPolicy": "Never", "restartPolicyRules": rules,
                    "command": ["sh", "-c", script], "volumeMounts": [{"name": "d", "mountPath": "/mnt"}]},
                {"name": "o", "image": "i", "command": ["sleep", "10000"]}],
            "volumes": [{"name": "d", "emptyDir": {}}],
        }),
        &[],
    );
    let summary = |world: &World| {
        let restarting = crate::pod::condition(&world.pod, "AllContainersRestarting");
        let lists = ["status/initContainerStatuses", "status/containerStatuses"];
        let all = lists.iter().flat_map(|list| world.pod.list(list));
        let all = all.map(|it| {
            let (state, _) = it.at("state").members().next().unwrap();
            format!("{} {}{}", it.str("name").unwrap(), &state[..1], it.i32("restartCount").unwrap())
        });
        let all: Vec<_> = all.collect();
        format!("{} {}: {}", restarting.unwrap().str("status").unwrap(), world.phase(), all.join(", "))
    };
    let mut seen = Vec::new();
    loop {
        let step = world.turn();
        match (step.status, step.wakes.work) {
            (Some(_), _) => seen.push(summary(&world)),
            (None, Some(after)) => world.passed += after,
            (None, None) => break,
        }
    }
    assert_eq!(
        seen,
        [
            "False Pending: i w0, s w0, c w0, o w0",
            "False Pending: i t0, s w0, c w0, o w0",
            "False Pending: i t0, s r0, c w0, o w0",
            "False Running: i t0, s r0, c r0, o r0",
            "True Running: i t0, s r0, c t0, o r0",
            "False Running: i w1, s w1, c w1, o w1",
            "False Running: i t1, s w1, c w1, o w1",
            "False Running: i t1, s r1, c w1, o w1",
            "False Running: i t1, s r1, c r1, o r1",
        ]
    );
    assert!(crate::pod::is_ready(&world.pod));
    let last = world.pod.at("status/containerStatuses/1/lastState/terminated");
    assert_eq!((last.str("reason"), last.i32("exitCode")), (Some("RestartingAllContainers"), Some(KILLED)));
    let killed = world.notes.iter().filter(|note| *note == "Killing killing").count();
    assert_eq!(killed, 2, "the containers that ran: {:?}", world.notes);
}

#[test]
fn restarts_back_off_and_do_not_hold_the_world_up() {
    let mut world = World::new(always(), &[("behaviour", "crash-loop")]);
    assert_eq!(world.settle(), Some(Duration::from_secs(10)));
    assert_eq!((world.phase(), world.main().as_str()), ("Running", "waiting CrashLoopBackOff 1"));
    let delays: Vec<_> = (0..6).map(|_| world.restart().unwrap().as_secs()).collect();
    assert_eq!(delays, [20, 40, 80, 160, 300, 300]);
    assert_eq!(world.main(), "waiting CrashLoopBackOff 7");
    assert!(
        world.notes.iter().any(|note| note.starts_with("BackOff Back-off restarting failed container c"))
    );
}

/// A crash loop used to cost three writes every five minutes, forever.
#[test]
fn a_year_of_restarts_costs_little_and_is_counted() {
    let mut world = World::new(always(), &[("behaviour", "crash-loop")]);
    let year = Duration::from_secs(365 * 24 * 3600);
    while world.passed < year {
        world.restart().unwrap();
    }
    assert!(world.writes < 120, "{} writes", world.writes);
    let restarts = world.pod.i32("status/containerStatuses/0/restartCount").unwrap();
    assert!((90_000..200_000).contains(&restarts), "{restarts} restarts");
    // A change in the meantime takes effect at the end of the five minutes.
    world.pod.metadata.annotations =
        Some([("node.evenkeel.dev/exit-code".to_owned(), "run".to_owned())].into());
    assert!(world.settle().unwrap() <= BACK_OFF_MAX_FOR_TESTS);
    world.restart();
    assert!(world.main().starts_with("running"), "{}", world.main());
}

const BACK_OFF_MAX_FOR_TESTS: Duration = Duration::from_secs(300);

#[test]
fn a_long_run_begins_the_back_off_anew() {
    let mut world = World::new(always(), &[("exit-code", "1"), ("run-for", "15m")]);
    for _ in 0..4 {
        world.restart();
    }
    assert!(world.notes.iter().all(|note| !note.starts_with("BackOff")), "{:?}", world.notes);
}

/// The back-off of the old image counted for the new one.
#[test]
fn a_new_image_begins_the_back_off_anew() {
    let image = |world: &mut World, image: &str| {
        world.pod.set("spec/containers", json!([{"name": "c", "image": image}]));
    };
    let mut waits = World::new(always(), &[("behaviour", "crash-loop")]);
    for _ in 0..4 {
        waits.restart();
    }
    assert_eq!(waits.settle(), Some(Duration::from_secs(160)));
    image(&mut waits, "i:2");
    assert_eq!(waits.settle(), Some(Duration::from_secs(10)));
    let mut runs = World::new(always(), &[("exit-code", "1,1,1,run,1")]);
    for _ in 0..2 {
        runs.restart();
    }
    assert_eq!(runs.main(), "running  3");
    image(&mut runs, "i:2");
    assert_eq!(
        (runs.settle(), runs.main().as_str()),
        (Some(Duration::from_secs(10)), "waiting CrashLoopBackOff 4")
    );
}

#[test]
fn an_image_that_cannot_be_pulled() {
    let mut never = World::new(always(), &[("pull", "fail")]);
    assert_eq!(never.settle(), None, "nothing would change");
    assert_eq!((never.phase(), never.main().as_str()), ("Pending", "waiting ImagePullBackOff 0"));
    let mut twice = World::new(always(), &[("pull", "fail:2")]);
    assert_eq!(twice.settle(), Some(Duration::from_secs(10)));
    assert_eq!(twice.restart(), Some(Duration::from_secs(20)));
    twice.restart();
    assert_eq!(twice.main(), "running  0");
}

#[test]
fn what_is_missing_keeps_a_pod_waiting() {
    let mut world = World::new(always(), &[]);
    world
        .missing
        .volumes
        .push("MountVolume.SetUp failed for volume \"v\" : secret \"s\" not found".to_owned());
    assert_eq!(world.settle(), None);
    assert_eq!((world.phase(), world.main().as_str()), ("Pending", "waiting ContainerCreating 0"));
    world.settle();
    assert_eq!(world.notes.len(), 1, "one event: {:?}", world.notes);
    world.missing = Missing { environments: vec![("c".to_owned(), "why".to_owned())], ..Missing::default() };
    world.settle();
    assert_eq!(world.main(), "waiting CreateContainerConfigError 0");
    world.missing = Missing { pull_secrets: vec!["s".to_owned()], ..Missing::default() };
    world.settle();
    assert_eq!((world.phase(), world.main().as_str()), ("Running", "running  0"));
    assert!(world.notes.iter().any(|note| note.starts_with("FailedToRetrieveImagePullSecret")));
}

#[test]
fn readiness_follows_the_words() {
    let mut unready = World::new(always(), &[("behaviour", "never-ready")]);
    unready.settle();
    assert!(!crate::pod::is_ready(&unready.pod));
    let mut slow = World::new(always(), &[("start-after", "3s"), ("ready-after", "20s")]);
    slow.settle();
    assert!(crate::pod::is_ready(&slow.pod));
    assert_eq!(slow.passed.as_secs(), 23);
    slow.pod.metadata.annotations =
        Some([("node.evenkeel.dev/ready-after".to_owned(), "never".to_owned())].into());
    slow.settle();
    assert!(!crate::pod::is_ready(&slow.pod), "a word counts for a running container, too");
    let mut stuck = World::new(always(), &[("behaviour", "never-start")]);
    assert_eq!((stuck.settle(), stuck.main().as_str()), (None, "waiting ContainerCreating 0"));
}

#[test]
fn a_failing_liveness_probe_restarts_the_container() {
    let probe = json!({"periodSeconds": 2, "failureThreshold": 2});
    let spec = json!({"containers": [{"name": "c", "image": "i", "livenessProbe": probe}]});
    let mut world = World::new(spec, &[("fail-liveness", "4s")]);
    world.settle();
    assert_eq!(world.main(), "waiting CrashLoopBackOff 1");
    assert_eq!(world.pod.i32("status/containerStatuses/0/lastState/terminated/exitCode"), Some(KILLED));
    assert!(
        world.notes.iter().any(|note| note == "Killing Container c failed liveness probe, will be restarted")
    );
}

#[test]
fn a_deadline_ends_the_pod() {
    let mut world = World::new(json!({"activeDeadlineSeconds": 30}), &[]);
    let left = world.settle().unwrap();
    world.passed += left;
    world.settle();
    assert_eq!((world.phase(), world.pod.str("status/reason")), ("Failed", Some("DeadlineExceeded")));
    assert_eq!(world.main(), "terminated Error 0");
}

#[test]
fn sidecars_stop_with_the_last_container() {
    let inits = json!([{"name": "a", "image": "i", "restartPolicy": "Always"}]);
    let mut world = World::new(json!({"initContainers": inits, "restartPolicy": "Never"}), &[]);
    world.settle();
    assert_eq!((world.phase(), world.main().as_str()), ("Succeeded", "terminated Completed 0"));
    assert_eq!(world.container("status/initContainerStatuses"), "terminated Completed 0");
}

#[test]
fn an_ephemeral_container_is_started_once() {
    let mut world = World::new(always(), &[("exit-code.debug", "1")]);
    world.settle();
    world.pod.set("spec/ephemeralContainers", json!([{"name": "debug", "image": "i"}]));
    world.settle();
    assert_eq!(world.container("status/ephemeralContainerStatuses"), "terminated Error 0");
    assert!(crate::pod::is_ready(&world.pod));
}

#[test]
fn a_resize_is_reported_and_restarts_where_it_must() {
    let container = |cpu: &str, policy: &str| {
        json!([{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}},
            "resizePolicy": [{"resourceName": "cpu", "restartPolicy": policy}]}])
    };
    for (policy, restarts) in [("NotRequired", 0), ("RestartContainer", 1)] {
        let mut world = World::new(json!({"containers": container("1", policy)}), &[]);
        world.settle();
        world.pod.set("spec/containers", container("2", policy));
        world.settle();
        let status = world.pod.at("status/containerStatuses/0");
        assert_eq!(status.str("resources/requests/cpu"), Some("2"));
        assert_eq!(
            (status.str("allocatedResources/cpu"), status.i32("restartCount")),
            (Some("2"), Some(restarts))
        );
    }
}

#[test]
fn a_readiness_gate_holds_the_pod_back() {
    let mut gated = World::new(json!({"readinessGates": [{"conditionType": "example.com/ok"}]}), &[]);
    gated.settle();
    assert!(!crate::pod::is_ready(&gated.pod));
    gated.pod.push("status/conditions", json!({"type": "example.com/ok", "status": "True"}));
    gated.settle();
    assert!(crate::pod::is_ready(&gated.pod));
}

#[test]
fn a_pod_that_is_told_to_stop_goes_within_its_grace_period() {
    for (words, expected, code) in [
        (&[][..], Duration::from_millis(50), 0),
        (&[("stop-after", "4s")][..], Duration::from_secs(4), 0),
        (&[("stop-after", "never")][..], Duration::from_secs(30), KILLED),
    ] {
        let mut world = World::new(always(), words);
        world.settle();
        let before = world.passed;
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        world.pod.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
        world.pod.metadata.deletion_grace_period_seconds = Some(30);
        world.settle();
        assert_eq!(world.passed - before, expected, "{words:?}");
        assert_eq!(world.pod.i32("status/containerStatuses/0/state/terminated/exitCode"), Some(code));
        assert_eq!(world.phase(), if code == 0 { "Succeeded" } else { "Failed" });
    }
}
