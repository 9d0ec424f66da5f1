//! Operators in this process: each has a supervisor that starts it again after a crash.

mod gate;
mod webhooks;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use evenkeel_apiserver::User;
use evenkeel_env::{Env, Station, Work};
use evenkeel_runtime::{Flight, Manager};
use kube::Client;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tower::BoxError;

use self::gate::Gate;
use crate::transport::{
    Backend, CrashPoint, OperatorProcess, Reach, Registration, ServedWebhook, Transport, Wire,
};

pub(crate) use webhooks::{register as register_webhooks, serve as serve_webhooks};

/// The name of the built-in controllers, as an operator and in the record.
pub(crate) const CONTROLLERS: &str = "kube-controller-manager";

/// Makes an operator's manager, once at its start and once after each crash.
type Factory = Box<dyn FnMut(Manager) -> Manager + Send>;

/// Identity and default namespace of an operator's requests.
#[derive(Clone)]
pub(crate) struct RunAs {
    pub(crate) user: User,
    pub(crate) namespace: Arc<str>,
}

/// A running operator. Dropping it stops the operator.
pub(crate) struct Operator {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

/// What the supervisor and the test both see.
struct Shared {
    /// The current simulated process of the operator; replaced by the supervisor after each crash.
    process: Mutex<Arc<OperatorProcess>>,
    /// Keeps the operator's webhooks reachable. Emptied when the operator crashes or stops.
    webhooks: Mutex<Option<ServedWebhook>>,
    crashes: AtomicUsize,
    /// The flight recorders of the operator's most recent processes, the current one last.
    flights: Mutex<VecDeque<Flight>>,
    /// Closed while the operator must not start again.
    gate: Gate,
    /// The world as the operator sees it, with the wall clock of its machine.
    env: Env,
}

/// How many flight recorders of crashed processes are kept in addition to the current one.
const CRASHED_FLIGHTS_KEPT: usize = 3;

impl Shared {
    fn flies(&self, flight: Flight) {
        let mut flights = self.flights.lock();
        if flights.len() > CRASHED_FLIGHTS_KEPT {
            flights.pop_front();
        }
        flights.push_back(flight);
    }
}

/// Runs an operator, and starts it again after each crash.
struct Supervisor {
    wire: Arc<Wire>,
    name: Arc<str>,
    run_as: RunAs,
    station: Station,
    shared: Arc<Shared>,
    factory: Factory,
}

/// How long after an error an operator starts again while a director is set: kubelet's first back-off.
const RESTART_AFTER: std::time::Duration = std::time::Duration::from_secs(10);

/// An operator that is ready to run.
struct Prepared {
    process: Arc<OperatorProcess>,
    manager: Result<Manager, BoxError>,
    /// The pending registration of the operator's webhooks with the API server.
    registration: Option<Registration>,
}

impl Supervisor {
    /// Makes the operator's manager, and serves its webhooks. From here on, requests of the test wait until the
    /// webhooks are registered.
    fn prepare(&mut self) -> Prepared {
        let process = self.shared.process.lock().clone();
        let mut manager = Manager::new(self.client(&process)).with_env(self.shared.env.clone());
        if self.is_remote() {
            // A remote cluster is shared: other namespaces hold objects that do not belong to this test.
            manager = manager.namespaces([self.run_as.namespace.to_string()]);
        }
        if &*self.name == CONTROLLERS {
            // Built-in controllers continue unfinished work by later looks: pods start, jobs retry, rollouts proceed.
            manager = manager.later_looks_are_work();
        }
        let manager = self.observed(manager);
        let manager = (self.factory)(manager);
        self.shared.flies(manager.flight());
        match self.serve_webhooks(manager, &process) {
            Ok((manager, registration)) => Prepared { process, manager: Ok(manager), registration },
            Err(error) => Prepared { process, manager: Err(error), registration: None },
        }
    }

    /// Serves the webhooks of a manager, either in this process without a port and in virtual time, or over TLS.
    fn serve_webhooks(
        &self,
        mut manager: Manager,
        process: &Arc<OperatorProcess>,
    ) -> Result<(Manager, Option<Registration>), BoxError> {
        let (wire, name) = (&self.wire, &*self.name);
        let serving = if wire.registrations.reach() == Reach::InProcess || name == CONTROLLERS {
            let taken = manager.take_webhooks()?;
            let user = &self.run_as.user;
            taken.map(|taken| webhooks::serve(wire, name, user, taken, Some(process.clone())))
        } else {
            let served;
            (manager, served) = webhooks::over_tls::serve(wire, name, &self.run_as.namespace, manager)?;
            served
        };
        let Some((served, registration)) = serving else {
            return Ok((manager, wire.registrations.withdraw(name)));
        };
        *self.shared.webhooks.lock() = Some(served);
        Ok((manager, registration))
    }

