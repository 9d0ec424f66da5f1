//! The certificates of the webhooks: two years of three replicas that crash at every write, and what others do to the
//! objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use evenkeel_cluster::{Cluster, CrashPoint, Moment, Outcome};
use evenkeel_runtime::webhook::{
    Admission, Certificates, Conversion, Convertible, Endpoint, Webhook, Webhooks,
};
use evenkeel_runtime::{Manager, Result};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt as _;
use parking_lot::Mutex;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;

mod v1 {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
    #[kube(group = "example.com", version = "v1", kind = "Site", namespaced)]
    pub(super) struct SiteSpec {
        pub(super) replicas: i32,
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
        Ok(v2::Site { metadata: self.metadata, spec: v2::SiteSpec { servers: self.spec.replicas } })
    }

    fn from_hub(hub: v2::Site) -> Result<Self> {
        Ok(v1::Site { metadata: hub.metadata, spec: v1::SiteSpec { replicas: hub.spec.servers } })
    }
}

pub(crate) async fn own(map: ConfigMap, _: Admission<ConfigMap>) -> Result<ConfigMap> {
    Ok(map)
}

const SERVER_NAME: &str = "op-webhook.default.svc";

fn endpoint() -> Endpoint {
    Endpoint::service("default", "op-webhook")
}

fn conversion() -> Conversion<v2::Site> {
    Conversion::new().spoke::<v1::Site>()
}

fn hooks(manager: Manager) -> (Manager, Webhooks) {
    let mut manager = manager.webhook(Webhook::mutate(own)).conversion(conversion());
    let webhooks = manager.take_webhooks().unwrap().unwrap();
    (manager, webhooks)
}

/// The configuration and the definition, as manifests have them: without a `caBundle`.
pub(crate) async fn install(cluster: &Cluster) {
    let (_, webhooks) = hooks(Manager::new(cluster.client()));
    let mut definition = serde_json::to_value(conversion().crd().unwrap()).unwrap();
    definition["spec"]["conversion"] = webhooks.conversions(&endpoint())[0].1.clone();
    let mut objects = webhooks.configurations("op", &endpoint());
    objects.push(definition);
    for object in objects {
        cluster.apply_yaml(&object.to_string()).await.unwrap();
    }
}

/// The certificates of a replica that runs, renewed with every start.
pub(crate) type Slot = Arc<Mutex<Option<Certificates>>>;

/// Runs a replica. It serves in its own way: what matters here is its certificate.
pub(crate) fn run(cluster: &Cluster, name: &str) -> Slot {
    let slot = Slot::default();
    let (env, given) = (cluster.env().clone(), slot.clone());
    cluster.run_manager(name, move |manager| {
        let (manager, webhooks) = hooks(manager);
        let certificates = Certificates::in_secret("default", "op-webhook-cert");
        *given.lock() = Some(certificates.clone());
        let (client, env) = (manager.unfenced_client().clone(), env.clone());
        manager.server("certificates", move |stop| async move {
            certificates.keep(client, env, &webhooks, "op", &endpoint(), stop).await
        })
    });
    slot
}

