//! Waiting for a cluster to come to rest, for time to pass, and for an object to change.

use std::fmt::Debug;
use std::panic::Location;
use std::time::Duration;

use evenkeel_env::Unsettled;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::objects::ApiScope;
use crate::cluster::Cluster;
use crate::remote;
use crate::transport::Backend;

/// How long a remote cluster must stay unchanged to count as settled.
const QUIET: Duration = Duration::from_secs(1);
/// How long `eventually` waits between two reads.
const POLL: Duration = Duration::from_millis(50);
/// When `eventually` gives up.
const EVENTUALLY_LIMIT: Duration = Duration::from_secs(30);
/// When `eventually` gives up while a director disturbs the cluster: several timeouts and retries in turn, and a takeover.
const DISTURBED_LIMIT: Duration = Duration::from_secs(300);
/// When `eventually_gone` gives up: three times the 30 s that Kubernetes' garbage collector takes to notice a new kind.
const GONE_LIMIT: Duration = Duration::from_secs(90);

impl Cluster {
    /// Waits until the cluster is at rest: no request, watch event, queued key or reconcile is pending, and no timer is
    /// set that will cause one. Virtual time passes until such timers fire, up to the limit (60 s unless set). Upkeep,
    /// such as the renewal of leases, does not count.
    ///
    /// A key that only waits because a successful reconcile asked to run again later
    /// ([`Action::requeue`](evenkeel_runtime::Action::requeue)) is at rest; [`Cluster::advance`] makes it run. But if
    /// that reconcile wrote something, `settled` waits for later reconciles within the limit, until one writes nothing.
    /// A key that writes every time, once a minute or more often, is never at rest. Neither is a key that waits for a
    /// retry after an error.
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
    /// Panics if the cluster is not at rest within the limit: says why, with the last error of each key that fails, and
    /// lists what is pending. An operator that keeps triggering itself is detected even if no time passes. [`Cluster::try_settled`] returns an error instead.
    #[track_caller]
    pub fn settled(&self) -> impl Future<Output = ()> + Send + use<> {
        let (caller, cluster) = (Location::caller(), self.clone());
        async move {
            if let Err(unsettled) = cluster.try_settled().await {
                panic!("settled() at {caller}: {unsettled}");
            }
        }
    }

    /// Waits as [`Cluster::settled`] does, but returns an error instead of panicking.
    ///
    /// # Errors
    /// Fails if the cluster is not at rest within the limit; the error lists what is pending.
    pub async fn try_settled(&self) -> Result<(), Unsettled> {
        loop {
            let Some(director) = self.inner.wire.direction.director() else {
                let settled = self.settled_within(self.inner.settle_limit).await;
                return settled.map_err(|unsettled| self.explained(unsettled));
            };
            let limit = director.patience().unwrap_or(self.inner.settle_limit);
            match self.settled_within(limit).await {
                Err(unsettled) if !director.unsettled(&unsettled) => return Err(unsettled),
                // The director may disturb a cluster that has come to rest, so that the wait goes on.
                Ok(()) | Err(_) if director.rested().await => {}
                Ok(()) | Err(_) => return Ok(()),
            }
        }
    }

    async fn settled_within(&self, limit: Duration) -> Result<(), Unsettled> {
        let ledger = self.env().ledger();
        loop {
            ledger.settled(limit).await?;
            let Backend::Remote(client) = &self.inner.wire.backend else { return Ok(()) };
            let asked = self.inner.wire.recorder.count();
            let seen = remote::fingerprint(client, self.namespace()).await;
            tokio::time::sleep(QUIET).await;
            let same = remote::fingerprint(client, self.namespace()).await == seen;
            let quiet = same && self.inner.wire.recorder.count() == asked;
            // During the quiet time, an operator may have set a timer that has not fired yet.
            if quiet && ledger.settled(Duration::ZERO).await.is_ok() {
                return Ok(());
            }
        }
    }

    /// Waits until no request, watch event, queued key or reconcile is pending now. Timers that will cause work later
    /// do not count.
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
    /// Panics if something is still pending at the limit. [`Cluster::try_idle`] returns an error instead.
    #[track_caller]
    pub fn idle(&self) -> impl Future<Output = ()> + Send + use<> {
        let (caller, cluster) = (Location::caller(), self.clone());
        async move {
            if let Err(unsettled) = cluster.try_idle().await {
                panic!("idle() at {caller}: {unsettled}");
            }
        }
    }

