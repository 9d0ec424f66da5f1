//! Tests of the operator, each on a cluster of its own in virtual time.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test, as it should")]

use std::sync::Arc;
use std::time::Duration;

use evenkeel::conditions;
use evenkeel::k8s_openapi::api::apps::v1::Deployment;
use evenkeel::k8s_openapi::api::core::v1::{Pod, Secret, Service};
use evenkeel::kube::Result;
use evenkeel::prelude::*;
use evenkeel::testing::{self, Scenario};
use evenkeel::yaml;
use parking_lot::Mutex;
use serde_json::json;
use visitors_app::{
    FINALIZER, NAME, NoUploads, Uploads, UploadsError, VisitorsApp, VisitorsAppSpec, controller, operator,
};

fn guestbook(size: i32, title: &str) -> VisitorsApp {
    VisitorsApp::new("guestbook", VisitorsAppSpec { size, title: title.into() })
}

/// Creates the definition, runs the operator, and applies `guestbook`.
async fn started<U: Uploads>(cluster: &Cluster, uploads: Arc<U>) -> Result<()> {
    cluster.apply(VisitorsApp::crd()).await?;
    cluster.run(move || controller(uploads.clone()));
    cluster.apply(guestbook(2, "Who was here")).await?;
    Ok(())
}

/// Status, reason and message of a condition of `guestbook`.
async fn condition(cluster: &Cluster, type_: &str) -> Result<String> {
    let status = cluster.get::<VisitorsApp>("guestbook").await?.status.unwrap_or_default();
    let found = conditions::find(&status.conditions, type_);
    Ok(found.map(|it| format!("{} {}: {}", it.status, it.reason, it.message)).unwrap_or_default())
}

async fn deployments(cluster: &Cluster) -> Result<Vec<String>> {
    Ok(cluster.list::<Deployment>().await?.iter().map(ResourceExt::name_any).collect())
}

/// Uploads in memory, which can be made unreachable.
#[derive(Default)]
struct Bucket {
    out_of_reach: Mutex<bool>,
    purged: Mutex<Vec<String>>,
}

impl Uploads for Bucket {
    async fn purge(&self, app: &str) -> Result<(), UploadsError> {
        if *self.out_of_reach.lock() {
            return Err(UploadsError("the bucket is out of reach".into()));
        }
        self.purged.lock().push(app.to_owned());
        Ok(())
    }
}

#[evenkeel::test(embedded = "what others write is seen only here")]
async fn an_app_becomes_three_tiers_from_the_ground_up(cluster: Cluster) -> Result<()> {
    started(&cluster, Arc::new(NoUploads)).await?;
    cluster.settled().await;
    assert_eq!(deployments(&cluster).await?, ["guestbook-backend", "guestbook-frontend", "guestbook-mysql"]);
    for name in ["guestbook-backend", "guestbook-frontend", "guestbook-mysql"] {
        let service = cluster.get::<Service>(name).await?;
        assert_eq!(service.metadata.owner_references.unwrap()[0].name, "guestbook");
    }
    let secret = cluster.get::<Secret>("guestbook-mysql").await?;
    assert_eq!(secret.data.unwrap()["password"].0.len(), 24);
    assert_eq!(cluster.list::<Pod>().await?.len(), 1 + 2 + 1);

    let app = cluster.get::<VisitorsApp>("guestbook").await?;
    assert_eq!(app.finalizers(), [FINALIZER]);
    let status = app.status.clone().unwrap();
    assert_eq!(status.backend_image.as_deref(), Some("jdob/visitors-service:1.0.0"));
    assert_eq!(status.frontend_image.as_deref(), Some("jdob/visitors-webui:1.0.0"));
    assert_eq!(status.observed_generation, app.metadata.generation);
    assert!(conditions::is_true(&status.conditions, "Ready"), "{:?}", status.conditions);

    // Each Deployment was created after the one below it had become available.
    let writes = testing::lines(&cluster.writes());
    let last = |what: &str| writes.iter().rposition(|write| write.contains(what)).unwrap();
    let first = |what: &str| writes.iter().position(|write| write.contains(what)).unwrap();
    assert!(last("/deployments/guestbook-mysql/status") < first("/deployments/guestbook-backend "));
    assert!(last("/deployments/guestbook-backend/status") < first("/deployments/guestbook-frontend "));
    Ok(())
}

