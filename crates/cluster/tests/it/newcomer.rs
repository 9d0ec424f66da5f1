//! The mistakes that everybody makes with a first operator. Each meets a message that says what to do.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::{Cluster, testing};
use evenkeel_runtime::{Action, Controller, Ctx, Error, Manifests, Result, Source};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Container, PodSpec, PodTemplateSpec, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use kube::api::ObjectMeta;

use crate::mirror::{self, config};
use crate::sites::v1::{Site, SiteSpec};

fn only_a() -> Source<ConfigMap> {
    Source::new().fields("metadata.name=a")
}

/// The first line of the failure of `settled()`.
async fn first_line(cluster: &Cluster) -> String {
    let told = cluster.try_settled().await.expect_err("the operator does not rest").to_string();
    assert!(told.contains("\nstill pending:\n  queue "), "{told}");
    told.lines().next().unwrap_or_default().to_owned()
}

/// The cause used to be hidden behind `queue m: earliest delayed key: due in 43s`.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
async fn the_last_error_of_a_key_is_in_the_first_line(cluster: Cluster) -> kube::Result<()> {
    async fn fail(_: Arc<ConfigMap>, _: Ctx) -> Result<Action> {
        Err(Error::message("the database is not there"))
    }
    cluster.run(|| Controller::new_with("failing", only_a(), fail));
    cluster.apply(config("a", "one")).await?;
    let line = first_line(&cluster).await;
    let expected =
        "not settled within 60s: ConfigMap default/a: failing fails: the database is not there (tried ";
    assert!(line.starts_with(expected), "{line}");
    Ok(())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
async fn who_forgets_owns_is_told_the_line_to_add(cluster: Cluster) -> kube::Result<()> {
    async fn reads(map: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
        ctx.get::<Secret>(&map.name_any())?;
        Ok(Action::await_change())
    }
    cluster.run(|| Controller::new_with("reader", only_a(), reads));
    cluster.apply(config("a", "one")).await?;
    let line = first_line(&cluster).await;
    assert!(line.contains("ConfigMap default/a: reader fails: read Secret: "), "{line}");
    let expected = "declares no cache of this kind; add .owns::<Secret>() to it if it creates these objects";
    assert!(line.contains(expected), "{line}");
    Ok(())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, embedded = "an account of its own")]
