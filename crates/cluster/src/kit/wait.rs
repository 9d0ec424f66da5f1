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

/// How long nothing must be asked for a cluster elsewhere to count as settled.
const QUIET: Duration = Duration::from_secs(1);
/// How often `eventually` looks.
const POLL: Duration = Duration::from_millis(50);
/// How long `eventually` looks.
const EVENTUALLY_LIMIT: Duration = Duration::from_secs(30);
/// How long `eventually_gone` looks: three times what Kubernetes' garbage collector takes to learn of a new kind.
const GONE_LIMIT: Duration = Duration::from_secs(90);

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
            ledger.settled(self.inner.settle_limit).await?;
            let Backend::Remote(client) = &self.inner.wire.backend else { return Ok(()) };
            let asked = self.inner.wire.recorder.count();
            let seen = remote::fingerprint(client, self.namespace()).await;
            tokio::time::sleep(QUIET).await;
            let same = remote::fingerprint(client, self.namespace()).await == seen;
            if same && self.inner.wire.recorder.count() == asked {
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
        self.env().ledger().idle(self.inner.settle_limit).await
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
        self.inner.wire.recorder.disturbed(format!("lets {duration:?} pass"));
        tokio::time::sleep(duration).await;
        self.idle().await;
    }

    /// Reads an object until `holds` is true of it, and gives it. For what `settled()` cannot see: a cluster
    /// elsewhere, or something outside of it.
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
    /// When it does not become true within half a minute, with the object as it was last seen.
    pub async fn eventually<K>(&self, name: &str, holds: impl Fn(&K) -> bool) -> K
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug,
        K::Scope: ApiScope,
    {
        let end = tokio::time::Instant::now() + EVENTUALLY_LIMIT;
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

    /// Reads an object until it is gone. For what `settled()` cannot see: the garbage collector of a cluster elsewhere
    /// looks for new kinds of owners only every half a minute.
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
    /// When it is still there after a minute and a half.
    pub async fn eventually_gone<K>(&self, name: &str)
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug,
        K::Scope: ApiScope,
    {
        let end = tokio::time::Instant::now() + GONE_LIMIT;
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

    /// Waits until a definition is served.
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
