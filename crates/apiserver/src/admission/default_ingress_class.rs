//! Ingresses that name no class get the one that is marked as the default, the newest of several.

use std::cmp::Reverse;

use evenkeel_store::Range;
use serde_json::Value;

use super::plugin::{Admission, Handles, Plugin};
use crate::registry::{GroupResource, storage_prefix};
use crate::status::{Result, Status};
use crate::storage;

/// Where an ingress named its class before there was a field for it.
const CLASS: &str = "kubernetes.io/ingress.class";
const DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";

/// The DefaultIngressClass plugin.
#[derive(Debug)]
pub(super) struct DefaultIngressClass;

impl Plugin for DefaultIngressClass {
    fn handles(&self) -> Handles {
        Handles::creation_of(&[GroupResource::INGRESSES])
    }

    fn mutate(&self, admission: &Admission<'_>, ingress: &mut Value) -> Result<()> {
        let named = !ingress["spec"]["ingressClassName"].is_null()
            || !ingress["metadata"]["annotations"][CLASS].is_null();
        if !named && let Some(name) = default_class(admission)? {
            ingress["spec"]["ingressClassName"] = name.into();
        }
        Ok(())
    }
}

/// The newest of the classes that are marked as the default.
fn default_class(admission: &Admission<'_>) -> Result<Option<String>> {
    let prefix = storage_prefix("networking.k8s.io", "ingressclasses");
    let page = admission.ctx.services.store.range(&Range { prefix, ..Range::default() });
    let page = page.map_err(Status::internal)?;
    let mut marked = Vec::new();
    for entry in &page.entries {
        // A class that cannot be read may be the default.
        let class: Value = storage::read(entry)?;
        let metadata = &class["metadata"];
        if metadata["annotations"][DEFAULT] == "true" {
            let created = metadata["creationTimestamp"].as_str().unwrap_or_default().to_owned();
            marked.push((Reverse(created), entry.header.name.to_string()));
        }
    }
    Ok(marked.into_iter().min().map(|(_, name)| name))
}
