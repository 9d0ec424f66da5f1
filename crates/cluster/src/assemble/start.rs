//! Starts an embedded cluster: store, API server, built-in controllers.

use std::sync::{Arc, OnceLock};

use evenkeel_apiserver::{ApiServer, Header, Options as ServerOptions, bootstrap};
use evenkeel_controllers::node::logs::Logs;
use evenkeel_env::{Env, SettingError};
use evenkeel_runtime::Manager;
use evenkeel_store::{OpenError, Options as StoreOptions, Store};
use parking_lot::Mutex;

use super::builder::Builder;
use super::sleep;
use crate::cluster::{Cluster, ClusterInner};
use crate::containers::Containers;
use crate::operator::CONTROLLERS;
use crate::serve::{Authority, AuthorityError, ClusterSigner, signing_key};
use crate::snapshot::{self, SnapshotError};
use crate::transport::{Backend, WebhookTransport, Wire};

/// The folder of a data directory that holds the certificate authority and the signing key.
const PKI: &str = "pki";

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
    /// The objects that every new cluster has cannot be written.
    #[error("cannot write the objects that every cluster begins with")]
    Bootstrap(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Operations that the previous process left unfinished cannot be completed.
    #[error("cannot complete what the previous process left unfinished")]
    Resume(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The certificate authority cannot be created or read.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// An environment variable has a malformed value.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A data directory was asked for on a runtime with paused time. Disks do not follow virtual time.
    #[error("a cluster with a data directory cannot run in paused time")]
    PausedTime,
}

impl Cluster {
    /// Starts a cluster with the built-in controllers and one simulated node.
    ///
    /// On a runtime with paused time the cluster is seeded (by `EVENKEEL_SEED`, or a fixed number). Otherwise it uses
    /// the system's clock and randomness.
    ///
    /// # Errors
    /// Fails as [`Builder::start`] does.
    pub async fn start() -> Result<Self, StartError> {
        Self::builder().start().await
    }
}

impl Builder {
    /// Starts the cluster.
    ///
    /// # Errors
    /// Fails if the data directory or the snapshot cannot be used, or if `EVENKEEL_SEED` is needed and malformed.
    pub async fn start(self) -> Result<Cluster, StartError> {
        let env = self.environment()?;
        let webhooks = Arc::new(WebhookTransport::new(&env, self.records));
        let (store, beginning) = self.store(&env).await?;
        let logs = Logs::default();
        let containers = Containers::new(env.clone(), logs.clone());
        let server = self.api_server(store, &env, webhooks.clone(), &containers).await?;
        let backend = Backend::Embedded(server.clone());
        let wire = Wire::new(backend, env.clone(), self.records, webhooks);
        let wire = Arc::new(if self.webhooks_over_tls { wire.with_webhooks_over_tls() } else { wire });
        let inner = ClusterInner {
            wire,
            station: env.ledger().station("cluster"),
            settle_limit: self.settle_limit,
            server: Some(server),
            authority: Arc::new(self.authority(&env)?),
            operators: Mutex::default(),
            follower: OnceLock::new(),
            rules: Default::default(),
            logs,
            containers,
            http_faults: Default::default(),
            replicated: Mutex::default(),
            outside: Mutex::default(),
        };
        let cluster = Cluster::new(inner, crate::transport::DEFAULT_NAMESPACE);
        if self.controllers {
            self.run_controllers(&cluster, beginning).await?;
        }
        Ok(cluster)
    }

    async fn api_server(
        &self,
        store: Store<Header>,
        env: &Env,
        webhooks: Arc<WebhookTransport>,
        containers: &Containers,
    ) -> Result<ApiServer, StartError> {
        let mut options = ServerOptions::default();
        options.webhooks = Some(webhooks);
        options.nodes = Some(Arc::new(containers.clone()));
        options.audit = self.audit.clone();
        options.flags = self.flags.clone();
        if let Some(folder) = &self.data_dir {
            options.signing_key = Some(Arc::new(signing_key(&folder.join(PKI))?));
        }
        let server = ApiServer::new(store, env.clone(), options);
        if self.data_dir.is_some() {
            server.resume().await.map_err(|status| StartError::Resume(Box::new(status)))?;
        }
        Ok(server)
    }

    async fn store(&self, env: &Env) -> Result<(Store<Header>, Beginning), StartError> {
        if self.data_dir.is_some() && evenkeel_env::time_is_paused() {
            return Err(StartError::PausedTime);
        }
        let limits = StoreOptions::default();
        let backup = match &self.restore {
            Some(path) => Some(snapshot::read(path).await.map_err(Box::new)?),
            None => None,
        };
        let store = match (&self.data_dir, backup) {
            (None, None) if self.can_be_prepared(env) => {
                let options = self.controller_options(None);
                let store = sleep::prepared(env, limits, &options).map_err(failed)?;
                return Ok((store, Beginning::AtRest));
            }
            (None, None) => return Ok((bootstrap::memory(env, limits).await, Beginning::New)),
            (None, Some(backup)) => Store::restored(backup, env.clone(), limits),
            (Some(folder), None) => Store::open(folder, env.clone(), limits).await?,
            (Some(folder), Some(backup)) => Store::restore(folder, backup, env.clone(), limits).await?,
        };
        bootstrap::prepare(&store, env).await.map_err(failed)?;
        Ok((store, Beginning::Kept))
    }

    /// Whether a cluster with these options can begin with the state that is made once for the process.
    fn can_be_prepared(&self, env: &Env) -> bool {
        let in_virtual_time = env.seed().is_some() && env.now() == evenkeel_env::EPOCH;
        in_virtual_time && self.controllers && self.lazy_controllers && !self.root_ca
    }

    fn authority(&self, env: &Env) -> Result<OnceLock<Authority>, AuthorityError> {
        let authority = OnceLock::new();
        if let Some(folder) = &self.data_dir {
            let _ = authority.set(Authority::open(&folder.join(PKI), env)?);
        } else if self.root_ca {
            let _ = authority.set(Authority::new(env)?);
        }
        Ok(authority)
    }

    async fn run_controllers(&self, cluster: &Cluster, mut beginning: Beginning) -> Result<(), StartError> {
        let root_ca = cluster.inner.authority.get().map(Authority::certificate);
        let sends_events = self.controller_events;
        let (env, mut options) = (cluster.env().clone(), self.controller_options(root_ca));
        let signer = ClusterSigner { authority: cluster.inner.authority.clone(), env: env.clone() };
        options.signer = Some(Arc::new(signer));
        self.pod_rules.iter().for_each(|rule| cluster.inner.rules.add(rule.clone()));
        (options.nodes.rules, options.nodes.logs) = (cluster.inner.rules.clone(), cluster.inner.logs.clone());
        let Some(server) = cluster.inner.server.as_ref().filter(|_| self.lazy_controllers) else {
            cluster.run_manager(CONTROLLERS, move |manager| {
                evenkeel_controllers::all(&env, &options)(with_events(manager, sends_events))
            });
            return Ok(());
        };
        if beginning == Beginning::New {
            sleep::complete(server, &env, &options).await.map_err(failed)?;
            beginning = Beginning::AtRest;
        }
        options.nodes.registered = beginning == Beginning::AtRest;
        let (uses, follower) = sleep::follow(server.store(), options.nodes.registered);
        if let Some(follower) = follower {
            let _ = cluster.inner.follower.set(follower);
        }
        cluster.run_manager(CONTROLLERS, move |manager| {
            let manager = with_events(manager, sends_events).resource_use(uses.clone());
            let manager = evenkeel_controllers::all(&env, &options)(manager);
            // After a crash the nodes register again, as real ones do.
            options.nodes.registered = false;
            manager
        });
        Ok(())
    }
}

fn with_events(manager: Manager, sends_events: bool) -> Manager {
    if sends_events { manager } else { manager.without_events() }
}

/// The state that a cluster begins with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beginning {
    /// The objects of a new cluster, without those of its controllers.
    New,
    /// The objects of a new cluster whose controllers have nothing left to do.
    AtRest,
    /// The state of an earlier cluster.
    Kept,
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> StartError {
    StartError::Bootstrap(Box::new(error))
}
