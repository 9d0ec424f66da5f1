//! Upgrades a cluster from one release of an operator to the next, and rolls it back, with a crash at every write.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{Resource as _, ResourceExt as _};
use serde_json::{Value, json};

use super::crash_matrix::writes_since;
use super::round_trips::{Change, differences};
use super::run::in_a_cluster;
use crate::cluster::Cluster;
use crate::settings;
use crate::transport::CrashPoint;

/// A release of an operator: its CRDs, and how it is started.
#[must_use]
pub struct Release {
    operator: String,
    definitions: Vec<CustomResourceDefinition>,
    start: Box<dyn Fn(&Cluster)>,
}

impl Release {
    /// Makes a release of the operator with this name. `start` runs the operator in a cluster, under that name.
    pub fn new(operator: impl Into<String>, start: impl Fn(&Cluster) + 'static) -> Self {
        Self { operator: operator.into(), definitions: Vec::new(), start: Box::new(start) }
    }

    /// Adds a custom resource definition of this release.
    pub fn crd(mut self, crd: CustomResourceDefinition) -> Self {
        self.definitions.push(crd);
        self
    }

    /// Applies the CRDs, and runs this release in place of the one that runs.
    async fn take_over(&self, cluster: &Cluster, stage: UpgradeStage) {
        for definition in &self.definitions {
            if let Err(error) = cluster.apply(definition.clone()).await {
                panic!("{stage}: the definition {} cannot be applied: {error}", definition.name_any());
            }
        }
        (self.start)(cluster);
    }
}

impl Debug for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Release").field("operator", &self.operator).finish_non_exhaustive()
    }
}

/// The stage of an upgrade in which the scenario is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UpgradeStage {
    /// The old release runs. The scenario creates its objects.
    Old,
    /// The new release has taken over.
    New,
    /// The old release has taken over again.
    RolledBack,
}

impl fmt::Display for UpgradeStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Old => "the old release",
            Self::New => "the upgrade",
            Self::RolledBack => "the rollback",
        })
    }
}

/// Upgrades a cluster from an old release of an operator to a new one, rolls it back, and checks that no field is lost
/// on the way. Repeats this with a crash before, during and after every write that the operator makes after each change
/// of the release. Returns the number of runs with a crash.
///
/// The scenario is played in each [`UpgradeStage`]: with the old release, where it creates the objects; after the
/// upgrade, where it may use new features; and after the rollback. Its result must be equal after every crash.
///
/// After the upgrade and after the rollback, all objects of the old release's CRDs are read in the version that the old
/// release stores. Their fields, labels and annotations must be unchanged; new fields may be added. The status is not
/// compared, because it belongs to the operator.
///
/// ```
/// # use std::sync::Arc;
/// use evenkeel_cluster::testing::{self, Release, UpgradeStage};
/// use evenkeel_runtime::{Action, Ctx, Controller, Result};
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
///
/// async fn reconcile(map: Arc<ConfigMap>, ctx: Ctx<&'static str>) -> Result<Action> {
///     let mut secret = Secret::default();
///     secret.metadata.name = map.metadata.name.clone();
///     secret.string_data = Some([("release".to_owned(), ctx.state().to_string())].into());
///     ctx.apply(secret).await?;
///     Ok(Action::await_change())
/// }
///
/// let release = |number: &'static str| {
///     let controller = move || Controller::new("copy", reconcile).owns::<Secret>().state(number);
///     Release::new("copy", move |cluster| cluster.run(controller))
/// };
/// let runs = testing::upgrade(&release("1"), &release("2"), |cluster, stage| async move {
///     if stage == UpgradeStage::Old {
///         let mut map = ConfigMap::default();
///         map.metadata.name = Some("a".into());
///         cluster.apply(map).await.expect("the ConfigMap is valid");
///     }
///     cluster.settled().await;
///     let secret = cluster.get::<Secret>("a").await.expect("the operator has made it");
///     secret.data.and_then(|data| data.get("release").cloned())
/// });
/// assert!(runs.is_none_or(|runs| runs >= 6), "each release writes the Secret, with three crashes for each write");
/// ```
///
/// On a remote cluster, whose CRDs other tests use, nothing is done, and `None` is returned.
///
/// # Panics
/// Panics if a CRD cannot be applied, if a field is lost, or if a run with a crash ends differently. Shows what
/// happened in that run.
pub fn upgrade<F, T>(
    old: &Release,
    new: &Release,
    scenario: impl Fn(Cluster, UpgradeStage) -> F,
) -> Option<usize>
where
    F: Future<Output = T>,
    T: PartialEq + Debug,
{
    if settings::kubeconfig().is_some() {
        println!("remote: skipped an upgrade: other tests use the definitions");
        return None;
    }
    let play = Play { old, new, scenario: &scenario };
    let expected = in_a_cluster(|cluster| play.run(cluster, None));
    let mut runs = 0;
    for (stage, writes) in &expected.writes {
        for &number in writes {
            for point in
                [CrashPoint::Before(number), CrashPoint::AnswerLost(number), CrashPoint::After(number)]
            {
                runs += 1;
                in_a_cluster(|cluster| {
                    let (played, expected) = (play.run(cluster, Some((*stage, point))), &expected);
                    async move {
                        let found = played.await;
                        assert_eq!(found.ends, expected.ends, "{stage}: a crash {point:?} changes the end");
                    }
                });
            }
        }
    }
    Some(runs)
}

