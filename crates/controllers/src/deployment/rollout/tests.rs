use super::*;
use serde_json::{Value, json};

fn now() -> Timestamp {
    "2026-01-01T00:10:00Z".parse().unwrap()
}

fn deployment(replicas: i32, image: &str, extra: Value) -> Deployment {
    let mut value = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "uid": "d", "generation": 1},
        "spec": {
            "replicas": replicas, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}},
        },
    });
    merge(&mut value, extra);
    crate::object::object(value)
}

/// Returns the Deployment after a change of its spec, with its previous status.
fn changed(before: &Deployment, mut after: Deployment) -> Deployment {
    after.set("status", before.at("status"));
    after
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            from.into_iter().for_each(|(key, value)| merge(into.entry(key).or_insert(Value::Null), value));
        }
        (into, from) => *into = from,
    }
}

/// A Deployment whose ReplicaSets follow as the test decides, in the worst order.
struct World {
    deployment: Deployment,
    sets: Vec<ReplicaSet>,
    created: i64,
}

impl World {
    fn new(deployment: Deployment) -> Self {
        Self { deployment, sets: Vec::new(), created: 0 }
    }

    fn step(&mut self) -> bool {
        let observed = Observed {
            deployment: Arc::new(self.deployment.clone()),
            sets: self.sets.iter().cloned().map(Arc::new).collect(),
        };
        let plan = plan(&observed, now());
        let quiet = plan.create.is_none()
            && plan.update.is_empty()
            && plan.delete.is_empty()
            && *self.deployment.at("status") == plan.status;
        if let Some(mut set) = plan.create {
            self.created += 1;
            set.metadata.uid = Some(format!("uid-{}", self.created));
            set.metadata.generation = Some(1);
            let at = Timestamp::from_second(1_767_225_600 + self.created).unwrap();
            set.metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at));
            self.sets.push(set);
        }
        for (_, after) in plan.update {
            let index = self.sets.iter().position(|set| set.metadata.uid == after.metadata.uid).unwrap();
            self.sets[index] = after;
        }
        for gone in plan.delete {
            self.sets.retain(|set| set.metadata.uid != gone.metadata.uid);
        }
        if let Some(revision) = plan.revision {
            self.deployment
                .metadata
                .annotations
                .get_or_insert_default()
                .insert(revision::REVISION.to_owned(), revision);
        }
        self.deployment.set("status", plan.status);
        !quiet
    }

    /// Sets the status of one ReplicaSet to its size. New pods are available if `ready` is set.
    fn sync(&mut self, index: usize, ready: bool) {
        let set = &mut self.sets[index];
        let wanted = set.i32("spec/replicas").unwrap();
        let before = set.i32("status/availableReplicas").unwrap_or(0);
        let available = if ready { wanted } else { before.min(wanted) };
        set.set("status/replicas", wanted);
        set.set("status/availableReplicas", available);
        set.set("status/readyReplicas", available);
        set.set("status/terminatingReplicas", 0);
        set.set("status/observedGeneration", 1);
    }

    fn settle(&mut self) {
        for _ in 0..100 {
            let mut moved = self.step();
            for index in 0..self.sets.len() {
                let before = self.sets[index].clone();
                self.sync(index, true);
                moved |= before != self.sets[index];
            }
            if !moved {
                return;
            }
        }
        panic!("the rollout does not end");
    }

    fn sizes(&self) -> Vec<i32> {
        self.sets.iter().map(|set| set.i32("spec/replicas").unwrap()).collect()
    }

    fn exist(&self) -> i32 {
        let size = |set: &ReplicaSet| set.i32("spec/replicas").unwrap();
        self.sets.iter().map(|set| size(set).max(set.i32("status/replicas").unwrap_or(0))).sum()
    }

    fn available(&self) -> i32 {
        let available = |set: &ReplicaSet| {
            set.i32("status/availableReplicas").unwrap_or(0).min(set.i32("spec/replicas").unwrap())
        };
        self.sets.iter().map(available).sum()
    }

    fn reasons(&self) -> Vec<(String, String)> {
        let text = |condition: &Tree, field: &str| condition.str(field).unwrap_or_default().to_owned();
        let conditions = self.deployment.list("status/conditions").iter();
        conditions.map(|condition| (text(condition, "type"), text(condition, "reason"))).collect()
    }
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect()
}

#[test]
fn a_new_deployment_becomes_one_replicaset_and_then_available() {
    let mut world = World::new(deployment(2, "i:1", json!({})));
    world.step();
    assert_eq!(world.sizes(), [2]);
    let name = world.sets[0].metadata.name.clone().unwrap();
    assert!(name.starts_with("web-"), "{name}");
    let annotations = world.sets[0].metadata.annotations.clone().unwrap();
    assert_eq!(annotations["deployment.kubernetes.io/max-replicas"], "3");
    assert_eq!(annotations[revision::REVISION], "1");
    world.settle();
    assert_eq!(
        world.reasons(),
        pairs(&[("Available", "MinimumReplicasAvailable"), ("Progressing", "NewReplicaSetAvailable")])
    );
    assert!(!world.step(), "a Deployment at rest writes nothing");
}

