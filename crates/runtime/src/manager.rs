//! The manager: many controllers, one client, one set of caches; how they start and stop together.

#[cfg(feature = "leader-election")]
mod leadership;
#[cfg(not(feature = "leader-election"))]
#[path = "manager/leadership/off.rs"]
mod leadership;
mod part;
mod running;
#[cfg(feature = "health")]
mod serving;
#[cfg(not(feature = "health"))]
#[path = "manager/serving/off.rs"]
mod serving;
mod signals;
mod stage;

use std::fmt;
use std::future::Future;
use std::time::Duration;

use evenkeel_env::Env;
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::Object;
use crate::controller::Runnable;
use crate::error::{BoxError, chain};
use crate::fence::{self, Fence};
use crate::informer::Informers;
#[cfg(feature = "leader-election")]
use crate::leader::LeaderElection;
use crate::declaration::Declaration;
use crate::manifests::Manifests;
use crate::metrics::Metrics;
use crate::observe::{Observed, Observers};
use leadership::Election;
use part::{Part, When};
use serving::Serving;

/// How long running reconciles get to end after a stop: controller-runtime's number.
const GRACE_PERIOD: Duration = Duration::from_secs(30);

/// Runs controllers until it is told to stop.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use evenkeel_runtime::{Action, Ctx, Controller, Manager, Result};
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # async fn reconcile(map: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> { Ok(Action::await_change()) }
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = kube::Client::try_default().await?;
/// Manager::new(client).controller(Controller::new("config", reconcile)).run().await?;
/// # Ok(())
/// # }
/// ```
///
/// It starts in this order, which is that of controller-runtime, and stops in the reverse: the endpoints of health and
/// metrics, then [servers](Manager::server); once the caches are filled that were asked for until then
/// ([`Manager::informers`]), what [runs always](Manager::runnable_always); and once this process leads, where a leader
/// is elected, [runnables](Manager::runnable) and controllers. A controller fills its own caches before it leads.
///
/// Dropping the future that [`Manager::run`] gives is a crash: every task of it is aborted at once.
#[must_use = "a manager does nothing until `run` is awaited"]
pub struct Manager {
    /// For what works while it leads.
    client: Client,
    /// For the election and the caches, which need no lease.
    unfenced: Client,
    fence: Fence,
    env: Env,
    informers: Informers,
    parts: Vec<Part>,
    grace_period: Duration,
    election: Option<Election>,
    metrics: Metrics,
    /// What its controllers watch, for manifests.
    declared: Vec<Declaration>,
    observers: Observers,
    serving: Serving,
}

/// The manager ended because a part of it failed.
///
/// A `main` that returns it prints the message and exits with a code that is not zero.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
/// #     Ok::<_, std::io::Error>(http::Response::new(kube::client::Body::empty()))
/// # });
/// # let client = kube::Client::new(service, "default");
/// use evenkeel_runtime::{Error, Manager};
///
/// let manager = Manager::new(client).runnable("backups", |_stop| async { Err(Error::message("no disk")) });
/// let error = manager.run().await.unwrap_err();
/// assert_eq!((error.part.as_str(), error.to_string().as_str()), ("backups", "run backups: no disk"));
/// # });
/// ```
#[derive(thiserror::Error)]
#[error("run {part}: {source}")]
#[non_exhaustive]
pub struct ManagerError {
    /// Which part.
    pub part: String,
    /// What it failed with.
    pub source: BoxError,
}

impl Manager {
    /// A manager of the cluster that the current kubeconfig names, or of the one that this pod runs in: what
    /// [`kube::Config::infer`] finds. Nothing else of the environment is read.
    pub async fn infer() -> Result<Self, kube::Error> {
        let config = kube::Config::infer().await.map_err(kube::Error::InferConfig)?;
        Self::from_config(config)
    }