    async fn run(mut self, first: Prepared, started: Work) {
        let mut starting = Arc::new(started);
        let mut prepared = Some(first);
        loop {
            starting = self.shared.gate.pass(starting).await;
            let Prepared { process, manager, registration } =
                prepared.take().unwrap_or_else(|| self.prepare());
            if let Some(registration) = registration {
                webhooks::register(&self.wire, &self.name, registration).await;
            }
            let manager = match manager {
                Ok(manager) => manager,
                Err(error) => return self.failed(&*error),
            };
            let running = manager.run_until(std::future::pending());
            // The manager has entered its own start in the ledger by now.
            drop(starting);
            tokio::select! {
                biased;
                restarting = process.died() => {
                    starting = restarting.unwrap_or_else(|| Arc::new(self.station.enter()));
                }
                ended = running => match ended {
                    Err(error) if self.wire.direction.director().is_some() => {
                        starting = Arc::new(self.station.enter_with("start after an error"));
                        self.failed(&error);
                        process.bury();
                        tokio::time::sleep(RESTART_AFTER).await;
                    }
                    ended => return self.report(ended),
                },
            }
            drop(self.shared.webhooks.lock().take());
            self.wire.recorder.disturbed(format!("{} crashed and starts again", self.name));
            *self.shared.process.lock() = Arc::new(OperatorProcess::new(self.station.clone()));
            process.bury();
            self.shared.crashes.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn is_remote(&self) -> bool {
        matches!(self.wire.backend, Backend::Remote(_))
    }

    /// Records the manager's reconciles. Those of the built-in controllers are left out: there are so many that they
    /// would hide the operator's own.
    fn observed(&self, manager: Manager) -> Manager {
        if !self.wire.records || &*self.name == CONTROLLERS {
            return manager;
        }
        let wire = self.wire.clone();
        manager.observer(move |seen| wire.recorder.reconciled(seen))
    }

    fn client(&self, process: &Arc<OperatorProcess>) -> Client {
        let transport = Transport {
            wire: self.wire.clone(),
            by: self.name.clone(),
            user: Some(self.run_as.user.clone()),
            process: Some(process.clone()),
            installs: false,
            quiet: false,
        };
        Client::new(transport, &*self.run_as.namespace)
    }

    fn report(&self, ended: Result<(), evenkeel_runtime::ManagerError>) {
        drop(self.shared.webhooks.lock().take());
        if let Err(error) = ended {
            self.failed(&error);
        }
    }

    fn failed(&self, error: &dyn std::error::Error) {
        tracing::error!(operator = %self.name, %error, "operator stopped with an error");
        self.wire.recorder.disturbed(format!("{} stopped with an error: {error}", self.name));
    }
}

impl Operator {
    pub(crate) fn start(
        wire: Arc<Wire>,
        name: &str,
        run_as: RunAs,
        factory: impl FnMut(Manager) -> Manager + Send + 'static,
    ) -> Self {
        let station = wire.env.ledger().station(format!("operator {name}"));
        let shared = Arc::new(Shared {
            process: Mutex::new(Arc::new(OperatorProcess::new(station.clone()))),
            webhooks: Mutex::default(),
            crashes: AtomicUsize::new(0),
            flights: Mutex::default(),
            gate: Gate::new(station.clone()),
            env: wire.env.with_own_clock(),
        });
        let starting = station.enter_with("start");
        let factory: Factory = Box::new(factory);
        let mut supervisor =
            Supervisor { wire, name: name.into(), run_as, station, shared: shared.clone(), factory };
        let first = supervisor.prepare();
        Self { shared, task: tokio::spawn(supervisor.run(first, starting)) }
    }

    /// The current process of the operator.
    pub(crate) fn process(&self) -> Arc<OperatorProcess> {
        self.shared.process.lock().clone()
    }

    /// Crashes the operator now. Its supervisor starts it again.
    pub(crate) fn crash(&self) {
        self.shared.process.lock().die();
    }

    /// Crashes the operator at a later point. Its supervisor starts it again.
    pub(crate) fn crash_at(&self, point: CrashPoint) {
        self.shared.process.lock().plan(point);
    }

    /// Prevents the operator from starting again after its next crash, until [`Operator::let_start`].
    pub(crate) fn hold_back(&self) {
        self.shared.gate.close();
    }

    /// Lets the operator start again.
    pub(crate) fn let_start(&self) {
        self.shared.gate.open();
    }

    /// The flight recorders of the operator's most recent processes, the current one last.
    pub(crate) fn flights(&self) -> Vec<Flight> {
        self.shared.flights.lock().iter().cloned().collect()
    }

    /// The world as the operator sees it, with the wall clock of its machine.
    pub(crate) fn env(&self) -> &Env {
        &self.shared.env
    }

    /// How often the operator has crashed.
    pub(crate) fn crashes(&self) -> usize {
        self.shared.crashes.load(Ordering::SeqCst)
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        // The task ends later, and drops what it holds only then.
        drop(self.shared.webhooks.lock().take());
        self.task.abort();
    }
}
