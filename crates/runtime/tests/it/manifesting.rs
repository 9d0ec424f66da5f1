//! Manifests: an operator runs under the rules that were generated for it.

use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_cluster::testing::lines;
use evenkeel_runtime::manifests::Verbs;
use evenkeel_runtime::recorder::EventType;
use evenkeel_runtime::{Action, Controller, Ctx, Error, LeaderElection, Manager, Manifests};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};

use crate::{map, quiet};

const NAME: &str = "mirror";

/// Copies maps into Secrets, records an event, and annotates the map.
fn controller() -> Controller<ConfigMap> {
    Controller::new(NAME, |map: Arc<ConfigMap>, ctx: Ctx| async move {
        let mut secret = Secret::default();
        secret.metadata.name = map.metadata.name.clone();
        secret.string_data = map.data.clone();
        ctx.apply(secret).await?;
        ctx.recorder().record(&*map, EventType::Normal, "Copied", "into a secret");
        Ok::<_, Error>(Action::await_change())
    })
    .owns::<Secret>()
}

fn election() -> LeaderElection {
    LeaderElection::new("operators", NAME).identity("one")
}

fn manager(manager: Manager) -> Manager {
    manager.controller(controller()).leader_election(election())
}

fn manifests() -> Manifests {
    Manifests::new(NAME, "operators")
        .controller(&controller())
        .leader_election(&election())
        .image("registry.example.com/mirror:1")
}

/// Plays the scenario that the rules must allow. Returns whether the Secret was created.
async fn play(cluster: &Cluster, operator: &Cluster) -> bool {
    cluster.apply(map("one", 1)).await.unwrap();
    operator.run_manager(NAME, manager);
    if let Err(unsettled) = cluster.try_settled().await {
        panic!("{unsettled}\n{}", cluster.timeline());
    }
    cluster.get_opt::<Secret>("one").await.unwrap().is_some()
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 1)]
async fn an_operator_runs_as_its_account_under_its_rules(cluster: Cluster) {
    let operator = cluster.install(&manifests()).await.unwrap();
    assert_eq!(operator.user().name, "system:serviceaccount:operators:mirror");
    let own = cluster.namespaced("operators");
    own.get::<ServiceAccount>(NAME).await.unwrap();
    own.get::<Deployment>(NAME).await.unwrap();
    assert!(play(&cluster, &operator).await, "{:?}", lines(&cluster.forbidden()));
    assert_eq!(lines(&cluster.forbidden()), [""; 0]);
    let verbs = cluster.verbs(NAME).to_string();
    let did = |resource: &str, wanted: &[&str]| {
        let line = verbs
            .lines()
            .find_map(|line| line.strip_prefix(resource)?.strip_prefix(": "))
            .unwrap_or_default();
        let verbs: Vec<&str> = line.split(' ').collect();
        wanted.iter().all(|verb| verbs.contains(verb))
    };
    assert!(did("secrets", &["create", "patch"]), "{verbs}");
    assert!(did("events.events.k8s.io", &["create"]), "{verbs}");
    assert!(did("leases.coordination.k8s.io", &["create", "get"]), "{verbs}");
}

/// The verbs that were recorded under the usual rules are sufficient, and each of them is necessary.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "a rule of the whole cluster is taken away")]
async fn recorded_verbs_are_the_least_rules() {
    let cluster = quiet(2).await;
    let operator = cluster.install(&manifests()).await.unwrap();
    assert!(play(&cluster, &operator).await);
    let verbs: Verbs = cluster.verbs(NAME);

    let cluster = quiet(3).await;
    let operator = cluster.install(&manifests().verbs(verbs.clone())).await.unwrap();
    assert!(play(&cluster, &operator).await, "{:?}", lines(&cluster.forbidden()));
    assert_eq!(lines(&cluster.forbidden()), [""; 0]);
    let role = cluster.get::<ClusterRole>(NAME).await.unwrap();
    let rules = role.rules.unwrap();

    for (at, rule) in rules.iter().enumerate() {
        for verb in &rule.verbs {
            // Not needed in this test: `get`, for a cache that does not show a write yet; `update` of finalizers, for an
            // admission plugin that is off here; and `list`, for servers that do not stream.
            let resource = rule.resources.as_deref().unwrap_or_default()[0].as_str();
            let rare = matches!(
                (resource, verb.as_str()),
                ("configmaps", "get")
                    | ("configmaps/finalizers", "update")
                    | ("events", "patch")
                    | (_, "list")
            );
            if !rare {
                assert_refused(&verbs, &rules, at, verb).await;
            }
        }
    }
}

