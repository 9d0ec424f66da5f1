//! The webhooks of operators that the test kit runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel_cluster::{Cluster, Fault, Matcher, WebhookFault, testing};
use evenkeel_runtime::webhook::{Admission, FailurePolicy, FieldErrors, Verdict, Webhook};
use evenkeel_runtime::{Manager, Manifests, Result};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;
use tokio::time::Instant;

use crate::sites;

/// The time that the slow webhook takes.
const SLOW: Duration = Duration::from_secs(5);

/// Every ConfigMap has a color.
async fn default_color(mut map: ConfigMap, _: Admission<ConfigMap>) -> Result<ConfigMap> {
    map.data.get_or_insert_default().entry("color".into()).or_insert_with(|| "red".into());
    Ok(map)
}

/// The color is not blue.
async fn not_blue(map: Arc<ConfigMap>, _: Admission<ConfigMap>) -> Result<Verdict> {
    let mut errors = FieldErrors::default();
    if map.data.as_ref().and_then(|data| data.get("color")).is_some_and(|color| color == "blue") {
        errors.invalid("data.color", "blue", "is out of stock");
    }
    Ok(errors.into())
}

fn colors(manager: Manager) -> Manager {
    manager.webhook(Webhook::mutate(default_color)).webhook(Webhook::validate(not_blue))
}

fn map(name: &str, color: Option<&str>) -> ConfigMap {
    let data = color.map(|color| json!({"color": color}));
    serde_json::from_value(json!({"metadata": {"name": name}, "data": data})).expect("it is one")
}

async fn apply(cluster: &Cluster, name: &str) -> Result<String, String> {
    let applied = cluster.apply(map(name, None)).await.map_err(|error| error.to_string())?;
    Ok(applied.data.and_then(|data| data.get("color").cloned()).unwrap_or_default())
}

async fn start() -> Cluster {
    Cluster::builder().controllers(false).start().await.expect("a cluster in memory starts")
}

#[tokio::test(start_paused = true)]
async fn an_operators_webhooks_work_from_its_start() {
    let cluster = start().await;
    let began = Instant::now();
    cluster.run_manager("colors", colors);
    // Nothing is awaited in between: the request waits until the webhooks are registered.
    assert_eq!(apply(&cluster, "a").await.as_deref(), Ok("red"));
    let refused = cluster.apply(map("b", Some("blue"))).await.expect_err("blue is refused");
    let kube::Error::Api(status) = &refused else { panic!("{refused}") };
    let causes = &status.details.as_ref().expect("it has details").causes;
    assert_eq!((status.code, causes[0].field.as_str()), (422, "data.color"));
    assert_eq!(began.elapsed(), Duration::ZERO, "no time has passed");

    let timeline = cluster.timeline();
    let call =
        "calls https://colors.webhooks.test/mutate--v1-configmap?timeout=10s (CREATE configmaps/a) → 200";
    assert!(timeline.contains(call), "{timeline}");
    let registered = "kubectl                  apply validatingwebhookconfigurations/colors → 201";
    assert!(timeline.contains(registered), "{timeline}");
}

#[tokio::test(start_paused = true)]
async fn registration_survives_faults_that_are_meant_for_others() {
    let cluster = start().await;
    cluster.fail(Matcher::writes(), Fault::InternalError, 2);
    cluster.run_manager("colors", colors);
    assert_eq!(apply(&cluster, "a").await.as_deref(), Ok("red"));
}

#[tokio::test(start_paused = true)]
async fn a_stopped_operators_webhooks_are_down_until_it_starts_again() {
    let cluster = start().await;
    cluster.run_manager("colors", colors);
    assert_eq!(apply(&cluster, "a").await.as_deref(), Ok("red"));
    cluster.stop("colors");
    let failed = apply(&cluster, "b").await.expect_err("nobody listens");
    assert!(failed.contains("dial tcp colors.webhooks.test:443: connect: connection refused"), "{failed}");
    cluster.run_manager("colors", colors);
    assert_eq!(apply(&cluster, "b").await.as_deref(), Ok("red"));
    cluster.restart("colors");
    cluster.settled().await;
    assert_eq!(cluster.crashes("colors"), 1);
    cluster.mark();
    assert_eq!(apply(&cluster, "c").await.as_deref(), Ok("red"));
    assert_eq!(cluster.writes().len(), 1, "the webhooks were registered before");
}

#[tokio::test(start_paused = true)]
async fn a_crash_breaks_the_calls_that_are_under_way() {
    async fn slow(_: Arc<ConfigMap>, _: Admission<ConfigMap>) -> Result<Verdict> {
        tokio::time::sleep(SLOW).await;
        Ok(Verdict::allow())
    }
    let cluster = start().await;
    cluster.run_manager("slow", |manager| manager.webhook(Webhook::validate(slow)));
    let crash = async {
        tokio::time::sleep(SLOW / 2).await;
        cluster.restart("slow");
    };
    let (applied, ()) = tokio::join!(apply(&cluster, "a"), crash);
    let failed = applied.expect_err("the operator crashed");
    assert!(failed.contains("configmap?timeout=10s\": EOF"), "{failed}");
    let began = Instant::now();
    apply(&cluster, "a").await.expect("it runs again");
    assert_eq!(began.elapsed(), SLOW);
}

