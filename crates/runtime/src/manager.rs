//! The manager runs controllers that share one client and one set of caches, and starts and stops them together.

#[cfg(feature = "webhooks")]
mod hooks;
#[cfg(not(feature = "webhooks"))]
#[path = "manager/hooks/off.rs"]
mod hooks;
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
use crate::controller::IntoController;
use crate::declaration::Declaration;
use crate::error::{BoxError, chain};
use crate::fence::{self, Fence};
use crate::flight::Flight;
use crate::informer::Informers;
use crate::kubeconfig;
#[cfg(feature = "leader-election")]
use crate::leader::LeaderElection;
use crate::manifests::Manifests;
use crate::metrics::Metrics;
use crate::observe::{Observed, Observers};
use crate::resource_use::ResourceUse;
use hooks::Hooks;
use leadership::Election;
use part::{Part, When};
use serving::Serving;

/// How long running reconciles may take to end after a stop: controller-runtime's number.
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
/// The order of the start is controller-runtime's; the stop goes in reverse. First the endpoints of health and metrics,
/// then [servers](Manager::server). Once the caches are filled that are in use by then ([`Manager::informers`]),
/// [runnables that run always](Manager::runnable_always). Once this process leads, if there is a leader election,
/// [runnables](Manager::runnable) and controllers. A controller fills its own caches before it leads.
///
/// Dropping the future of [`Manager::run`] is a crash: all tasks of the manager are aborted at once.
#[must_use = "a manager does nothing until `run` is awaited"]
pub struct Manager {
    /// The client of controllers, which respects the fence of the leader election.
    client: Client,
    /// The client of the election and the caches, which work without the lease.
    unfenced: Client,
    fence: Fence,
    env: Env,
    informers: Informers,
    parts: Vec<Part>,
    grace_period: Duration,
    election: Option<Election>,
    metrics: Metrics,
    flight: Flight,
    /// What the controllers watch, for manifests.
    declared: Vec<Declaration>,
    observers: Observers,
    serving: Serving,
    later_looks_are_work: bool,
    sends_events: bool,
    #[cfg_attr(not(feature = "webhooks"), expect(dead_code, reason = "there are none"))]
    hooks: Hooks,
}

/// The manager ended because one of its parts failed.
///
/// A `main` that returns this error prints the message with all its sources, and exits with a code other than zero.
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
    /// The name of the part.
    pub part: String,
    /// The error of the part.
    pub source: BoxError,
}

impl Manager {
    /// A manager for the cluster of the current kubeconfig, or of the pod that this process runs in, as
    /// [`kube::Config::infer`] finds it. Nothing else is read from the environment.
    pub async fn infer() -> Result<Self, kube::Error> {
        Self::from_config(kubeconfig::infer().await?)
    }

