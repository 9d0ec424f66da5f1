//! Tests of the operator, each on a cluster of its own in virtual time.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test, as it should")]

use std::time::Duration;

use evenkeel::conditions;
use evenkeel::event::Origin;
use evenkeel::k8s_openapi::api::core::v1::Secret;
use evenkeel::kube::Result;
use evenkeel::prelude::*;
use evenkeel::testing::Scenario;
use evenkeel::{EventMeta, yaml};
use serde_json::{Value, json};
use vcap_services_converter::{
    NAME, SAMPLE, VcapServicesConverter, VcapServicesConverterSpec, WRITES_A_SECOND, WRITES_AT_ONCE,
    controller, operator,
};

/// A Secret with this `VCAP_SERVICES`.
fn source(name: &str, services: &str) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some(name.into());
    secret.string_data = Some([("VCAP_SERVICES".to_owned(), services.to_owned())].into());
    secret
}

/// One service of this name with this password.
fn service(name: &str, password: &str) -> Value {
    json!({"name": name, "credentials": {"password": password}})
}

fn converter(name: &str, secret: &str) -> VcapServicesConverter {
    let spec = VcapServicesConverterSpec { secret_name: secret.into(), key: "VCAP_SERVICES".into() };
    VcapServicesConverter::new(name, spec)
}

/// Creates the definition, runs the operator, and applies `shop` with one service `db`.
async fn started(cluster: &Cluster) -> Result<()> {
    cluster.apply(VcapServicesConverter::crd()).await?;
    cluster.run(controller);
    cluster.apply(source("bindings", &json!({"sql": [service("db", "one")]}).to_string())).await?;
    cluster.apply(converter("shop", "bindings")).await?;
    cluster.settled().await;
    Ok(())
}

async fn secrets(cluster: &Cluster) -> Result<Vec<String>> {
    Ok(cluster.list::<Secret>().await?.iter().map(ResourceExt::name_any).collect())
}

async fn password(cluster: &Cluster, secret: &str) -> Result<String> {
    let data = cluster.get::<Secret>(secret).await?.data.unwrap();
    Ok(String::from_utf8(data["password"].0.clone()).unwrap())
}

async fn converted(cluster: &Cluster) -> Result<String> {
    let status = cluster.get::<VcapServicesConverter>("shop").await?.status.unwrap_or_default();
    let found = conditions::find(&status.conditions, "Converted");
    Ok(found.map(|it| format!("{} {}: {}", it.status, it.reason, it.message)).unwrap_or_default())
}

#[evenkeel::test]
async fn the_sample_works_and_the_definition_is_that_of_the_type(cluster: Cluster) -> Result<()> {
    let written = yaml::parse(include_str!("../crd.yaml")).unwrap();
    let written = serde_json::to_value(&written[0]).unwrap();
    let derived = serde_json::to_value(VcapServicesConverter::crd()).unwrap();
    assert_eq!(written, derived, "make crd.yaml anew: see the README");

    cluster.apply(VcapServicesConverter::crd()).await?;
    cluster.run(controller);
    cluster.apply_yaml(SAMPLE).await.unwrap();
    cluster.settled().await;
    assert_eq!(secrets(&cluster).await?, ["bindings", "shop-cache", "shop-orders-db"]);
    let secret = cluster.get::<Secret>("shop-orders-db").await?;
    assert_eq!(secret.metadata.owner_references.unwrap()[0].name, "shop");
    assert_eq!(secret.data.unwrap()["port"].0, b"5432");
    assert_eq!(converted(&cluster).await?, "True Converted: 2 services are converted");
    let shop = cluster.get::<VcapServicesConverter>("shop").await?;
    let status = shop.status.unwrap();
    assert_eq!(status.secrets, ["shop-cache", "shop-orders-db"]);
    assert_eq!(status.observed_generation, shop.metadata.generation);
    Ok(())
}