#[tokio::test(start_paused = true)]
async fn replicas_take_turns_and_the_rest_goes_on_alone() {
    async fn count(_: Arc<ConfigMap>, request: Admission<ConfigMap, AtomicUsize>) -> Result<Verdict> {
        request.state().fetch_add(1, Ordering::SeqCst);
        Ok(Verdict::allow())
    }
    let cluster = start().await;
    let calls: [Arc<AtomicUsize>; 2] = std::array::from_fn(|_| Arc::default());
    for (at, calls) in calls.iter().cloned().enumerate() {
        let hook = move || Webhook::validate(count).state(calls.clone());
        cluster.run_manager(&format!("replica-{at}"), move |manager| manager.webhook(hook()));
    }
    for name in ["a", "b", "c", "d"] {
        apply(&cluster, name).await.expect("it is allowed");
    }
    let counted = || calls.each_ref().map(|calls| calls.load(Ordering::SeqCst));
    assert_eq!(counted(), [2, 2]);
    cluster.stop("replica-0");
    for name in ["e", "f"] {
        apply(&cluster, name).await.expect("the other replica is there");
    }
    assert_eq!(counted(), [2, 4]);
    let all = cluster.list::<ValidatingWebhookConfiguration>().await.expect("they can be listed");
    assert_eq!(all.len(), 1, "the replicas share one configuration");
}

#[tokio::test(start_paused = true)]
async fn an_operators_webhooks_are_down_slow_or_talk_nonsense() {
    let cluster = start().await;
    cluster.run_manager("colors", colors);
    let faults = [
        (WebhookFault::Down, "connection refused"),
        (WebhookFault::Slow(Duration::from_secs(11)), "context deadline exceeded"),
        (WebhookFault::Nonsense, "json parse error"),
    ];
    for (fault, expected) in faults {
        cluster.fail_webhook("colors.", fault, 1);
        let error = apply(&cluster, "a").await.expect_err("the webhook fails");
        assert!(error.contains(expected), "{fault:?}: {error}");
    }
    cluster.run_manager("colors", |manager| {
        manager.webhook(Webhook::mutate(default_color).failure_policy(FailurePolicy::Ignore))
    });
    cluster.fail_webhook("colors.", WebhookFault::Down, 1);
    assert_eq!(apply(&cluster, "a").await.as_deref(), Ok(""), "the failure is ignored");
    assert_eq!(apply(&cluster, "b").await.as_deref(), Ok("red"));
}

#[tokio::test(start_paused = true)]
async fn webhooks_that_a_new_version_does_not_have_are_removed() {
    let cluster = start().await;
    cluster.run_manager("colors", colors);
    cluster.run_manager("colors", |manager| manager.webhook(Webhook::mutate(default_color)));
    cluster.apply(map("a", Some("blue"))).await.expect("nobody validates any more");
    assert_eq!(cluster.list::<ValidatingWebhookConfiguration>().await.expect("listed"), []);
    assert_eq!(cluster.list::<MutatingWebhookConfiguration>().await.expect("listed").len(), 1);
    cluster.run_manager("colors", |manager| manager);
    assert_eq!(apply(&cluster, "b").await.as_deref(), Ok(""));
    assert_eq!(cluster.list::<MutatingWebhookConfiguration>().await.expect("listed"), []);
}

#[tokio::test(start_paused = true)]
async fn an_installed_operator_is_reached_by_its_service() {
    let cluster = start().await;
    let account = cluster.install(&Manifests::new("colors", "operators")).await.expect("they are valid");
    account.run_manager("colors-0", colors);
    assert_eq!(apply(&cluster, "a").await.as_deref(), Ok("red"));
    let own = cluster.namespaced("operators");
    assert_eq!(apply(&own, "a").await.as_deref(), Ok(""), "it does not review its own namespace");
    cluster.get::<Namespace>("operators").await.expect("the manifests create it");
    cluster.fail_webhook("https://colors-webhook.operators.svc:443/", WebhookFault::Down, 1);
    apply(&cluster, "b").await.expect_err("the webhook is down");
}

/// The strategy and the URL of the conversion of sites.
async fn site_conversion(cluster: &Cluster) -> (String, Option<String>) {
    let definition = cluster.get::<CustomResourceDefinition>("sites.example.com").await.expect("it exists");
    let conversion = definition.spec.conversion.expect("the API server sets it");
    let config = conversion.webhook.and_then(|webhook| webhook.client_config);
    (conversion.strategy, config.and_then(|config| config.url))
}

#[tokio::test(start_paused = true)]
async fn the_conversion_is_part_of_the_definition_whichever_comes_first() {
    let crd = || sites::conversion().crd().expect("the versions fit together");
    let by_webhook = ("Webhook".to_owned(), Some("https://sites.webhooks.test/convert".to_owned()));
    let none = ("None".to_owned(), None);
    for operator_first in [true, false] {
        let cluster = start().await;
        if !operator_first {
            cluster.apply(crd()).await.expect("it is valid");
            assert_eq!(site_conversion(&cluster).await, none);
        }
        cluster.run_manager("sites", |manager| manager.conversion(sites::conversion()));
        if operator_first {
            cluster.apply(crd()).await.expect("it is valid");
        }
        assert_eq!(site_conversion(&cluster).await, by_webhook);
        cluster.apply(crd()).await.expect("another apply changes nothing");
        assert_eq!(site_conversion(&cluster).await, by_webhook);
        cluster.run_manager("sites", |manager| manager);
        assert_eq!(site_conversion(&cluster).await, none, "an operator without conversion takes it back");
    }
}

#[test]
fn two_webhooks_of_one_path_stop_the_operator() {
    testing::run(testing::options().controllers(false), |cluster| async move {
        cluster.run_manager("twice", |manager| colors(colors(manager)));
        cluster.settled().await;
        assert_eq!(apply(&cluster, "a").await.as_deref(), Ok(""), "nothing is registered");
        let timeline = cluster.timeline();
        assert!(timeline.contains("twice stopped with an error: two webhooks have the"), "{timeline}");
    });
}