/// Verifies a chain as the API server does: by the CAs of a bundle, at this time.
pub(crate) fn verify(chain: &[Vec<u8>], bundle: &[u8], now: Timestamp) -> Result<(), String> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle) {
        roots.add(certificate.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
    let verifier = verifier.map_err(|error| error.to_string())?;
    let seconds = u64::try_from(now.as_second()).unwrap();
    let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    let own = CertificateDer::from(chain[0].clone());
    let verified = verifier.verify_server_cert(&own, &[], &SERVER_NAME.try_into().unwrap(), &[], time);
    verified.map(drop).map_err(|error| error.to_string())
}

/// The bundles in an object, by the path of the object and the name of the entry.
fn bundles(path: &str, object: &Value) -> Vec<(String, Vec<u8>)> {
    let path = path.split('?').next().unwrap_or_default();
    let hooks = object["webhooks"].as_array().cloned().unwrap_or_default();
    let entries = hooks.iter().map(|hook| (hook["name"].to_string(), &hook["clientConfig"]));
    let conversion = ("conversion".to_owned(), &object["spec"]["conversion"]["webhook"]["clientConfig"]);
    let found = entries.chain([conversion]).filter_map(|(name, config)| {
        let bundle = STANDARD.decode(config["caBundle"].as_str()?).unwrap();
        Some((format!("{path} {name}"), bundle))
    });
    found.collect()
}

/// Compares what the replicas show with what the API server trusts.
#[derive(Default)]
pub(crate) struct Checker {
    replicas: Vec<Slot>,
    /// The newest bundle by object and entry.
    pub(crate) trusted: BTreeMap<String, Vec<u8>>,
    /// The chains that were shown so far.
    shown: Vec<Vec<Vec<u8>>>,
    most_trusted: usize,
    /// What was verified at the present time: a chain with a bundle.
    verified: BTreeSet<(Vec<Vec<u8>>, Vec<u8>)>,
    checks: usize,
}

impl Checker {
    fn note(&mut self, moment: &Moment, now: Timestamp) {
        let Moment::Request(exchange) = moment else { return };
        let written = match &exchange.outcome {
            Outcome::Answered { status, .. } => *status < 300,
            Outcome::Lost { wrote, .. } => wrote.is_some(),
            _ => false,
        };
        let replica = exchange.by.starts_with("replica");
        if replica && written && exchange.verb == "apply" {
            let object = serde_json::from_slice(&exchange.body).unwrap();
            let found = bundles(&exchange.path, &object);
            assert!(!found.is_empty(), "{} {object}", exchange.path);
            self.trusted.extend(found);
        }
        self.check(now);
    }

    /// Whatever certificate a replica shows, every configuration trusts it.
    fn check(&mut self, now: Timestamp) {
        for slot in &self.replicas {
            let Some(chain) = slot.lock().as_ref().and_then(|certificates| certificates.chain(now)) else {
                continue;
            };
            assert_eq!(self.trusted.len(), 2, "one bundle for each object");
            for (what, bundle) in &self.trusted {
                self.checks += 1;
                if !self.verified.insert((chain.clone(), bundle.clone())) {
                    continue;
                }
                if let Err(error) = verify(&chain, bundle, now) {
                    panic!("{now}: {what} does not trust what a replica shows: {error}");
                }
                let many = CertificateDer::pem_slice_iter(bundle).count();
                self.most_trusted = self.most_trusted.max(many);
            }
            if !self.shown.contains(&chain) {
                self.shown.push(chain);
            }
        }
    }
}

/// Checks at every request of a replica, in the background. A failed check is shown by `checker`.
pub(crate) fn checking(cluster: &Cluster, checker: &Arc<Mutex<Checker>>) -> tokio::task::JoinHandle<()> {
    let (mut moments, checker, env) = (cluster.observe(), checker.clone(), cluster.env().clone());
    tokio::spawn(async move {
        loop {
            match moments.recv().await {
                Ok(moment) => checker.lock().note(&moment, env.now()),
                Err(RecvError::Closed) => return,
                Err(RecvError::Lagged(lost)) => panic!("{lost} moments were not checked"),
            }
        }
    })
}

pub(crate) const REPLICAS: [&str; 3] = ["replica-0", "replica-1", "replica-2"];

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 1, embedded = "two years pass")]
async fn no_request_meets_a_certificate_that_is_not_trusted(cluster: Cluster) {
    install(&cluster).await;
    let checker = Arc::new(Mutex::new(Checker::default()));
    let checking = checking(&cluster, &checker);
    checker.lock().replicas = REPLICAS.map(|name| run(&cluster, name)).to_vec();
    cluster.settled().await;
    let points = [CrashPoint::Before(1), CrashPoint::AnswerLost(1), CrashPoint::After(1)];
    let mut armed = [usize::MAX; 3];
    let mut turn = 0;
    let end = cluster.env().now() + SignedDuration::from_hours(2 * 365 * 24);
    while cluster.env().now() < end {
        // Whenever a replica has crashed, it crashes at its next write again, in another way.
        for (replica, name) in REPLICAS.into_iter().enumerate() {
            let crashes = cluster.crashes(name);
            if armed[replica] != crashes {
                armed[replica] = crashes;
                cluster.crash(name, points[turn % 3]);
                turn += 1;
            }
        }
        // During a renewal, time passes by minutes. Otherwise the clock moves on by hours, and the replicas look at it
        // every ten minutes.
        let secret: Secret = cluster.get("op-webhook-cert").await.unwrap();
        let renewing = secret.data.unwrap_or_default().contains_key("next-tls.crt");
        if !renewing {
            cluster.env().shift_clock(SignedDuration::from_hours(8));
        }
        cluster.advance(Duration::from_secs(if renewing { 60 } else { 660 })).await;
        cluster.settled().await;
        assert!(!checking.is_finished(), "a check failed");
        let mut checker = checker.lock();
        let now = cluster.env().now();
        checker.verified.clear();
        checker.check(now);
        for slot in &checker.replicas {
            let checked = slot.lock().as_ref().map(|certificates| certificates.check(now));
            assert_eq!(checked, Some(Ok(())), "at {now}");
        }
    }
    let crashes: usize = REPLICAS.iter().map(|name| cluster.crashes(name)).sum();
    let checker = checker.lock();
    println!("{} certificates, {crashes} crashes, {} checks", checker.shown.len(), checker.checks);
    assert!(checker.shown.len() >= 12, "730 days, renewed every 60: {}", checker.shown.len());
    assert!(crashes >= 24, "{crashes}");
    assert_eq!(checker.most_trusted, 2, "both CAs are trusted in between, and no more");
}

