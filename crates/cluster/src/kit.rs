//! The test kit's verbs: wait for the cluster, look at what happened, and break things.

use std::panic::Location;
use std::time::Duration;

use evenkeel_env::Unsettled;
use tokio::sync::broadcast;

use crate::backend::Backend;
use crate::cluster::Cluster;
use crate::elsewhere;
use crate::fault::{Fault, Matcher};
use crate::record::{Exchange, Mark, Moment, Write};

/// How long nothing must be asked for a cluster elsewhere to count as settled.
const QUIET: Duration = Duration::from_secs(1);

/// Waiting.
impl Cluster {
    /// Waits until nothing is pending: no request, event, key or reconcile, and no timer that will bring work. Time
    /// passes for such timers, up to the limit (60 s unless set), and never for upkeep.
    ///
    /// ```
    /// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options(), |cluster| async move {
    /// # let web: Deployment = serde_json::from_value(serde_json::json!({
    /// #     "metadata": {"name": "web"},
    /// #     "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
    /// #         "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}}},
    /// # })).unwrap();
    /// cluster.apply(web).await?;                                // a Deployment with two replicas
    /// cluster.settled().await;
    /// assert_eq!(cluster.list::<Pod>().await?.len(), 2);
    /// # Ok::<_, kube::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Panics
    /// When it does not come to rest within the limit, with the list of what is pending; an operator that wakes itself
    /// for ever takes no time, and is given up as well. [`Cluster::try_settled`] gives that as an error.
    #[track_caller]
    pub fn settled(&self) -> impl Future<Output = ()> + Send + use<> {
        let (caller, cluster) = (Location::caller(), self.clone());
        async move {
            if let Err(unsettled) = cluster.try_settled().await {
                panic!("settled() at {caller}: {unsettled}");
            }
        }
    }

    /// As [`Cluster::settled`], but gives an error.
    pub async fn try_settled(&self) -> Result<(), Unsettled> {
        let ledger = self.env().ledger();
        loop {
            ledger.settled(self.world.settle_limit).await?;
            let Backend::Remote(client) = &self.world.wire.backend else { return Ok(()) };
            let asked = self.world.wire.recorder.count();
            let seen = elsewhere::fingerprint(client, self.namespace()).await;
            tokio::time::sleep(QUIET).await;
            let same = elsewhere::fingerprint(client, self.namespace()).await == seen;
            if same && self.world.wire.recorder.count() == asked {
                return Ok(());
            }
        }
    }

    /// Waits until nothing is pending now; timers that will bring work later do not count.
    ///
    /// ```
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options(), |cluster| async move {
    /// let before = tokio::time::Instant::now();
    /// cluster.idle().await;
    /// assert_eq!(before.elapsed().as_millis(), 0, "no virtual time has passed");
    /// # });
    /// ```
    ///
    /// # Panics
    /// When it does not come to rest within the limit. [`Cluster::try_idle`] gives that as an error.
    #[track_caller]
    pub fn idle(&self) -> impl Future<Output = ()> + Send + use<> {
        let (caller, cluster) = (Location::caller(), self.clone());
        async move {
            if let Err(unsettled) = cluster.try_idle().await {
                panic!("idle() at {caller}: {unsettled}");
            }
        }
    }

    /// As [`Cluster::idle`], but gives an error.
    pub async fn try_idle(&self) -> Result<(), Unsettled> {
        self.env().ledger().idle(self.world.settle_limit).await
    }

    /// Lets this much time pass, and waits until what it brought is done. With paused time it takes none.
    ///
    /// ```
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options(), |cluster| async move {
    /// use std::time::Duration;
    /// let before = cluster.env().now();
    /// cluster.advance(Duration::from_secs(3600)).await;
    /// assert!(cluster.env().now().duration_since(before) >= Duration::from_secs(3600).try_into().unwrap());
    /// # });
    /// ```
    pub async fn advance(&self, duration: Duration) {
        self.world.wire.recorder.disturbed(format!("lets {duration:?} pass"));
        tokio::time::sleep(duration).await;
        self.idle().await;
    }
}

/// Breaking.
impl Cluster {
    /// Makes the next `times` requests that match fail.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Namespace;
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options(), |cluster| async move {
    /// use evenkeel_cluster::{Fault, Matcher};
    /// cluster.fail(Matcher::any().by("client").kind::<Namespace>(), Fault::InternalError, 1);
    /// assert!(cluster.get::<Namespace>("default").await.is_err());
    /// assert!(cluster.get::<Namespace>("default").await.is_ok());
    /// # });
    /// ```
    pub fn fail(&self, matcher: Matcher, fault: Fault, times: usize) {
        self.world.wire.faults.arm(matcher, fault, times);
    }

    /// Breaks the open watches that match, and says how many. Their clients come back and go on where they were.
    ///
    /// ```
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options(), |cluster| async move {
    /// use evenkeel_cluster::Matcher;
    /// assert!(cluster.cut_watch(Matcher::any().path("/pods")) > 0, "the built-in controllers watch pods");
    /// cluster.settled().await;
    /// # });
    /// ```
    pub fn cut_watch(&self, matcher: Matcher) -> usize {
        let cut = self.world.wire.watches.cut(&matcher, &self.world.station);
        self.world.wire.recorder.disturbed(format!("cuts {cut} watches: {matcher}"));
        cut
    }

    /// Forgets every earlier revision: whoever comes back with an old one is told 410 and must list again. On a
    /// cluster elsewhere, whose history is not ours, it does nothing.
    ///
    /// ```
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options(), |cluster| async move {
    /// use evenkeel_cluster::Matcher;
    /// cluster.cut_watch(Matcher::any());       // everybody is cut off …
    /// cluster.compact();                       // … and cannot go on where they were
    /// cluster.settled().await;
    /// # });
    /// ```
    pub fn compact(&self) {
        self.world.wire.recorder.disturbed("forgets every earlier revision");
        self.world.wire.backend.compact();
    }
}

/// Looking.
impl Cluster {
    /// From here on [`Cluster::writes`] counts.
    pub fn mark(&self) -> Mark {
        self.world.wire.recorder.mark()
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
        self.writes_since(self.world.wire.recorder.last_mark())
    }

    /// Every request since this mark that wrote something.
    pub fn writes_since(&self, mark: Mark) -> Vec<Write> {
        self.world.wire.recorder.writes(mark)
    }

    /// Every request of every client since the start, reads included.
    pub fn requests(&self) -> Vec<Exchange> {
        self.world.wire.recorder.exchanges(None)
    }

    /// What happens from here on: each request as it is answered, each reconcile as it begins and ends, each
    /// disturbance. An observer that does not read misses some, and is told.
    pub fn observe(&self) -> broadcast::Receiver<Moment> {
        self.world.wire.recorder.observe()
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
        self.world.wire.recorder.timeline()
    }
}
