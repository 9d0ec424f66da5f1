//! Tests that render the chart with Helm, named by `EVENKEEL_HELM` or found in the PATH. CI sets the variable, so that
//! the tests cannot be skipped there.

use std::path::PathBuf;
use std::process::Command as Process;
use std::sync::Arc;

use clap::Parser as _;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use crate::cli::{Arguments, Command, Operator};
use crate::{Action, Controller, Ctx, Result};

async fn reconcile(_: Arc<ConfigMap>, _: Ctx) -> Result<Action> {
    Ok(Action::await_change())
}

/// A CRD with texts that YAML or Helm could misread.
fn crd() -> CustomResourceDefinition {
    let text = json!({
        "type": "string",
        "description": "Not a template: {{ .Values.x }}, \"{{\" or }}\nsecond line: # no comment\n",
        "enum": ["y", "no", "on", "1e3", "0x10", "010", "1_000", "null", "~", "", "12:30:45", "{{", "- a", "a: b", " x "],
    });
    let number = json!({ "type": "integer", "format": "int64", "maximum": 9_007_199_254_740_991_i64 });
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "mirrors.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "kind": "Mirror", "plural": "mirrors" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": {
                    "spec": { "type": "object", "properties": { "text": text, "number": number } },
                } } },
            }],
        },
    }))
    .unwrap()
}

fn operator() -> Operator {
    let controller = || Controller::new("mirror", reconcile).owns::<Secret>();
    Operator::new("mirror", move |manager| manager.controller(controller())).version("1.2.3").crd(crd())
}

#[cfg(feature = "webhook-server")]
fn with_webhooks() -> Operator {
    use crate::webhook::{Admission, Verdict, Webhook};
    async fn check(_: Arc<ConfigMap>, _: Admission<ConfigMap>) -> Result<Verdict> {
        Ok(Verdict::allow())
    }
    Operator::new("mirror", |manager| manager.webhook(Webhook::validate(check))).crd(crd())
}

fn helm() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("EVENKEEL_HELM") {
        return Some(named.into());
    }
    let found = Process::new("helm").arg("version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("skipped: there is no helm (hint: set EVENKEEL_HELM)");
    }
    found.then(|| "helm".into())
}

/// A folder of this test, which is removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("evenkeel-chart-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Parses `manifests` with these flags and this namespace.
fn arguments(flags: &str) -> Arguments {
    let line = format!("mirror manifests {flags}");
    Arguments::try_parse_from(line.split_whitespace()).unwrap()
}

/// Writes the chart or base of an operator with these flags.
fn written(operator: Operator, flags: &str, folder: &Folder, form: &str) {
    let arguments = arguments(&format!("{flags} --{form} {}", folder.0.display()));
    let Some(Command::Manifests(wanted)) = &arguments.command else { panic!("{arguments:?}") };
    let (folder, sign, files) = operator.files(wanted, &arguments.replica).unwrap();
    super::write(&folder, &files, sign).unwrap();
}

/// The objects that `manifests` prints with these flags, by kind and name.
fn printed(operator: Operator, flags: &str) -> Vec<Value> {
    let arguments = arguments(flags);
    let Some(Command::Manifests(wanted)) = &arguments.command else { panic!("{arguments:?}") };
    let yaml = operator.deployment(wanted, &arguments.replica).unwrap().yaml().unwrap();
    sorted(serde_saphyr::from_multiple(&yaml).unwrap())
}

/// Writes whole numbers without a fraction, as Go does, so that `1.0` and `1` are equal.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let whole = number.as_f64().filter(|it| number.is_f64() && it.fract() == 0.0 && it.abs() < 1e18);
            if let Some(whole) = whole {
                *value = json!(whole as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        _ => {}
    }
}

fn sorted(mut objects: Vec<Value>) -> Vec<Value> {
    objects.retain(|object| !object.is_null());
    objects.iter_mut().for_each(whole_numbers);
    objects.sort_by_key(super::identity);
    objects
}

fn run(helm: &std::path::Path, arguments: &[&str]) -> (bool, String) {
    let output = Process::new(helm).args(arguments).output().unwrap();
    let text =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (output.status.success(), text)
}

/// Renders the chart with these values.
fn rendered(helm: &std::path::Path, folder: &Folder, settings: &[&str]) -> Vec<Value> {
    let chart = folder.0.to_str().unwrap();
    let mut arguments = vec!["template", "any-release", chart, "--namespace", "ops"];
    for setting in settings {
        arguments.extend(["--set", setting]);
    }
    let (ok, text) = run(helm, &arguments);
    assert!(ok, "{text}");
    sorted(serde_saphyr::from_multiple(&text).unwrap())
}

/// Compares the objects one by one, so that a failure names the object that differs.
fn assert_same(rendered: &[Value], printed: &[Value], what: &str) {
    let names = |objects: &[Value]| objects.iter().map(super::identity).collect::<Vec<_>>();
    assert_eq!(names(rendered), names(printed), "{what}");
    for (one, other) in rendered.iter().zip(printed) {
        assert_eq!(one, other, "{what}: {:?}", super::identity(one));
    }
}

