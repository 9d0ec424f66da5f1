//! Tests of the operator, each on a cluster of its own in virtual time.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test, as it should")]

mod command;

use evenkeel::k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use evenkeel::k8s_openapi::api::core::v1::Pod;
use evenkeel::kube::Result;
use evenkeel::prelude::*;
use evenkeel::testing::Scenario;
use evenkeel::yaml;
use my_resource::{MyResource, MyResourceSpec, NAME, Phase, SAMPLE, controller, operator};
use serde_json::json;

fn web(image: &str) -> MyResource {
    MyResource::new("web", MyResourceSpec { image: image.into(), memory: "64Mi".into() })
}

/// Creates the definition, runs the operator, applies `web`, and waits until it is ready.
async fn started(cluster: &Cluster) -> Result<()> {
    cluster.apply(MyResource::crd()).await?;
    cluster.settled().await;
    cluster.run(controller);
    cluster.apply(web("nginx:1.29")).await?;
    cluster.settled().await;
    Ok(())
}

async fn phase(cluster: &Cluster) -> Result<Option<Phase>> {
    Ok(cluster.get::<MyResource>("web").await?.status.map(|status| status.phase))
}

fn image(deployment: &Deployment) -> Option<&str> {
    deployment.spec.as_ref()?.template.spec.as_ref()?.containers[0].image.as_deref()
}

#[evenkeel::test]
async fn a_resource_becomes_a_deployment_and_gets_ready(cluster: Cluster) -> Result<()> {
    started(&cluster).await?;
    let deployment = cluster.get::<Deployment>("web").await?;
    assert_eq!(image(&deployment), Some("nginx:1.29"));
    let limits =
        deployment.spec.unwrap().template.spec.unwrap().containers[0].resources.clone().unwrap().limits;
    assert_eq!(limits.unwrap()["memory"].0, "64Mi");
    assert_eq!(deployment.metadata.owner_references.unwrap()[0].name, "web");

    let pods = cluster.list::<Pod>().await?;
    assert_eq!(pods.len(), 1);
    assert_eq!(pods[0].status.as_ref().unwrap().phase.as_deref(), Some("Running"));
    assert!(pods[0].spec.as_ref().unwrap().node_name.is_some());
    assert_eq!(phase(&cluster).await?, Some(Phase::Ready));
    Ok(())
}

#[evenkeel::test(nodes = 0, embedded = "there must be no node")]
async fn it_is_building_until_its_deployment_is_ready(cluster: Cluster) -> Result<()> {
    started(&cluster).await?;
    assert_eq!(image(&cluster.get::<Deployment>("web").await?), Some("nginx:1.29"));
    assert_eq!(phase(&cluster).await?, Some(Phase::Building));
    Ok(())
}

#[evenkeel::test]
async fn an_update_follows(cluster: Cluster) -> Result<()> {
    started(&cluster).await?;
    cluster.apply(web("nginx:1.30")).await?;
    cluster.settled().await;
    assert_eq!(image(&cluster.get::<Deployment>("web").await?), Some("nginx:1.30"));
    let pods = cluster.list::<Pod>().await?;
    assert_eq!(pods.len(), 1);
    assert_eq!(pods[0].spec.as_ref().unwrap().containers[0].image.as_deref(), Some("nginx:1.30"));
    assert_eq!(cluster.list::<ReplicaSet>().await?.len(), 2, "the old ReplicaSet is kept for a rollback");
    let my = cluster.get::<MyResource>("web").await?;
    assert_eq!(my.status.as_ref().unwrap().observed_generation, my.metadata.generation);
    assert_eq!(phase(&cluster).await?, Some(Phase::Ready));
    Ok(())
}

#[evenkeel::test]
async fn a_second_reconcile_writes_nothing_and_triggers_nothing(cluster: Cluster) -> Result<()> {
    started(&cluster).await?;
    cluster.mark();
    cluster.apply(web("nginx:1.29")).await?;
    cluster.settled().await;
    // Applying the same again changes nothing.
    cluster.assert_no_writes();

    let asked = cluster.requests().len();
    cluster.restart(NAME);
    cluster.settled().await;
    // A reconcile of an object that is as desired writes nothing.
    cluster.assert_no_writes();
    let requests = cluster.requests().split_off(asked);
    let applies = requests.iter().filter(|request| request.path.contains("/deployments/web")).count();
    assert_eq!(applies, 1, "the apply that changed nothing triggered no further reconcile");
    Ok(())
}

