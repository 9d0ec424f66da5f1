use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::Value;

use super::*;
use crate::{Action, Controller, Ctx, Result};

async fn reconcile(_: Arc<ConfigMap>, _: Ctx) -> Result<Action> {
    Ok(Action::await_change())
}

fn operator() -> Operator {
    Operator::new("mirror", |manager| manager.controller(Controller::new("mirror", reconcile))).version("1.2")
}

fn arguments(line: &str) -> Arguments {
    Arguments::try_parse_from(std::iter::once("mirror").chain(line.split_whitespace())).unwrap()
}

/// The objects that `mirror manifests` prints with these arguments.
fn deployed(line: &str) -> Vec<Value> {
    let arguments = arguments(&format!("manifests {line}"));
    let Some(Command::Manifests(wanted)) = &arguments.command else { panic!("{arguments:?}") };
    operator().deployment(wanted, &arguments.replica).unwrap().objects()
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    objects.iter().find(|object| object["kind"] == kind).unwrap_or(&Value::Null)
}

#[tokio::test]
async fn a_deployment_is_probed_where_its_arguments_have_it_serve() {
    let objects = deployed("");
    let deployment = of_kind(&objects, "Deployment");
    assert_eq!(deployment["spec"]["replicas"], 1);
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "mirror:1.2");
    let everything = ["--health-probe-bind-address=:8081", "--metrics-bind-address=:8443"];
    assert_eq!(container["args"], serde_json::json!(everything));
    assert_eq!(
        container["ports"],
        serde_json::json!([
            {"name": "probes", "containerPort": 8081}, {"name": "metrics", "containerPort": 8443},
        ])
    );
    assert_eq!(container["livenessProbe"]["httpGet"]["port"], 8081);
    assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/healthz");
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");
    assert_eq!(of_kind(&objects, "Role"), &Value::Null, "nobody is elected");

    let objects = deployed(
        "--health-probe-bind-address [::]:9090 --metrics-bind-address [::]:9090 --metrics-secure=false --image mirror:edge",
    );
    let container = &of_kind(&objects, "Deployment")["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["readinessProbe"]["httpGet"]["port"], 9090);
    let everything = [
        "--health-probe-bind-address=[::]:9090",
        "--metrics-bind-address=[::]:9090",
        "--metrics-secure=false",
    ];
    assert_eq!(container["args"], serde_json::json!(everything));
    assert_eq!(container["ports"], serde_json::json!([{"name": "http", "containerPort": 9090}]));
    assert_eq!(container["image"], "mirror:edge");

    let objects = deployed("--health-probe-bind-address 0 --metrics-bind-address 0");
    let container = &of_kind(&objects, "Deployment")["spec"]["template"]["spec"]["containers"][0];
    assert_eq!((&container["ports"], &container["livenessProbe"]), (&Value::Null, &Value::Null));
    assert_eq!(container["args"][0], "--health-probe-bind-address=0");
}

#[tokio::test]
async fn an_elected_one_has_two_replicas_and_the_rules_of_its_lease() {
    let objects = deployed("--namespace operators --leader-elect");
    let deployment = of_kind(&objects, "Deployment");
    assert_eq!(deployment["spec"]["replicas"], 2);
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["args"][2], "--leader-elect");
    let role = of_kind(&objects, "Role");
    assert_eq!(
        (&role["metadata"]["namespace"], &role["rules"][1]["resourceNames"][0]),
        (&"operators".into(), &"mirror".into())
    );

    let objects =
        deployed("--leader-elect --leader-elect-resource-name=m --leader-elect-resource-namespace=locks");
    let role = of_kind(&objects, "Role");
    assert_eq!(
        (&role["metadata"]["namespace"], &role["rules"][1]["resourceNames"][0]),
        (&"locks".into(), &"m".into())
    );
    let arguments = &of_kind(&objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]["args"];
    assert_eq!(arguments[3], "--leader-elect-resource-name=m");
    assert_eq!(arguments[4], "--leader-elect-resource-namespace=locks");
}

