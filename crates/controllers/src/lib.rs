//! The built-in controllers, the scheduler and the simulated nodes.
//!
//! They are ordinary users of [`evenkeel_runtime`]: they know only the API of the API server, and run against any other
//! server too. Each consists of a pure core, a function from the observed state to the next steps, and a thin adapter that
//! reads and writes.
//!
//! | controller | module | pure core |
//! |---|---|---|
//! | Deployments | `deployment` | `rollout`: the next step of a rollout; `status`, `conditions` |
//! | ReplicaSets and ReplicationControllers | `replicaset` | `plan`, `ranking`: which pods to create and to delete; `status` |
//! | StatefulSets | `statefulset` | `plan`: the next steps in order; `identity` |
//! | DaemonSets | `daemonset` | `plan`, `update`, `placement` |
//! | Jobs | `job` | `plan`, `indexes` |
//! | CronJobs | `cronjob` | `due` |
//! | finished Jobs with a time to live | `ttl_after_finished` | – |
//! | garbage collector | `garbage_collector` | `graph` of owners and dependents; `decide` |
//! | namespaces | `namespace` | `conditions` |
//! | scheduler | `scheduler` | `placement`, `preemption`, `cache`, `affinity`, `interpod`, `spread`, `queue` |
//! | simulated nodes | [`node`] | `lifecycle` of a pod, `status`, [`behaviour`](node::behaviour) |
//! | node health | `node_lifecycle` | `taints` |
//! | `NoExecute` taints | `taint_eviction` | `tolerance` |
//! | pods of nodes that are gone | `pod_garbage_collector` | – |
//! | default ServiceAccounts, root certificate | `service_account` | – |
//! | Secrets with tokens of ServiceAccounts | `token_secret` | – |
//! | CertificateSigningRequests: approval, signing, cleaning | `certificates` | `signers`, `age` |
//! | type checks of ValidatingAdmissionPolicies | `admission_policy_status` | – |
//! | Endpoints, EndpointSlices, mirroring | `endpoints` | `backends`, `slices` |
//! | PersistentVolumes and their claims | `persistent_volume` | `matching` |
//! | ResourceQuotas | `resource_quota` | `usage` |
//! | HorizontalPodAutoscalers | `horizontal_pod_autoscaler` | – |
//! | PodDisruptionBudgets | `disruption` | `budget` |
//! | aggregated ClusterRoles | `cluster_role_aggregation` | – |
//!
//! Modules that several controllers share:
//!
//! | module | purpose |
//! |---|---|
//! | `controller_ref`, `adoption` | which objects a controller owns, adopts and releases |
//! | `controller_history` | ControllerRevisions of StatefulSets and DaemonSets |
//! | `pod`, `pod_template` | questions about a pod; from a template to pods |
//! | `pod_removal` | deletes a pod and records an event about it |
//! | `disruption_target` | deletes a pod, with a condition that gives the reason |
//! | `metadata_informers` | watches the metadata of every kind |
//! | `label_index` | finds the objects that a label selector may match |
//! | `key_channel`, `clock` | hand keys and times to a controller by the rules of the ledger |
//! | `finalizer` | removes finalizers |
//! | `expiration` | deletes objects whose time is over |
//! | `initial_objects` | what the controllers create in every new cluster |
//! | `api_error` | what an error of the API server means to a controller |
//! | `object`, `kinds` | one type for objects of all kinds, and the kinds that the controllers use |
//! | `scaled_value`, `counts` | numbers or percentages; sums that do not overflow |
//!
//! *Invariants:* a reconcile that finds everything in order writes nothing. No decision depends on a hash map's order,
//! the OS clock or OS randomness. Nothing walks over all objects to serve one key.

mod admission_policy_status;
mod adoption;
mod api_error;
mod certificates;
mod clock;
mod cluster_role_aggregation;
mod controller_history;
mod controller_ref;
mod counts;
mod cronjob;
mod daemonset;
mod deployment;
mod disruption;
mod disruption_target;
mod endpoints;
mod expiration;
mod finalizer;
mod garbage_collector;
mod horizontal_pod_autoscaler;
mod initial_objects;
mod job;
mod key_channel;
mod kinds;
mod label_index;
mod metadata_informers;
mod namespace;
pub mod node;
mod node_lifecycle;
mod object;
mod persistent_volume;
mod pod;
mod pod_garbage_collector;
mod pod_removal;
mod pod_template;
mod replicaset;
mod resource_quota;
mod scaled_value;
mod scheduler;
mod service_account;
mod statefulset;
mod taint_eviction;
mod token_secret;
mod ttl_after_finished;

use std::sync::Arc;

pub use certificates::CertificateSigner;
use evenkeel_runtime::resource_use::UseListener;
use evenkeel_runtime::{Env, Manager};
pub use initial_objects::initial_objects;
pub use node::NodeOptions;

