//! A handle on a remote cluster.

use std::sync::{Arc, OnceLock};

use evenkeel_env::Env;
use kube::Client;
use parking_lot::Mutex;

use super::builder::SETTLE_LIMIT;
use crate::cluster::{Cluster, ClusterInner};
use crate::containers::Containers;
use crate::transport::{Backend, WebhookTransport, Wire};

impl Cluster {
    /// The test kit on a remote cluster, through this client and in its default namespace.
    ///
    /// Operators that run through the handle watch that namespace only, unless their sources name others. Faults and
    /// crash points affect the requests of this process alone. The ledger does not know what other processes do, so
    /// [`Cluster::settled`] is an approximation: our own queues are empty, and for one second this process sent no
    /// request and nothing in the namespace changed.
    ///
    /// Tests need not call this: with `EVENKEEL_KUBECONFIG`, [`testing::run`](crate::testing::run) runs them on a
    /// remote cluster.
    ///
    /// ```no_run
    /// # async fn run(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use evenkeel_cluster::Cluster;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// let cluster = Cluster::connect(client);
    /// cluster.delete::<ConfigMap>("settings").await?;
    /// cluster.settled().await;
    /// cluster.assert_none::<ConfigMap>().await;
    /// # Ok(()) }
    /// ```
    pub fn connect(client: Client) -> Self {
        let env = Env::system();
        let namespace = client.default_namespace().to_owned();
        let webhooks = Arc::new(WebhookTransport::new(&env, true));
        let wire = Arc::new(Wire::new(Backend::Remote(client), env.clone(), true, webhooks));
        let inner = ClusterInner {
            wire,
            station: env.ledger().station("cluster"),
            settle_limit: SETTLE_LIMIT,
            server: None,
            authority: Arc::default(),
            operators: Mutex::default(),
            follower: OnceLock::new(),
            rules: Default::default(),
            containers: Containers::new(env.clone(), Default::default()),
            http_faults: Default::default(),
            logs: Default::default(),
            replicated: Mutex::default(),
            outside: Mutex::default(),
        };
        Self::new(inner, &namespace)
    }
}
