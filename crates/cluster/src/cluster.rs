//! A whole cluster in one value.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use evenkeel_apiserver::{ApiServer, Header, Options as ServerOptions, User, bootstrap};
use evenkeel_env::{Env, Station};
use evenkeel_store::{OpenError, Options as StoreOptions, Store};
use kube::Client;
use parking_lot::Mutex;

use crate::backend::Backend;
use crate::builder::{Builder, SETTLE_LIMIT};
use crate::fault::Faults;
use crate::operator::Operator;
use crate::record::Recorder;
use crate::serve::{Authority, AuthorityError, ServeError, ServeOptions, Server, signing_key};
use crate::snapshot::{self, SnapshotError};
use crate::transport::{Transport, Wire};
use crate::watches::Watches;
use crate::webhooks::Webhooks;

/// The namespace that the test kit works in unless told otherwise.
pub(crate) const DEFAULT_NAMESPACE: &str = "default";

/// What the built-in controllers are known by.
pub(crate) const CONTROLLERS: &str = "kube-controller-manager";
/// Where the certificate authority lives in a data directory.
const PKI: &str = "pki";

/// A Kubernetes cluster in this process: no port, no file, no other process.
///
/// Cloning is cheap and gives another handle on the same cluster; it ends with the last one.
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
    pub(crate) world: Arc<World>,
    namespace: Arc<str>,
    /// Whom this handle acts as.
    user: Arc<User>,
    client: Client,
}

/// What ends with the last handle.
pub(crate) struct World {
    pub(crate) wire: Arc<Wire>,
    /// Where faults and restarts enter the work that they cause.
    pub(crate) station: Station,
    pub(crate) settle_limit: Duration,
    /// None for a cluster elsewhere.
    pub(crate) server: Option<ApiServer>,
    /// Made when it is first needed.
    authority: OnceLock<Authority>,
    /// By name; whoever is taken out of it ends.
    pub(crate) operators: Mutex<BTreeMap<String, Operator>>,
}