async fn who_lacks_a_permission_is_told_the_rule(cluster: Cluster) -> kube::Result<()> {
    let verbs = "configmaps: patch".parse().expect("the verbs are well-formed");
    let manifests = Manifests::new(mirror::NAME, "operators").controller(&mirror::controller()).verbs(verbs);
    cluster.install(&manifests).await?.run(mirror::controller);
    cluster.apply(config("a", "one")).await?;
    let line = first_line(&cluster).await;
    let expected = "ConfigMap default/a: mirror may not patch secrets in namespace default: give its role this rule (tried ";
    assert!(line.contains(expected), "{line}");
    Ok(())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
async fn who_forgets_the_definition_is_told_to_apply_it(cluster: Cluster) {
    async fn nothing(_: Arc<Site>, _: Ctx) -> Result<Action> {
        Ok(Action::await_change())
    }
    cluster.run(|| Controller::new("sites", nothing));
    let told = cluster.try_settled().await.expect_err("its watch does not work").to_string();
    let line = told.lines().next().unwrap_or_default();
    assert!(line.starts_with("not settled within 60s: the watch of Site"), "{told}");
    let expected = "the API server does not serve the kind; apply its CustomResourceDefinition first";
    assert!(line.contains(expected), "{told}");
}

/// The test itself meets the missing definition first, when it applies its sample.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
async fn who_applies_an_object_without_its_definition_is_told_to_apply_it(cluster: Cluster) {
    let expected = "example.com/v1 Site: 404 page not found: the API server does not serve the kind; apply its \
                    CustomResourceDefinition first";
    let site = Site::new("a", SiteSpec { replicas: 1, nick_name: None, hosts: Vec::new() });
    let refused = cluster.apply(site).await.expect_err("there is no definition").to_string();
    assert!(refused.contains(expected), "{refused}");
    let refused = cluster.list::<Site>().await.expect_err("there is no definition").to_string();
    assert!(refused.contains(expected), "{refused}");
    let missing = cluster.get::<ConfigMap>("a").await.expect_err("there is no such object").to_string();
    assert!(!missing.contains("CustomResourceDefinition"), "{missing}");
}

/// A Deployment with what has to be there and nothing else.
fn wanted(map: &ConfigMap) -> Deployment {
    let labels = Some([("app".to_owned(), map.name_any())].into());
    let container = Container { name: "main".into(), image: Some("nginx".into()), ..Container::default() };
    Deployment {
        metadata: ObjectMeta { name: map.metadata.name.clone(), ..ObjectMeta::default() },
        spec: Some(DeploymentSpec {
            replicas: Some(1),
            selector: LabelSelector { match_labels: labels.clone(), ..LabelSelector::default() },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels, ..ObjectMeta::default() }),
                spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
            },
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

/// Compares whole specs, and updates if they differ: they always do, because the API server fills in defaults.
async fn compares(map: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
    let wanted = wanted(&map);
    let found = ctx.get_or_create(wanted.clone()).await?;
    if found.spec != wanted.spec {
        ctx.update(&Deployment { spec: wanted.spec, ..found }).await?;
    }
    Ok(Action::requeue(Duration::from_secs(600)))
}

/// Updates that change nothing cause no event, so that the operator seems to work.
#[evenkeel_macros::test(crate = evenkeel_cluster, embedded = "a real cluster does not say what a write changed")]
async fn who_compares_whole_specs_is_told_how_often_that_wrote_nothing(cluster: Cluster) -> kube::Result<()> {
    cluster.run(|| Controller::new_with("naive", only_a(), compares).owns::<Deployment>());
    cluster.apply(config("a", "one")).await?;
    cluster.settled().await;
    for _ in 0..3 {
        cluster.advance(Duration::from_secs(600)).await;
    }
    let warnings = cluster.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let (count, rest) = warnings[0]
        .strip_prefix("naive sent `update deployments/a` ")
        .and_then(|rest| rest.split_once(" times without changing anything: "))
        .unwrap_or_else(|| panic!("{warnings:?}"));
    assert!(count.parse::<usize>().is_ok_and(|count| count >= 3), "{warnings:?}");
    assert!(rest.contains("compare only the fields that you set, or use ctx.apply"), "{warnings:?}");
    Ok(())
}

/// Applies that change nothing are how an operator asks whether something is to be changed.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
async fn who_applies_again_and_again_is_not_warned(cluster: Cluster) -> kube::Result<()> {
    cluster.run(mirror::controller);
    cluster.apply(config("a", "one")).await?;
    for _ in 0..5 {
        cluster.restart(mirror::NAME);
        cluster.settled().await;
    }
    assert_eq!(cluster.warnings(), Vec::<String>::new());
    Ok(())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
async fn who_blocks_the_thread_is_told_so(cluster: Cluster) -> kube::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "this is the mistake")]
    async fn blocks(_: Arc<ConfigMap>, _: Ctx) -> Result<Action> {
        std::thread::sleep(Duration::from_millis(150));
        Ok(Action::await_change())
    }
    cluster.run(|| Controller::new_with("sleepy", only_a(), blocks));
    cluster.apply(config("a", "one")).await?;
    cluster.settled().await;
    let warnings = cluster.warnings();
    let told = warnings.iter().find(|it| it.starts_with("sleepy held its thread for ")).expect("it is told");
    assert!(told.contains(" while it reconciled default/a") && told.contains("tokio::time::sleep"), "{told}");
    Ok(())
}

/// A reconcile that polled until a pod was ready looked like `queue poller: 1`.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "virtual time")]
async fn who_waits_in_a_reconcile_is_told_not_to(cluster: Cluster) -> kube::Result<()> {
    async fn polls(map: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
        while ctx.get::<Secret>(&map.name_any())?.is_none() {
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        Ok(Action::await_change())
    }
    cluster.run(|| Controller::new_with("poller", only_a(), polls).reads::<Secret>());
    cluster.apply(config("a", "one")).await?;
    let line = first_line(&cluster).await;
    let expected = "not settled within 60s: poller has been reconciling default/a for 60s and sends no request: a reconcile \
                    must not wait";
    assert!(line.starts_with(expected), "{line}");

    let secret = Secret {
        metadata: ObjectMeta { name: Some("a".into()), ..ObjectMeta::default() },
        ..Secret::default()
    };
    cluster.apply(secret).await?;
    cluster.settled().await;
    let warnings = cluster.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].starts_with("poller let 62s of virtual time pass while it reconciled default/a"),
        "{warnings:?}"
    );
    Ok(())
}

/// The panic was "Cannot start a runtime from within a runtime", which says neither what nor where.
#[test]
fn who_starts_a_cluster_within_a_runtime_is_told_to_leave_it() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime starts");
    let panicked = runtime.block_on(async {
        let nested = || testing::run(testing::options(), |_| async {});
        std::panic::catch_unwind(nested).expect_err("it cannot be nested")
    });
    let told = panicked.downcast_ref::<&str>().expect("it has a text");
    assert!(told.contains("plain #[test] function that is not async"), "{told}");
}
