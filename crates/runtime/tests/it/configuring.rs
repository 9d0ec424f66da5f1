//! Which cluster a manager connects to: that of a kubeconfig, of the pod that it runs in, or of a client.
//!
//! Tests about the environment start another process, which runs [`the_process_of_an_operator`].

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_cluster::serve::ServeOptions;
use evenkeel_runtime::{Action, Controller, Ctx, Error, Manager};
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleRef, Subject};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, ResourceExt};
use tempfile::TempDir;
use tokio::sync::mpsc;

use crate::map;

const CHILD: &str = "EVENKEEL_RUNTIME_CONFIGURING_CHILD";

/// A cluster with one map that is served on a port, and a folder with its kubeconfig.
struct Served {
    cluster: Cluster,
    kubeconfig: String,
    host: String,
    files: TempDir,
}

async fn served() -> Served {
    let cluster = Cluster::builder().controllers(false).start().await.unwrap();
    cluster.apply(map("one", 1)).await.unwrap();
    let server = cluster.serve(ServeOptions::default()).await.unwrap();
    let (kubeconfig, host) = (server.kubeconfig().to_owned(), server.address().to_string());
    let files = tempfile::tempdir().unwrap();
    server.write_kubeconfig(&files.path().join("kubeconfig")).unwrap();
    tokio::spawn(server.run(std::future::pending()));
    Served { cluster, kubeconfig, host, files }
}

impl Served {
    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.files.path().join(name), content).unwrap();
    }

    /// Writes the files that a pod of this account finds in its file system.
    async fn mount_account(&self, namespace: &str, name: &str) {
        let client = self.cluster.client();
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
        let asked = TokenRequest { spec: Some(TokenRequestSpec::default()), ..TokenRequest::default() };
        let issued = accounts.create_token_request(name, &Default::default(), &asked).await.unwrap();
        self.write("token", issued.status.unwrap().token.unwrap());
        let kubeconfig: serde_json::Value = serde_json::from_str(&self.kubeconfig).unwrap();
        let authority = kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"].clone();
        self.write("ca.crt", serde_json::from_value::<ByteString>(authority).unwrap().0);
        self.write("namespace", namespace);
    }

    /// Creates an account that may do everything, in a new namespace.
    async fn account(&self, namespace: &str, name: &str) {
        let mut space = Namespace::default();
        space.metadata.name = Some(namespace.into());
        self.cluster.apply(space).await.unwrap();
        let mut account = ServiceAccount::default();
        account.metadata.name = Some(name.into());
        account.metadata.namespace = Some(namespace.into());
        self.cluster.apply(account).await.unwrap();
        let mut binding = ClusterRoleBinding {
            role_ref: RoleRef {
                api_group: Some("rbac.authorization.k8s.io".into()),
                kind: "ClusterRole".into(),
                name: "cluster-admin".into(),
            },
            subjects: Some(vec![Subject {
                kind: "ServiceAccount".into(),
                name: name.into(),
                namespace: Some(namespace.into()),
                ..Subject::default()
            }]),
            ..ClusterRoleBinding::default()
        };
        binding.metadata.name = Some("operator".into());
        self.cluster.apply(binding).await.unwrap();
    }
}

/// The first object that this manager reconciles.
async fn first_reconciled(manager: Manager, namespace: &str) -> String {
    let (seen, mut reconciled) = mpsc::unbounded_channel();
    let controller = Controller::new("first", move |map: Arc<ConfigMap>, _: Ctx| {
        let told = seen.send(map.name_any());
        async move { told.map(|()| Action::await_change()).map_err(|error| Error::message(error.to_string())) }
    });
    let manager = manager.namespaces([namespace]).controller(controller);
    tokio::select! {
        biased;
        first = reconciled.recv() => first.unwrap(),
        ended = manager.run_until(std::future::pending()) => panic!("{ended:?}"),
    }
}