    /// Waits as [`Cluster::idle`] does, but returns an error instead of panicking.
    ///
    /// # Errors
    /// Fails if something is still pending at the limit; the error lists it.
    pub async fn try_idle(&self) -> Result<(), Unsettled> {
        let idle = self.env().ledger().idle(self.inner.settle_limit).await;
        idle.map_err(|unsettled| self.explained(unsettled))
    }

    /// Lets this much time pass, and waits until the work that it caused is done. With paused time this takes no real
    /// time.
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
        self.inner.wire.recorder.disturbed(format!("lets {duration:?} pass"));
        tokio::time::sleep(duration).await;
        self.idle().await;
    }

    /// Reads an object again and again until `holds` returns true for it, and returns the object. For changes that
    /// [`Cluster::settled`] cannot know of, such as those made by a remote cluster.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options().controllers(false), |cluster| async move {
    /// # let settings: ConfigMap = serde_json::from_value(serde_json::json!({"metadata": {"name": "settings"}, "data": {"color": "red"}})).unwrap();
    /// cluster.apply(settings).await?;
    /// let red = cluster.eventually::<ConfigMap>("settings", |map| map.data.is_some()).await;
    /// assert_eq!(red.data.unwrap()["color"], "red");
    /// # Ok::<_, kube::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Panics
    /// Panics if `holds` is still false after 30 s, and shows the object as it was last read.
    pub async fn eventually<K>(&self, name: &str, holds: impl Fn(&K) -> bool) -> K
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug,
        K::Scope: ApiScope,
    {
        let end = tokio::time::Instant::now() + self.patience(EVENTUALLY_LIMIT);
        loop {
            let seen = self.get_opt::<K>(name).await;
            match seen {
                Ok(Some(object)) if holds(&object) => return object,
                seen if tokio::time::Instant::now() >= end => {
                    panic!("{} {name} did not become as expected; last seen: {}", K::kind(&()), shown(seen))
                }
                _ => tokio::time::sleep(POLL).await,
            }
        }
    }

    /// Reads an object again and again until it no longer exists. For deletions that [`Cluster::settled`] cannot know
    /// of: the garbage collector of a real cluster looks for new kinds of owners only every 30 s.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options().controllers(false), |cluster| async move {
    /// # let settings: ConfigMap = serde_json::from_value(serde_json::json!({"metadata": {"name": "settings"}})).unwrap();
    /// # cluster.apply(settings).await?;
    /// cluster.delete::<ConfigMap>("settings").await?;
    /// cluster.eventually_gone::<ConfigMap>("settings").await;
    /// # Ok::<_, kube::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Panics
    /// Panics if the object still exists after 90 s.
    pub async fn eventually_gone<K>(&self, name: &str)
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug,
        K::Scope: ApiScope,
    {
        let end = tokio::time::Instant::now() + self.patience(GONE_LIMIT);
        loop {
            match self.get_opt::<K>(name).await {
                Ok(None) => return,
                seen if tokio::time::Instant::now() >= end => {
                    panic!("{} {name} is not gone; last seen: {}", K::kind(&()), shown(seen))
                }
                _ => tokio::time::sleep(POLL).await,
            }
        }
    }

    /// Returns how long to look for a change: longer while a director disturbs the cluster.
    fn patience(&self, limit: Duration) -> Duration {
        let is_disturbed = self.inner.wire.direction.director().is_some();
        if is_disturbed { limit.max(DISTURBED_LIMIT) } else { limit }
    }

    /// Waits until a CustomResourceDefinition is established.
    pub(crate) async fn established(&self, name: &str) {
        self.eventually::<CustomResourceDefinition>(name, is_established).await;
    }
}

fn shown<K: Serialize>(seen: kube::Result<Option<K>>) -> String {
    match seen {
        Ok(Some(object)) => serde_json::to_string_pretty(&object).unwrap_or_else(|error| error.to_string()),
        Ok(None) => "it does not exist".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn is_established(crd: &CustomResourceDefinition) -> bool {
    let conditions = crd.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Established" && condition.status == "True")
}
