//! The handle on a cluster: its users, its namespace, the operators that run in it, and the port it is served on.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use evenkeel_apiserver::{ApiServer, User};
use evenkeel_controllers::node::logs::Logs;
use evenkeel_controllers::node::rules::Rules;
use evenkeel_env::{Env, Station};
use evenkeel_runtime::controller::Controller;
use evenkeel_runtime::{Manager, Object};
use kube::Client;
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::containers::{Containers, HttpFaults};
use crate::operator::{Operator, RunAs};
use crate::serve::{Authority, Observer, ServeError, ServeOptions, Server};
use crate::snapshot::{self, Saved, SnapshotError};
use crate::transport::{Backend, DEFAULT_NAMESPACE, Transport, Wire, installer};

/// A Kubernetes cluster in this process: no port, no file, no other process.
///
/// Cloning is cheap and gives another handle on the same cluster. The cluster stops when its last handle is dropped.
///
/// ```
/// use evenkeel_cluster::Cluster;
/// use k8s_openapi::api::core::v1::Pod;
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let cluster = Cluster::start().await?;                     // API server, controllers, a node: milliseconds
/// let pod = json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}});
/// cluster.apply::<Pod>(serde_json::from_value(pod)?).await?;
/// cluster.settled().await;                                   // scheduled, started, ready
/// cluster.assert_has::<Pod>("web", json!({"status": {"phase": "Running"}})).await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Cluster {
    pub(crate) inner: Arc<ClusterInner>,
    namespace: Arc<str>,
    /// The user that this handle's requests and operators act as.
    user: Arc<User>,
    client: Client,
}

/// What all handles on one cluster share. Dropping it stops the cluster.
pub(crate) struct ClusterInner {
    pub(crate) wire: Arc<Wire>,
    /// The station at which cut watches and restarts enter the work that they cause.
    pub(crate) station: Station,
    pub(crate) settle_limit: Duration,
    /// `None` for a remote cluster.
    pub(crate) server: Option<ApiServer>,
    /// Created when the cluster is first served, unless the builder has created or loaded it.
    pub(crate) authority: Arc<OnceLock<Authority>>,
    /// The running operators by name. Removing one stops it.
    pub(crate) operators: Mutex<BTreeMap<String, Operator>>,
    /// Reports to the built-in controllers which resources are used.
    pub(crate) follower: OnceLock<Follower>,
    /// Rules for the containers of some pods. The nodes of a remote cluster do not read them.
    pub(crate) rules: Rules,
    /// The output of the containers on the simulated nodes.
    pub(crate) logs: Logs,
    /// What answers for the containers on the nodes.
    pub(crate) containers: Containers,
    /// What happens to the next HTTP requests to applications.
    pub(crate) http_faults: HttpFaults,
    /// The operators that will run as two replicas when they are started next, and a function that adapts their
    /// managers.
    pub(crate) replicated: Mutex<BTreeMap<String, Adapt>>,
    /// The states of the services outside the cluster, by name.
    pub(crate) outside: Mutex<BTreeMap<String, OutsideState>>,
}

/// How long after the first replica of an operator the second one starts: earlier than any replica could lead by a new
/// lease.
const SECOND_REPLICA: Duration = Duration::from_secs(1);

/// Adapts the manager of a replica.
pub(crate) type Adapt = Arc<dyn Fn(Manager) -> Manager + Send + Sync>;

/// Returns the state of a service outside the cluster.
pub(crate) type OutsideState = Arc<dyn Fn() -> serde_json::Value + Send + Sync>;

