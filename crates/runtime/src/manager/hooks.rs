//! The webhooks of a manager.

use kube::core::CustomResourceExt;

use super::Manager;
use crate::Object;
use crate::error::BoxError;
use crate::webhook::{Conversion, Converter, IntoWebhook, Webhook, Webhooks};

/// The webhooks that were added to a manager.
#[derive(Default)]
pub(super) struct Hooks {
    list: Vec<Webhook>,
    converters: Vec<Converter>,
}

impl Hooks {
    pub(super) fn is_empty(&self) -> bool {
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
    pub fn conversion<H>(mut self, conversion: Conversion<H>) -> Self
    where
        H: Object<DynamicType = ()> + CustomResourceExt,
    {
        self.hooks.converters.push(conversion.erase());
        self
    }

    /// Takes the webhooks out of the manager, for whoever serves them. Returns `None` if there are none. A manager does not
    /// run with webhooks that nobody has taken: requests that they must review would fail.
    ///
    /// # Errors
    /// When two webhooks have the same path or name.
    pub fn take_webhooks(&mut self) -> Result<Option<Webhooks>, BoxError> {
        if self.hooks.is_empty() {
            return Ok(None);
        }
        let Hooks { list, converters } = std::mem::take(&mut self.hooks);
        Ok(Some(Webhooks::new(list, converters, self.metrics.clone())?))
    }
}
