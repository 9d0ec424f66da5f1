//! Operators in the cluster's process: each is supervised, so that it can be crashed and started again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use evenkeel_apiserver::User;
use evenkeel_env::{Station, Work};
use evenkeel_runtime::controller::Controller;
use evenkeel_runtime::{Manager, Object};
use kube::Client;
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::backend::Backend;
use crate::cluster::{CONTROLLERS, Cluster};
use crate::crash::{CrashPoint, Life};
use crate::transport::{Transport, Wire};

/// Makes an operator's manager, once for each of its lives.
type Factory = Box<dyn FnMut(Manager) -> Manager + Send>;

/// A running operator; it ends when this is dropped.
pub(crate) struct Operator {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

/// What the supervisor and the test both see.
struct Shared {
    /// The current life; written by the supervisor.
    life: Mutex<Arc<Life>>,
    /// How often it died.
    deaths: AtomicUsize,
}

/// Runs an operator's lives, one after the other.
struct Supervisor {
    wire: Arc<Wire>,
    name: Arc<str>,
    user: User,
    /// Where its handle works.
    namespace: Arc<str>,
    station: Station,
    shared: Arc<Shared>,
    factory: Factory,
}

impl Supervisor {
    async fn run(mut self, started: Work) {
        let mut starting = Arc::new(started);
        loop {
            let life = self.shared.life.lock().clone();
            let mut manager = Manager::new(self.client(&life)).env(self.wire.env.clone());
            if matches!(self.wire.backend, Backend::Remote(_)) {
                // Others work in the same cluster: what they make is not this test's business.
                manager = manager.namespaces([self.namespace.to_string()]);
            }
            let manager = self.observed(manager);
            let manager = (self.factory)(manager);
            let running = manager.run_until(std::future::pending());
            // The manager has entered its own start by now.
            drop(starting);
            tokio::select! {
                biased;
                restarting = life.died() => starting = restarting,
                ended = running => return self.report(ended),
            }
            self.wire.recorder.disturbed(format!("{} crashed and starts again", self.name));
            *self.shared.life.lock() = Arc::new(Life::new(self.station.clone()));
            self.shared.deaths.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Its reconciles go into the record. Those of the built-in controllers would bury the others.
    fn observed(&self, manager: Manager) -> Manager {
        if !self.wire.records || &*self.name == CONTROLLERS {
            return manager;
        }
        let wire = self.wire.clone();
        manager.observer(move |seen| wire.recorder.reconciled(seen))
    }

    fn client(&self, life: &Arc<Life>) -> Client {
        let transport = Transport {
            wire: self.wire.clone(),
            by: self.name.clone(),
            user: Some(self.user.clone()),
            life: Some(life.clone()),
        };
        Client::new(transport, &*self.namespace)
    }

    fn report(&self, ended: Result<(), evenkeel_runtime::ManagerError>) {
        if let Err(error) = ended {
            tracing::error!(operator = %self.name, %error, "an operator ended");
        }
    }
}

impl Operator {
    pub(crate) fn start(
        cluster: &Cluster,
        name: &str,
        factory: impl FnMut(Manager) -> Manager + Send + 'static,
    ) -> Self {
        let (wire, user) = (cluster.world.wire.clone(), cluster.user().clone());
        let namespace = cluster.namespace().into();
        let station = wire.env.ledger().station(format!("operator {name}"));
        let shared = Arc::new(Shared {
            life: Mutex::new(Arc::new(Life::new(station.clone()))),
            deaths: AtomicUsize::new(0),
        });
        let starting = station.enter_with("start");
        let factory: Factory = Box::new(factory);
        let supervisor =
            Supervisor { wire, name: name.into(), user, namespace, station, shared: shared.clone(), factory };
        Self { shared, task: tokio::spawn(supervisor.run(starting)) }
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Cluster {
    /// Runs an operator in this cluster, as this handle's user. The factory makes its controller, and makes it anew
    /// after each crash: what it captures survives one, as something outside of the operator's process does.
    ///
    /// Requests of the operator are known by the controller's name, to [`Cluster::writes`], [`Cluster::crash`] and so
    /// on.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use evenkeel_runtime::{Action, Context, Controller, Result};
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// # use serde_json::json;
    ///
    /// async fn reconcile(map: Arc<ConfigMap>, ctx: Context) -> Result<Action> {
    ///     let mut secret = Secret::default();
    ///     secret.metadata.name = map.metadata.name.clone();
    ///     ctx.apply(secret).await?;
    ///     Ok(Action::done())
    /// }
    ///
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options().controllers(false), |cluster| async move {
    /// # let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    /// cluster.run(|| Controller::new("copy", reconcile).owns::<Secret>());
    /// cluster.apply(map).await?;
    /// cluster.settled().await;
    /// assert!(cluster.get_opt::<Secret>("a").await?.is_some());
    ///
    /// cluster.mark();
    /// cluster.restart("copy");                                  // crash it and start it again from its factory
    /// cluster.settled().await;
    /// cluster.assert_no_writes();
    /// # Ok::<_, kube::Error>(()) }).unwrap();
    /// ```
    pub fn run<K: Object>(&self, factory: impl Fn() -> Controller<K> + Send + 'static) {
        let first = factory();
        let name = first.name().to_owned();
        let mut first = Some(first);
        self.run_manager(&name, move |manager| manager.controller(first.take().unwrap_or_else(&factory)));
    }

    /// Runs an operator of several controllers: the factory adds them to a manager.
    pub fn run_manager(&self, name: &str, factory: impl FnMut(Manager) -> Manager + Send + 'static) {
        let operator = Operator::start(self, name, factory);
        self.world.operators.lock().insert(name.to_owned(), operator);
    }

    /// Ends an operator, as a crash does.
    pub fn stop(&self, name: &str) {
        self.world.operators.lock().remove(name);
    }

    /// Ends all operators.
    pub(crate) fn stop_all(&self) {
        self.world.operators.lock().clear();
    }

    /// Crashes an operator and starts it again from its factory.
    ///
    /// # Panics
    /// When no operator of this name runs.
    #[track_caller]
    pub fn restart(&self, name: &str) {
        self.with_operator(name, |operator| operator.shared.life.lock().die());
    }

    /// Crashes an operator at a point of its road, and starts it again from its factory.
    ///
    /// # Panics
    /// When no operator of this name runs.
    #[track_caller]
    pub fn crash(&self, name: &str, point: CrashPoint) {
        self.with_operator(name, |operator| operator.shared.life.lock().plan(point));
    }

    /// How often an operator has crashed: by its crash points, and by [`Cluster::restart`].
    ///
    /// # Panics
    /// When no operator of this name runs.
    #[track_caller]
    pub fn crashes(&self, name: &str) -> usize {
        self.with_operator(name, |operator| operator.shared.deaths.load(Ordering::SeqCst))
    }

    #[track_caller]
    fn with_operator<R>(&self, name: &str, use_it: impl FnOnce(&Operator) -> R) -> R {
        let operators = self.world.operators.lock();
        match operators.get(name) {
            Some(operator) => use_it(operator),
            None => {
                let known: Vec<&str> = operators.keys().map(String::as_str).collect();
                panic!("no operator is named {name}; there are: {}", known.join(", "))
            }
        }
    }
}