/// Follows the use of resources until it is dropped.
pub(crate) struct Follower(pub(crate) JoinHandle<()>);

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Cluster {
    /// The first handle on a cluster: it acts as the administrator.
    pub(crate) fn new(inner: ClusterInner, namespace: &str) -> Self {
        Self { namespace: namespace.into(), ..Self::of(Arc::new(inner)) }
    }

    /// A handle that acts as the administrator, in the default namespace.
    pub(crate) fn of(inner: Arc<ClusterInner>) -> Self {
        let client = new_client(&inner.wire, "client", Some(User::admin()));
        Self { inner, namespace: DEFAULT_NAMESPACE.into(), user: Arc::new(User::admin()), client }
    }

    /// A client as this handle's user: `system:admin` in `system:masters`, who may do everything, unless
    /// [`Cluster::acting_as`] chose another user.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Another handle on the same cluster, which reads, writes and runs operators as this user.
    #[must_use]
    pub fn acting_as(&self, user: User) -> Self {
        let client = new_client(&self.inner.wire, &user.name, Some(user.clone()));
        Self { user: Arc::new(user), client, ..self.clone() }
    }

    /// The user that this handle acts as.
    pub fn user(&self) -> &User {
        &self.user
    }

    /// A client as this user in these groups. The groups must include `system:authenticated` if RBAC rules grant
    /// something to that group.
    pub fn client_as<G: Into<String>>(&self, user: &str, groups: impl IntoIterator<Item = G>) -> Client {
        new_client(&self.inner.wire, user, Some(User::new(user, groups)))
    }

    /// A client as this handle's user, whose requests are not recorded: for tools that observe the cluster and must not
    /// appear in what they observe.
    pub fn quiet_client(&self) -> Client {
        let (wire, by, user) =
            (self.inner.wire.clone(), self.user.name.as_str().into(), (*self.user).clone());
        let transport = Transport { wire, by, user: Some(user), process: None, installs: false, quiet: true };
        Client::new(transport, DEFAULT_NAMESPACE)
    }

    /// A client that sends no credentials.
    pub fn client_anonymous(&self) -> Client {
        new_client(&self.inner.wire, "anonymous", None)
    }

    /// Another handle on the same cluster, whose `get`, `apply` and so on work in this namespace.
    #[must_use]
    pub fn namespaced(&self, namespace: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), ..self.clone() }
    }

    /// The namespace that this handle works in.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Whether the API server runs outside of this process, as it does with `EVENKEEL_KUBECONFIG`.
    pub fn is_remote(&self) -> bool {
        matches!(self.inner.wire.backend, Backend::Remote(_))
    }

    /// The clock, randomness and ledger of this cluster.
    pub fn env(&self) -> &Env {
        &self.inner.wire.env
    }

    /// Serves this cluster over TLS on a port as well.
    ///
    /// ```no_run
    /// # async fn run(cluster: evenkeel_cluster::Cluster) -> Result<(), Box<dyn std::error::Error>> {
    /// use evenkeel_cluster::serve::ServeOptions;
    /// let server = cluster.serve(ServeOptions::default()).await?;
    /// server.write_kubeconfig("kubeconfig".as_ref())?;           // for kubectl, and clients in other processes
    /// println!("{}", server.url());
    /// server.run(std::future::pending()).await;                  // until this future is dropped
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Fails if the address cannot be bound, a certificate cannot be created, or the cluster is a remote one.
    pub async fn serve(&self, options: ServeOptions) -> Result<Server, ServeError> {
        let inner = &self.inner;
        let authority = match inner.authority.get() {
            Some(authority) => authority,
            None => {
                let new = Authority::new(self.env())?;
                inner.authority.get_or_init(|| new)
            }
        };
        let server = inner.server.clone().ok_or(ServeError::Remote)?;
        let recorder = inner.wire.recorder.clone();
        let observer: Observer = Arc::new(move |served| recorder.served(served));
        let observer = options.records.then_some(observer);
        Server::bind(server, authority, self.env().clone(), options, observer).await
    }

    /// Saves the state of this cluster to a file as this handle's user, as [`snapshot::save`] does. A new cluster can
    /// be started from the file with `Builder::restore`.
    ///
    /// ```no_run
    /// # async fn run(cluster: evenkeel_cluster::Cluster) -> Result<(), Box<dyn std::error::Error>> {
    /// use evenkeel_cluster::Cluster;
    /// cluster.save_snapshot("cluster.snap").await?;
    /// let copy = Cluster::builder().restore("cluster.snap").start().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Fails if the user is not allowed to take snapshots, or if the file cannot be written.
    pub async fn save_snapshot(&self, path: impl AsRef<Path>) -> Result<Saved, SnapshotError> {
        snapshot::save(&self.client(), path.as_ref()).await
    }
}

/// Operators.
impl Cluster {
    /// Runs an operator in this cluster, as this handle's user. The factory makes its controller, and makes it again
    /// after each crash. Values that the factory captures survive a crash, like state outside of the operator's
    /// process.
    ///
    /// [`Cluster::writes`], [`Cluster::crash`] and the like know the operator's requests by the controller's name.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use evenkeel_runtime::{Action, Controller, Ctx, Result};
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// # use serde_json::json;
    ///
    /// async fn reconcile(map: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
    ///     let mut secret = Secret::default();
    ///     secret.metadata.name = map.metadata.name.clone();
    ///     ctx.apply(secret).await?;
    ///     Ok(Action::await_change())
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

