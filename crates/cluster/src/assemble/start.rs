//! Starts an embedded cluster: store, API server, built-in controllers.

use std::sync::{Arc, OnceLock};

use evenkeel_apiserver::{ApiServer, Header, Options as ServerOptions, bootstrap};
use evenkeel_env::{Env, SettingError};
use evenkeel_store::{OpenError, Options as StoreOptions, Store};
use parking_lot::Mutex;

use super::builder::Builder;
use crate::cluster::{Cluster, ClusterInner};
use crate::operator::CONTROLLERS;
use crate::serve::{Authority, AuthorityError, signing_key};
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
        let server = self.api_server(&env, webhooks.clone()).await?;
        let backend = Backend::Embedded(server.clone());
        let wire = Arc::new(Wire::new(backend, env.clone(), self.records, webhooks));
        let inner = ClusterInner {
            wire,
            station: env.ledger().station("cluster"),
            settle_limit: self.settle_limit,
            server: Some(server),
            authority: self.authority(&env)?,
            operators: Mutex::default(),
        };
        let cluster = Cluster::new(inner, crate::transport::DEFAULT_NAMESPACE);
        if self.controllers {
            self.run_controllers(&cluster);
        }
        Ok(cluster)
    }

    async fn api_server(&self, env: &Env, webhooks: Arc<WebhookTransport>) -> Result<ApiServer, StartError> {
        let store = self.store(env).await?;
        let mut options = ServerOptions::default();
        options.webhooks = Some(webhooks);
        options.audit = self.audit.clone();
        if let Some(folder) = &self.data_dir {
            options.signing_key = Some(Arc::new(signing_key(&folder.join(PKI))?));
        }
        let server = ApiServer::new(store, env.clone(), options);
        if self.data_dir.is_some() {
            server.resume().await.map_err(|status| StartError::Resume(Box::new(status)))?;
        }
        Ok(server)
    }

    async fn store(&self, env: &Env) -> Result<Store<Header>, StartError> {
        if self.data_dir.is_some() && evenkeel_env::time_is_paused() {
            return Err(StartError::PausedTime);
        }
        let limits = StoreOptions::default();
        let backup = match &self.restore {
            Some(path) => Some(snapshot::read(path).await.map_err(Box::new)?),
            None => None,
        };
        let store = match (&self.data_dir, backup) {
            (None, None) => return Ok(bootstrap::memory(env, limits).await),
            (None, Some(backup)) => Store::restored(backup, env.clone(), limits),
            (Some(folder), None) => Store::open(folder, env.clone(), limits).await?,
            (Some(folder), Some(backup)) => Store::restore(folder, backup, env.clone(), limits).await?,
        };
        bootstrap::prepare(&store, env).await.map_err(|error| StartError::Bootstrap(Box::new(error)))?;
        Ok(store)
    }

    fn authority(&self, env: &Env) -> Result<OnceLock<Authority>, AuthorityError> {
        let authority = OnceLock::new();
        if let Some(folder) = &self.data_dir {
            let _ = authority.set(Authority::open(&folder.join(PKI), env.now())?);
        } else if self.root_ca {
            let _ = authority.set(Authority::new(env.now())?);
        }
        Ok(authority)
    }

    fn run_controllers(&self, cluster: &Cluster) {
        let root_ca = cluster.inner.authority.get().map(Authority::certificate);
        let (env, options) = (cluster.env().clone(), self.controller_options(root_ca));
        cluster.run_manager(CONTROLLERS, move |manager| evenkeel_controllers::all(&env, &options)(manager));
    }
}