/// A cluster could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The data directory cannot be used.
    #[error("cannot open the data directory")]
    DataDir(#[from] OpenError),
    /// The snapshot cannot be restored. Nothing was written.
    #[error(transparent)]
    Restore(#[from] Box<SnapshotError>),
    /// The objects of a new cluster cannot be written.
    #[error("cannot write the objects that every cluster begins with")]
    Bootstrap(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// What the process before this one left undone cannot be written.
    #[error("cannot take up what the last run left undone")]
    Resume(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// There is no certificate authority.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// Disks do not wait for virtual time.
    #[error("a cluster with a data directory cannot live in paused time")]
    PausedTime,
}

impl Cluster {
    /// A cluster with the built-in controllers and one simulated node.
    ///
    /// On a runtime with paused time it is seeded (by `EVENKEEL_SEED`, or a fixed number), else it lives in the real
    /// world's time and randomness.
    pub async fn start() -> Result<Self, StartError> {
        Self::builder().start().await
    }

    /// A cluster to order.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) async fn build(options: Builder) -> Result<Self, StartError> {
        let env = options.environment();
        let store = store(&options, &env).await?;
        let mut server_options = ServerOptions::default();
        server_options.webhooks = Some(Arc::new(Webhooks::new()));
        server_options.audit = options.audit.clone();
        if let Some(folder) = &options.data_dir {
            server_options.signing_key = Some(Arc::new(signing_key(&folder.join(PKI))?));
        }
        let server = ApiServer::new(store, env.clone(), server_options);
        if options.data_dir.is_some() {
            server.resume().await.map_err(|status| StartError::Resume(Box::new(status)))?;
        }
        let wire = Arc::new(Wire {
            backend: Backend::Embedded(server.clone()),
            recorder: Recorder::new(),
            faults: Faults::default(),
            watches: Watches::default(),
            requests: env.ledger().station("requests"),
            records: options.records,
            env: env.clone(),
        });
        let client = new_client(&wire, "client", Some(User::admin()));
        let world = World {
            station: env.ledger().station("cluster"),
            settle_limit: options.settle_limit,
            server: Some(server),
            authority: authority(&options, &env)?,
            operators: Mutex::default(),
            wire,
        };
        let user = Arc::new(User::admin());
        let cluster = Self { world: Arc::new(world), namespace: DEFAULT_NAMESPACE.into(), user, client };
        if options.controllers {
            cluster.run_controllers(&options);
        }
        Ok(cluster)
    }

    /// The same test kit on a cluster elsewhere, through this client and in its default namespace.
    ///
    /// Operators that run through it watch that namespace, where their sources name none. Faults and crash points
    /// strike the requests of this process alone. What others do is not in our ledger, so that [`Cluster::settled`] is
    /// a guess: our own queues are empty, and for a second we had nothing to ask and nothing changed in the namespace.
    pub fn connect(client: Client) -> Self {
        let env = Env::system();
        let namespace = client.default_namespace().into();
        let wire = Arc::new(Wire {
            backend: Backend::Remote(client.clone()),
            recorder: Recorder::new(),
            faults: Faults::default(),
            watches: Watches::default(),
            requests: env.ledger().station("requests"),
            records: true,
            env: env.clone(),
        });
        let world = World {
            station: env.ledger().station("cluster"),
            settle_limit: SETTLE_LIMIT,
            server: None,
            authority: OnceLock::new(),
            operators: Mutex::default(),
            wire,
        };
        let client = new_client(&world.wire, "client", Some(User::admin()));
        Self { world: Arc::new(world), namespace, user: Arc::new(User::admin()), client }
    }

    fn run_controllers(&self, options: &Builder) {
        let root_ca = self.world.authority.get().map(Authority::certificate);
        let (env, options) = (self.env().clone(), options.controller_options(root_ca));
        self.run_manager(CONTROLLERS, move |manager| evenkeel_controllers::all(&env, &options)(manager));
    }

    /// A client as this handle's user: `system:admin` in `system:masters`, who may do everything, unless
    /// [`Cluster::acting_as`] made it another one.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Another handle on the same cluster, which reads, writes and runs operators as this user.
    #[must_use]
    pub fn acting_as(&self, user: User) -> Self {
        let client = new_client(&self.world.wire, &user.name, Some(user.clone()));
        Self { user: Arc::new(user), client, ..self.clone() }
    }

    /// Whom this handle acts as.
    pub fn user(&self) -> &User {
        &self.user
    }

    /// A client as this user in these groups, which must include `system:authenticated` where rules ask for it.
    pub fn client_as<G: Into<String>>(&self, user: &str, groups: impl IntoIterator<Item = G>) -> Client {
        new_client(&self.world.wire, user, Some(User::new(user, groups)))
    }

    /// A client that gives no credentials.
    pub fn client_anonymous(&self) -> Client {
        new_client(&self.world.wire, "anonymous", None)
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

    /// Whether it is not in this process.
    pub(crate) fn is_elsewhere(&self) -> bool {
        matches!(self.world.wire.backend, Backend::Remote(_))
    }

    /// Clock, randomness and ledger of this cluster.
    pub fn env(&self) -> &Env {
        &self.world.wire.env
    }

    /// Puts this cluster behind TLS on a port as well.
    ///
    /// # Errors
    /// When the address cannot be had or there is no certificate.
    pub async fn serve(&self, options: ServeOptions) -> Result<Server, ServeError> {
        let world = &self.world;
        let authority = match world.authority.get() {
            Some(authority) => authority,
            None => {
                let new = Authority::new(self.env().now())?;
                world.authority.get_or_init(|| new)
            }
        };
        let server = world.server.clone().ok_or(ServeError::Elsewhere)?;
        Server::bind(server, authority, self.env().clone(), options).await
    }
}

fn authority(options: &Builder, env: &Env) -> Result<OnceLock<Authority>, AuthorityError> {
    let authority = OnceLock::new();
    if let Some(folder) = &options.data_dir {
        let _ = authority.set(Authority::open(&folder.join(PKI), env.now())?);
    } else if options.root_ca {
        let _ = authority.set(Authority::new(env.now())?);
    }
    Ok(authority)
}

async fn store(options: &Builder, env: &Env) -> Result<Store<Header>, StartError> {
    if options.data_dir.is_some() && evenkeel_env::time_is_paused() {
        return Err(StartError::PausedTime);
    }
    let limits = StoreOptions::default();
    let backup = match &options.restore {
        Some(path) => Some(snapshot::read(path).await.map_err(Box::new)?),
        None => None,
    };
    let store = match (&options.data_dir, backup) {
        (None, None) => return Ok(bootstrap::memory(env, limits).await),
        (None, Some(backup)) => Store::restored(backup, env.clone(), limits),
        (Some(folder), None) => Store::open(folder, env.clone(), limits).await?,
        (Some(folder), Some(backup)) => Store::restore(folder, backup, env.clone(), limits).await?,
    };
    bootstrap::prepare(&store, env).await.map_err(|error| StartError::Bootstrap(Box::new(error)))?;
    Ok(store)
}

fn new_client(wire: &Arc<Wire>, by: &str, user: Option<User>) -> Client {
    let transport = Transport { wire: wire.clone(), by: by.into(), user, life: None };
    Client::new(transport, DEFAULT_NAMESPACE)
}
