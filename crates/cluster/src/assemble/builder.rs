//! The options of a cluster.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use evenkeel_apiserver::Audit;
use evenkeel_controllers::node::rules::Rule;
use evenkeel_controllers::{NodeOptions, Options as ControllerOptions};
use evenkeel_env::{Env, SettingError};

use crate::cluster::Cluster;
use crate::settings;

/// The default limit of [`Cluster::settled`].
pub(crate) const SETTLE_LIMIT: Duration = Duration::from_secs(60);

/// Options of a [`Cluster`], which [`Cluster::builder`] returns. Tests get them from
/// `testing::options`.
///
/// ```
/// use evenkeel_cluster::testing;
/// use k8s_openapi::api::core::v1::Node;
///
/// let result = testing::run(testing::options().seed(7).nodes(2), |cluster| async move {
///     cluster.settled().await;
///     assert_eq!(cluster.list::<Node>().await?.len(), 2);
///     Ok::<_, kube::Error>(())
/// });
/// assert!(result.is_ok());
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    pub(crate) seed: Option<u64>,
    pub(crate) env: Option<Env>,
    pub(crate) nodes: usize,
    pub(crate) controllers: bool,
    pub(crate) scheduler: bool,
    pub(crate) lazy_controllers: bool,
    pub(crate) records: bool,
    pub(crate) controller_events: bool,
    pub(crate) heartbeat: Option<Duration>,
    pub(crate) real_time: bool,
    /// Whether the API server calls the webhooks of operators over TLS, like an API server in another process.
    pub(crate) webhooks_over_tls: bool,
    pub(crate) settle_limit: Duration,
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) restore: Option<PathBuf>,
    pub(crate) root_ca: bool,
    pub(crate) audit: Option<Audit>,
    pub(crate) flags: BTreeMap<String, String>,
    pub(crate) pod_rules: Vec<Rule>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            seed: None,
            env: None,
            nodes: 1,
            controllers: true,
            scheduler: true,
            lazy_controllers: true,
            records: true,
            controller_events: true,
            heartbeat: None,
            real_time: false,
            webhooks_over_tls: false,
            settle_limit: SETTLE_LIMIT,
            data_dir: None,
            restore: None,
            root_ca: false,
            audit: None,
            flags: BTreeMap::new(),
            pod_rules: Vec::new(),
        }
    }
}

impl Builder {
    /// Seeds the clock, random names and the order of requests. On a current-thread runtime with paused time, two runs
    /// with the same seed make the same requests in the same order, and another seed gives another order.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Uses this clock, randomness and ledger. The seed is then ignored.
    #[must_use]
    pub fn env(mut self, env: Env) -> Self {
        self.env = Some(env);
        self
    }

    /// The number of simulated nodes: one unless set. Without nodes, pods stay pending.
    #[must_use]
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = nodes;
        self
    }

    /// Whether the built-in controllers, the scheduler and the nodes run: yes unless set.
    #[must_use]
    pub fn controllers(mut self, on: bool) -> Self {
        self.controllers = on;
        self
    }

    /// Whether the scheduler assigns pods to nodes: yes unless set.
    #[must_use]
    pub fn scheduler(mut self, on: bool) -> Self {
        self.scheduler = on;
        self
    }

    /// Sets whether a built-in controller starts only when a resource that concerns it is first used. It does by
    /// default. This changes what a cluster costs and which requests the controllers make, not what they do.
    #[must_use]
    pub fn lazy_controllers(mut self, on: bool) -> Self {
        self.lazy_controllers = on;
        self
    }

    /// Whether requests are recorded for [`Cluster::writes`] and the timeline: yes unless set.
    #[must_use]
    pub fn records(mut self, on: bool) -> Self {
        self.records = on;
        self
    }

    /// Whether the built-in controllers, the scheduler and the nodes send Events, as they do unless set. A cluster whose
    /// Events nobody reads costs less without them.
    #[must_use]
    pub fn controller_events(mut self, on: bool) -> Self {
        self.controller_events = on;
        self
    }

    /// Sets how often a node renews its lease, which expires after 40 seconds: every ten seconds unless set. Much virtual
    /// time passes faster if nodes renew their leases less often.
    #[must_use]
    pub fn heartbeat(mut self, heartbeat: Duration) -> Self {
        self.heartbeat = Some(heartbeat);
        self
    }

    /// Sets whether `testing::run` runs the test in real time on a multi-threaded runtime, instead of in paused time on
    /// a single thread. The cluster then has the system's clock and no seed, and the API server calls the webhooks of
    /// operators over TLS, with the operators' own certificates. [`Builder::start`] ignores it, because its caller has
    /// already chosen the runtime.
    #[must_use]
    pub fn real_time(mut self, on: bool) -> Self {
        self.real_time = on;
        self
    }

    /// How much time may pass until [`Cluster::settled`] gives up: 60 s unless set.
    #[must_use]
    pub fn settle_limit(mut self, limit: Duration) -> Self {
        self.settle_limit = limit;
        self
    }

    /// Keeps the state in this directory, so that acknowledged writes survive a crash. The state is in memory unless
    /// set. A cluster with a data directory does not start on a runtime with paused time.
    #[must_use]
    pub fn data_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(folder.into());
        self
    }

    /// Starts with the state of this snapshot, which [`Cluster::save_snapshot`] or `evenkeel snapshot save` has
    /// written. With a [data directory](Self::data_dir), the directory must not hold a store yet. The whole snapshot is
    /// checked before anything is written.
    #[must_use]
    pub fn restore(mut self, snapshot: impl Into<PathBuf>) -> Self {
        self.restore = Some(snapshot.into());
        self
    }

    /// Creates the certificate authority at the start, so that the controllers publish its certificate as the ConfigMap
    /// `kube-root-ca.crt` in every namespace. For a cluster that will be [served](Cluster::serve).
    #[must_use]
    pub fn root_ca(mut self, on: bool) -> Self {
        self.root_ca = on;
        self
    }

    /// Writes requests to this audit log. There is no audit log unless set.
    #[must_use]
    pub fn audit(mut self, audit: Audit) -> Self {
        self.audit = Some(audit);
        self
    }

    /// Adds a setting that the API server shows at `/flagz`. It has no effect.
    #[must_use]
    pub fn flag(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.flags.insert(name.into(), value.into());
        self
    }

    /// Adds a rule for what the containers of some pods do; see [`Cluster::tell_pods`].
    #[must_use]
    pub fn pod_rule(mut self, rule: Rule) -> Self {
        self.pod_rules.push(rule);
        self
    }

    /// The options of the built-in controllers.
    pub(crate) fn controller_options(&self, root_ca: Option<&str>) -> ControllerOptions {
        let mut nodes = NodeOptions::count(self.nodes);
        nodes.heartbeat = self.heartbeat.unwrap_or(nodes.heartbeat);
        let mut options = ControllerOptions::new(nodes);
        options.without_scheduler = !self.scheduler;
        options.root_ca(root_ca.unwrap_or_default())
    }

    /// The environment that was given; otherwise a seeded one if there is a seed or time is paused; otherwise the
    /// system's.
    pub(crate) fn environment(&self) -> Result<Env, SettingError> {
        Ok(match (&self.env, self.seed) {
            (Some(env), _) => env.clone(),
            (None, Some(seed)) => Env::seeded(seed),
            (None, None) if evenkeel_env::time_is_paused() => Env::seeded(settings::seed()?),
            (None, None) => Env::system(),
        })
    }
}

impl Cluster {
    /// The options of a cluster, before it is started.
    pub fn builder() -> Builder {
        Builder::default()
    }
}
