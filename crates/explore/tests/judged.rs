//! Every oracle finds what it is there for, and every class of plans is survived by an operator that is right.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test, as it should")]

#[path = "bugs/ensemble.rs"]
#[allow(dead_code, reason = "the operators of the bugs use more of it")]
mod ensemble;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ensemble::{Ensemble, change, create, delete, prepare};
use evenkeel_cluster::{Cluster, Outside, OutsideError, User};
use evenkeel_explore::{Budget, Class, Oracle, Report, explore};
use evenkeel_runtime::{Action, Controller, Ctx, LeaderElection, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt as _;
use parking_lot::Mutex;
use serde_json::json;

fn child(ensemble: &Ensemble, name: &str) -> ConfigMap {
    let data = BTreeMap::from([("config".to_owned(), ensemble.spec.config.clone())]);
    let mut map = ConfigMap { data: Some(data), ..ConfigMap::default() };
    map.metadata.name = Some(name.to_owned());
    map.metadata.namespace = ensemble.namespace();
    map
}

/// The life that most of these operators have: create, change twice, delete.
async fn life(cluster: Cluster, controller: fn() -> Controller<Ensemble>) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run(controller);
    steps(&cluster).await
}

async fn steps(cluster: &Cluster) -> kube::Result<()> {
    create(cluster, 1).await?;
    change(cluster, json!({"config": "two"})).await?;
    change(cluster, json!({"config": "three"})).await?;
    delete(cluster).await
}

fn explored(name: &str, controller: fn() -> Controller<Ensemble>) -> Report {
    explore(name, move |cluster| life(cluster, controller)).budget(Budget::Full).run()
}

#[track_caller]
fn finds(oracle: Oracle, report: &Report) {
    let found = report.findings.first().unwrap_or_else(|| panic!("nothing was found: {report}"));
    assert_eq!(found.oracle, oracle, "{report}");
}

async fn right(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    ctx.apply(child(&ensemble, "zoo")).await?;
    let generation = ensemble.metadata.generation;
    ctx.status(&ensemble, json!({"phase": "Ready", "observedGeneration": generation})).await?;
    Ok(Action::await_change())
}

/// An operator that is right survives every plan of every class, two replicas included.
#[test]
fn an_operator_that_is_right_passes_everything() {
    let played = |cluster| life(cluster, || Controller::new("right", right).owns::<ConfigMap>());
    let report = explore("right", played).run();
    assert!(report.is_clean(), "{report}");
    for class in [
        Class::Crash,
        Class::LateRestart,
        Class::StaleView,
        Class::Away,
        Class::FailedRequest,
        Class::HeldWatch,
        Class::Relist,
        Class::Order,
        Class::Failover,
        Class::World,
    ] {
        assert!(report.played.get(&class).is_some_and(|played| *played > 0), "{class}: {report}");
    }
    let coverage = report.coverage;
    assert!(coverage.writes.0 > 0, "{report}");
    assert_eq!(coverage.writes.0, coverage.writes.1, "every write is crashed: {report}");
    assert_eq!(coverage.triggers.0, coverage.triggers.1, "every kind is held: {report}");
}

/// A leader election of the operator's own: after a crash nobody leads until the lease has expired.
#[test]
fn an_operator_with_an_election_passes() {
    let played = |cluster: Cluster| async move {
        prepare(&cluster).await?;
        cluster.run_manager("elected", |manager| {
            let election = LeaderElection::new("default", "elected");
            manager
                .controller(Controller::new("elected", right).owns::<ConfigMap>())
                .leader_election(election)
        });
        steps(&cluster).await
    };
    let report = explore("elected", played).run();
    assert!(report.is_clean(), "{report}");
}

/// An operator that notes each of its starts, whether it leads or not.
#[test]
fn a_write_of_a_replica_that_does_not_lead_is_found() {
    let played = |cluster: Cluster| async move {
        prepare(&cluster).await?;
        let starts = Arc::new(AtomicUsize::new(0));
        cluster.run_manager("eager", move |manager| {
            let maps = kube::Api::<ConfigMap>::namespaced(manager.unfenced_client().clone(), "default");
            let start = starts.fetch_add(1, Ordering::SeqCst).to_string();
            let eager = manager.controller(Controller::new("eager", right).owns::<ConfigMap>());
            eager.runnable_always("note", move |_| async move {
                let metadata = json!({"name": "starts"});
                let note = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"start": start}});
                let apply = kube::api::PatchParams::apply("eager").force();
                maps.patch("starts", &apply, &kube::api::Patch::Apply(note)).await.map(drop)
            })
        });
        create(&cluster, 1).await
    };
    let explored = explore("eager", played).budget(Budget::Full);
    let why = "it counts its starts";
    let report = explored.accept("idempotent", why).accept("same-end", why).run();
    finds(Oracle::Leads, &report);
    assert!(
        report.findings[0].what.contains("eager/2 does not hold the lease /kube-system/eager"),
        "{report}"
    );
}