    /// A manager of the cluster of this configuration, such as a kubeconfig of one's own.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use evenkeel_runtime::Manager;
    /// use kube::config::{Config, KubeConfigOptions, Kubeconfig};
    ///
    /// let kubeconfig = Kubeconfig::read_from("kubeconfig.yaml")?;
    /// let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    /// Manager::from_config(config)?.run().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_config(config: kube::Config) -> Result<Self, kube::Error> {
        let host = config.cluster_url.authority().map_or_else(String::new, ToString::to_string);
        let fence = Fence::default();
        let fenced = fence::client(config.clone(), fence.clone())?;
        Ok(Self::to_host(Client::try_from(config)?, fenced, fence, &host))
    }

    /// A manager over this client, in the real world. Must be called within a tokio runtime, as making a client.
    pub fn new(client: Client) -> Self {
        Self::to_host(client.clone(), client, Fence::default(), "")
    }

    fn to_host(client: Client, fenced: Client, fence: Fence, host: &str) -> Self {
        let env = Env::system();
        let metrics = Metrics::new();
        let unfenced = metrics.around(client, host.into(), None);
        let client = metrics.around(fenced, host.into(), Some(fence.clone()));
        let informers = Informers::new(unfenced.clone(), env.clone());
        Self {
            client,
            unfenced,
            fence,
            env,
            informers,
            parts: Vec::new(),
            grace_period: GRACE_PERIOD,
            election: None,
            metrics,
            declared: Vec::new(),
            observers: Observers::default(),
            serving: Serving::default(),
        }
    }

    /// Takes clock, randomness and ledger from this environment. Call it first: informers that were taken from the
    /// manager before keep the old environment.
    pub fn with_env(mut self, env: Env) -> Self {
        self.informers = self.informers.with_env(env.clone());
        self.env = env;
        self
    }

    /// Adds a controller.
    pub fn controller(mut self, controller: impl Runnable) -> Self {
        let controller = controller.into_controller();
        self.declared.extend(controller.declarations());
        self.parts.push(Part::controller(controller));
        self
    }

    /// Runs this beside the controllers, where a leader is elected only while leading: it is told to stop by the token,
    /// and ends the manager if it fails. The caches of informers that it holds are filled when it begins.
    pub fn runnable<F, Fut, E>(self, name: &str, run: F) -> Self
    where
        F: FnOnce(CancellationToken) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.part(name, When::Leading, run)
    }

    /// Runs this whether this process leads or not, from before the controllers work until they have ended: a
    /// connection that they use. It is told to stop by the token, and ends the manager if it fails.
    pub fn runnable_always<F, Fut, E>(self, name: &str, run: F) -> Self
    where
        F: FnOnce(CancellationToken) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.part(name, When::Filled, run)
    }

    /// Runs this from the very beginning, before the caches are filled, and until all else has ended: the server of a
    /// webhook, without whose conversions a kind may not even be listed. It is told to stop by the token, and ends the
    /// manager if it fails.
    pub fn server<F, Fut, E>(self, name: &str, run: F) -> Self
    where
        F: FnOnce(CancellationToken) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.part(name, When::AtOnce, run)
    }

    fn part<F, Fut, E>(mut self, name: &str, when: When, run: F) -> Self
    where
        F: FnOnce(CancellationToken) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.parts.push(Part::runnable(name, when, run));
        self
    }

    /// Tells this function when a reconcile of any of its controllers begins and when it has ended. It is called on
    /// the way of the work, and must not block.
    ///
    /// ```
    /// # fn example(manager: evenkeel_runtime::Manager) -> evenkeel_runtime::Manager {
    /// manager.observer(|seen| println!("{} {}: {}, {:?}", seen.controller, seen.object, seen.causes, seen.stage))
    /// # }
    /// ```
    pub fn observer(mut self, observer: impl Fn(&Observed<'_>) + Send + Sync + 'static) -> Self {
        self.observers.add(observer);
        self
    }

    /// Watches only these namespaces, where a source names none: the scope of an operator that serves a tenant.
    /// Kinds that are in no namespace, or known at run time only, are watched as before.
    pub fn namespaces<N: Into<String>>(self, namespaces: impl IntoIterator<Item = N>) -> Self {
        self.informers.namespaces(namespaces.into_iter().map(Into::into).collect());
        self
    }

    /// Changes objects of type `K` before they are stored in any cache of this manager.
    pub fn transform<K: Object>(self, transform: impl Fn(&mut K) + Send + Sync + 'static) -> Self {
        self.informers.transform(transform);
        self
    }

    /// Keeps `metadata.managedFields` out of all caches.
    pub fn strip_managed_fields(self) -> Self {
        self.informers.strip_managed_fields();
        self
    }

    /// How long running reconciles get to end after a stop; 30 seconds unless set.
    pub fn grace_period(mut self, period: Duration) -> Self {
        self.grace_period = period;
        self
    }

    /// Works only while it holds a lease; its caches are warm before.
    #[cfg(feature = "leader-election")]
    pub fn leader_election(mut self, election: LeaderElection) -> Self {
        self.fence.close();
        self.election = Some(election);
        self
    }

    /// What a real cluster needs to run this manager, under this name in this namespace.
    pub fn manifests(&self, name: &str, namespace: &str) -> Manifests {
        let scope = self.informers.default_namespaces();
        let declared = self.declared.iter().cloned().map(|declared| declared.within(&scope));
        let mut manifests = Manifests::new(name, namespace).declared(declared);
        #[cfg(feature = "leader-election")]
        if let Some(election) = &self.election {
            manifests = manifests.leader_election(election);
        }
        if let Some(port) = self.serving.port() {
            manifests = manifests.port(port);
        }
        match self.serving.metrics_port() {
            Some(port) => manifests.metrics_port(port),
            None => manifests,
        }
    }

    /// The metrics of this manager, to read them or to register more.
    #[cfg(feature = "metrics")]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The informers that its controllers share.
    pub fn informers(&self) -> &Informers {
        &self.informers
    }

    /// The client of its controllers. Where a leader is elected, it is fenced: no request starts before this process
    /// leads or after it may have lost the lease, wherever a clone of this client is.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// A client for what is done whether this process leads or not: the requests of a webhook's server.
    pub fn unfenced_client(&self) -> &Client {
        &self.unfenced
    }
}

/// What a `main` that returns it prints: the message with all that it came from.
impl fmt::Debug for ManagerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&chain(self))
    }
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<&str> = self.parts.iter().map(Part::name).collect();
        f.debug_struct("Manager").field("parts", &parts).finish_non_exhaustive()
    }
}
