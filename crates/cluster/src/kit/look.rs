//! Looking at what happened: writes, requests, and the timeline.

use tokio::sync::broadcast;

use crate::cluster::Cluster;
use crate::transport::{Exchange, Mark, Moment, Write};

impl Cluster {
    /// Marks this moment as the one from which [`Cluster::writes`] counts.
    pub fn mark(&self) -> Mark {
        self.inner.wire.recorder.mark()
    }

    /// Every request since the last mark that changed an object, with the client that sent it. A request that changed
    /// nothing creates no revision and is left out.
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

    /// Every request since this mark that changed an object.
    pub fn writes_since(&self, mark: Mark) -> Vec<Write> {
        self.inner.wire.recorder.writes(mark)
    }

    /// Every request of every client since the start, including reads.
    pub fn requests(&self) -> Vec<Exchange> {
        self.inner.wire.recorder.exchanges(None)
    }

    /// Streams what happens from now on: each request when it is answered, each reconcile when it begins and ends, each
    /// fault that the test injects. A receiver that does not keep up gets an error that says how much it missed.
    pub fn observe(&self) -> broadcast::Receiver<Moment> {
        self.inner.wire.recorder.observe()
    }

    /// The last writes, failures, reconciles and injected faults, one line each. A failed test prints it.
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
