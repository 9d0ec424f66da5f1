//! The built-in controllers, the scheduler and the simulated nodes.
//!
//! They are ordinary users of [`evenkeel_runtime`]: they know nothing of the API server but its API, and run the same
//! against any other. Each is a pure core, a function from what is seen to what is to be done, and a thin adapter that
//! sees and does.
//!
//! | controller | module | core |
//! |---|---|---|
//! | Deployments | `deployment` | `rollout`: the next step of a rollout; `status`, `conditions` |
//! | ReplicaSets | `replicaset` | `plan`, `ranking`: whom to make, whom to let go; `status` |
//! | StatefulSets | `statefulset` | `plan`: the next steps in order; `identity`; `history` of revisions |
//! | garbage collector | `garbage` | `graph` of owners and dependents; `decide` |
//! | namespaces | `namespace` | `conditions` |
//! | scheduler | `scheduler` | `placement`, `resources`, `affinity`, `pending` |
//! | nodes | [`node`] | `lifecycle` of a pod, `status`, [`behaviour`](node::behaviour) |
//! | health of nodes | `node_lifecycle` | `taints` |
//! | ServiceAccounts, root certificate | `service_account` | – |
//! | Secrets with tokens of ServiceAccounts | `token_secret` | – |
//! | types in admission policies | `policy_status` | – |
//! | Endpoints, EndpointSlices, mirroring | `endpoints` | `backends`, `slices` |
//! | DaemonSets | `daemonset` | `plan`, `placement` |
//! | Jobs | `job` | `plan`, `indexes` |
//! | CronJobs | `cronjob` | `due` |
//! | lifetimes of finished Jobs | `ttl` | – |
//! | volumes and claims | `volume` | `matching` |
//! | ResourceQuotas | `quota` | `usage` |
//! | HorizontalPodAutoscalers | `autoscaler` | – |
//! | PodDisruptionBudgets | `disruption` | `budget` |
//! | ReplicationControllers | `replicaset` | as ReplicaSets |
//! | aggregated ClusterRoles | `cluster_role` | – |
//!
//! `claim` and `adoption` decide what belongs to whom, `monitors` watches the metadata of all kinds for those who need
//! to see everything, `signals` and `clock` hand over keys and times by the rules of the ledger. `optional` reads the
//! fields whose types differ between Kubernetes versions.
//!
//! *Invariants:* a reconcile that finds everything in order writes nothing. No decision depends on a hash map's order,
//! the OS clock or OS randomness. Nothing walks over all objects to serve one key.

mod adoption;
mod autoscaler;
mod claim;
mod clock;
mod cluster_role;
mod count;
mod cronjob;
mod daemonset;
mod deployment;
mod disruption;
mod endpoints;
mod garbage;
mod history;
mod int_or_percent;
mod job;
mod labelled;
mod monitors;
mod namespace;
pub mod node;
mod node_lifecycle;
mod optional;
mod pod;
mod policy_status;
mod quantity;
mod quota;
mod refusal;
mod replicaset;
mod scheduler;
mod service_account;
mod signals;
mod statefulset;
mod template;
mod token_secret;
mod ttl;
mod volume;

use std::sync::Arc;

use evenkeel_runtime::{Env, Manager};
pub use node::NodeOptions;

/// The field manager of the controllers: they all run in what Kubernetes calls the controller manager.
const MANAGER: &str = "kube-controller-manager";

/// Which controllers run, and with what.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// The simulated nodes; with a count of zero there are none, and pods stay unscheduled unless others are.
    pub nodes: NodeOptions,
    /// The certificate that `kube-root-ca.crt` publishes in every namespace, in PEM; empty in process, where there
    /// is none.
    pub root_ca: String,
    /// Leaves the scheduler out, for whoever brings one or wants pods to stay pending.
    pub without_scheduler: bool,
}

impl Options {
    /// The usual controllers with these nodes.
    pub fn new(nodes: NodeOptions) -> Self {
        Self { nodes, ..Self::default() }
    }

    /// Leaves the scheduler out.
    pub fn without_scheduler(mut self) -> Self {
        self.without_scheduler = true;
        self
    }

    /// Publishes this root certificate.
    pub fn root_ca(mut self, pem: impl Into<String>) -> Self {
        self.root_ca = pem.into();
        self
    }
}