/// Notes a generation that it remembers from its first look, after a crash a newer one.
async fn forgetful(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    ctx.apply(child(&ensemble, "zoo")).await?;
    let current = ensemble.metadata.generation;
    let noted = ctx.get::<ConfigMap>("zoo")?.and_then(|map| map.data.as_ref()?.get("config").cloned());
    // What the cache shows of the child may be the time before the apply.
    let observed = if noted.as_ref() == Some(&ensemble.spec.config) { current } else { Some(0) };
    ctx.status(&ensemble, json!({"observedGeneration": observed})).await?;
    Ok(Action::await_change())
}

#[test]
fn an_observed_generation_that_goes_back_is_found() {
    let report = explored("forgetful", || Controller::new("forgetful", forgetful).owns::<ConfigMap>());
    finds(Oracle::ObservedGeneration, &report);
}

/// Reads a Secret only if its own child exists already, which it does not in an undisturbed run.
async fn curious(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    let exists = ctx.get::<ConfigMap>("zoo")?.is_some();
    if exists && ensemble.status.is_none() {
        ctx.fetch::<Secret>("forbidden").await?;
    }
    ctx.apply(child(&ensemble, "zoo")).await?;
    ctx.status(&ensemble, json!({"phase": "Ready"})).await?;
    Ok(Action::await_change())
}

#[test]
fn a_missing_permission_is_found_where_only_a_crash_needs_it() {
    let played = |cluster: Cluster| async move {
        prepare(&cluster).await?;
        let rules = json!([
            {"apiGroups": ["example.com"], "resources": ["*"], "verbs": ["*"]},
            {"apiGroups": [""], "resources": ["configmaps", "events"], "verbs": ["*"]},
            {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["*"]},
        ]);
        let role = json!({"metadata": {"name": "curious"}, "rules": rules});
        cluster
            .apply::<k8s_openapi::api::rbac::v1::ClusterRole>(serde_json::from_value(role).unwrap())
            .await?;
        let binding = json!({
            "metadata": {"name": "curious"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "curious"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "curious"}],
        });
        let binding = serde_json::from_value(binding).unwrap();
        cluster.apply::<k8s_openapi::api::rbac::v1::ClusterRoleBinding>(binding).await?;
        let user = cluster.acting_as(User::new("curious", ["system:authenticated"]));
        user.run(|| Controller::new("curious", curious).owns::<ConfigMap>());
        create(&cluster, 1).await
    };
    finds(Oracle::Permissions, &explore("curious", played).budget(Budget::Full).run());
}

/// Panics if the child exists before the status does.
async fn fragile(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    let exists = ctx.get::<ConfigMap>("zoo")?.is_some();
    assert!(!exists || ensemble.status.is_some(), "the child exists already");
    ctx.apply(child(&ensemble, "zoo")).await?;
    ctx.status(&ensemble, json!({"phase": "Ready"})).await?;
    Ok(Action::await_change())
}

#[test]
fn a_panic_is_found() {
    finds(Oracle::Panic, &explored("fragile", || Controller::new("fragile", fragile).owns::<ConfigMap>()));
}

/// Writes the number of its starts.
async fn restless(ensemble: Arc<Ensemble>, ctx: Ctx<Arc<Mutex<Option<String>>>>) -> Result<Action> {
    // The memory of the process: another one after each start.
    let start = ctx.state().lock().get_or_insert_with(|| ctx.now().to_string()).clone();
    let mut map = child(&ensemble, "zoo");
    map.data = Some(BTreeMap::from([("start".into(), start)]));
    ctx.apply(map).await?;
    Ok(Action::await_change())
}