/// The field manager of the controllers, which Kubernetes runs in its controller manager.
const MANAGER: &str = "kube-controller-manager";

/// Which controllers run, and their settings.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// The simulated nodes. With a count of zero there are none, and pods stay pending unless other nodes register.
    pub nodes: NodeOptions,
    /// The PEM certificate for the ConfigMap `kube-root-ca.crt` of every namespace; empty for a cluster in process, which
    /// has none.
    pub root_ca: String,
    /// Who signs certificates for the built-in signers. Without one, CertificateSigningRequests stay as they are.
    pub signer: Option<Arc<dyn CertificateSigner>>,
    /// Whether to leave the scheduler out, for a test with its own scheduler or with pods that stay pending.
    pub without_scheduler: bool,
}

impl Options {
    /// The default options, with these nodes.
    pub fn new(nodes: NodeOptions) -> Self {
        Self { nodes, ..Self::default() }
    }

    /// Leaves the scheduler out.
    pub fn without_scheduler(mut self) -> Self {
        self.without_scheduler = true;
        self
    }

    /// Sets the PEM root certificate to publish.
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

// A function of its own: the body of the closure is compiled in every crate that calls it, with all kinds that it names.
fn add_all(manager: Manager, env: &Env, options: &Options) -> Manager {
    // No built-in controller reads managed fields, which are often longer than the rest of the object.
    let manager = metadata_controllers(manager.strip_managed_fields(), env);
    let mut manager = workloads(manager)
        .controller(service_account::accounts())
        .controller(service_account::root_ca(options.root_ca.clone()))
        .controller(token_secret::controller(options.root_ca.clone()))
        .controller(node_lifecycle::controller())
        .controller(taint_eviction::controller())
        .controller(pod_garbage_collector::controller())
        .controller(endpoints::controller())
        .controller(endpoints::slice_controller())
        .controller(endpoints::mirroring_controller())
        .controller(disruption::controller())
        .controller(cluster_role_aggregation::controller())
        .controller(persistent_volume::claims(options.nodes.count > 0))
        .controller(persistent_volume::volumes())
        .controller(persistent_volume::protection())
        .controller(persistent_volume::attributes_class::protection())
        .controller(admission_policy_status::controller());
    if let Some(signer) = &options.signer {
        manager = manager
            .controller(certificates::approval())
            .controller(certificates::signing(signer.clone()))
            .controller(certificates::cleaning());
    }
    if !options.without_scheduler {
        manager = manager.controller(scheduler::controller());
    }
    with_nodes(manager, env, &options.nodes)
}

/// Adds only the scheduler, the nodes and their volumes, for a cluster that has the other controllers but no machines.
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
        .controller(persistent_volume::claims(options.count > 0))
        .controller(persistent_volume::volumes());
    with_nodes(manager, env, options)
}

fn with_nodes(manager: Manager, env: &Env, options: &NodeOptions) -> Manager {
    if options.count == 0 {
        return manager;
    }
    manager.controller(node::registrar(options)).controller(node::kubelet(env, options))
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
        .controller(ttl_after_finished::controller())
}

/// Adds the controllers that follow objects of every kind.
fn metadata_controllers(manager: Manager, env: &Env) -> Manager {
    let (collector, to_check) = garbage_collector::GarbageCollector::new(env);
    let (terminating, content_deleted) = namespace::TerminatingNamespaces::new(env);
    let (by_collector, by_namespaces, on_change) =
        (collector.clone(), terminating.clone(), collector.clone());
    let (quotas, released) = resource_quota::QuotaIndex::new(env);
    let (by_quotas, known) = (quotas.clone(), quotas.clone());
    let (newly_used, first_uses) = key_channel::channel(env, "metadata informers: resources used");
    let uses = manager.informers().uses().cloned().map(|uses| {
        let listener: Arc<UseListener> = Arc::new(move |_, _| newly_used.send(metadata_informers::used()));
        uses.listen(&listener);
        (uses, listener)
    });
    let informers = metadata_informers::MetadataInformers::new(
        vec![
            Arc::new(move |resource, event| by_collector.follow(resource, event)),
            Arc::new(move |_, event| by_namespaces.follow(event)),
            Arc::new(move |_, event| by_quotas.follow(event)),
        ],
        vec![Arc::new(move || on_change.kinds_changed()), Arc::new(move || known.kinds_changed())],
        uses,
    );
    manager
        .controller(metadata_informers::controller(informers.clone(), first_uses))
        .controller(garbage_collector::controller(collector, informers.clone(), to_check))
        .controller(resource_quota::controller(quotas, informers.clone(), released))
        .controller(horizontal_pod_autoscaler::controller(informers))
        .controller(namespace::controller(terminating, content_deleted))
}
