//! Looking at what happened: writes, requests, and the timeline.

use tokio::sync::broadcast;

use crate::cluster::Cluster;
use crate::transport::{Exchange, Mark, Moment, Write};

impl Cluster {
    /// From here on [`Cluster::writes`] counts.
    pub fn mark(&self) -> Mark {
        self.inner.wire.recorder.mark()
    }

    /// Every request since the last mark that wrote something, by whom. A request that changed nothing made no
    /// revision and is not among them.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Namespace;
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options(), |cluster| async move {
    /// cluster.mark();
    /// cluster.patch::<Namespace>("default", serde_json::json!({"metadata": {"labels": {"a": "b"}}})).await?;
    /// let writes = cluster.writes();
    /// assert_eq!((&*writes[0].by, &*writes[0].path), ("client", "/api/v1/namespaces/default"));
    /// # Ok::<_, kube::Error>(()) }).unwrap();
    /// ```
    pub fn writes(&self) -> Vec<Write> {
        self.writes_since(self.inner.wire.recorder.last_mark())
    }

    /// Every request since this mark that wrote something.
    pub fn writes_since(&self, mark: Mark) -> Vec<Write> {
        self.inner.wire.recorder.writes(mark)
    }

    /// Every request of every client since the start, reads included.
    pub fn requests(&self) -> Vec<Exchange> {
        self.inner.wire.recorder.exchanges(None)
    }

    /// What happens from here on: each request as it is answered, each reconcile as it begins and ends, each
    /// disturbance. An observer that does not read misses some, and is told.
    pub fn observe(&self) -> broadcast::Receiver<Moment> {
        self.inner.wire.recorder.observe()
    }

    /// The last writes, failures, reconciles and disturbances, one line each: what a failed test shows.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Namespace;
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options(), |cluster| async move {
    /// cluster.delete::<Namespace>("default").await.expect_err("it is protected");
    /// assert!(cluster.timeline().contains("client                   delete namespaces/default → 403"));
    /// # });
    /// ```
    pub fn timeline(&self) -> String {
        self.inner.wire.recorder.timeline()
    }
}
