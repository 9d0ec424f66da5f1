//! The manager: many controllers, one client, one set of caches; how they start and stop together.

mod leadership;
mod stage;

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_env::{Env, Work};
use futures::future::{BoxFuture, FutureExt};
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::Object;
use crate::controller::{self, Controller, Host};
use crate::error::{BoxError, chain};
use crate::fence::Fence;
use crate::informer::{Informers, SyncError};
use crate::leader::LeaderElection;
use crate::manifests::{Declared, Manifests};
use crate::metrics::Metrics;
use crate::observe::{Observed, Observers};
use crate::recorder;
use crate::serve::{Checks, Endpoints};
use crate::tasks::Tasks;
use leadership::Leadership;
use stage::Stages;

/// How long running reconciles get to end after a stop: controller-runtime's number.
const GRACE_PERIOD: Duration = Duration::from_secs(30);

/// Runs controllers until it is told to stop.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use evenkeel_runtime::{Action, Context, Controller, Manager, Result};
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # async fn reconcile(map: Arc<ConfigMap>, ctx: Context) -> Result<Action> { Ok(Action::done()) }
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = kube::Client::try_default().await?;
/// Manager::new(client).controller(Controller::new("config", reconcile)).run().await?;
/// # Ok(())
/// # }
/// ```
///
/// Dropping the future that [`Manager::run`] gives is a crash: every task of it is aborted at once.
pub struct Manager {
    client: Client,
    env: Env,
    informers: Informers,
    parts: Vec<Part>,
    beside: Vec<Beside>,
    grace_period: Duration,
    election: Option<LeaderElection>,
    metrics: Metrics,
    /// What its controllers watch, for manifests.
    declared: Vec<Declared>,
    observers: Observers,
    health: Checks,
    ready: Checks,
    /// Where health, readiness and metrics are served.
    address: Option<SocketAddr>,
}

/// Something a manager runs: it gets the host and the work that stands for its start.
struct Part {
    name: Arc<str>,
    run: Box<dyn FnOnce(Host, Work) -> Running + Send>,
}

/// Something that runs whether this process leads or not, until its token says stop.
struct Beside {
    name: Arc<str>,
    run: Box<dyn FnOnce(CancellationToken) -> Running + Send>,
}