/// Metrics are served without TLS only on request, and then at the usual port for that.
#[tokio::test]
async fn metrics_are_plain_when_asked_for() {
    let objects = deployed("--metrics-secure=false");
    let container = &of_kind(&objects, "Deployment")["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["args"][1], "--metrics-bind-address=:8080");
    assert_eq!(container["args"][2], "--metrics-secure=false");
    assert!(objects.iter().all(|object| object["metadata"]["name"] != "mirror-metrics-auth"));
    let objects = deployed("--metrics-cert-dir /certs");
    let pod = &of_kind(&objects, "Deployment")["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["args"][2], "--metrics-cert-dir=/certs");
    assert_eq!(pod["containers"][0]["volumeMounts"][0]["mountPath"], "/certs");
    assert_eq!(pod["volumes"][0]["secret"]["secretName"], "mirror-metrics-cert");
}

#[test]
fn flags_that_contradict_each_other_are_refused() {
    let refused = |line: &str| arguments(line).replica.check().unwrap_err().to_string();
    let same = "--health-probe-bind-address :9090 --metrics-bind-address :9090";
    assert!(refused(same).contains("--metrics-secure=false"));
    assert!(refused("--metrics-secure=false --metrics-cert-dir /x").contains("--metrics-cert-dir"));
    for line in [&format!("{same} --metrics-secure=false"), "--metrics-secure", "--metrics-secure=true", ""] {
        assert!(arguments(line).replica.check().is_ok(), "{line}");
    }
}

#[test]
fn a_lease_is_named_only_where_somebody_is_elected() {
    let refused = Arguments::try_parse_from(["mirror", "--leader-elect-resource-name=m"]).unwrap_err();
    assert!(refused.to_string().contains("--leader-elect"), "{refused}");
}

#[test]
fn the_flags_mean_the_same_before_and_after_the_command() {
    let before = arguments("--leader-elect --metrics-bind-address :9090 manifests");
    let after = arguments("manifests --leader-elect --metrics-bind-address :9090");
    assert_eq!(format!("{:?}", before.replica), format!("{:?}", after.replica));
}

#[cfg(feature = "webhook-server")]
mod webhooks {
    use super::*;
    use crate::webhook::{Admission, Verdict, Webhook};

    async fn check(_: Arc<ConfigMap>, _: Admission<ConfigMap>) -> Result<Verdict> {
        Ok(Verdict::allow())
    }

    fn operator() -> Operator {
        Operator::new("mirror", |manager| manager.webhook(Webhook::validate(check)))
    }

    fn deployed(line: &str) -> Vec<Value> {
        let arguments = arguments(&format!("manifests {line}"));
        let Some(Command::Manifests(wanted)) = &arguments.command else { panic!("{arguments:?}") };
        operator().deployment(wanted, &arguments.replica).unwrap().objects()
    }

    #[tokio::test]
    async fn a_deployment_serves_where_its_arguments_say() {
        let objects = deployed("--namespace ops");
        let container = &of_kind(&objects, "Deployment")["spec"]["template"]["spec"]["containers"][0];
        let port = serde_json::json!({ "name": "webhooks", "containerPort": 9443 });
        assert_eq!(container["ports"].as_array().unwrap().last(), Some(&port));
        assert_eq!(of_kind(&objects, "Secret")["metadata"]["name"], "mirror-webhook-cert");

        let objects = deployed("--webhook-bind-address :8443 --webhook-cert-dir /certs");
        let pod = &of_kind(&objects, "Deployment")["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        assert_eq!(container["args"][0], "--webhook-bind-address=:8443");
        assert_eq!(container["args"][1], "--webhook-cert-dir=/certs");
        assert_eq!(container["volumeMounts"][0]["mountPath"], "/certs");
        assert_eq!(pod["volumes"][0]["secret"]["secretName"], "mirror-webhook-cert");
        assert_eq!(of_kind(&objects, "Secret"), &Value::Null, "cert-manager makes it");
        let named = |object: &Value| object["metadata"]["name"] == "mirror-webhooks";
        assert!(!objects.iter().any(named), "and keeps the bundles");
        let annotations = &of_kind(&objects, "ValidatingWebhookConfiguration")["metadata"]["annotations"];
        assert_eq!(annotations["cert-manager.io/inject-ca-from"], "default/mirror-webhook-cert");
    }

    /// `--embedded` calls the webhooks in this process, also for built-in kinds in the default namespace.
    #[cfg(feature = "cluster")]
    #[tokio::test]
    async fn an_embedded_cluster_calls_the_webhooks() {
        async fn deny(_: Arc<ConfigMap>, _: Admission<ConfigMap>) -> Result<Verdict> {
            Ok(Verdict::deny("not today"))
        }
        let embedded = embedded::Embedded::start("mirror-test").await.unwrap();
        let operator = Operator::new("mirror", |manager| manager.webhook(Webhook::validate(deny)));
        let mut manager = operator.manager(Manager::new(embedded.client()), &arguments(""), "default");
        let served = embedded.take_webhooks("mirror", &mut manager).await.unwrap();
        assert!(served.is_some());
        let _running = tokio::spawn(manager.run_until(std::future::pending()));
        let api: kube::Api<ConfigMap> = kube::Api::default_namespaced(embedded.client());
        let mut map = ConfigMap::default();
        map.metadata.name = Some("a".into());
        let refused = api.create(&kube::api::PostParams::default(), &map).await.unwrap_err().to_string();
        assert!(refused.contains("not today"), "{refused}");
    }
}

/// The generated rules allow exactly what an election needs: without one of them, no replica leads.
#[cfg(feature = "cluster")]
mod elected {
    use evenkeel_cluster::{Cluster, testing};
    use k8s_openapi::api::coordination::v1::Lease;

    use super::*;

    async fn run(cluster: &Cluster, manifests: &Manifests) -> kube::Result<()> {
        let account = cluster.install(manifests).await?;
        account.run_manager("mirror", |manager| {
            let manager = manager.controller(Controller::new("mirror", reconcile));
            arguments("--leader-elect").replica.applied(manager, "mirror", "operators")
        });
        cluster.idle().await;
        Ok(())
    }

    fn manifests() -> Manifests {
        let arguments = arguments("manifests --namespace operators --leader-elect");
        let Some(Command::Manifests(wanted)) = &arguments.command else { panic!("{arguments:?}") };
        operator().deployment(wanted, &arguments.replica).unwrap()
    }

    #[test]
    fn an_account_may_lead_by_the_rules_of_its_manifests() {
        testing::run(testing::options(), |cluster| async move {
            run(&cluster, &manifests()).await?;
            let lease = cluster.namespaced("operators").get::<Lease>("mirror").await?;
            let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
            assert!(!holder.is_empty());
            // The renewal uses the rest of the rules.
            cluster.advance(std::time::Duration::from_secs(5)).await;
            assert_eq!(testing::lines(&cluster.forbidden()), Vec::<String>::new());
            Ok::<_, kube::Error>(())
        })
        .unwrap();
    }

    #[test]
    fn who_may_not_hold_the_lease_does_not_lead() {
        testing::run(testing::options(), |cluster| async move {
            let without = operator().manifests("operators").map_err(kube::Error::Service)?;
            run(&cluster, &without).await?;
            let refused = testing::lines(&cluster.forbidden());
            assert!(refused.iter().any(|request| request.contains("leases")), "{refused:?}");
            Ok::<_, kube::Error>(())
        })
        .unwrap();
    }
}

/// Every command of an operator in the book is one that an operator understands.
#[test]
fn the_commands_of_the_book_are_understood() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src");
    let pages = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let pages = pages.filter(|path| path.is_file()).map(|path| std::fs::read_to_string(path).unwrap());
    let mut seen = 0;
    for line in pages.flat_map(|page| page.lines().map(str::to_owned).collect::<Vec<_>>()) {
        let Some(command) = line.strip_prefix("my-operator ") else { continue };
        let words = command.split(['|', '#', '>']).next().unwrap().split_whitespace();
        let understood = Arguments::try_parse_from(std::iter::once("my-operator").chain(words));
        assert!(understood.is_ok(), "{line}: {understood:?}");
        seen += 1;
    }
    assert!(seen >= 5, "{seen}");
}

/// Manifests can be made in a test without a runtime, and in one that has its own.
#[test]
fn manifests_need_no_runtime() {
    assert!(!operator().manifests("operators").unwrap().objects().is_empty());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { assert!(!operator().manifests("operators").unwrap().objects().is_empty()) });
}

/// Samples may have Secrets.
#[test]
fn an_operator_shows_its_name_and_no_sample() {
    const PLANTED: &str = "planted-secret-c0ffee";
    let operator = operator().samples(PLANTED).verbs(PLANTED);
    let shown = format!("{operator:?} {operator:#?}");
    assert!(shown.contains("mirror") && !shown.contains(PLANTED), "{shown}");
}
