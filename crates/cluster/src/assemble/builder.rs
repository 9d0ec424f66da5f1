//! The options of a cluster.

use std::path::PathBuf;
use std::time::Duration;

use evenkeel_apiserver::Audit;
use evenkeel_controllers::{NodeOptions, Options as ControllerOptions};
use evenkeel_env::Env;

use super::start::StartError;
use crate::cluster::Cluster;
use crate::settings;

/// How long `settled()` lets time pass unless told otherwise.
pub(crate) const SETTLE_LIMIT: Duration = Duration::from_secs(60);

/// Options of a [`Cluster`]; see [`Cluster::builder`].
#[derive(Clone, Debug)]
pub struct Builder {
    pub(crate) seed: Option<u64>,
    pub(crate) env: Option<Env>,
    pub(crate) nodes: usize,
    pub(crate) controllers: bool,
    pub(crate) scheduler: bool,
    pub(crate) records: bool,
    pub(crate) real_time: bool,
    pub(crate) settle_limit: Duration,
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) restore: Option<PathBuf>,
    pub(crate) root_ca: bool,
    pub(crate) audit: Option<Audit>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            seed: None,
            env: None,
            nodes: 1,
            controllers: true,
            scheduler: true,
            records: true,
            real_time: false,
            settle_limit: SETTLE_LIMIT,
            data_dir: None,
            restore: None,
            root_ca: false,
            audit: None,
        }
    }
}

impl Builder {
    /// Makes everything a function of this seed: on a current-thread runtime with paused time, the same seed gives
    /// the same requests, and another one another order.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Uses this clock, randomness and ledger, whatever the seed.
    #[must_use]
    pub fn env(mut self, env: Env) -> Self {
        self.env = Some(env);
        self
    }

    /// How many simulated nodes there are: one unless set. Without any, pods stay pending.
    #[must_use]
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = nodes;
        self
    }

    /// Whether the built-in controllers, the scheduler and the nodes run. They do unless switched off.
    #[must_use]
    pub fn controllers(mut self, on: bool) -> Self {
        self.controllers = on;
        self
    }

    /// Whether pods are given nodes. They are unless switched off.
    #[must_use]
    pub fn scheduler(mut self, on: bool) -> Self {
        self.scheduler = on;
        self
    }

    /// Whether requests are kept for [`Cluster::writes`] and the timeline. They are unless switched off.
    #[must_use]
    pub fn records(mut self, on: bool) -> Self {
        self.records = on;
        self
    }

    /// Whether a test runs in real time on a runtime with several threads, instead of in paused time on one. For
    /// `testing::run` alone: elsewhere the runtime is the caller's.
    #[must_use]
    pub fn real_time(mut self, on: bool) -> Self {
        self.real_time = on;
        self
    }

    /// How much time [`Cluster::settled`] lets pass: 60 s unless set.
    #[must_use]
    pub fn settle_limit(mut self, limit: Duration) -> Self {
        self.settle_limit = limit;
        self
    }

    /// Keeps everything in this directory: what was acknowledged survives a crash. In memory unless set. It lives in
    /// real time: paused time is refused.
    #[must_use]
    pub fn data_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(folder.into());
        self
    }

    /// Begins with the state of this snapshot, which [`Cluster::save_snapshot`] or `evenkeel snapshot save` wrote: in
    /// memory, or in a [data directory](Self::data_dir) that holds no store yet. The snapshot is checked as a whole
    /// before anything is written.
    #[must_use]
    pub fn restore(mut self, snapshot: impl Into<PathBuf>) -> Self {
        self.restore = Some(snapshot.into());
        self
    }

    /// Makes the certificate authority at the start, for a cluster that will be [served](Cluster::serve): its
    /// controllers publish the certificate as `kube-root-ca.crt` in every namespace.
    #[must_use]
    pub fn root_ca(mut self, on: bool) -> Self {
        self.root_ca = on;
        self
    }

    /// Records requests in this audit log. There is none unless set.
    #[must_use]
    pub fn audit(mut self, audit: Audit) -> Self {
        self.audit = Some(audit);
        self
    }

    /// The built-in controllers, as they are ordered.
    pub(crate) fn controller_options(&self, root_ca: Option<&str>) -> ControllerOptions {
        let mut options = ControllerOptions::new(NodeOptions::count(self.nodes));
        options.without_scheduler = !self.scheduler;
        options.root_ca(root_ca.unwrap_or_default())
    }

    /// The environment: the one that was given, a seeded one where there is a seed or time is paused, else the real
    /// world.
    pub(crate) fn environment(&self) -> Env {
        match (&self.env, self.seed) {
            (Some(env), _) => env.clone(),
            (None, Some(seed)) => Env::seeded(seed),
            (None, None) if evenkeel_env::time_is_paused() => Env::seeded(settings::seed()),
            (None, None) => Env::system(),
        }
    }
}

impl Cluster {
    /// Starts a cluster with the built-in controllers and one simulated node.
    ///
    /// On a runtime with paused time the cluster is seeded (by `EVENKEEL_SEED`, or a fixed number). Otherwise it uses
    /// the system's clock and randomness.
    ///
    /// # Errors
    /// Fails as [`Builder::start`] does.
    pub async fn start() -> Result<Self, StartError> {
        Self::builder().start().await
    }

    /// The options of a cluster, before it is started.
    pub fn builder() -> Builder {
        Builder::default()
    }
}