/// Adds all built-in controllers, the scheduler and the nodes to a manager.
///
/// ```no_run
/// # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use evenkeel_controllers::{NodeOptions, Options};
/// use evenkeel_runtime::{Env, Manager};
///
/// let env = Env::system();
/// let manager = Manager::new(client).with_env(env.clone());
/// evenkeel_controllers::all(&env, &Options::new(NodeOptions::count(3)))(manager).run().await?;
/// # Ok(())
/// # }
/// ```
pub fn all(env: &Env, options: &Options) -> impl FnOnce(Manager) -> Manager + use<> {
    let (env, options) = (env.clone(), options.clone());
    move |manager| add_all(manager, &env, &options)
}

// Not in the closure, whose body is built in every crate that calls it, with all the kinds that it names.
fn add_all(manager: Manager, env: &Env, options: &Options) -> Manager {
    let manager = everything(manager, env);
    let mut manager = workloads(manager)
        .controller(service_account::accounts())
        .controller(service_account::root_ca(options.root_ca.clone()))
        .controller(token_secret::controller(options.root_ca.clone()))
        .controller(node_lifecycle::controller())
        .controller(endpoints::controller())
        .controller(endpoints::slice_controller())
        .controller(endpoints::mirroring())
        .controller(disruption::controller())
        .controller(cluster_role::controller())
        .controller(volume::claims(options.nodes.count > 0))
        .controller(volume::volumes())
        .controller(volume::protection())
        .controller(volume::attributes::protection())
        .controller(policy_status::controller());
    if !options.without_scheduler {
        manager = manager.controller(scheduler::controller());
    }
    with_nodes(manager, env, &options.nodes)
}

/// Adds the scheduler, the nodes and their volumes alone: for a cluster that has the other controllers, and no machines
/// and disks.
///
/// ```no_run
/// # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use evenkeel_controllers::NodeOptions;
/// use evenkeel_runtime::{Env, Manager};
///
/// let env = Env::system();
/// let manager = Manager::new(client).with_env(env.clone());
/// evenkeel_controllers::nodes(&env, &NodeOptions::count(1))(manager).run().await?;
/// # Ok(())
/// # }
/// ```
pub fn nodes(env: &Env, options: &NodeOptions) -> impl FnOnce(Manager) -> Manager + use<> {
    let (env, options) = (env.clone(), options.clone());
    move |manager| add_nodes(manager, &env, &options)
}

fn add_nodes(manager: Manager, env: &Env, options: &NodeOptions) -> Manager {
    let manager = manager
        .controller(scheduler::controller())
        .controller(volume::claims(options.count > 0))
        .controller(volume::volumes());
    with_nodes(manager, env, options)
}

fn with_nodes(manager: Manager, env: &Env, options: &NodeOptions) -> Manager {
    if options.count == 0 {
        return manager;
    }
    manager.controller(node::registrar(env, options)).controller(node::kubelet(options))
}

fn workloads(manager: Manager) -> Manager {
    manager
        .controller(deployment::controller())
        .controller(replicaset::controller())
        .controller(replicaset::replication_controllers())
        .controller(statefulset::controller())
        .controller(daemonset::controller())
        .controller(job::controller())
        .controller(job::orphans())
        .controller(cronjob::controller())
        .controller(ttl::controller())
}

/// Those who look at objects of every kind.
fn everything(manager: Manager, env: &Env) -> Manager {
    let (collector, to_look_at) = garbage::Collector::new(env);
    let (terminating, content_went) = namespace::Terminating::new(env);
    let (by_collector, by_namespaces, on_change) =
        (collector.clone(), terminating.clone(), collector.clone());
    let (quotas, freed) = quota::Quotas::new(env);
    let (by_quotas, known) = (quotas.clone(), quotas.clone());
    let monitors = monitors::Monitors::new(
        vec![
            Arc::new(move |resource, event| by_collector.follow(resource, event)),
            Arc::new(move |_, event| by_namespaces.follow(event)),
            Arc::new(move |_, event| by_quotas.follow(event)),
        ],
        vec![Arc::new(move || on_change.kinds_changed()), Arc::new(move || known.kinds_changed())],
    );
    manager
        .controller(monitors::controller(env, monitors.clone()))
        .controller(garbage::controller(collector, monitors.clone(), to_look_at))
        .controller(quota::controller(quotas, monitors.clone(), freed))
        .controller(autoscaler::controller(monitors))
        .controller(namespace::controller(terminating, content_went))
}