/// Removes the annotation by which Helm keeps CRDs, which only the chart has.
fn without_keep(mut objects: Vec<Value>) -> Vec<Value> {
    for object in objects.iter_mut().filter(|object| object["kind"] == "CustomResourceDefinition") {
        let metadata = object["metadata"].as_object_mut().unwrap();
        let annotations = metadata["annotations"].as_object_mut().unwrap();
        assert_eq!(annotations.remove("helm.sh/resource-policy"), Some("keep".into()));
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    objects
}

/// Removes the namespace, because Helm creates it itself.
fn without_namespace(objects: Vec<Value>) -> Vec<Value> {
    objects.into_iter().filter(|object| object["kind"] != "Namespace").collect()
}

const FLAGS: [&str; 9] = [
    "",
    "--leader-elect",
    "--leader-elect --leader-elect-resource-name=m --leader-elect-resource-namespace=locks --replicas 3",
    "--metrics-secure=false",
    "--metrics-bind-address 0",
    "--health-probe-bind-address 0 --metrics-bind-address [::]:9999 --image registry.example.com:5000/a/mirror",
    "--health-probe-bind-address :9000 --metrics-bind-address :9000 --metrics-secure=false",
    "--metrics-cert-dir /certs --monitoring --leader-elect",
    "--image mirror@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef --monitoring",
];

#[tokio::test]
async fn a_chart_with_defaults_is_what_manifests_prints() {
    let Some(helm) = helm() else { return };
    for (at, flags) in FLAGS.iter().enumerate() {
        let flags = format!("--namespace ops {flags}");
        let folder = Folder::new(&format!("same-{at}"));
        written(operator(), &flags, &folder, "helm");
        let (ok, told) = run(&helm, &["lint", "--strict", folder.0.to_str().unwrap()]);
        assert!(ok, "{flags}: {told}");
        let rendered = without_keep(rendered(&helm, &folder, &[]));
        assert_same(&rendered, &without_namespace(printed(operator(), &flags)), &flags);
    }
}

#[cfg(feature = "webhook-server")]
#[tokio::test]
async fn a_chart_with_webhooks_is_what_manifests_prints() {
    let Some(helm) = helm() else { return };
    let all = ["", "--webhook-bind-address :8443", "--webhook-cert-dir /certs --metrics-cert-dir /others"];
    for (at, flags) in all.iter().enumerate() {
        let flags = format!("--namespace ops {flags}");
        let folder = Folder::new(&format!("hooked-{at}"));
        written(with_webhooks(), &flags, &folder, "helm");
        let found = without_keep(rendered(&helm, &folder, &[]));
        assert_same(&found, &without_namespace(printed(with_webhooks(), &flags)), &flags);
        // Another port reaches the operator's arguments.
        let changed = rendered(&helm, &folder, &["webhooks.port=7443"]);
        let deployment = changed.iter().find(|object| object["kind"] == "Deployment").unwrap();
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["args"][0], "--webhook-bind-address=:7443");
    }
}

/// Setting a value has the same effect as the flag with the same meaning.
#[tokio::test]
async fn a_setting_is_the_flag_of_the_same_meaning() {
    let Some(helm) = helm() else { return };
    let folder = Folder::new("settings");
    written(operator(), "--namespace ops", &folder, "helm");
    for (settings, flags) in [
        (&["leaderElection.enabled=true", "replicas=2"][..], "--leader-elect"),
        (&["metrics.secure=false", "metrics.port=8080"], "--metrics-secure=false"),
        (&["metrics.enabled=false"], "--metrics-bind-address 0"),
        (&["health.enabled=false"], "--health-probe-bind-address 0"),
        (&["image.repository=a/b", "image.tag=v7"], "--image a/b:v7"),
        (
            &[
                "leaderElection.enabled=true",
                "replicas=3",
                "leaderElection.resourceName=m",
                "leaderElection.resourceNamespace=locks",
            ],
            "--leader-elect --replicas 3 --leader-elect-resource-name=m --leader-elect-resource-namespace=locks",
        ),
        (
            &[
                "metrics.serviceMonitor.enabled=true",
                "metrics.prometheusRule.enabled=true",
                "metrics.dashboard.enabled=true",
            ],
            "--monitoring",
        ),
    ] {
        let found = without_keep(rendered(&helm, &folder, settings));
        let flags = format!("--namespace ops {flags}");
        assert_same(&found, &without_namespace(printed(operator(), &flags)), &flags);
    }
}

