//! A cluster in the operator's own process, to try the operator.

use std::path::PathBuf;

use anyhow::Context as _;
use kube::Client;
use tokio::task::JoinHandle;

use crate::cluster::ServedWebhook;
use crate::cluster::serve::ServeOptions;
use crate::{Cluster, Manager};

/// A running cluster, which ends when this is dropped.
pub(super) struct Embedded {
    cluster: Cluster,
    serving: JoinHandle<()>,
}

impl Embedded {
    /// Starts a cluster, serves it on a free port, and prints how to reach it.
    pub(super) async fn start(operator: &str) -> anyhow::Result<Self> {
        // The record of requests is for tests, and would grow during a long run.
        let cluster = Cluster::builder().records(false).start().await?;
        let server = cluster.serve(ServeOptions::default()).await?;
        let kubeconfig = kubeconfig_path(operator);
        server
            .write_kubeconfig(&kubeconfig)
            .with_context(|| format!("cannot write {}", kubeconfig.display()))?;
        super::print(&format!("cluster: {}\n", server.url()))?;
        super::print(&format!("kubectl: export KUBECONFIG={}\n", kubeconfig.display()))?;
        let serving = tokio::spawn(async move {
            server.run(std::future::pending::<()>()).await;
        });
        Ok(Self { cluster, serving })
    }

    pub(super) fn client(&self) -> Client {
        self.cluster.client()
    }

    /// Serves the webhooks of a manager in this process, until the returned value is dropped.
    pub(super) async fn take_webhooks(
        &self,
        operator: &str,
        manager: &mut Manager,
    ) -> anyhow::Result<Option<ServedWebhook>> {
        self.cluster.take_webhooks(operator, manager).await.map_err(anyhow::Error::from_boxed)
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn kubeconfig_path(operator: &str) -> PathBuf {
    std::env::temp_dir().join(format!("{operator}.kubeconfig"))
}
