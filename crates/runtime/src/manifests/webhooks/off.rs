//! Replaces the manifests of webhooks in a build without the feature `webhooks`.

use serde_json::Value;

use super::Manifests;
use super::rules::Rule;

#[derive(Clone, Debug, Default)]
pub(super) struct Hooked;

impl Manifests {
    pub(super) fn definitions(&self) -> Vec<Value> {
        self.crds.clone()
    }

    pub(super) fn webhook_port_name(&self) -> Option<&'static str> {
        None
    }

    pub(super) fn webhook_objects(&self) -> Vec<Value> {
        Vec::new()
    }

    pub(super) fn webhook_configurations(&self) -> Vec<Value> {
        Vec::new()
    }

    pub(super) fn deploy_webhooks(&self, _: &mut Value) {}

    pub(super) fn webhook_rules(&self) -> Vec<(Option<String>, Rule)> {
        Vec::new()
    }
}