#[evenkeel::test(nodes = 0, embedded = "there must be no node")]
async fn a_backend_waits_for_its_database_without_blocking_others(cluster: Cluster) -> Result<()> {
    started(&cluster, Arc::new(NoUploads)).await?;
    let mut other = guestbook(1, "Another");
    other.metadata.name = Some("other".into());
    cluster.apply(other).await?;
    // Without nodes no pod runs, so neither database becomes ready.
    cluster.idle().await;
    assert_eq!(deployments(&cluster).await?, ["guestbook-mysql", "other-mysql"]);
    assert_eq!(
        condition(&cluster, "BackendReady").await?,
        "False Waiting: guestbook-backend waits for the tier below it"
    );
    assert_eq!(condition(&cluster, "Ready").await?, "False TierNotReady: guestbook-mysql is not ready");

    let seen = cluster.requests().len();
    cluster.advance(Duration::from_secs(6)).await;
    let asked = cluster.requests().split_off(seen);
    let looked = asked.iter().filter(|request| request.path.contains("/deployments/guestbook-mysql")).count();
    assert_eq!(looked, 1, "it looked again after five seconds");
    Ok(())
}

#[evenkeel::test]
async fn an_update_follows(cluster: Cluster) -> Result<()> {
    started(&cluster, Arc::new(NoUploads)).await?;
    cluster.settled().await;
    let password = cluster.get::<Secret>("guestbook-mysql").await?.data;
    cluster.apply(guestbook(3, "Still here")).await?;
    cluster.settled().await;
    assert_eq!(cluster.get::<Deployment>("guestbook-backend").await?.spec.unwrap().replicas, Some(3));
    let frontend = cluster.get::<Deployment>("guestbook-frontend").await?.spec.unwrap();
    let env = frontend.template.spec.unwrap().containers[0].env.clone().unwrap();
    assert_eq!(env[0].value.as_deref(), Some("Still here"));
    assert_eq!(cluster.get::<Secret>("guestbook-mysql").await?.data, password);
    assert_eq!(condition(&cluster, "Ready").await?, "True AllTiersReady: the site is served");
    Ok(())
}

#[evenkeel::test]
async fn a_second_reconcile_writes_nothing(cluster: Cluster) -> Result<()> {
    started(&cluster, Arc::new(NoUploads)).await?;
    cluster.settled().await;
    cluster.mark();
    cluster.restart(NAME);
    cluster.settled().await;
    cluster.assert_no_writes();
    Ok(())
}

#[evenkeel::test]
async fn drift_on_every_child_is_corrected(cluster: Cluster) -> Result<()> {
    started(&cluster, Arc::new(NoUploads)).await?;
    cluster.settled().await;
    cluster.patch::<Deployment>("guestbook-backend", json!({"spec": {"replicas": 7}})).await?;
    cluster.delete::<Deployment>("guestbook-mysql").await?;
    cluster.patch::<Service>("guestbook-frontend", json!({"spec": {"selector": {"app": "evil"}}})).await?;
    cluster.delete::<Service>("guestbook-backend").await?;
    cluster.settled().await;
    assert_eq!(cluster.get::<Deployment>("guestbook-backend").await?.spec.unwrap().replicas, Some(2));
    let selector = cluster.get::<Service>("guestbook-frontend").await?.spec.unwrap().selector.unwrap();
    assert_eq!(selector["app"], "guestbook");
    cluster.get::<Service>("guestbook-backend").await?;
    assert_eq!(condition(&cluster, "Ready").await?, "True AllTiersReady: the site is served");
    Ok(())
}

#[evenkeel::test]
async fn the_finalizer_holds_the_app_while_the_cleanup_fails(cluster: Cluster) -> Result<()> {
    let bucket = Arc::new(Bucket::default());
    *bucket.out_of_reach.lock() = true;
    started(&cluster, bucket.clone()).await?;
    cluster.settled().await;
    cluster.delete::<VisitorsApp>("guestbook").await?;
    cluster.idle().await;
    cluster.advance(Duration::from_secs(1)).await;
    assert_eq!(
        condition(&cluster, "CleanedUp").await?,
        "False CleanupFailed: cannot remove the uploads: the bucket is out of reach"
    );
    assert_eq!(cluster.list::<Pod>().await?.len(), 4, "what it made stays as long");

    *bucket.out_of_reach.lock() = false;
    cluster.eventually_gone::<Deployment>("guestbook-mysql").await;
    cluster.eventually_gone::<Secret>("guestbook-mysql").await;
    cluster.settled().await;
    assert_eq!(*bucket.purged.lock(), [format!("{}/guestbook", cluster.namespace())]);
    assert_eq!(cluster.list::<VisitorsApp>().await?.len(), 0);
    assert_eq!(deployments(&cluster).await?, Vec::<String>::new());
    assert_eq!(cluster.list::<Secret>().await?.len(), 0);
    assert_eq!(cluster.list::<Pod>().await?.len(), 0);
    Ok(())
}

