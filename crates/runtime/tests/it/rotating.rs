//! The certificates of webhooks are renewed, and replicas are killed, while requests go on: over TLS, in real time, and
//! with the API server of a real cluster.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::Cluster;
use evenkeel_runtime::webhook::{Admission, SideEffects, Verdict, Webhook};
use evenkeel_runtime::{Manager, Result};
use jiff::SignedDuration;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::PostParams;
use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use crate::map;

const REPLICAS: [&str; 3] = ["replica-0", "replica-1", "replica-2"];

/// How often a request is sent.
const EVERY: Duration = Duration::from_millis(10);

/// For how long requests are sent at least after each change, and so how long an API server has to notice it.
const AFTER_CHANGE: Duration = Duration::from_millis(500);

/// How long the client of an API server may take to notice that a process on this machine is gone.
const NOTICED: Duration = Duration::from_millis(50);

/// The age of the first certificate: a day after its renewal is due.
const AGE: SignedDuration = SignedDuration::from_hours(61 * 24);

/// Longer than the operators leave to API servers for noticing a new `caBundle`. The clock is set forward by it.
const SETTLED: SignedDuration = SignedDuration::from_mins(11);

/// After this time, the first certificate has expired.
const EXPIRED: SignedDuration = SignedDuration::from_hours(30 * 24);

async fn allow(_: Arc<ConfigMap>, _: Admission<ConfigMap>) -> Result<Verdict> {
    Ok(Verdict::allow())
}

fn reviewed(manager: Manager) -> Manager {
    manager.webhook(Webhook::validate(allow).side_effects(SideEffects::None))
}

/// Runs the replicas, and waits until the API server calls them.
async fn start(cluster: &Cluster) {
    for name in REPLICAS {
        cluster.run_manager(name, reviewed);
    }
    cluster.apply(map("first", "x")).await.unwrap();
    let timeline = cluster.timeline();
    assert!(!timeline.contains("cannot register"), "one of the replicas was called: {timeline}");
}

/// A request that failed.
#[derive(Clone, Debug)]
struct Failure {
    began: Instant,
    error: String,
}