#[evenkeel::test]
async fn changes_of_the_source_follow(cluster: Cluster) -> Result<()> {
    started(&cluster).await?;
    cluster.apply(source("bindings", &json!({"sql": [service("db", "two")]}).to_string())).await?;
    cluster.settled().await;
    assert_eq!(password(&cluster, "shop-db").await?, "two");

    cluster.apply(source("bindings", &json!({"kv": [service("cache", "x")]}).to_string())).await?;
    cluster.settled().await;
    assert_eq!(secrets(&cluster).await?, ["bindings", "shop-cache"], "what is no longer bound goes");

    cluster.apply(source("others", &json!({"sql": [service("db", "three")]}).to_string())).await?;
    cluster.apply(converter("shop", "others")).await?;
    cluster.settled().await;
    assert_eq!(password(&cluster, "shop-db").await?, "three");
    Ok(())
}

#[evenkeel::test]
async fn a_second_reconcile_writes_nothing(cluster: Cluster) -> Result<()> {
    started(&cluster).await?;
    cluster.mark();
    let seen = cluster.requests().len();
    cluster.restart(NAME);
    cluster.settled().await;
    cluster.assert_no_writes();
    let asked = cluster.requests().split_off(seen);
    let writes = asked.iter().filter(|request| &*request.by == NAME && request.method != "GET");
    assert_eq!(writes.count(), 0, "what is equal is not even sent");
    Ok(())
}

#[evenkeel::test]
async fn drift_is_corrected(cluster: Cluster) -> Result<()> {
    started(&cluster).await?;
    cluster.patch::<Secret>("shop-db", json!({"stringData": {"password": "stolen"}})).await?;
    cluster.settled().await;
    assert_eq!(password(&cluster, "shop-db").await?, "one");
    cluster.delete::<Secret>("shop-db").await?;
    cluster.settled().await;
    assert_eq!(password(&cluster, "shop-db").await?, "one");
    Ok(())
}

#[evenkeel::test]
async fn deletion_leaves_the_source_alone(cluster: Cluster) -> Result<()> {
    started(&cluster).await?;
    cluster.delete::<VcapServicesConverter>("shop").await?;
    cluster.eventually_gone::<Secret>("shop-db").await;
    cluster.settled().await;
    assert_eq!(secrets(&cluster).await?, ["bindings"]);
    Ok(())
}

