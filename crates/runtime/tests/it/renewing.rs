//! Renewals of the webhooks' certificates, with a connection every 10 ms of virtual time: by API servers that are late, to
//! replicas that are late, and while somebody replaces the Secret.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::Cluster;
use evenkeel_runtime::Manager;
use evenkeel_runtime::webhook::{Certificates, Endpoint, Webhook};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Secret;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::certifying::{Checker, REPLICAS, Slot, checking, install, own, run, verify};

/// How often a client connects to one of the replicas.
const EVERY: Duration = Duration::from_millis(10);

/// How late an API server is that has a new bundle just in time.
const LATE: Duration = Duration::from_secs(9 * 60);

/// Longer than a renewal takes.
const RENEWAL: Duration = Duration::from_secs(12 * 60);

/// The certificates that are made on the first day are due on this one.
const DUE: SignedDuration = SignedDuration::from_hours(60 * 24);

/// The certificate that a replica shows.
type Chain = Vec<Vec<u8>>;

/// The bundles of all objects.
type Bundles = BTreeMap<String, Vec<u8>>;

/// Two API servers, one of them late, that connect to the replicas in turn.
struct Clients {
    cluster: Cluster,
    replicas: Vec<Slot>,
    checker: Arc<Mutex<Checker>>,
    checking: JoinHandle<()>,
    /// The bundles since each time at which they changed.
    bundles: Vec<(Instant, Bundles)>,
    connections: usize,
}

impl Clients {
    /// Runs these replicas, and waits until they serve.
    async fn of(cluster: &Cluster, names: &[&str]) -> Self {
        install(cluster).await;
        let checker = Arc::new(Mutex::new(Checker::default()));
        let checking = checking(cluster, &checker);
        let replicas = names.iter().map(|name| run(cluster, name)).collect();
        cluster.settled().await;
        let bundles = Vec::new();
        let mut clients =
            Self { cluster: cluster.clone(), replicas, checker, checking, bundles, connections: 0 };
        clients.connect_for(LATE).await;
        clients
    }

    /// The bundles of an API server that is this late; `None` before the first.
    fn bundles(&self, late: Duration) -> Option<&Bundles> {
        let at = Instant::now().checked_sub(late)?;
        self.bundles.iter().rev().find(|(since, _)| *since <= at).map(|(_, bundles)| bundles)
    }

    /// Connects every 10 ms for this long, and asserts that the API servers trust what they are shown.
    async fn connect_for(&mut self, time: Duration) {
        // What was verified. The clock moves on by minutes only.
        let mut verified: Vec<(Chain, Vec<u8>)> = Vec::new();
        let end = Instant::now() + time;
        while Instant::now() < end {
            tokio::time::sleep(EVERY).await;
            assert!(!self.checking.is_finished(), "a check failed");
            let newest = self.checker.lock().trusted.clone();
            if self.bundles.last().is_none_or(|(_, bundles)| *bundles != newest) {
                self.bundles.push((Instant::now(), newest));
            }
            self.connections += 1;
            let replica = self.connections % self.replicas.len();
            let Some(chain) = self.shown(replica) else { continue };
            for late in [Duration::ZERO, LATE] {
                for (what, bundle) in self.bundles(late).into_iter().flatten() {
                    if verified.iter().any(|(known, by)| *known == chain && by == bundle) {
                        continue;
                    }
                    let now = self.cluster.env().now();
                    if let Err(error) = verify(&chain, bundle, now) {
                        panic!("{now}: {what}, {late:?} late, does not trust replica {replica}: {error}");
                    }
                    verified.push((chain.clone(), bundle.clone()));
                }
            }
        }
    }

    /// What a replica shows.
    fn shown(&self, replica: usize) -> Option<Chain> {
        let certificates = self.replicas[replica].lock().clone()?;
        certificates.chain(self.cluster.env().now())
    }
}

/// An API server that has the new bundle just in time, and a replica that hangs for most of a month and goes on to show what
/// it has: both go on through the renewal.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 6, embedded = "three months pass")]
async fn a_renewal_waits_for_late_api_servers_and_late_replicas(cluster: Cluster) {
    let mut clients = Clients::of(&cluster, &REPLICAS).await;
    let old = clients.shown(0).unwrap();
    cluster.stop(REPLICAS[2]);
    cluster.env().shift_clock(DUE);
    clients.connect_for(RENEWAL * 2).await;
    let new = clients.shown(0).unwrap();
    assert_ne!(new, old, "the certificate was renewed");
    assert_eq!(clients.shown(1).as_ref(), Some(&new));
    assert_eq!(clients.shown(2).as_ref(), Some(&old), "the third replica knows nothing of it");

    cluster.env().shift_clock(SignedDuration::from_hours(28 * 24));
    clients.connect_for(RENEWAL).await;
    assert_eq!(clients.shown(2).as_ref(), Some(&old), "its certificate is still valid");
    clients.replicas[2] = run(&cluster, REPLICAS[2]);
    clients.connect_for(EVERY * 100).await;
    assert_eq!(clients.shown(2).as_ref(), Some(&new));
    assert!(clients.connections > 250_000, "{}", clients.connections);
}

/// Somebody replaces the Secret by one with another certificate, which no configuration trusts. The replicas go on with
/// theirs until every API server trusts the other.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 7, embedded = "its clock is moved")]
async fn a_secret_that_somebody_replaced_is_taken_over_in_peace(cluster: Cluster) {
    let mut clients = Clients::of(&cluster, &REPLICAS).await;
    let old = clients.shown(0).unwrap();
    cluster.env().shift_clock(SignedDuration::from_hours(10 * 24));
    let env = cluster.env().clone();
    cluster.run_manager("other", move |manager| {
        let mut manager: Manager = manager.webhook(Webhook::mutate(own));
        let webhooks = manager.take_webhooks().unwrap().unwrap();
        let (client, env) = (manager.unfenced_client().clone(), env.clone());
        manager.server("certificates", move |stop| async move {
            let certificates = Certificates::in_secret("default", "other-cert");
            let endpoint = Endpoint::service("default", "op-webhook");
            certificates.keep(client, env, &webhooks, "other", &endpoint, stop).await
        })
    });
    cluster.settled().await;
    cluster.stop("other");
    let other: Secret = cluster.get("other-cert").await.unwrap();
    let mut secret: Secret = cluster.get("op-webhook-cert").await.unwrap();
    secret.data = other.data;
    let params = kube::api::PostParams::default();
    cluster.api::<Secret>().replace("op-webhook-cert", &params, &secret).await.unwrap();
    clients.connect_for(Duration::from_secs(60)).await;
    for replica in 0..REPLICAS.len() {
        assert_eq!(clients.shown(replica).as_ref(), Some(&old), "nobody trusts the other yet");
    }
    clients.connect_for(RENEWAL).await;
    let taken = clients.shown(0);
    assert!(taken.is_some() && taken.as_ref() != Some(&old), "the other one is trusted by now");
    for replica in 0..REPLICAS.len() {
        assert_eq!(clients.shown(replica), taken);
    }
}