/// An upgrade with its scenario.
struct Play<'a, S> {
    old: &'a Release,
    new: &'a Release,
    scenario: &'a S,
}

/// The results of a run.
#[derive(Debug)]
struct Seen<T> {
    /// At the end of each stage: what the scenario returned, and the objects.
    ends: Vec<(T, Objects)>,
    /// Which of the operator's write requests after a change of the release changed something, counted from one.
    writes: Vec<(UpgradeStage, Vec<usize>)>,
}

/// Objects by kind, namespace and name.
type Objects = BTreeMap<String, Value>;

impl<F, T, S> Play<'_, S>
where
    F: Future<Output = T>,
    S: Fn(Cluster, UpgradeStage) -> F,
{
    async fn run(&self, cluster: Cluster, crash: Option<(UpgradeStage, CrashPoint)>) -> Seen<T> {
        let mut seen = Seen { ends: Vec::new(), writes: Vec::new() };
        for stage in [UpgradeStage::Old, UpgradeStage::New, UpgradeStage::RolledBack] {
            let release = if stage == UpgradeStage::New { self.new } else { self.old };
            let asked = cluster.requests().len();
            release.take_over(&cluster, stage).await;
            let crash = crash.filter(|(at, _)| *at == stage).map(|(_, point)| point);
            crash.into_iter().for_each(|point| cluster.crash(&release.operator, point));
            if let Some((_, before)) = seen.ends.last() {
                cluster.settled().await;
                assert_kept(before, &self.objects(&cluster).await, stage);
            }
            let end = (self.scenario)(cluster.clone(), stage).await;
            cluster.settled().await;
            if let Some(point) = crash {
                let crashes = cluster.crashes(&release.operator);
                // In real time the number of writes varies, so a run may end before its crash point.
                if crashes > 0 || evenkeel_env::time_is_paused() {
                    assert_eq!(crashes, 1, "{stage}: {} was to crash once, {point:?}", release.operator);
                }
            }
            seen.ends.push((end, self.objects(&cluster).await));
            if stage != UpgradeStage::Old {
                seen.writes.push((stage, writes_since(&cluster, &release.operator, asked)));
            }
        }
        seen
    }

    /// Returns all objects of the old release's CRDs, in the versions that it stores.
    async fn objects(&self, cluster: &Cluster) -> Objects {
        let mut all = Objects::new();
        for definition in &self.old.definitions {
            let resource = stored_resource(definition);
            let api: Api<DynamicObject> = Api::all_with(cluster.client(), &resource);
            let listed = api.list(&ListParams::default()).await;
            let listed = listed.unwrap_or_else(|error| {
                panic!("{} cannot be listed in version {}: {error}", resource.plural, resource.version)
            });
            for object in listed {
                let place = [object.namespace().unwrap_or_default(), object.name_any()].join("/");
                all.insert(format!("{} {place}", resource.kind), essence(object));
            }
        }
        all
    }
}

/// Returns the resource in the version that a CRD stores.
fn stored_resource(definition: &CustomResourceDefinition) -> ApiResource {
    let spec = &definition.spec;
    let stored = spec.versions.iter().find(|version| version.storage);
    let version = stored.map_or("", |version| version.name.as_str());
    ApiResource {
        group: spec.group.clone(),
        version: version.to_owned(),
        api_version: format!("{}/{version}", spec.group),
        kind: spec.names.kind.clone(),
        plural: spec.names.plural.clone(),
    }
}

/// Returns the part of an object that must survive: everything except times, and except metadata written by the API
/// server.
fn essence(object: DynamicObject) -> Value {
    let metadata = object.meta();
    let kept = json!({
        "labels": metadata.labels, "annotations": metadata.annotations, "finalizers": metadata.finalizers,
    });
    let mut essence = object.data;
    essence["metadata"] = kept;
    remove_times(&mut essence);
    essence
}

/// Removes times, which differ between runs.
fn remove_times(value: &mut Value) {
    let is_time =
        |value: &mut Value| value.as_str().is_some_and(|text| text.parse::<jiff::Timestamp>().is_ok());
    match value {
        Value::Object(fields) => {
            let times: Vec<String> =
                fields.iter_mut().filter_map(|(name, value)| is_time(value).then(|| name.clone())).collect();
            times.iter().for_each(|name| drop(fields.remove(name)));
            fields.values_mut().for_each(remove_times);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_times),
        _ => {}
    }
}

/// Asserts that all objects still exist with all their fields.
fn assert_kept(before: &Objects, after: &Objects, stage: UpgradeStage) {
    let mut lost = Vec::new();
    for (name, before) in before {
        let Some(after) = after.get(name) else {
            lost.push(format!("{name} is gone"));
            continue;
        };
        let found = differences(before, after).into_iter();
        let found = found.filter(|found| found.change != Change::Added && !found.field.starts_with("status"));
        lost.extend(found.map(|found| format!("{name}: {} {}", found.change, found.field)));
    }
    assert!(lost.is_empty(), "{stage} does not keep all objects as they are:\n  {}", lost.join("\n  "));
}
