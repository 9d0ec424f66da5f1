//! The manager: many controllers, one client, one set of caches; how they start and stop together.

mod leadership;

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_env::{Env, Work};
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use kube::Client;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::Object;
use crate::controller::{self, Controller, Host};
use crate::error::BoxError;
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

type Running = BoxFuture<'static, Result<(), BoxError>>;

/// The manager ended because a part of it failed.
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
    /// A manager over this client, in the real world.
    pub fn new(client: Client) -> Self {
        let env = Env::system();
        let informers = Informers::new(client.clone(), env.clone());
        Self {
            client,
            env,
            informers,
            parts: Vec::new(),
            grace_period: GRACE_PERIOD,
            election: None,
            metrics: Metrics::new(),
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
        let mut manifests = Manifests::new(name, namespace).declared(self.declared.iter().cloned());
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
        self,
        stop: impl Future<Output = ()> + Send,
        starting: Vec<Work>,
    ) -> Result<(), ManagerError> {
        let tasks = Tasks::default();
        let _crash = tasks.abort_on_drop();
        let (host, fence) = self.host(&tasks);
        let mut running = FuturesUnordered::new();
        if let Some(address) = self.address {
            let (health, ready) = (self.health, self.ready);
            ready.add("caches", synced_check(host.informers.clone()));
            let endpoints = Endpoints { health, ready, metrics: host.metrics.clone() };
            let serving = endpoints.serve(address, host.stop.clone());
            running.push(joined("http".into(), tasks.spawn(async move { Ok(serving.await?) })));
        }
        for (part, started) in self.parts.into_iter().zip(starting) {
            running.push(joined(part.name, tasks.spawn((part.run)(host.clone(), started))));
        }
        let mut leadership = Leadership::start(self.election, &self.client, &self.env, fence, &host);
        let mut failed = None;
        let mut stop = std::pin::pin!(stop);
        while failed.is_none() {
            tokio::select! {
                biased;
                () = &mut stop => break,
                lost = leadership.lost() => failed = Some(lost),
                ended = running.next(), if !running.is_empty() => failed = ended.and_then(failure),
            }
        }
        host.stop.cancel();
        // Who lost the lease must not go on, however graceful.
        let grace = if leadership.is_lost() { Duration::ZERO } else { self.grace_period };
        let ends = async { while running.next().await.is_some() {} };
        if tokio::time::timeout(grace, ends).await.is_err() {
            tracing::warn!(?grace, "stopped without waiting longer");
        }
        leadership.release().await;
        failed.map_or(Ok(()), Err)
    }

    /// What the parts run in; and the fence around their requests, where a leader is elected.
    fn host(&self, tasks: &Tasks) -> (Host, Fence) {
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
        let (recorder, recording) = recorder::channel(client.clone(), self.env.clone());
        tasks.spawn(recording);
        let host = Host {
            informers: self.informers.clone(),
            client,
            recorder,
            metrics: self.metrics.clone(),
            observers: self.observers.clone(),
            tasks: tasks.clone(),
            stop: CancellationToken::new(),
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

async fn joined(name: Arc<str>, handle: JoinHandle<Result<(), BoxError>>) -> Ended {
    (name, handle.await)
}

type Ended = (Arc<str>, Result<Result<(), BoxError>, JoinError>);

fn failure((part, ended): Ended) -> Option<ManagerError> {
    let source: BoxError = match ended {
        Ok(Ok(())) => return None,
        Ok(Err(error)) => error,
        Err(error) => error.into(),
    };
    Some(ManagerError { part: part.to_string(), source })
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
