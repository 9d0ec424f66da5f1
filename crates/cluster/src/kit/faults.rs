//! Breaking things: failed requests, cut watches, forgotten revisions, crashed operators.

use crate::cluster::Cluster;
use crate::operator::Operator;
use crate::transport::{CrashPoint, Fault, Matcher};

impl Cluster {
    /// Makes the next `times` matching requests fail.
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
        self.inner.wire.faults.arm(matcher, fault, times);
    }

    /// Closes the open watches that match, and returns how many there were. Their clients reconnect and resume from the
    /// last resource version that they have seen.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options(), |cluster| async move {
    /// # let spec = serde_json::json!({"containers": [{"name": "web", "image": "nginx"}]});
    /// # let pod = serde_json::json!({"metadata": {"name": "web"}, "spec": spec});
    /// # let pod: Pod = serde_json::from_value(pod).unwrap();
    /// use evenkeel_cluster::Matcher;
    /// cluster.apply(pod).await.unwrap();
    /// cluster.settled().await;
    /// assert!(cluster.cut_watch(Matcher::any().path("/pods")) > 0, "the scheduler and the nodes watch pods");
    /// cluster.settled().await;
    /// # });
    /// ```
    pub fn cut_watch(&self, matcher: Matcher) -> usize {
        let cut = self.inner.wire.watches.cut(&matcher, &self.inner.station);
        self.inner.wire.recorder.disturbed(format!("cuts {cut} watches: {matcher}"));
        cut
    }

    /// Compacts the store up to its current revision: a watch that resumes at an older resource version gets status 410
    /// and must list again. Does nothing on a remote cluster.
    ///
    /// ```
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options(), |cluster| async move {
    /// use evenkeel_cluster::Matcher;
    /// cluster.cut_watch(Matcher::any());       // all watches are closed …
    /// cluster.compact();                       // … and cannot resume: their clients list again
    /// cluster.settled().await;
    /// # });
    /// ```
    pub fn compact(&self) {
        self.inner.wire.recorder.disturbed("compacts the store up to its current revision");
        self.inner.wire.backend.compact();
    }

    /// Crashes an operator and starts it again from its factory.
    ///
    /// # Panics
    /// Panics if no operator of this name runs.
    #[track_caller]
    pub fn restart(&self, name: &str) {
        self.with_operator(name, Operator::crash);
    }

    /// Crashes an operator at one of its next writes, and starts it again from its factory.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use evenkeel_runtime::{Action, Controller, Ctx, Result};
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// # async fn reconcile(map: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
    /// #     let mut secret = Secret::default();
    /// #     secret.metadata.name = map.metadata.name.clone();
    /// #     ctx.apply(secret).await?;
    /// #     Ok(Action::await_change())
    /// # }
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options().controllers(false), |cluster| async move {
    /// # let map: ConfigMap = serde_json::from_value(serde_json::json!({"metadata": {"name": "a"}})).unwrap();
    /// use evenkeel_cluster::CrashPoint;
    /// cluster.run(|| Controller::new("copy", reconcile).owns::<Secret>());
    /// cluster.crash("copy", CrashPoint::AnswerLost(1));   // the Secret is created, but "copy" never learns it
    /// cluster.apply(map).await?;
    /// cluster.settled().await;
    /// assert_eq!(cluster.crashes("copy"), 1);
    /// assert!(cluster.get_opt::<Secret>("a").await?.is_some());
    /// # Ok::<_, kube::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Panics
    /// Panics if no operator of this name runs.
    #[track_caller]
    pub fn crash(&self, name: &str, point: CrashPoint) {
        self.with_operator(name, |operator| operator.crash_at(point));
    }

    /// How often an operator has crashed, at crash points and by [`Cluster::restart`].
    ///
    /// # Panics
    /// Panics if no operator of this name runs.
    #[track_caller]
    pub fn crashes(&self, name: &str) -> usize {
        self.with_operator(name, Operator::crashes)
    }

    #[track_caller]
    pub(super) fn with_operator<R>(&self, name: &str, action: impl FnOnce(&Operator) -> R) -> R {
        let operators = self.inner.operators.lock();
        match operators.get(name) {
            Some(operator) => action(operator),
            None => {
                let known: Vec<&str> = operators.keys().map(String::as_str).collect();
                panic!("no operator is named {name}; there are: {}", known.join(", "))
            }
        }
    }
}