#[evenkeel::test]
async fn drift_is_corrected(cluster: Cluster) -> Result<()> {
    started(&cluster).await?;
    let stolen =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "evil:1"}]}}}});
    cluster.patch::<Deployment>("web", stolen).await?;
    cluster.settled().await;
    assert_eq!(image(&cluster.get::<Deployment>("web").await?), Some("nginx:1.29"));

    let old = cluster.get::<Deployment>("web").await?.metadata.uid;
    cluster.delete::<Deployment>("web").await?;
    cluster.settled().await;
    assert_ne!(cluster.get::<Deployment>("web").await?.metadata.uid, old, "it was made anew");
    assert_eq!(phase(&cluster).await?, Some(Phase::Ready));
    Ok(())
}

#[evenkeel::test]
async fn deletion_leaves_nothing(cluster: Cluster) -> Result<()> {
    started(&cluster).await?;
    cluster.delete::<MyResource>("web").await?;
    cluster.eventually_gone::<Deployment>("web").await;
    cluster.settled().await;
    assert_eq!(cluster.list::<MyResource>().await?.len(), 0);
    assert_eq!(cluster.list::<Deployment>().await?.len(), 0);
    assert_eq!(cluster.list::<ReplicaSet>().await?.len(), 0);
    assert_eq!(cluster.list::<Pod>().await?.len(), 0);
    Ok(())
}

#[evenkeel::test]
async fn a_bad_spec_is_told_why(cluster: Cluster) -> Result<()> {
    started(&cluster).await?;
    let spec = MyResourceSpec { image: "nginx:1.29".into(), memory: "lots".into() };
    let error = cluster.apply(MyResource::new("web", spec)).await.unwrap_err().to_string();
    assert!(error.contains("spec.memory in body should match"), "{error}");

    // A name that is too long for a label: the server accepts the resource, but not its Deployment.
    let mut long = web("nginx:1.29");
    long.metadata.name = Some("n".repeat(70));
    cluster.apply(long).await?;
    cluster.settled().await;
    let message = cluster.get::<MyResource>(&"n".repeat(70)).await?.status.unwrap().message.unwrap();
    assert!(message.contains("must be no more than 63"), "{message}");
    Ok(())
}

#[evenkeel::test]
async fn the_sample_works_and_the_definition_is_that_of_the_type(cluster: Cluster) -> Result<()> {
    let written = yaml::parse(include_str!("../../crd.yaml")).unwrap();
    let written = serde_json::to_value(&written[0]).unwrap();
    assert_eq!(
        written,
        serde_json::to_value(MyResource::crd()).unwrap(),
        "make crd.yaml anew: see the README"
    );
    cluster.apply(MyResource::crd()).await?;
    cluster.run(controller);
    cluster.apply_yaml(SAMPLE).await.unwrap();
    cluster.settled().await;
    assert_eq!(phase(&cluster).await?, Some(Phase::Ready));
    Ok(())
}

/// Creates, changes and deletes a resource, and returns what it observed on the way.
async fn create_change_delete(cluster: Cluster) -> Vec<String> {
    let play = async {
        cluster.apply(MyResource::crd()).await?;
        cluster.apply(web("nginx:1.29")).await?;
        cluster.settled().await;
        cluster.apply(web("nginx:1.30")).await?;
        cluster.settled().await;
        let mut end = vec![format!("{:?}", phase(&cluster).await?)];
        for deployment in cluster.list::<Deployment>().await? {
            end.push(format!("{:?} runs {:?}", deployment.metadata.name, image(&deployment)));
        }
        for pod in cluster.list::<Pod>().await? {
            end.push(format!("{:?} {:?}", pod.spec.unwrap().containers[0].image, pod.status.unwrap().phase));
        }
        cluster.delete::<MyResource>("web").await?;
        cluster.settled().await;
        end.push(format!("{} pods left", cluster.list::<Pod>().await?.len()));
        Ok::<_, evenkeel::kube::Error>(end)
    };
    play.await.expect("the scenario's own requests succeed")
}

#[test]
fn it_survives_crashes_and_needs_each_of_its_rules() {
    let manifests = || operator().manifests("operators").expect("verbs.txt is well-formed");
    Scenario::new(manifests, |cluster| cluster.run(controller), create_change_delete)
        .verbs_file("verbs.txt")
        .crash_runs_min(6)
        .unused_rules([
            // For servers that do not stream lists.
            "deployments.apps: list",
            // For a cache that is behind.
            "myresources.example.com: get",
            // For servers that do not stream lists.
            "myresources.example.com: list",
            // For servers that enforce permissions on owner references.
            "myresources.example.com/finalizers: update",
        ])
        .check();
}

#[evenkeel::explore]
async fn a_life(cluster: Cluster) -> Result<()> {
    started(&cluster).await?;
    cluster.apply(web("nginx:1.30")).await?;
    cluster.settled().await;
    cluster.delete::<MyResource>("web").await?;
    cluster.settled().await;
    Ok(())
}
