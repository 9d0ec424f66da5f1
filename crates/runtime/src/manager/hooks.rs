//! The webhooks of a manager.

#[cfg(feature = "webhook-server")]
mod server;

use futures::future::FutureExt as _;
use kube::core::CustomResourceExt;

use tokio_util::sync::CancellationToken;

use super::part::{Part, When};
use super::stage::Stages;
use super::{Manager, ManagerError};
use crate::Object;
use crate::error::BoxError;
use crate::manifests::{Converted, Manifests};
use crate::migration::Migration;
use crate::tasks::Tasks;
#[cfg(feature = "webhook-server")]
use crate::webhook::WebhookServer;
use crate::webhook::{Conversion, Converter, Entry, IntoWebhook, Webhook, Webhooks};

/// The hint in the error about webhooks without a server.
#[cfg(feature = "webhook-server")]
const UNSERVED: &str = "nobody serves them: set a server by `Manager::webhook_server`";
#[cfg(not(feature = "webhook-server"))]
const UNSERVED: &str = "nobody serves them: enable the feature `webhook-server` and set a server by \
     `Manager::webhook_server`, or take them by `Manager::take_webhooks`";

/// The webhooks that were added to a manager.
#[derive(Default)]
pub(super) struct Hooks {
    list: Vec<Webhook>,
    converters: Vec<Converter>,
    /// The conversions, as the manifests describe them.
    converted: Vec<Converted>,
    #[cfg(feature = "webhook-server")]
    server: Option<WebhookServer>,
}

impl Hooks {
    fn is_empty(&self) -> bool {
        self.list.is_empty() && self.converters.is_empty()
    }
}

impl Manager {
    /// Adds an admission webhook. It runs on every replica, whether or not it leads.
    pub fn webhook(mut self, webhook: impl IntoWebhook) -> Self {
        self.hooks.list.push(webhook.into_webhook());
        self
    }

    /// Adds the conversion between the versions of a kind. It runs on every replica, whether or not it leads.
    ///
    /// With [`Conversion::migrate_storage`], the leader rewrites stored objects; call [`Manager::with_env`] before.
    pub fn conversion<H>(mut self, conversion: Conversion<H>) -> Self
    where
        H: Object<DynamicType = ()> + CustomResourceExt,
    {
        self.hooks.converted.push(Converted::of(&conversion));
        if conversion.migrates() {
            let name = conversion.crd_name();
            let migration = Migration::new(self.client.clone(), self.env.clone(), name);
            let run = move |stop| migration.run(stop).map(Ok::<_, BoxError>);
            self.parts.push(Part::runnable(&format!("storage migration of {name}"), When::Leading, run));
        }
        self.hooks.converters.push(conversion.erase());
        self
    }

    /// Takes the webhooks out of the manager, for a caller that serves them itself. Returns `None` if there are none. A
    /// manager refuses to run with webhooks that nobody serves, because requests that they must review would fail.
    ///
    /// # Errors
    /// Fails if two webhooks have one path or one name.
    pub fn take_webhooks(&mut self) -> Result<Option<Webhooks>, BoxError> {
        if self.hooks.is_empty() {
            return Ok(None);
        }
        let (list, converters) =
            (std::mem::take(&mut self.hooks.list), std::mem::take(&mut self.hooks.converters));
        Ok(Some(Webhooks::new(list, converters, self.metrics.clone())?.recorded_by(self.flight.clone())))
    }

    /// Adds the webhooks to the manifests.
    pub(super) fn declare_webhooks(&self, manifests: Manifests) -> Manifests {
        let Hooks { list, converted, .. } = &self.hooks;
        let manifests = manifests.hooked(list.iter().map(Entry::of).collect(), converted.clone());
        #[cfg(feature = "webhook-server")]
        if let Some(server) = &self.hooks.server {
            return server::declared(server, manifests);
        }
        manifests
    }

    /// Starts the server of the webhooks, if the manager still has any. `stopping` is cancelled when the manager begins
    /// to stop.
    pub(super) fn start_webhooks(
        &mut self,
        tasks: &Tasks,
        stages: &mut Stages,
        stopping: CancellationToken,
    ) -> Result<(), ManagerError> {
        let failed = |source| ManagerError { part: "webhooks".to_owned(), source };
        let Some(webhooks) = self.take_webhooks().map_err(failed)? else { return Ok(()) };
        #[cfg(feature = "webhook-server")]
        if let Some(server) = self.hooks.server.take() {
            return self.start_server(webhooks, server, (tasks, stages), stopping);
        }
        drop((webhooks, tasks, stages, stopping));
        Err(failed(UNSERVED.into()))
    }
}