/// Checks that the operator is refused without this verb.
async fn assert_refused(verbs: &Verbs, rules: &[PolicyRule], at: usize, verb: &str) {
    let cluster = quiet(4).await;
    let operator = cluster.install(&manifests().verbs(verbs.clone())).await.unwrap();
    let mut role = cluster.get::<ClusterRole>(NAME).await.unwrap();
    let mut rules = rules.to_vec();
    rules[at].verbs.retain(|other| other != verb);
    role.rules = Some(rules);
    let params = kube::api::PostParams::default();
    cluster.api::<ClusterRole>().replace(NAME, &params, &role).await.unwrap();
    cluster.apply(map("one", 1)).await.unwrap();
    operator.run_manager(NAME, manager);
    // The operator retries, so that the cluster never settles.
    let _ = cluster.try_settled().await;
    assert!(!cluster.forbidden().is_empty(), "{verb} of rule {at} is not needed");
}

/// With webhooks, the rules allow exactly what the certificates need, by name.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 9, embedded = "its webhooks review all tests")]
async fn webhooks_keep_their_certificates_under_their_rules(cluster: Cluster) {
    use evenkeel_runtime::webhook::{Admission, Certificates, Endpoint, Verdict, Webhook};
    use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;

    async fn check(_: Arc<ConfigMap>, _: Admission<ConfigMap>) -> evenkeel_runtime::Result<Verdict> {
        Ok(Verdict::allow())
    }
    let manifests = Manifests::new(NAME, "operators").webhook(&Webhook::validate(check));
    let operator = cluster.install(&manifests).await.unwrap();
    let env = cluster.env().clone();
    operator.run_manager(NAME, move |manager| {
        let mut manager = manager.webhook(Webhook::validate(check));
        let webhooks = manager.take_webhooks().unwrap().unwrap();
        let (client, env) = (manager.unfenced_client().clone(), env.clone());
        manager.server("certificates", move |stop| async move {
            let certificates = Certificates::in_secret("operators", "mirror-webhook-cert");
            let endpoint = Endpoint::service("operators", "mirror-webhook");
            certificates.keep(client, env, &webhooks, NAME, &endpoint, stop).await
        })
    });
    cluster.settled().await;
    assert_eq!(lines(&cluster.forbidden()), Vec::<String>::new());
    let secret = cluster.namespaced("operators").get::<Secret>("mirror-webhook-cert").await.unwrap();
    assert!(secret.data.unwrap().contains_key("tls.crt"), "the empty Secret of the manifests was filled");
    let configuration: ValidatingWebhookConfiguration = cluster.get(NAME).await.unwrap();
    let hook = &configuration.webhooks.unwrap()[0];
    assert!(hook.client_config.ca_bundle.is_some());
    let own = hook.namespace_selector.as_ref().and_then(|all| all.match_expressions.as_ref()).unwrap();
    assert_eq!(own[0].values, Some(vec!["operators".to_owned()]), "the operator can start without itself");
    // Applied again, the manifests leave the certificates alone.
    cluster.mark();
    cluster.install(&manifests).await.unwrap();
    cluster.settled().await;
    assert_eq!(lines(&cluster.forbidden()), Vec::<String>::new());
    let again = cluster.namespaced("operators").get::<Secret>("mirror-webhook-cert").await.unwrap();
    assert!(again.data.unwrap().contains_key("tls.crt"));
}