#[test]
fn a_rollout_keeps_its_fenceposts_whatever_lags() {
    for (surge, unavailable, replicas) in [(1, 0, 3), (0, 1, 3), (2, 1, 5), (3, 0, 2), (0, 2, 4)] {
        let strategy = json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}}});
        let mut world = World::new(deployment(replicas, "i:1", strategy.clone()));
        world.settle();
        world.deployment = changed(&world.deployment, deployment(replicas, "i:2", strategy));
        // Each bit of the number decides which of the two ReplicaSets lags behind.
        for order in 0_u32..64 {
            let mut run =
                World { deployment: world.deployment.clone(), sets: world.sets.clone(), created: 1 };
            for turn in 0..200 {
                let moved = run.step();
                assert!(
                    run.exist() <= replicas + surge,
                    "surge {surge} of {replicas}, order {order}: {:?}",
                    run.sets
                );
                assert!(
                    run.available() >= replicas - unavailable,
                    "unavailable {unavailable} of {replicas}, order {order}"
                );
                let bit = (order >> (turn % 6)) & 1;
                let index = usize::try_from(bit).unwrap().min(run.sets.len() - 1);
                if turn % 3 == 2 {
                    run.sync(index, true)
                } else {
                    run.sync(index, false)
                }
                if !moved && turn > 100 {
                    break;
                }
            }
            run.settle();
            assert_eq!(run.sizes(), [0, replicas]);
        }
    }
}

#[test]
fn a_rollback_reuses_the_old_replicaset_under_a_new_revision() {
    let mut world = World::new(deployment(1, "i:1", json!({})));
    world.settle();
    for image in ["i:2", "i:1"] {
        let annotations = world.deployment.metadata.annotations.clone();
        world.deployment = changed(&world.deployment, deployment(1, image, json!({})));
        world.deployment.metadata.annotations = annotations;
        world.settle();
    }
    assert_eq!(world.sizes(), [1, 0]);
    let annotations = world.sets[0].metadata.annotations.clone().unwrap();
    assert_eq!(annotations[revision::REVISION], "3");
    assert_eq!(annotations["deployment.kubernetes.io/revision-history"], "1");
    assert_eq!(world.deployment.metadata.annotations.unwrap()[revision::REVISION], "3");
}

#[test]
fn history_beyond_the_limit_is_deleted() {
    let mut world = World::new(deployment(1, "i:1", json!({"spec": {"revisionHistoryLimit": 1}})));
    for image in ["i:1", "i:2", "i:3"] {
        let next = deployment(1, image, json!({"spec": {"revisionHistoryLimit": 1}}));
        world.deployment = changed(&world.deployment, next);
        world.settle();
    }
    assert_eq!(world.sets.len(), 2);
}

/// Between two reconciles, a list showed both ReplicaSets of a Deployment without replicas and without a history limit.
#[test]
fn a_rollout_without_pods_is_over_at_once() {
    let none = json!({"spec": {"revisionHistoryLimit": 0}});
    let mut world = World::new(deployment(0, "i:1", none.clone()));
    world.settle();
    world.deployment = changed(&world.deployment, deployment(0, "i:2", none));
    world.step();
    assert_eq!(world.sets.len(), 1);
}

#[test]
fn recreate_waits_for_the_old_pods() {
    let recreate = json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}}});
    let mut world = World::new(deployment(2, "i:1", recreate.clone()));
    world.settle();
    world.deployment = changed(&world.deployment, deployment(2, "i:2", recreate));
    world.step();
    assert_eq!(world.sizes(), [0], "the old ones are told to go, and no new one is made yet");
    world.step();
    assert_eq!(world.sizes(), [0]);
    world.settle();
    assert_eq!(world.sizes(), [0, 2]);
}

#[test]
fn a_paused_deployment_scales_but_does_not_roll() {
    let mut world = World::new(deployment(2, "i:1", json!({})));
    world.settle();
    world.deployment = changed(&world.deployment, deployment(4, "i:2", json!({"spec": {"paused": true}})));
    world.settle();
    assert_eq!(world.sizes(), [4]);
    assert!(world.reasons().contains(&("Progressing".to_owned(), "DeploymentPaused".to_owned())));
}

#[test]
fn scaling_in_a_rollout_is_proportional() {
    let strategy = json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}}});
    let mut world = World::new(deployment(10, "i:1", strategy.clone()));
    world.settle();
    world.deployment = changed(&world.deployment, deployment(10, "i:2", strategy.clone()));
    for _ in 0..6 {
        world.step();
        (0..world.sets.len()).for_each(|index| world.sync(index, false));
    }
    assert_eq!(world.sizes(), [8, 5]);
    world.deployment = changed(&world.deployment, deployment(15, "i:2", strategy));
    world.step();
    assert_eq!(world.sizes(), [11, 7]);
}

#[test]
fn a_stuck_rollout_times_out() {
    let mut world = World::new(deployment(1, "i:1", json!({})));
    world.step();
    world.sync(0, false);
    world.step();
    let observed = Observed {
        deployment: Arc::new(world.deployment.clone()),
        sets: world.sets.iter().cloned().map(Arc::new).collect(),
    };
    assert_eq!(plan(&observed, now()).look_again, Some(Duration::from_secs(601)));
    let late = plan(&observed, now() + jiff::SignedDuration::from_secs(601));
    let progressing = late.status.condition(PROGRESSING).unwrap();
    assert_eq!(progressing.str("reason"), Some("ProgressDeadlineExceeded"));
    assert!(progressing.str("message").unwrap().ends_with("has timed out progressing."));
    assert_eq!(late.look_again, None);
}