#[tokio::test]
async fn settings_leave_out_and_add() {
    let Some(helm) = helm() else { return };
    let folder = Folder::new("parts");
    written(operator(), "--namespace ops", &folder, "helm");
    let kinds = |settings: &[&str]| -> Vec<String> {
        rendered(&helm, &folder, settings).iter().map(|object| super::identity(object).0).collect()
    };
    for (setting, kind) in [
        ("crds.enabled=false", "CustomResourceDefinition"),
        ("rbac.create=false", "ClusterRoleBinding"),
        ("serviceAccount.create=false", "ServiceAccount"),
        ("networkPolicy.enabled=false", "NetworkPolicy"),
        ("metrics.enabled=false", "Service"),
    ] {
        assert!(kinds(&[]).contains(&kind.to_owned()), "{kind}");
        assert!(!kinds(&[setting]).contains(&kind.to_owned()), "{setting}");
    }
    let given_up = rendered(&helm, &folder, &["crds.keep=false"]);
    let crd = given_up.iter().find(|object| object["kind"] == "CustomResourceDefinition").unwrap();
    assert_eq!(crd["metadata"]["annotations"], Value::Null);
    let objects = rendered(&helm, &folder, &["serviceAccount.name=other", "env[0].name=A", "env[0].value=b"]);
    let of_kind = |kind: &str| objects.iter().find(|object| object["kind"] == kind).unwrap();
    assert_eq!(of_kind("ClusterRoleBinding")["subjects"][0]["name"], "other");
    assert_eq!(of_kind("ServiceAccount")["metadata"]["name"], "other");
    let pod = &of_kind("Deployment")["spec"]["template"]["spec"];
    assert_eq!(
        (&pod["serviceAccountName"], &pod["containers"][0]["env"][0]["value"]),
        (&"other".into(), &"b".into())
    );
    let chart = folder.0.to_str().unwrap();
    for (setting, said) in [
        ("replicas=2", "leaderElection.enabled=true"),
        ("replica=2", "replica"),
        ("image.pullPolicy=Sometimes", "pullPolicy"),
        ("metrics.port=0", "port"),
    ] {
        let (ok, told) = run(&helm, &["template", "x", chart, "--set", setting]);
        assert!(!ok && told.contains(said), "{setting}: {told}");
    }
}

/// The notes told of a namespace `MONITORING_mirrorSPACE`, because the operator's name had replaced a part of the word.
#[tokio::test]
async fn the_operator_is_named_where_its_name_belongs() {
    let folder = Folder::new("named");
    written(operator(), "--namespace ops --image registry.example.com/NAME --leader-elect", &folder, "helm");
    let read = |path: &str| std::fs::read_to_string(folder.0.join(path)).unwrap();
    let notes = read("templates/NOTES.txt");
    assert!(notes.contains("--clusterrole=mirror-metrics-reader"), "{notes}");
    assert!(notes.contains("--serviceaccount=MONITORING_NAMESPACE:PROMETHEUS_ACCOUNT"), "{notes}");
    assert!(
        read("values.yaml").contains("repository: \"registry.example.com/NAME\""),
        "{}",
        read("values.yaml")
    );
    for file in ["templates/NOTES.txt", "templates/deployment.yaml", "templates/_helpers.tpl", "values.yaml"]
    {
        assert!(!read(file).contains(super::OPERATOR), "{file}");
    }
}

/// `kubectl kustomize` builds what `manifests` prints.
#[tokio::test]
async fn a_base_is_what_manifests_prints() {
    let has_kubectl = Process::new("kubectl").args(["version", "--client"]).output();
    if !has_kubectl.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: there is no kubectl");
        return;
    }
    for (at, flags) in FLAGS.iter().enumerate() {
        let flags = format!("--namespace ops {flags}");
        let folder = Folder::new(&format!("base-{at}"));
        written(operator(), &flags, &folder, "kustomize");
        let output = Process::new("kubectl").arg("kustomize").arg(&folder.0).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let built = sorted(serde_saphyr::from_multiple(&String::from_utf8(output.stdout).unwrap()).unwrap());
        assert_same(&built, &printed(operator(), &flags), &flags);
    }
}

#[test]
fn a_folder_with_other_files_is_left_alone() {
    let folder = Folder::new("other");
    std::fs::create_dir_all(&folder.0).unwrap();
    std::fs::write(folder.0.join("notes"), "mine").unwrap();
    let mut files = vec![("Chart.yaml".to_owned(), "a".to_owned())];
    let refused = super::write(&folder.0, &files, "Chart.yaml").unwrap_err().to_string();
    assert!(refused.contains("is not empty") && !folder.0.join("Chart.yaml").exists(), "{refused}");
    std::fs::remove_file(folder.0.join("notes")).unwrap();
    super::write(&folder.0, &files, "Chart.yaml").unwrap();
    files.push(("templates/webhooks.yaml".to_owned(), "b".to_owned()));
    super::write(&folder.0, &files, "Chart.yaml").unwrap();
    // A file beside those of the command stays; the template of webhooks that the operator gave up does not.
    std::fs::write(folder.0.join("templates/mine.yaml"), "mine").unwrap();
    files.pop();
    super::write(&folder.0, &files, "Chart.yaml").unwrap();
    assert!(folder.0.join("templates/mine.yaml").exists());
    assert!(!folder.0.join("templates/webhooks.yaml").exists());
}