    /// Runs an operator with several controllers, which the factory adds to a manager.
    ///
    /// The operator's webhooks are served in this process as long as the operator runs: without a port or TLS, and in
    /// virtual time. While the operator is crashed or stopped, they are down. Their configurations, and the conversions
    /// of its CRDs, are created as the operator's manifests would, before the next request of the test is sent. If an
    /// operator with this name is started again with other webhooks, they replace the old ones. Operators with equal
    /// webhooks are replicas, and take turns.
    ///
    /// The URL of a webhook begins with `https://NAME.webhooks.test/`. An operator that runs as the ServiceAccount of
    /// its manifests has the Service `https://NAME-webhook.NAMESPACE.svc:443/` instead, and does not review objects in
    /// that namespace. [`Cluster::fail_webhook`] accepts any part of the URL.
    ///
    /// On a remote cluster and in real time (`Builder::real_time`), the webhooks are served over TLS on a port of this
    /// machine, which the API server must be able to reach, with certificates that the operator makes itself. They are
    /// registered by URL, and review only objects in the namespace of this handle. Faults of `fail_webhook` affect only
    /// the API server in this process.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// use evenkeel_cluster::WebhookFault;
    /// use evenkeel_runtime::webhook::{Admission, Verdict, Webhook};
    /// # use evenkeel_runtime::Result;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// async fn not_empty(map: Arc<ConfigMap>, _: Admission<ConfigMap>) -> Result<Verdict> {
    ///     Ok(if map.data.is_some() { Verdict::allow() } else { Verdict::deny("it has no data") })
    /// }
    ///
    /// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options().controllers(false), |cluster| async move {
    /// # let empty: ConfigMap = serde_json::from_value(serde_json::json!({"metadata": {"name": "a"}})).unwrap();
    /// cluster.run_manager("maps", |manager| manager.webhook(Webhook::validate(not_empty)));
    /// let refused = cluster.apply(empty.clone()).await.unwrap_err().to_string();
    /// assert!(refused.contains("denied the request: it has no data"), "{refused}");
    ///
    /// cluster.fail_webhook("maps.", WebhookFault::Down, 1);
    /// let failed = cluster.apply(empty).await.unwrap_err().to_string();
    /// assert!(failed.contains("connection refused"), "{failed}");
    /// # });
    /// ```
    pub fn run_manager(&self, name: &str, factory: impl FnMut(Manager) -> Manager + Send + 'static) {
        let run_as = RunAs { user: (*self.user).clone(), namespace: self.namespace.clone() };
        let adapt = self.inner.replicated.lock().get(name).cloned();
        let Some(adapt) = adapt else {
            let operator = Operator::start(self.inner.wire.clone(), name, run_as, factory);
            self.inner.operators.lock().insert(name.to_owned(), operator);
            return;
        };
        let factory = Arc::new(Mutex::new(factory));
        for replica in [name.to_owned(), second_replica(name)] {
            let (factory, adapt) = (factory.clone(), adapt.clone());
            let make = move |manager| adapt((factory.lock())(manager));
            let operator = Operator::start(self.inner.wire.clone(), &replica, run_as.clone(), make);
            if replica != name {
                operator.hold_back();
                self.start_later(replica.clone());
            }
            self.inner.operators.lock().insert(replica, operator);
        }
    }

    /// Starts a second replica once the first one has written its lease, so that the first one leads.
    fn start_later(&self, replica: String) {
        let (cluster, env) = (Arc::downgrade(&self.inner), self.env().clone());
        tokio::spawn(async move {
            let at = tokio::time::Instant::now() + SECOND_REPLICA;
            let deadline = env.ledger().deadline("start of a second replica");
            deadline.set(Some(at));
            tokio::time::sleep_until(at).await;
            if let Some(cluster) = cluster.upgrade() {
                cluster.operators.lock().get(&replica).into_iter().for_each(Operator::let_start);
            }
        });
    }

    /// Stops an operator without a graceful shutdown.
    pub fn stop(&self, name: &str) {
        let mut operators = self.inner.operators.lock();
        operators.remove(name);
        operators.remove(&second_replica(name));
    }

    /// Stops all operators, and removes from a remote cluster what their webhooks have created there.
    pub(crate) async fn clean_up(&self) {
        let (registrations, client) = (&self.inner.wire.registrations, installer(&self.inner.wire));
        if let Err(error) = registrations.withdraw_all(&client).await {
            println!("remote: cannot remove the configurations of the webhooks: {error}");
        }
        self.stop_all();
        if let Err(error) = registrations.delete_secrets(&client).await {
            println!("remote: cannot delete the certificates of the webhooks: {error}");
        }
    }

    /// Stops all operators.
    pub(crate) fn stop_all(&self) {
        self.inner.operators.lock().clear();
    }
}

/// Returns the name of the second replica of an operator.
pub(crate) fn second_replica(name: &str) -> String {
    format!("{name}/2")
}

fn new_client(wire: &Arc<Wire>, by: &str, user: Option<User>) -> Client {
    let (wire, by) = (wire.clone(), by.into());
    let transport = Transport { wire, by, user, process: None, installs: false, quiet: false };
    Client::new(transport, DEFAULT_NAMESPACE)
}
