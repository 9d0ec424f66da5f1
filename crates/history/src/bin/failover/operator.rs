//! One replica: while it leads, it writes without preconditions and without a pause.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use evenkeel_runtime::{LeaderElection, Manager};
use futures::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};

use crate::writes::{NAMESPACE, OBJECTS};

/// How long the lease lasts: the shortest time that keeps the proportions of the defaults, so that many rounds fit into
/// a minute.
pub(crate) const LEASE: Duration = Duration::from_secs(2);
/// How long a leader that cannot renew its lease keeps writing.
const RENEW: Duration = Duration::from_millis(1300);
/// How often the lease is renewed.
const RETRY: Duration = Duration::from_millis(250);
/// The pause after a failed write.
const PAUSE: Duration = Duration::from_millis(5);

/// The arguments of a replica.
#[derive(Debug, Args)]
pub(crate) struct Operator {
    /// The kubeconfig of the server.
    #[arg(long)]
    kubeconfig: PathBuf,
    /// The name of this process in the election and in its writes.
    #[arg(long)]
    identity: String,
}

impl Operator {
    /// Takes part in the election, and writes until it has lost the lease.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig).context("cannot read the kubeconfig")?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let election = LeaderElection::new(NAMESPACE, "failover").identity(&self.identity);
        let manager = Manager::from_config(config)?.leader_election(election.times(LEASE, RENEW, RETRY));
        let maps: Api<ConfigMap> = Api::namespaced(manager.client().clone(), NAMESPACE);
        let identity = self.identity;
        let manager = manager.runnable("writes", move |stop| async move {
            let writing = (0..OBJECTS).map(|object| write(maps.clone(), object, identity.clone()));
            tokio::select! {
                () = stop.cancelled() => {}
                _ = join_all(writing) => {}
            }
            Ok::<_, anyhow::Error>(())
        });
        Ok(manager.run().await?)
    }
}

/// Writes the identity into one object, again and again.
async fn write(maps: Api<ConfigMap>, object: usize, identity: String) {
    let name = format!("o{object}");
    for count in 0_u64.. {
        let patch = serde_json::json!({ "data": { "by": identity, "count": count.to_string() } });
        if maps.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.is_err() {
            tokio::time::sleep(PAUSE).await;
        }
    }
}