    /// A manager for the cluster of this configuration, such as a kubeconfig that you read yourself.
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
        let host = host_label(&config.cluster_url);
        let fence = Fence::default();
        let fenced = fence::client(config.clone(), fence.clone())?;
        Ok(Self::to_host(Client::try_from(config)?, fenced, fence, &host))
    }

    /// A manager that uses this client, the system's clock and its randomness. Must be called within a tokio runtime.
    ///
    /// Operators with a [leader election](Manager::leader_election) should prefer [`Manager::infer`] or
    /// [`Manager::from_config`]. These open the sockets themselves, and check right before each write to a socket that
    /// this process still leads. With `new`, the sockets belong to the client: the check is made only when a request is
    /// sent, so a process that is frozen just after the check sends its request when it continues, even if another
    /// process leads by then. See [`leader`](crate::leader) for all guarantees.
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
            informers,
            parts: Vec::new(),
            grace_period: GRACE_PERIOD,
            election: None,
            metrics,
            flight: Flight::new(&env),
            env,
            declared: Vec::new(),
            observers: Observers::default(),
            serving: Serving::default(),
            later_looks_are_work: false,
            sends_events: true,
            hooks: Hooks::default(),
        }
    }

    /// Takes clock, randomness and ledger from this environment. Call it first: informers that were taken from the
    /// manager before keep the old environment.
    pub fn with_env(mut self, env: Env) -> Self {
        self.informers = self.informers.with_env(env.clone());
        self.flight = Flight::new(&env);
        self.env = env;
        self
    }

    /// Adds a controller.
    pub fn controller(mut self, controller: impl IntoController) -> Self {
        let controller = controller.into_controller();
        self.declared.extend(controller.declarations());
        self.parts.push(Part::controller(controller));
        self
    }

    /// Runs a function beside the controllers; with a leader election, only while this process leads. The token tells it
    /// to stop, and its failure ends the manager. The caches of informers that it holds are filled when it starts.
    pub fn runnable<F, Fut, E>(self, name: &str, run: F) -> Self
    where
        F: FnOnce(CancellationToken) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.part(name, When::Leading, run)
    }

    /// Runs a function whether or not this process leads, from before the controllers work until they have ended: for
    /// example a connection that they use. The token tells it to stop, and its failure ends the manager.
    pub fn runnable_always<F, Fut, E>(self, name: &str, run: F) -> Self
    where
        F: FnOnce(CancellationToken) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.part(name, When::Filled, run)
    }

    /// Runs a function from the very start, before the caches are filled, until everything else has ended: for example the
    /// server of a conversion webhook, without which a kind cannot be listed. The token tells it to stop, and its failure
    /// ends the manager.
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

    /// Calls this function when a reconcile of any controller begins and when it has ended. The function is called by the
    /// worker and must not block.
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

    /// Watches only these namespaces for sources that name none, such as for an operator that serves one tenant. Does not
    /// affect cluster-scoped kinds, nor kinds that are known at run time only.
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

    /// Makes the test kit's `settled()` wait for keys whose reconcile asked to run again later. Use it for controllers
    /// whose later looks are steps of unfinished work, such as those of simulated nodes. By default, a key counts as at
    /// rest if its successful reconcile wrote nothing and only asked for a later look. Has no effect on a real cluster.
    pub fn later_looks_are_work(mut self) -> Self {
        self.later_looks_are_work = true;
        self
    }

    /// Drops the Events that controllers record, instead of sending them. For simulations in which nobody reads Events.
    pub fn without_events(mut self) -> Self {
        self.sends_events = false;
        self
    }

    /// Lets watches and controllers sleep until their resources are used. Needs an API server in this process that
    /// reports which resources are in use; see [`ResourceUse`].
    pub fn resource_use(self, uses: ResourceUse) -> Self {
        self.informers.let_sleep(uses);
        self
    }

    /// Sets how long running reconciles may take to end after a stop; 30 seconds by default.
    pub fn grace_period(mut self, period: Duration) -> Self {
        self.grace_period = period;
        self
    }

    /// Runs controllers only while this process holds a lease. Its caches are filled before.
    #[cfg(feature = "leader-election")]
    pub fn leader_election(mut self, election: LeaderElection) -> Self {
        self.fence.close();
        self.election = Some(election);
        self
    }

    /// The manifests that a real cluster needs to run this manager, with this name in this namespace.
    pub fn manifests(&self, name: &str, namespace: &str) -> Manifests {
        let scope = self.informers.default_namespaces();
        let declared = self.declared.iter().cloned().map(|declared| declared.within(&scope));
        let mut manifests = self.declare_webhooks(Manifests::new(name, namespace).declared(declared));
        #[cfg(feature = "leader-election")]
        if let Some(election) = &self.election {
            manifests = manifests.leader_election(election);
        }
        if let Some(port) = self.serving.port() {
            manifests = manifests.port(port);
        }
        #[cfg(feature = "secured-server")]
        if let Some(port) = self.serving.secured_port() {
            return manifests.secured_metrics_port(port);
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

    /// The flight recorder: what the controllers of this manager did recently, and why.
    pub fn flight(&self) -> Flight {
        self.flight.clone()
    }

    /// Sets how many bytes the flight recorder may use, instead of [`FLIGHT_BYTES`](crate::flight::FLIGHT_BYTES). The
    /// workers of all controllers get equal shares of at least 64 KiB each. With 0, no reconcile is recorded; that is
    /// decided when a controller starts.
    pub fn flight_bytes(self, bytes: usize) -> Self {
        self.flight.set_bytes_max(bytes);
        self
    }

    /// Marks a field of objects, such as `spec.admin.pin`, and everything below it as sensitive: the flight recorder
    /// keeps no values of it. In any case, the recorder never keeps values of Secrets, of strings other than words such
    /// as a phase, and of fields whose name contains a word such as `password` or `token`.
    pub fn sensitive(self, path: &str) -> Self {
        self.flight.mark_sensitive(path);
        self
    }

    /// The informers that the controllers share.
    pub fn informers(&self) -> &Informers {
        &self.informers
    }

    /// The client of the controllers. With a leader election it is fenced: no request of this client or of a clone starts
    /// before this process leads, or after it may have lost the lease.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// A client for requests that are allowed whether or not this process leads, such as those of a webhook's server.
    pub fn unfenced_client(&self) -> &Client {
        &self.unfenced
    }
}

/// The host and port of a URL, for the label of metrics. A user name and password in the URL are left out.
fn host_label(url: &http::Uri) -> String {
    let authority = url.authority().map_or("", |authority| authority.as_str());
    authority.rsplit_once('@').map_or(authority, |(_, host)| host).to_owned()
}

/// Prints the message with all its sources, which is what a `main` that returns this error shows.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_of_a_host_shows_no_password() {
        let label = |url: &'static str| host_label(&http::Uri::from_static(url));
        assert_eq!(label("https://me:planted@example.com:6443/path"), "example.com:6443");
        assert_eq!(label("https://[::1]:6443"), "[::1]:6443");
        assert_eq!(label("/path"), "");
    }
}