/// Sends a request that the webhook reviews every [`EVERY`], whether or not the ones before have ended.
struct Load {
    cluster: Cluster,
    sent: Arc<Mutex<usize>>,
    failures: Arc<Mutex<Vec<Failure>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Load {
    fn start(cluster: &Cluster) -> Self {
        let (sent, failures) = (Arc::default(), Arc::default());
        let task = tokio::spawn(send(cluster.clone(), Arc::clone(&sent), Arc::clone(&failures)));
        Self { cluster: cluster.clone(), sent, failures, task }
    }

    /// Goes on for a while, and returns what has failed since the last call.
    async fn go_on(&self) -> Vec<Failure> {
        let before = *self.sent.lock();
        let end = Instant::now() + AFTER_CHANGE;
        while Instant::now() < end || *self.sent.lock() < before + 20 {
            assert!(!self.task.is_finished(), "requests are sent");
            tokio::time::sleep(EVERY).await;
        }
        std::mem::take(&mut self.failures.lock())
    }

    /// Goes on until the Secret of the certificates is as wanted, and a little longer. No request may fail.
    async fn until(&self, what: &str, holds: impl Fn(&Secret) -> bool) -> Secret {
        let name = secret_name(&self.cluster);
        let found = self.cluster.namespaced("kube-system").eventually::<Secret>(&name, holds).await;
        let failures = self.go_on().await;
        assert!(failures.is_empty(), "{what}: {} of {}: {failures:#?}", failures.len(), self.sent.lock());
        found
    }

    /// Sets the clock of the operators forward, and makes them look at it.
    async fn set_clock(&self, by: SignedDuration) {
        self.cluster.env().shift_clock(by);
        let now = self.cluster.env().now().to_string();
        let secrets = self.cluster.namespaced("kube-system");
        let touched = json!({ "metadata": { "annotations": { "example.com/touched": now } } });
        secrets.patch::<Secret>(&secret_name(&self.cluster), touched).await.unwrap();
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn send(cluster: Cluster, sent: Arc<Mutex<usize>>, failures: Arc<Mutex<Vec<Failure>>>) {
    let api = cluster.api::<ConfigMap>();
    let mut requests = JoinSet::new();
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        while requests.try_join_next().is_some() {}
        let (api, sent, failures) = (api.clone(), sent.clone(), failures.clone());
        requests.spawn(async move {
            let began = Instant::now();
            let params = PostParams { dry_run: true, ..PostParams::default() };
            if let Err(error) = api.create(&params, &map("asked", "x")).await {
                failures.lock().push(Failure { began, error: error.to_string() });
            }
            *sent.lock() += 1;
        });
    }
}

/// The name of the operators' configuration: that of the first replica, which the others share.
fn configuration_name(cluster: &Cluster) -> String {
    format!("{}.{}", REPLICAS[0], cluster.namespace())
}

fn secret_name(cluster: &Cluster) -> String {
    format!("{}-webhook-cert", configuration_name(cluster))
}

fn text(secret: &Secret, key: &str) -> Option<String> {
    let data = secret.data.as_ref()?.get(key)?;
    Some(String::from_utf8(data.0.clone()).unwrap())
}

/// The bundle that the API server verifies with.
async fn bundle(cluster: &Cluster) -> String {
    let found = cluster.get::<ValidatingWebhookConfiguration>(&configuration_name(cluster)).await.unwrap();
    let bundle = found.webhooks.unwrap()[0].client_config.ca_bundle.clone();
    String::from_utf8(bundle.unwrap().0).unwrap()
}

/// Three replicas renew their certificates, from the first step to the day on which the old CA goes, with a request every
/// 10 ms. The clock of the operators is set forward; that of the API server, by which it verifies, is the real one.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, real_time = true)]
async fn no_request_fails_while_the_certificates_are_renewed(cluster: Cluster) {
    cluster.env().shift_clock(-AGE);
    start(&cluster).await;
    let load = Load::start(&cluster);
    let old = load.until("before the renewal", |secret| text(secret, "tls.crt").is_some()).await;

    load.set_clock(AGE).await;
    let renewing = load.until("with a next certificate", |secret| {
        secret
            .metadata
            .annotations
            .as_ref()
            .is_some_and(|all| all.contains_key("webhooks.evenkeel.dev/published"))
    });
    let renewing = renewing.await;
    let [old_ca, new_ca] = ["ca.crt", "next-ca.crt"].map(|key| text(&renewing, key).unwrap());
    assert_eq!(text(&renewing, "tls.crt"), text(&old, "tls.crt"), "the replicas go on with the old one");
    assert_eq!(bundle(&cluster).await, format!("{old_ca}{new_ca}"));

    load.set_clock(SETTLED).await;
    load.until("with the new certificate", |secret| text(secret, "ca.crt").as_ref() == Some(&new_ca)).await;
    assert_eq!(bundle(&cluster).await, format!("{old_ca}{new_ca}"), "the old CA is still trusted");

    // From here on a connection succeeds only if its replica serves with the new certificate.
    load.set_clock(EXPIRED).await;
    load.until("without the old CA", |secret| text(secret, "retired-ca.crt").is_none()).await;
    assert_eq!(bundle(&cluster).await, new_ca);
    println!("{} requests, none failed", load.sent.lock());
}

/// One replica after the other is killed. What it was reviewing breaks; every later request is reviewed by the others.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, real_time = true)]
async fn requests_go_on_when_a_replica_is_killed(cluster: Cluster) {
    start(&cluster).await;
    let load = Load::start(&cluster);
    assert_eq!(load.go_on().await.len(), 0);
    for name in &REPLICAS[1..] {
        cluster.stop(name);
        let killed = Instant::now();
        for failure in load.go_on().await {
            let late = failure.began.saturating_duration_since(killed);
            assert!(late < NOTICED, "{late:?} after {name} was killed: {failure:?}");
            assert!(!failure.error.contains("x509"), "{failure:?}");
        }
    }
    println!("{} requests", load.sent.lock());
    cluster.stop(REPLICAS[0]);
    let failures = load.go_on().await;
    assert!(!failures.is_empty(), "without a replica, the requests of this test fail");
}
