//! Runs the operator against the cluster of the current kubeconfig, or of the pod that it runs in.

use evenkeel::Manager;
use evenkeel::kube::Client;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let client = Client::try_default().await?;
    Manager::new(client).controller(my_resource::controller()).run().await?;
    Ok(())
}