/// Whoever changes a bundle, empties the Secret or deletes it: it is put right at once, with the same certificate.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 2, embedded = "its webhooks review all tests")]
async fn what_others_change_is_repaired(cluster: Cluster) {
    install(&cluster).await;
    let slots = ["replica-0", "replica-1"].map(|name| run(&cluster, name));
    cluster.settled().await;
    let read = async || {
        let configuration: MutatingWebhookConfiguration = cluster.get("op").await.unwrap();
        let definition: CustomResourceDefinition = cluster.get("sites.example.com").await.unwrap();
        let secret: Secret = cluster.get("op-webhook-cert").await.unwrap();
        let bundle = configuration.webhooks.unwrap()[0].client_config.ca_bundle.clone();
        let conversion = definition.spec.conversion.unwrap().webhook.unwrap();
        (bundle, conversion.client_config.unwrap().ca_bundle, secret.data)
    };
    let before = read().await;
    assert_eq!(before.0, before.1);
    assert_eq!(before.0.as_ref().map(|bundle| &bundle.0), before.2.as_ref().map(|data| &data["ca.crt"].0));

    let other =
        json!({ "clientConfig": { "caBundle": STANDARD.encode("other") }, "name": "mutate.configmaps.core" });
    cluster.patch::<MutatingWebhookConfiguration>("op", json!({ "webhooks": [other] })).await.unwrap_err();
    let mut configuration: MutatingWebhookConfiguration = cluster.get("op").await.unwrap();
    configuration.webhooks.as_mut().unwrap()[0].client_config.ca_bundle = None;
    let api = cluster.api::<MutatingWebhookConfiguration>();
    api.replace("op", &kube::api::PostParams::default(), &configuration).await.unwrap();
    let mut definition: CustomResourceDefinition = cluster.get("sites.example.com").await.unwrap();
    let conversion = definition.spec.conversion.as_mut().unwrap().webhook.as_mut().unwrap();
    conversion.client_config.as_mut().unwrap().ca_bundle = None;
    let api = cluster.api::<CustomResourceDefinition>();
    api.replace("sites.example.com", &kube::api::PostParams::default(), &definition).await.unwrap();
    cluster.settled().await;
    assert_eq!(read().await, before);

    cluster.delete::<Secret>("op-webhook-cert").await.unwrap();
    cluster.settled().await;
    assert_eq!(read().await, before, "the replicas wrote it again");
    let mut secret: Secret = cluster.get("op-webhook-cert").await.unwrap();
    secret.data = None;
    let api = cluster.api::<Secret>();
    api.replace(&secret.name_any(), &kube::api::PostParams::default(), &secret).await.unwrap();
    cluster.settled().await;
    assert_eq!(read().await, before);
    let now = cluster.env().now();
    for slot in slots {
        let chain = slot.lock().as_ref().and_then(|certificates| certificates.chain(now)).unwrap();
        verify(&chain, &before.0.as_ref().unwrap().0, now).unwrap();
    }
}

/// A configuration that comes later, or whose webhooks lead elsewhere in part.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 3, embedded = "its webhooks review all tests")]
async fn configurations_may_come_later(cluster: Cluster) {
    let slot = run(&cluster, "replica-0");
    cluster.settled().await;
    assert!(slot.lock().as_ref().unwrap().check(cluster.env().now()).is_ok(), "nothing to wait for");
    install(&cluster).await;
    cluster.settled().await;
    let configuration: MutatingWebhookConfiguration = cluster.get("op").await.unwrap();
    assert!(configuration.webhooks.unwrap()[0].client_config.ca_bundle.is_some());
}

/// What is missing to make certificates is said where people look: in the readiness and in the log.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 4, embedded = "its requests fail")]
async fn a_failure_is_shown_and_tried_again(cluster: Cluster) {
    cluster.fail(
        evenkeel_cluster::Matcher::any().by("replica-0").kind::<Secret>().method(http::Method::POST),
        evenkeel_cluster::Fault::InternalError,
        3,
    );
    let slot = run(&cluster, "replica-0");
    cluster.idle().await;
    let problem = slot.lock().as_ref().unwrap().check(cluster.env().now()).unwrap_err();
    assert!(problem.contains("write the Secret default/op-webhook-cert"), "{problem}");
    cluster.settled().await;
    assert_eq!(slot.lock().as_ref().unwrap().check(cluster.env().now()), Ok(()));
}

/// A replica that cannot renew its certificate shows it until its end and not beyond.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 5, embedded = "three months pass")]
async fn an_expired_certificate_is_not_shown(cluster: Cluster) {
    install(&cluster).await;
    let slot = run(&cluster, "replica-0");
    cluster.settled().await;
    // The replica hangs: it goes on to show what it has.
    let certificates = slot.lock().clone().unwrap();
    cluster.stop("replica-0");
    tokio::time::sleep(Duration::from_secs(80 * 24 * 3600)).await;
    let now = cluster.env().now();
    assert!(certificates.check(now).is_ok() && certificates.chain(now).is_some());
    tokio::time::sleep(Duration::from_secs(11 * 24 * 3600)).await;
    let now = cluster.env().now();
    assert!(certificates.chain(now).is_none());
    let problem = certificates.check(now).unwrap_err();
    assert!(
        problem.starts_with("the certificate is valid from 2025-12-31T00:00:00Z until 2026-04-01"),
        "{problem}"
    );
}
