//! Operators in this process: each has a supervisor that starts it again after a crash.

mod gate;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use evenkeel_apiserver::User;
use evenkeel_env::{Station, Work};
use evenkeel_runtime::Manager;
use kube::Client;
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use self::gate::Gate;
use crate::transport::{Backend, CrashPoint, OperatorProcess, Transport, Wire};

/// The name of the built-in controllers, as an operator and in the record.
pub(crate) const CONTROLLERS: &str = "kube-controller-manager";

/// Makes an operator's manager, once at its start and once after each crash.
type Factory = Box<dyn FnMut(Manager) -> Manager + Send>;

/// Identity and default namespace of an operator's requests.
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
    crashes: AtomicUsize,
    /// Closed while the operator is kept from starting again.
    gate: Gate,
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

impl Supervisor {
    async fn run(mut self, started: Work) {
        let mut starting = Arc::new(started);
        loop {
            starting = self.shared.gate.pass(starting).await;
            let process = self.shared.process.lock().clone();
            let mut manager = Manager::new(self.client(&process)).with_env(self.wire.env.clone());
            if matches!(self.wire.backend, Backend::Remote(_)) {
                // A remote cluster is shared: other namespaces hold objects that do not belong to this test.
                manager = manager.namespaces([self.run_as.namespace.to_string()]);
            }
            if &*self.name == CONTROLLERS {
                // Pods start, jobs retry and rollouts go on by later looks.
                manager = manager.later_looks_are_work();
            }
            let manager = self.observed(manager);
            let manager = (self.factory)(manager);
            let running = manager.run_until(std::future::pending());
            // The manager has entered its own start in the ledger by now.
            drop(starting);
            tokio::select! {
                biased;
                restarting = process.died() => starting = restarting,
                ended = running => return self.report(ended),
            }
            self.wire.recorder.disturbed(format!("{} crashed and starts again", self.name));
            *self.shared.process.lock() = Arc::new(OperatorProcess::new(self.station.clone()));
            self.shared.crashes.fetch_add(1, Ordering::SeqCst);
        }
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
        };
        Client::new(transport, &*self.run_as.namespace)
    }

    fn report(&self, ended: Result<(), evenkeel_runtime::ManagerError>) {
        if let Err(error) = ended {
            tracing::error!(operator = %self.name, %error, "operator stopped with an error");
        }
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
            crashes: AtomicUsize::new(0),
            gate: Gate::new(station.clone()),
        });
        let starting = station.enter_with("start");
        let factory: Factory = Box::new(factory);
        let supervisor =
            Supervisor { wire, name: name.into(), run_as, station, shared: shared.clone(), factory };
        Self { shared, task: tokio::spawn(supervisor.run(starting)) }
    }

    /// Crashes the operator now. Its supervisor starts it again.
    pub(crate) fn crash(&self) {
        self.shared.process.lock().die();
    }

    /// Crashes the operator at a later point. Its supervisor starts it again.
    pub(crate) fn crash_at(&self, point: CrashPoint) {
        self.shared.process.lock().plan(point);
    }

    /// Keeps the operator from starting again after its next crash, until [`Operator::let_start`].
    pub(crate) fn hold_back(&self) {
        self.shared.gate.close();
    }

    /// Lets the operator start again.
    pub(crate) fn let_start(&self) {
        self.shared.gate.open();
    }

    /// How often the operator has crashed.
    pub(crate) fn crashes(&self) -> usize {
        self.shared.crashes.load(Ordering::SeqCst)
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.task.abort();
    }
}
