//! The checks that every operator should pass, on one scenario.

use std::fmt::Debug;

use evenkeel_runtime::manifests::Manifests;

use super::crash_matrix::crash_everywhere;
use super::files::assert_file;
use super::rbac_trim::{account_verbs, unused_rules};
use crate::cluster::Cluster;
use crate::settings;

/// An operator and a scenario that it acts in, for the checks that every operator should pass.
///
/// [`Scenario::check`] plays the scenario many times and checks three things:
///
/// - The operator runs as the ServiceAccount of its manifests, and the RBAC rules there allow all of its requests
///   ([`as_service_account`](super::as_service_account)).
/// - A crash before, during or after any write of the operator does not change how the scenario ends
///   ([`crash_everywhere`](super::crash_everywhere)).
/// - The operator needs each of its RBAC rules, apart from those that are declared as unused
///   ([`unused_rules`](super::unused_rules)).
///
/// On a remote cluster, where each run takes seconds and other tests use the same RBAC rules, only the first check
/// runs. The other two are reported as skipped.
///
/// ```
/// # use std::sync::Arc;
/// use evenkeel_cluster::{Cluster, testing::Scenario};
/// use evenkeel_runtime::{Action, Controller, Ctx, Manifests, Result};
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// # async fn reconcile(map: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
/// #     let mut secret = Secret::default();
/// #     secret.metadata.name = map.metadata.name.clone();
/// #     ctx.apply(secret).await?;
/// #     Ok(Action::await_change())
/// # }
///
/// fn controller() -> Controller<ConfigMap> {
///     Controller::new("copy", reconcile).owns::<Secret>()
/// }
///
/// fn manifests() -> Manifests {
///     let verbs = "secrets: create patch".parse().expect("the verbs are well-formed");
///     Manifests::new("copy", "operators").controller(&controller()).verbs(verbs)
/// }
///
/// /// Creates a ConfigMap, and returns the names of the Secrets that the operator has made of it.
/// async fn scenario(cluster: Cluster) -> Vec<Option<String>> {
///     let mut map = ConfigMap::default();
///     map.metadata.name = Some("a".into());
///     cluster.apply(map).await.expect("the ConfigMap is valid");
///     cluster.settled().await;
///     let secrets = cluster.list::<Secret>().await.expect("Secrets can be listed");
///     secrets.into_iter().map(|secret| secret.metadata.name).collect()
/// }
///
/// Scenario::new(manifests, |cluster| cluster.run(controller), scenario)
///     .crash_runs_min(3)
///     .unused_rules(["configmaps: get", "configmaps: list", "configmaps/finalizers: update", "secrets: list"])
///     .check();
/// ```
#[must_use = "a scenario checks nothing until `check` is called"]
pub struct Scenario<M, S, D> {
    manifests: M,
    start: S,
    drive: D,
    verbs_file: Option<String>,
    crash_runs_min: usize,
    unused_rules: Vec<String>,
}

impl<M, S, D, F> Scenario<M, S, D>
where
    M: Fn() -> Manifests,
    S: Fn(&Cluster),
    D: Fn(Cluster) -> F,
    F: Future,
    F::Output: PartialEq + Debug,
{
    /// A scenario of the operator that `manifests` describes.
    ///
    /// `start` runs the operator in a fresh cluster, under the name of the manifests. `drive` acts as a user, waits
    /// until the cluster has settled, and returns what must be the same after every crash.
    pub fn new(manifests: M, start: S, drive: D) -> Self {
        Self { manifests, start, drive, verbs_file: None, crash_runs_min: 1, unused_rules: Vec::new() }
    }

    /// Compares the verbs that the operator used with this file of the package, as
    /// [`assert_file`](super::assert_file) does.
    pub fn verbs_file(mut self, path: impl Into<String>) -> Self {
        self.verbs_file = Some(path.into());
        self
    }

    /// The least number of runs with a crash, so that a scenario in which the operator writes too little fails: one
    /// unless set.
    pub fn crash_runs_min(mut self, runs: usize) -> Self {
        self.crash_runs_min = runs;
        self
    }

    /// The RBAC rules that the operator has and does not need in this scenario: none unless set.
    pub fn unused_rules<R: Into<String>>(mut self, rules: impl IntoIterator<Item = R>) -> Self {
        self.unused_rules = rules.into_iter().map(Into::into).collect();
        self
    }

    /// Runs the checks.
    ///
    /// # Panics
    /// Panics if a check fails, and shows what happened in the run that failed.
    pub fn check(self) {
        let (operator, verbs) = account_verbs(&self.manifests, &self.start, &self.drive);
        if let Some(path) = &self.verbs_file {
            assert_file(path, &verbs);
        }
        if settings::kubeconfig().is_some() {
            let test = std::thread::current().name().unwrap_or_default().to_owned();
            println!("remote: skipped {test}: crashes: a run for each write takes a minute");
            println!("remote: skipped {test}: unused rules: other tests use the same cluster-wide rules");
            return;
        }
        let runs = crash_everywhere(&operator, &self.start, &self.drive);
        assert!(runs >= self.crash_runs_min, "{runs} runs with a crash, expected {}", self.crash_runs_min);
        let unused = unused_rules(&self.manifests, &self.start, &self.drive);
        assert_eq!(
            unused, self.unused_rules,
            "the rules that {operator} does not need are not those declared"
        );
    }
}
