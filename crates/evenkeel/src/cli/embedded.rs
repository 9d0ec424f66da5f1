//! A cluster in the operator's own process, for a first look.

use std::path::PathBuf;

use anyhow::Context as _;
use kube::Client;
use tokio::task::JoinHandle;

use crate::Cluster;
use crate::cluster::serve::ServeOptions;

/// A running cluster; it ends when this is dropped.
pub(super) struct Embedded {
    cluster: Cluster,
    serving: JoinHandle<()>,
}

impl Embedded {
    /// Starts a cluster, serves it on a free port, and says where.
    pub(super) async fn start(operator: &str) -> anyhow::Result<Self> {
        // Nobody reads the record here, and a long run would keep it for nothing.
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
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn kubeconfig_path(operator: &str) -> PathBuf {
    std::env::temp_dir().join(format!("{operator}.kubeconfig"))
}
