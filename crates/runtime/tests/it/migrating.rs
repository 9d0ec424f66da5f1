//! Storage migration: after the storage version has changed, the leader rewrites every object.

use std::time::Duration;

use evenkeel_cluster::{Cluster, CrashPoint, Fault, Matcher};
use evenkeel_runtime::webhook::{Conversion, Convertible};
use evenkeel_runtime::{Manager, Result};
use http::Method;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// Both versions have the same fields, so that the API server converts without a webhook.
mod v1 {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
    #[kube(group = "example.com", version = "v1", kind = "Site", namespaced)]
    pub(super) struct SiteSpec {
        pub(super) servers: i32,
    }
}

mod v2 {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
    #[kube(group = "example.com", version = "v2", kind = "Site", namespaced)]
    pub(super) struct SiteSpec {
        pub(super) servers: i32,
    }
}

impl Convertible for v1::Site {
    type Hub = v2::Site;

    fn into_hub(self) -> Result<v2::Site> {
        Ok(v2::Site { metadata: self.metadata, spec: v2::SiteSpec { servers: self.spec.servers } })
    }

    fn from_hub(hub: v2::Site) -> Result<Self> {
        Ok(v1::Site { metadata: hub.metadata, spec: v1::SiteSpec { servers: hub.spec.servers } })
    }
}

fn conversion() -> Conversion<v2::Site> {
    Conversion::new().spoke::<v1::Site>()
}

const CRD: &str = "sites.example.com";

/// Objects that are stored in v1, and a definition that stores v2 now.
async fn changed(cluster: &Cluster, count: usize) {
    cluster.apply(conversion().stored("v1").crd().unwrap()).await.unwrap();
    cluster.settled().await;
    for number in 0..count {
        let site = v1::Site::new(&format!("s{number:04}"), v1::SiteSpec { servers: 1 });
        cluster.api::<v1::Site>().create(&kube::api::PostParams::default(), &site).await.unwrap();
    }
    cluster.apply(conversion().crd().unwrap()).await.unwrap();
    cluster.settled().await;
    assert_eq!(stored(cluster).await, ["v1", "v2"]);
    cluster.mark();
}

async fn stored(cluster: &Cluster) -> Vec<String> {
    let definition: CustomResourceDefinition = cluster.get(CRD).await.unwrap();
    definition.status.unwrap().stored_versions.unwrap()
}

/// Runs the migration only: the API server needs no webhook for it here.
fn run(cluster: &Cluster, name: &str) {
    cluster.run_manager(name, |manager| {
        let mut manager: Manager = manager.conversion(conversion().migrate_storage());
        drop(manager.take_webhooks());
        manager
    });
}

/// Waits longer than a migration takes that crashes once and fails some times.
async fn ended(cluster: &Cluster) {
    cluster.advance(Duration::from_secs(300)).await;
    cluster.settled().await;
}

/// The names of the objects that were written since the mark, in order.
fn rewritten(cluster: &Cluster) -> Vec<String> {
    let paths = cluster.writes().into_iter().map(|write| write.path);
    paths.filter(|path| path.contains("/sites/")).collect()
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 1, embedded = "it looks at what is stored")]
async fn every_object_is_rewritten_and_the_old_version_leaves(cluster: Cluster) {
    changed(&cluster, 7).await;
    let before: Vec<_> = versions(&cluster).await;
    run(&cluster, "op");
    ended(&cluster).await;
    assert_eq!(stored(&cluster).await, ["v2"]);
    assert_eq!(rewritten(&cluster).len(), 7, "{}", cluster.timeline());
    let after = versions(&cluster).await;
    assert!(before.iter().zip(&after).all(|(before, after)| before != after), "{before:?} {after:?}");
    // The migration is complete: nothing is written again.
    cluster.mark();
    cluster.restart("op");
    cluster.settled().await;
    cluster.assert_no_writes();
    // The old version may leave the definition.
    let mut definition = conversion().crd().unwrap();
    definition.spec.versions.retain(|version| version.name == "v2");
    cluster.apply(definition).await.unwrap();
}

async fn versions(cluster: &Cluster) -> Vec<Option<String>> {
    let sites = cluster.list::<v2::Site>().await.unwrap();
    sites.into_iter().map(|site| site.metadata.resource_version).collect()
}

/// Conflicts, failures and crashes at every write: in the end all are rewritten, and the version leaves only then.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 2, embedded = "its requests fail")]
async fn failures_and_crashes_delay_it_only() {
    for point in 1..=4 {
        for make in [CrashPoint::Before, CrashPoint::AnswerLost, CrashPoint::After] {
            let cluster = crate::managing::embedded(2).await;
            changed(&cluster, 3).await;
            let patches = || Matcher::any().by("op").method(Method::PUT).kind::<v2::Site>();
            cluster.fail(patches(), Fault::Conflict, 2);
            cluster.fail(patches(), Fault::InternalError, 1);
            run(&cluster, "op");
            cluster.crash("op", make(point));
            ended(&cluster).await;
            assert_eq!(stored(&cluster).await, ["v2"], "{:?}", make(point));
            assert_eq!(cluster.crashes("op"), 1);
            let mut names = rewritten(&cluster);
            names.sort();
            names.dedup();
            assert!(names.len() >= 3, "{names:?}");
        }
    }
}

/// A leader that comes after a crash goes on where the last one ended.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 3, embedded = "it counts what is written")]
async fn a_migration_goes_on_after_a_crash(cluster: Cluster) {
    changed(&cluster, 520).await;
    run(&cluster, "op");
    // The 501st write is that of the progress.
    cluster.crash("op", CrashPoint::After(501));
    ended(&cluster).await;
    assert_eq!((cluster.crashes("op"), stored(&cluster).await), (1, vec!["v2".to_owned()]));
    assert_eq!(rewritten(&cluster).len(), 520, "each object once");
    let definition: CustomResourceDefinition = cluster.get(CRD).await.unwrap();
    let annotations = definition.metadata.annotations.unwrap_or_default();
    assert!(!annotations.keys().any(|key| key.contains("migration")), "{annotations:?}");
}

/// An object that cannot be written keeps the old version in the list, and is tried again.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 4, embedded = "its requests fail")]
async fn an_object_that_cannot_be_rewritten_keeps_the_version(cluster: Cluster) {
    changed(&cluster, 3).await;
    let one = Matcher::any().by("op").method(Method::PUT).path("/sites/s0001");
    cluster.fail(one, Fault::InternalError, 3);
    run(&cluster, "op");
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(stored(&cluster).await, ["v1", "v2"]);
    ended(&cluster).await;
    assert_eq!(stored(&cluster).await, ["v2"]);
}

/// Without the option, nothing is rewritten.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 5)]
async fn it_is_off_by_default(cluster: Cluster) {
    changed(&cluster, 1).await;
    cluster.run_manager("op", |manager| {
        let mut manager = manager.conversion(conversion());
        drop(manager.take_webhooks());
        manager
    });
    cluster.settled().await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!((stored(&cluster).await.len(), rewritten(&cluster).len()), (2, 0));
}
