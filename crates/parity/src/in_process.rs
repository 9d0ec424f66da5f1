//! Replays a case against a new cluster in this process, in virtual time.

use evenkeel_cluster::Cluster;
use serde_json::Value;

use crate::replay::replay;
use crate::server::Server;
use crate::suite::Case;

/// The namespace of every case. It has the form of the namespaces in the recordings.
const NAMESPACE: &str = "p4k7qz2";

/// Returns the answers to a case. Steps that wait take no real time.
///
/// The cluster runs controllers but no scheduler and no nodes, as the one that the recordings were made with.
pub fn answers(case: &Case) -> anyhow::Result<Value> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
    runtime.block_on(async {
        let cluster = Cluster::builder().seed(0).nodes(0).scheduler(false).records(false).start().await?;
        let server = Server::new(cluster.client(), cluster.client_anonymous());
        replay(&server, case, NAMESPACE).await
    })
}