/// A manager connects over TLS with the certificate of a kubeconfig.
#[tokio::test]
async fn a_manager_is_made_of_a_kubeconfig() {
    let served = served().await;
    let kubeconfig = Kubeconfig::from_yaml(&served.kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let manager = Manager::from_config(config).unwrap();
    let metrics = manager.metrics().clone();
    assert_eq!(first_reconciled(manager, "default").await, "one");
    let text = metrics.encode();
    let host = served.host;
    assert!(text.contains(&format!("host=\"{host}\"")), "requests are counted by their host:\n{text}");
}

/// The `main` of an operator: prints its cluster, its account and the first object that it reconciles.
#[tokio::test]
async fn the_process_of_an_operator() {
    let Ok(how) = std::env::var(CHILD) else { return };
    let made = match how.as_str() {
        "infer" => Manager::infer().await,
        path => {
            let kubeconfig = Kubeconfig::read_from(Path::new(path)).unwrap();
            let options = KubeConfigOptions::default();
            let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
            Client::try_from(config).map(Manager::new)
        }
    };
    match made {
        Err(error) => println!("error: {error}"),
        Ok(manager) => {
            println!("namespace: {}", manager.client().default_namespace());
            println!("reconciled: {}", first_reconciled(manager, "default").await);
        }
    }
}

/// An operator with an empty environment.
fn operator(how: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["configuring::the_process_of_an_operator", "--exact", "--nocapture"]);
    bare(&mut command, how);
    command
}

fn bare(command: &mut Command, how: impl AsRef<std::ffi::OsStr>) {
    command.env(CHILD, how).env("HOME", "/nowhere");
    for name in ["KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"] {
        command.env_remove(name);
    }
}

/// Runs the operator while this process serves its cluster. Returns what it printed.
async fn said(mut command: Command) -> Vec<String> {
    let Output { status, stdout, stderr } =
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    let lines = String::from_utf8(stdout).unwrap();
    let own =
        |line: &&str| ["namespace: ", "reconciled: ", "error: "].iter().any(|word| line.starts_with(word));
    lines.lines().filter(own).map(str::to_owned).collect()
}

#[tokio::test]
async fn an_operator_finds_the_kubeconfig_that_its_environment_names() {
    let served = served().await;
    let mut command = operator("infer");
    command.env("KUBECONFIG", served.files.path().join("kubeconfig"));
    assert_eq!(said(command).await, ["namespace: default", "reconciled: one"]);
}

/// In a pod there is no kubeconfig, but a token and a certificate of its account.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_operator_in_a_pod_finds_the_cluster_that_it_runs_in() {
    let own_files = ["--map-root-user", "--mount"];
    let may = Command::new("unshare").args(own_files).arg("true").status();
    if !may.is_ok_and(|status| status.success()) {
        eprintln!("skipped: this machine gives no process files of its own");
        return;
    }
    let served = served().await;
    served.account("operators", "operator").await;
    served.mount_account("operators", "operator").await;
    let (host, port) = served.host.rsplit_once(':').unwrap();
    let mount = "mount -t tmpfs files /var/run && mkdir -p /var/run/secrets/kubernetes.io \
                 && ln -s \"$0\" /var/run/secrets/kubernetes.io/serviceaccount && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(own_files).args(["sh", "-c", mount]).arg(served.files.path());
    let operator = operator("infer");
    command.arg(operator.get_program()).args(operator.get_args());
    bare(&mut command, "infer");
    command.env("KUBERNETES_SERVICE_HOST", host).env("KUBERNETES_SERVICE_PORT", port);
    assert_eq!(said(command).await, ["namespace: operators", "reconciled: one"]);
}

#[tokio::test]
async fn an_operator_that_finds_no_cluster_says_where_it_looked() {
    let said = said(operator("infer")).await.join("\n");
    assert!(said.starts_with("error: ") && said.contains("kubeconfig"), "{said}");
    assert!(said.contains("in-cluster") || said.contains("incluster"), "{said}");
}

/// A manager with a client reads nothing from the environment.
#[tokio::test]
async fn a_client_is_taken_as_it_is_whatever_the_environment_says() {
    let served = served().await;
    let mut command = operator(served.files.path().join("kubeconfig"));
    command.env("KUBECONFIG", "/nowhere/kubeconfig");
    command.env("KUBERNETES_SERVICE_HOST", "nowhere").env("KUBERNETES_SERVICE_PORT", "443");
    assert_eq!(said(command).await, ["namespace: default", "reconciled: one"]);
}