#[evenkeel::test]
async fn what_is_wrong_stands_in_the_status(cluster: Cluster) -> Result<()> {
    started(&cluster).await?;
    cluster.apply(source("bindings", r#"{"sql": [{"name": "db", "credentials": hunter2}]}"#)).await?;
    cluster.settled().await;
    let told = converted(&cluster).await?;
    let wanted = "False InvalidJson: VCAP_SERVICES in the Secret bindings: it is not JSON: expected value at line 1 \
                  column 40";
    assert_eq!(told, wanted);
    assert_eq!(password(&cluster, "shop-db").await?, "one", "what was converted before stays");

    cluster.delete::<Secret>("bindings").await?;
    cluster.settled().await;
    assert_eq!(converted(&cluster).await?, "False SecretNotFound: there is no Secret bindings");

    let mut foreign = Secret::default();
    foreign.metadata.name = Some("shop-cache".into());
    cluster.apply(foreign).await?;
    cluster.apply(source("bindings", &json!({"kv": [service("cache", "x")]}).to_string())).await?;
    cluster.settled().await;
    let taken = "False NameTaken: the Secret shop-cache exists already, and is not of this converter";
    assert_eq!(converted(&cluster).await?, taken);
    assert_eq!(cluster.get::<Secret>("shop-cache").await?.data, None);
    Ok(())
}

#[evenkeel::test]
async fn what_the_server_refuses_stands_in_the_status_and_is_not_retried(cluster: Cluster) -> Result<()> {
    started(&cluster).await?;
    let long = json!({"sql": [service(&"n".repeat(260), "one")]});
    cluster.apply(source("bindings", &long.to_string())).await?;
    cluster.settled().await;
    let told = converted(&cluster).await?;
    assert!(told.starts_with("False Refused: apply Secret"), "{told}");
    assert!(told.contains("must be no more than 253"), "{told}");
    Ok(())
}

#[evenkeel::test]
async fn a_secret_wakes_the_converters_that_name_it_and_no_others(cluster: Cluster) -> Result<()> {
    started(&cluster).await?;
    for number in 0..5 {
        cluster.apply(converter(&format!("other-{number}"), "elsewhere")).await?;
    }
    cluster.settled().await;
    // A reconcile would correct the wrong status. After its start an operator reconciles all objects, unless its event
    // filter drops those of the initial list, as here.
    cluster.stop(NAME);
    for number in 0..5 {
        let wrong = json!({"status": {"observedGeneration": 99}});
        cluster.patch_status::<VcapServicesConverter>(&format!("other-{number}"), wrong).await?;
    }
    let generation = |converter: VcapServicesConverter| converter.status.unwrap().observed_generation;
    let live = |event: &EventMeta<'_>| event.origin == Origin::Watch;
    cluster.run(move || controller().with_event_filter(live));
    cluster.settled().await;
    cluster.apply(source("bindings", &json!({"sql": [service("db", "two")]}).to_string())).await?;
    cluster.settled().await;
    assert_eq!(password(&cluster, "shop-db").await?, "two");
    assert_eq!(generation(cluster.get("other-3").await?), Some(99), "nobody looked at it");
    Ok(())
}

#[evenkeel::test(embedded = "seconds are counted")]
async fn when_very_many_change_at_once_writes_are_throttled(cluster: Cluster) -> Result<()> {
    const MANY: usize = 120;
    started(&cluster).await?;
    for number in 0..MANY {
        cluster.apply(converter(&format!("app-{number}"), "bindings")).await?;
    }
    cluster.settled().await;
    // Wait until the full burst is available again.
    cluster.advance(Duration::from_secs(10)).await;
    let seen = cluster.requests().len();
    cluster.apply(source("bindings", &json!({"sql": [service("db", "two")]}).to_string())).await?;
    cluster.settled().await;
    for number in 0..MANY {
        assert_eq!(password(&cluster, &format!("app-{number}-db")).await?, "two");
    }
    let asked = cluster.requests().split_off(seen);
    let writes: Vec<Duration> =
        asked.iter().filter(|it| &*it.by == NAME && it.method != "GET").map(|it| it.at).collect();
    assert_eq!(writes.len(), MANY + 1, "one for each converter");
    let took = *writes.last().unwrap() - writes[0];
    let least = (writes.len() as f64 - f64::from(WRITES_AT_ONCE) - 1.0) / WRITES_A_SECOND;
    assert!(took.as_secs_f64() >= least, "{took:?} is less than {least} s");
    Ok(())
}

/// Creates, changes and deletes a converter, and returns what it observed on the way.
async fn create_change_delete(cluster: Cluster) -> Vec<String> {
    let play = async {
        cluster.apply(VcapServicesConverter::crd()).await?;
        let two = json!({"sql": [service("db", "one"), service("old", "one")]});
        cluster.apply(source("bindings", &two.to_string())).await?;
        cluster.apply(converter("shop", "bindings")).await?;
        cluster.settled().await;
        let changed = json!({"sql": [service("db", "two")]});
        cluster.apply(source("bindings", &changed.to_string())).await?;
        cluster.settled().await;
        let mut end = secrets(&cluster).await?;
        end.extend([password(&cluster, "shop-db").await?, converted(&cluster).await?]);
        cluster.delete::<VcapServicesConverter>("shop").await?;
        cluster.settled().await;
        end.extend(secrets(&cluster).await?);
        Ok::<_, evenkeel::kube::Error>(end)
    };
    play.await.expect("the scenario's own requests succeed")
}

#[test]
fn it_survives_crashes_and_needs_each_of_its_rules() {
    let manifests = || operator().manifests("operators").expect("verbs.txt is well-formed");
    Scenario::new(manifests, |cluster| cluster.run(controller), create_change_delete)
        .verbs_file("verbs.txt")
        .crash_runs_min(18)
        .unused_rules([
            // For servers that do not stream lists.
            "secrets: list",
            // For a cache that is behind.
            "vcapservicesconverters.example.com: get",
            // For servers that do not stream lists.
            "vcapservicesconverters.example.com: list",
            // For servers that enforce permissions on owner references.
            "vcapservicesconverters.example.com/finalizers: update",
        ])
        .check();
}

#[evenkeel::explore]
async fn a_life(cluster: Cluster) -> Result<()> {
    started(&cluster).await?;
    let two = json!({"sql": [service("db", "two"), service("archive", "three")]});
    cluster.apply(source("bindings", &two.to_string())).await?;
    cluster.settled().await;
    cluster.delete::<VcapServicesConverter>("shop").await?;
    cluster.settled().await;
    Ok(())
}
