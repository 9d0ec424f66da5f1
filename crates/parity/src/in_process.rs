//! Cases against a cluster of their own in this process, in virtual time.

use evenkeel_cluster::Cluster;
use serde_json::Value;

use crate::replay::replay;
use crate::server::Server;
use crate::suite::Case;

/// The namespace of every case: each has a cluster of its own. Its form is the one of the recordings.
const NAMESPACE: &str = "p4k7qz2";

/// The answers to a case. Waits and silences take no time.
///
/// The recordings were made with Kubernetes's controllers and without scheduler and nodes; so is this.
pub fn answers(case: &Case) -> anyhow::Result<Value> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
    runtime.block_on(async {
        let cluster = Cluster::builder().seed(0).nodes(0).scheduler(false).records(false).start().await?;
        let server = Server::new(cluster.client(), cluster.client_anonymous());
        replay(&server, case, NAMESPACE).await
    })
}
