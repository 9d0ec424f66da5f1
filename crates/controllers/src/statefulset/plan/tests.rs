use super::*;
use serde_json::json;

fn now() -> Timestamp {
    "2026-01-01T00:10:00Z".parse().unwrap()
}

/// A StatefulSet whose steps take effect at once.
struct World {
    set: StatefulSet,
    pods: BTreeMap<i32, Pod>,
    revisions: Vec<Revision>,
}

impl World {
    fn new(spec: serde_json::Value) -> Self {
        let mut full = json!({
            "replicas": 3, "serviceName": "dbs", "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        });
        full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let set = crate::object::object(
            json!({"metadata": {"name": "db", "namespace": "default", "uid": "s", "generation": 1}, "spec": full}),
        );
        let template = set.at("spec/template").clone();
        Self { set, pods: BTreeMap::new(), revisions: vec![Revision { name: "db-1".to_owned(), template }] }
    }

    fn plan(&self) -> Plan {
        let current = self.set.str("status/currentRevision");
        let update = self.revisions.last().unwrap().clone();
        let current = self
            .revisions
            .iter()
            .find(|revision| Some(revision.name.as_str()) == current)
            .unwrap_or(&update)
            .clone();
        let pods = self.pods.values().cloned().map(Arc::new).collect();
        plan(&Observed { set: Arc::new(self.set.clone()), pods, current, update }, now())
    }

    /// Does the next steps and returns them as text. Deletions take effect at once.
    fn step(&mut self) -> Vec<String> {
        let plan = self.plan();
        self.set.set("status", plan.status);
        let mut done = Vec::new();
        for step in plan.steps {
            match step {
                Step::Claims(_) => {}
                Step::Create(pod) => {
                    let ordinal = identity::ordinal("db", &pod).unwrap();
                    done.push(format!("+{ordinal}@{}", revision_of(&pod).unwrap()));
                    self.pods.insert(ordinal, *pod);
                }
                Step::Delete(pod) => {
                    let ordinal = identity::ordinal("db", &pod).unwrap();
                    done.push(format!("-{ordinal}"));
                    self.pods.remove(&ordinal);
                }
            }
        }
        done
    }

    fn ready(&mut self) {
        for pod in self.pods.values_mut() {
            pod.set("status", json!({
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            }));
        }
    }

    fn run(&mut self) -> String {
        let (mut done, mut quiet) = (Vec::new(), 0);
        while quiet < 2 {
            let step = self.step();
            quiet = if step.is_empty() { quiet + 1 } else { 0 };
            done.extend(step);
            self.ready();
            assert!(done.len() < 50, "the set does not settle: {done:?}");
        }
        done.join(" ")
    }

    fn update_to(&mut self, name: &str) {
        self.set.set("spec/template/spec/containers/0/image", name);
        let template = self.set.at("spec/template").clone();
        self.revisions.push(Revision { name: name.to_owned(), template });
    }
}

#[test]
fn pods_are_made_in_order_each_after_the_one_before_is_ready() {
    let mut world = World::new(json!({}));
    assert_eq!(world.step(), ["+0@db-1"]);
    assert_eq!(world.step(), [""; 0], "it waits for the first to be ready");
    world.ready();
    assert_eq!(world.step(), ["+1@db-1"]);
    assert_eq!(world.run(), "+2@db-1");
    let status = world.set.at("status");
    for count in ["replicas", "readyReplicas", "availableReplicas"] {
        assert_eq!(status.i32(count), Some(3), "{count}");
    }
}

#[test]
fn scaling_down_takes_the_highest_first() {
    let mut world = World::new(json!({}));
    world.run();
    world.set.set("spec/replicas", 1);
    assert_eq!(world.step(), ["-2"]);
    assert_eq!(world.step(), ["-1"]);
    assert_eq!(world.run(), "");
}

#[test]
fn parallel_does_not_wait() {
    let mut world =
        World::new(json!({"podManagementPolicy": "Parallel", "replicas": 2, "ordinals": {"start": 5}}));
    assert_eq!(world.step(), ["+5@db-1", "+6@db-1"]);
    world.set.set("spec/replicas", 0);
    assert_eq!(world.step(), ["-6", "-5"]);
}

#[test]
fn an_update_goes_from_the_highest_down_one_at_a_time() {
    let mut world = World::new(json!({}));
    world.run();
    world.update_to("db-2");
    assert_eq!(world.run(), "-2 +2@db-2 -1 +1@db-2 -0 +0@db-2");
    let status = world.set.at("status");
    assert_eq!(status.str("currentRevision"), Some("db-2"));
    assert_eq!((status.i32("currentReplicas"), status.i32("updatedReplicas")), (Some(3), Some(3)));
}

#[test]
fn a_partition_holds_the_lower_ordinals_back() {
    let mut world =
        World::new(json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}));
    world.run();
    world.update_to("db-2");
    assert_eq!(world.run(), "-2 +2@db-2");
    let status = world.set.at("status");
    assert_eq!((status.i32("currentReplicas"), status.i32("updatedReplicas")), (Some(2), Some(1)));
    world.pods.remove(&0);
    assert_eq!(world.run(), "+0@db-1", "what is below the partition comes back at the old revision");
}

#[test]
fn on_delete_updates_only_what_is_deleted() {
    let mut world = World::new(json!({"updateStrategy": {"type": "OnDelete"}}));
    world.run();
    world.update_to("db-2");
    assert_eq!(world.run(), "");
    world.pods.remove(&1);
    assert_eq!(world.run(), "+1@db-2");
}

#[test]
fn a_broken_highest_pod_can_be_scaled_away() {
    let mut world = World::new(json!({}));
    world.run();
    world.pods.get_mut(&2).unwrap().set("status", json!({}));
    world.set.set("spec/replicas", 2);
    assert_eq!(world.step(), ["-2"]);
}