type Running = BoxFuture<'static, Result<(), BoxError>>;

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
#[derive(Debug, thiserror::Error)]
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
        Ok(Self::to_host(Client::try_from(config)?, &host))
    }

    /// A manager over this client, in the real world. Must be called within a tokio runtime, as making a client.
    pub fn new(client: Client) -> Self {
        Self::to_host(client, "")
    }

    fn to_host(client: Client, host: &str) -> Self {
        let env = Env::system();
        let metrics = Metrics::new();
        let client = metrics.around(client, host.into());
        let informers = Informers::new(client.clone(), env.clone());
        Self {
            client,
            env,
            informers,
            parts: Vec::new(),
            beside: Vec::new(),
            grace_period: GRACE_PERIOD,
            election: None,
            metrics,
            declared: Vec::new(),
            observers: Observers::default(),
            health: Checks::default(),
            ready: Checks::default(),
            address: None,
        }
    }

    /// Takes clock, randomness and ledger from here. Informers that were taken before belong to the old one.
    pub fn env(mut self, env: Env) -> Self {
        self.informers = self.informers.with_env(env.clone());
        self.env = env;
        self
    }

    /// Runs this controller.
    pub fn controller<K: Object>(mut self, controller: Controller<K>) -> Self {
        let name: Arc<str> = controller.name().into();
        self.declared.extend(controller.declarations());
        let run = move |host: Host, started: Work| -> Running {
            Box::pin(async move { Ok(controller::run(controller, host, started).await?) })
        };
        self.parts.push(Part { name, run: Box::new(run) });
        self
    }

    /// Runs this beside the controllers, where a leader is elected only while leading: it is told to stop by the
    /// token, and ends the manager if it fails.
    pub fn runnable<F, Fut, E>(mut self, name: &str, run: F) -> Self
    where
        F: FnOnce(CancellationToken) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let run = move |host: Host, started: Work| -> Running {
            Box::pin(async move {
                // Who waits to be elected may wait for ever: that is no pending work.
                let started = host.elected.is_cancelled().then_some(started);
                tokio::select! {
                    biased;
                    () = host.stop.cancelled() => return Ok(()),
                    () = host.elected.cancelled() => {}
                }
                after_first_poll(run(host.stop), started).await.map_err(Into::into)
            })
        };
        self.parts.push(Part { name: name.into(), run: Box::new(run) });
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

    /// Runs this from the beginning, whether this process leads or not, and until the controllers have ended: a
    /// webhook's server, a connection that they use. It is told to stop by the token, and ends the manager if it fails.
    pub fn runnable_always<F, Fut, E>(mut self, name: &str, run: F) -> Self
    where
        F: FnOnce(CancellationToken) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let run = move |stop| -> Running { Box::pin(async move { run(stop).await.map_err(Into::into) }) };
        self.beside.push(Beside { name: name.into(), run: Box::new(run) });
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
    pub fn leader_election(mut self, election: LeaderElection) -> Self {
        self.election = Some(election);
        self
    }

    /// Serves `/healthz`, `/readyz` and `/metrics` at this address while it runs.
    pub fn serve(mut self, address: SocketAddr) -> Self {
        self.address = Some(address);
        self
    }

    /// Adds a check to `/healthz`.
    pub fn health_check(
        self,
        name: &str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.health.add(name, check);
        self
    }

    /// Adds a check to `/readyz`, which otherwise says whether the caches are filled.
    pub fn ready_check(
        self,
        name: &str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.ready.add(name, check);
        self
    }

    /// What a real cluster needs to run this manager, under this name in this namespace.
    pub fn manifests(&self, name: &str, namespace: &str) -> Manifests {
        let scope = self.informers.default_namespaces();
        let declared = self.declared.iter().cloned().map(|declared| declared.within(&scope));
        let mut manifests = Manifests::new(name, namespace).declared(declared);
        if let Some(election) = &self.election {
            manifests = manifests.leader_election(election);
        }
        match self.address {
            Some(address) => manifests.port(address.port()),
            None => manifests,
        }
    }

    /// Its metrics, to read them or to register more.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The informers that its controllers share.
    pub fn informers(&self) -> &Informers {
        &self.informers
    }

    /// Its client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Runs until Ctrl-C, SIGTERM, or the first fatal error.
    pub fn run(self) -> impl Future<Output = Result<(), ManagerError>> + Send {
        self.run_until(signalled())
    }

    /// Runs until `stop` is ready, or the first fatal error. The start is pending work from this call on.
    pub fn run_until(
        self,
        stop: impl Future<Output = ()> + Send,
    ) -> impl Future<Output = Result<(), ManagerError>> + Send {
        let station = self.env.ledger().station("manager: starting");
        let starting = self.parts.iter().map(|part| station.enter_with(part.name.to_string())).collect();
        self.run_parts(stop, starting)
    }

    async fn run_parts(
        mut self,
        stop: impl Future<Output = ()> + Send,
        starting: Vec<Work>,
    ) -> Result<(), ManagerError> {
        let tasks = Tasks::default();
        let _crash = tasks.abort_on_drop();
        let mut stages = Stages::new();
        let (host, fence) = self.host(&tasks, &mut stages);
        self.start(&tasks, &mut stages, &host, starting);
        let mut leadership = Leadership::start(self.election, &self.client, &self.env, fence, &host);
        let failed = tokio::select! {
            biased;
            () = stop => None,
            lost = leadership.lost() => Some(lost),
            error = stages.failed() => Some(error),
        };
        if let Some(error) = &failed {
            tracing::error!(error = chain(error), "the manager ends");
        }
        // Who lost the lease must not go on, however graceful.
        let grace = if leadership.is_lost() { Duration::ZERO } else { self.grace_period };
        if tokio::time::timeout(grace, stages.end()).await.is_err() {
            tracing::warn!(?grace, "stopped without waiting longer");
        }
        leadership.release().await;
        failed.map_or(Ok(()), Err)
    }

    /// Starts everything, in the reverse of the order in which it stops.
    fn start(&mut self, tasks: &Tasks, stages: &mut Stages, host: &Host, starting: Vec<Work>) {
        if let Some(address) = self.address {
            let (health, ready) = (self.health.clone(), self.ready.clone());
            ready.add("caches", synced_check(host.informers.clone()));
            let endpoints = Endpoints { health, ready, metrics: host.metrics.clone() };
            let running = endpoints.serve(address, stages.serving.stop.clone());
            stages.serving.start(tasks, "http".into(), async move { Ok(running.await?) });
        }
        for Beside { name, run } in self.beside.drain(..) {
            let running = run(stages.beside.stop.clone());
            stages.beside.start(tasks, name, running);
        }
        for (part, started) in self.parts.drain(..).zip(starting) {
            stages.working.start(tasks, part.name, (part.run)(host.clone(), started));
        }
    }

    /// What the parts run in; and the fence around their requests, where a leader is elected.
    fn host(&self, tasks: &Tasks, stages: &mut Stages) -> (Host, Fence) {
        let fence = Fence::default();
        let elected = CancellationToken::new();
        let client = match &self.election {
            Some(_) => fence.around(self.client.clone()),
            None => {
                elected.cancel();
                self.client.clone()
            }
        };
        self.metrics.watch_informers(&self.informers);
        let stop = stages.events.stop.clone();
        let (recorder, recording) = recorder::channel(client.clone(), self.env.clone(), stop);
        stages.events.start(tasks, "events".into(), recording.map(Ok));
        let host = Host {
            informers: self.informers.clone(),
            client,
            recorder,
            metrics: self.metrics.clone(),
            observers: self.observers.clone(),
            tasks: tasks.clone(),
            stop: stages.working.stop.clone(),
            elected,
        };
        (host, fence)
    }
}

/// Lets go of `started` once `running` was polled: by then it holds work of its own, or waits for others.
async fn after_first_poll<T>(running: impl Future<Output = T>, mut started: Option<Work>) -> T {
    let mut running = std::pin::pin!(running);
    std::future::poll_fn(move |cx| {
        let polled = running.as_mut().poll(cx);
        drop(started.take());
        polled
    })
    .await
}

/// Ready once every watch has its first list.
fn synced_check(informers: Informers) -> impl Fn() -> Result<(), String> + Send + Sync + 'static {
    move || match informers.stats().into_iter().find(|stat| !stat.synced) {
        Some(stat) => Err(format!("the cache of {} is not filled", stat.source)),
        None => Ok(()),
    }
}

/// Ready at Ctrl-C or SIGTERM.
async fn signalled() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                biased;
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<&str> = self.parts.iter().map(|part| &*part.name).collect();
        f.debug_struct("Manager").field("parts", &parts).finish_non_exhaustive()
    }
}

impl From<SyncError> for ManagerError {
    fn from(error: SyncError) -> Self {
        Self { part: "caches".into(), source: error.into() }
    }
}
