//! Runs the operator against the cluster of the current kubeconfig, or of the pod that it runs in.

use std::sync::Arc;

use database::NoBackup;
use evenkeel::Manager;
use evenkeel::kube::Client;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let client = Client::try_default().await?;
    Manager::new(client).controller(database::controller(Arc::new(NoBackup))).run().await?;
    Ok(())
}