#[test]
fn a_restart_that_writes_is_found() {
    let played = |cluster: Cluster| async move {
        prepare(&cluster).await?;
        cluster.run(|| {
            let memory = Arc::new(Mutex::new(None));
            Controller::new("restless", restless).owns::<ConfigMap>().state(memory)
        });
        create(&cluster, 1).await?;
        // Time passes between the steps, so that another start is at another time.
        cluster.advance(std::time::Duration::from_secs(60)).await;
        change(&cluster, json!({"config": "two"})).await
    };
    finds(Oracle::Idempotent, &explore("restless", played).budget(Budget::Full).run());
}

/// Names a child by the time of its making, and makes one if it sees none.
async fn by_time(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    if !ctx.list::<ConfigMap>()?.iter().any(|map| map.name_any().starts_with("zoo-")) {
        ctx.create(child(&ensemble, &format!("zoo-{}", ctx.now().as_second()))).await?;
    }
    Ok(Action::await_change())
}

/// Names that differ by themselves are no finding, but two copies are.
#[test]
fn a_second_copy_of_a_child_is_found() {
    let played = |cluster: Cluster| async move {
        prepare(&cluster).await?;
        cluster.run(|| Controller::new("by-time", by_time).owns::<ConfigMap>());
        create(&cluster, 1).await?;
        change(&cluster, json!({"config": "two"})).await
    };
    let report = explore("by-time", played).budget(Budget::Full).run();
    finds(Oracle::SameEnd, &report);
    assert!(report.findings[0].what.contains("which it does not in the undisturbed run"), "{report}");
}

/// A cloud with buckets, as a test sees it.
#[derive(Clone)]
struct Cloud {
    door: Outside,
    buckets: Arc<Mutex<Vec<String>>>,
}

impl Cloud {
    fn new(cluster: &Cluster, operator: &str) -> Self {
        let cloud = Self { door: cluster.outside(operator, "cloud"), buckets: Arc::default() };
        let buckets = cloud.buckets.clone();
        cloud.door.shows(move || buckets.lock().clone().into());
        cloud
    }

    async fn create(&self, name: &str) -> Result<(), OutsideError> {
        self.door.call("create bucket", async { self.buckets.lock().push(name.to_owned()) }).await
    }

    async fn has(&self, name: &str) -> Result<bool, OutsideError> {
        self.door.ask("find bucket", async { self.buckets.lock().iter().any(|it| it == name) }).await
    }
}

async fn bucket(ensemble: Arc<Ensemble>, ctx: Ctx<(Cloud, bool)>) -> Result<Action> {
    let (cloud, is_right) = ctx.state();
    let is_done = ensemble.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Done"));
    let exists = if *is_right { cloud.has("zoo").await? } else { is_done };
    if !exists {
        cloud.create("zoo").await?;
    }
    ctx.status(&ensemble, json!({"phase": "Done"})).await?;
    Ok(Action::await_change())
}

fn buckets(is_right: bool) -> Report {
    let played = move |cluster: Cluster| async move {
        prepare(&cluster).await?;
        let cloud = Cloud::new(&cluster, "bucket");
        cluster.run(move || Controller::new("bucket", bucket).state((cloud.clone(), is_right)));
        create(&cluster, 1).await
    };
    explore("bucket", played).budget(Budget::Full).run()
}

#[test]
fn a_call_outside_that_is_made_twice_is_found() {
    let report = buckets(false);
    finds(Oracle::SameEnd, &report);
    assert!(report.findings[0].what.contains("states/cloud"), "{report}");
    assert!(report.to_string().contains("outside/cloud/create-bucket"), "{report}");
}

#[test]
fn an_operator_that_asks_outside_first_passes() {
    let report = buckets(true);
    assert!(report.is_clean(), "{report}");
}

/// A finding is shown with the least scenario: the steps after it are not played.
#[test]
fn a_scenario_is_broken_off_where_the_finding_shows() {
    let report = explored("fragile", || Controller::new("fragile-too", half).owns::<ConfigMap>());
    finds(Oracle::SameEnd, &report);
    assert_eq!(report.findings[0].plan.until, Some(2), "{report}");
    assert!(report.to_string().contains("The scenario up to rest 2 of 5 suffices."), "{report}");
    assert!(report.findings[0].token().ends_with("+until:2"), "{report}");
}

/// Makes no second child if the first is as it should be.
async fn half(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    let first = ctx.get::<ConfigMap>("zoo-0")?;
    if first.is_some_and(|map| map.data == child(&ensemble, "").data) {
        return Ok(Action::await_change());
    }
    ctx.apply(child(&ensemble, "zoo-0")).await?;
    ctx.apply(child(&ensemble, "zoo-1")).await?;
    Ok(Action::await_change())
}