#[evenkeel::test]
async fn a_bad_app_is_told_why(cluster: Cluster) -> Result<()> {
    started(&cluster, Arc::new(NoUploads)).await?;
    let error = cluster.apply(guestbook(0, "x")).await.unwrap_err().to_string();
    assert!(error.contains("spec.size in body should be greater than or equal to 1"), "{error}");

    // A name that is too long for a label: the server accepts the app, but none of its children.
    let mut long = guestbook(1, "x");
    long.metadata.name = Some("n".repeat(70));
    cluster.apply(long).await?;
    cluster.settled().await;
    let status = cluster.get::<VisitorsApp>(&"n".repeat(70)).await?.status.unwrap();
    let ready = conditions::find(&status.conditions, "Ready").unwrap();
    assert_eq!(ready.reason, "Refused");
    assert!(ready.message.contains("must be no more than 63"), "{}", ready.message);
    Ok(())
}

#[evenkeel::test]
async fn the_sample_works_and_the_definition_is_that_of_the_type(cluster: Cluster) -> Result<()> {
    let written = yaml::parse(include_str!("../crd.yaml")).unwrap();
    let written = serde_json::to_value(&written[0]).unwrap();
    assert_eq!(
        written,
        serde_json::to_value(VisitorsApp::crd()).unwrap(),
        "make crd.yaml anew: see the README"
    );
    started(&cluster, Arc::new(NoUploads)).await?;
    cluster.apply_yaml(visitors_app::SAMPLE).await.unwrap();
    cluster.settled().await;
    assert_eq!(condition(&cluster, "Ready").await?, "True AllTiersReady: the site is served");
    Ok(())
}

/// Creates and deletes an app, and returns what it observed on the way.
async fn create_change_delete(cluster: Cluster) -> Vec<String> {
    let play = async {
        cluster.apply(VisitorsApp::crd()).await?;
        cluster.apply(guestbook(1, "Who was here")).await?;
        cluster.settled().await;
        let mut end = vec![condition(&cluster, "Ready").await?];
        for deployment in cluster.list::<Deployment>().await? {
            end.push(format!("{} {:?}", deployment.name_any(), deployment.spec.unwrap().replicas));
        }
        end.push(format!("{} services", cluster.list::<Service>().await?.len()));
        cluster.delete::<VisitorsApp>("guestbook").await?;
        cluster.settled().await;
        end.push(format!("{} pods left", cluster.list::<Pod>().await?.len()));
        Ok::<_, evenkeel::kube::Error>(end)
    };
    play.await.expect("the scenario's own requests succeed")
}

#[test]
fn it_survives_crashes_and_needs_each_of_its_rules() {
    let manifests = || operator().manifests("operators").expect("verbs.txt is well-formed");
    Scenario::new(manifests, |cluster| cluster.run(|| controller(Arc::new(NoUploads))), create_change_delete)
        .verbs_file("verbs.txt")
        .crash_runs_min(30)
        .unused_rules([
            // For servers that do not stream lists.
            "secrets: list",
            "services: list",
            "deployments.apps: list",
            // For a cache that is behind.
            "visitorsapps.example.com: get",
            // For servers that do not stream lists.
            "visitorsapps.example.com: list",
            // For servers that enforce permissions on owner references.
            "visitorsapps.example.com/finalizers: update",
        ])
        .check();
}

#[evenkeel::explore]
async fn a_life(cluster: Cluster) -> Result<()> {
    started(&cluster, Arc::new(NoUploads)).await?;
    cluster.settled().await;
    cluster.apply(guestbook(1, "Who is here")).await?;
    cluster.settled().await;
    cluster.delete::<VisitorsApp>("guestbook").await?;
    cluster.settled().await;
    Ok(())
}
