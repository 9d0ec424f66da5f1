//! Controls simulated pods: rules for what their containers do, and their logs.

use evenkeel_controllers::node::STOPPED;
use evenkeel_controllers::node::logs::Logs;
use evenkeel_controllers::node::rules::Rule;
use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use crate::cluster::Cluster;

impl Cluster {
    /// Adds a rule that tells matching containers what to do: exit, become ready late, fail to pull their image, print
    /// lines. The rule takes effect at once, and precedes earlier rules, but not the annotations of a pod.
    /// [`behaviour`](evenkeel_controllers::node::behaviour) describes the words. Does nothing on a remote cluster.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options(), |cluster| async move {
    /// # let spec = serde_json::json!({"containers": [{"name": "web", "image": "registry.example/web:2"}]});
    /// # let pod: Pod = serde_json::from_value(serde_json::json!({"metadata": {"name": "web"}, "spec": spec})).unwrap();
    /// use evenkeel_cluster::{Behaviour, PodRule};
    /// cluster.tell_pods(PodRule::new(Behaviour::new().exit_code(1)).image("registry.example/web:*"));
    /// cluster.apply(pod).await.unwrap();
    /// cluster.settled().await;
    /// let web = serde_json::to_value(cluster.get::<Pod>("web").await.unwrap()).unwrap();
    /// assert_eq!(web["status"]["containerStatuses"][0]["state"]["waiting"]["reason"], "CrashLoopBackOff");
    /// # });
    /// ```
    pub fn tell_pods(&self, rule: Rule) {
        self.inner.wire.recorder.disturbed(format!("tells pods: {rule:?}"));
        self.inner.rules.add(rule);
    }

    /// Removes all rules added by [`Cluster::tell_pods`]: containers do what their specs and annotations say.
    pub fn clear_pod_rules(&self) {
        self.inner.wire.recorder.disturbed("removes the rules for pods");
        self.inner.rules.clear();
    }

    /// The output of the containers on the simulated nodes, to read it and to add lines. Empty on a remote cluster.
    pub fn pod_logs(&self) -> &Logs {
        &self.inner.logs
    }

    /// Stops a simulated node, as if its machine had lost power: it renews its lease no more, and does nothing for its pods.
    /// Kubernetes notices after 50 seconds, and evicts the pods after five minutes more, unless their tolerations say
    /// otherwise. It sets the annotation `node.evenkeel.dev/stopped` on the Node object. A node of a remote cluster does not
    /// stop.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Node;
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options(), |cluster| async move {
    /// use std::time::Duration;
    /// cluster.stop_node("node-1").await.unwrap();
    /// cluster.advance(Duration::from_secs(60)).await;
    /// let node = serde_json::to_value(cluster.get::<Node>("node-1").await.unwrap()).unwrap();
    /// assert_eq!(node["spec"]["taints"][0]["key"], "node.kubernetes.io/unreachable");
    /// cluster.start_node("node-1").await.unwrap();
    /// # });
    /// ```
    ///
    /// # Errors
    /// Fails if there is no such node.
    pub async fn stop_node(&self, name: &str) -> kube::Result<()> {
        self.annotate_stopped(name, Some("true")).await
    }

    /// Starts a node again that [`Cluster::stop_node`] has stopped. It is ready after its next heartbeat, within ten seconds.
    ///
    /// # Errors
    /// Fails if there is no such node.
    pub async fn start_node(&self, name: &str) -> kube::Result<()> {
        self.annotate_stopped(name, None).await
    }

    async fn annotate_stopped(&self, name: &str, value: Option<&str>) -> kube::Result<()> {
        let metadata = json!({"annotations": {(STOPPED): value}});
        self.patch::<Node>(name, json!({ "metadata": metadata })).await?;
        Ok(())
    }
}
