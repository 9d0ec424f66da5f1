//! The DefaultIngressClass plugin: sets the class of Ingresses that name none to the default class, the
//! newest if there are several.

use std::cmp::Reverse;

use evenkeel_schema::json::Value;
use evenkeel_store::Range;

use super::plugin::{Admission, Handles, Plugin};
use crate::registry::{GroupResource, storage_prefix};
use crate::status::{Result, Status};
use crate::storage;

/// The annotation that named the class before the field existed.
const CLASS: &str = "kubernetes.io/ingress.class";
const DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";

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

/// The newest of the default classes.
fn default_class(admission: &Admission<'_>) -> Result<Option<String>> {
    let prefix = storage_prefix("networking.k8s.io", "ingressclasses");
    let page = admission.ctx.services.store.range(&Range { prefix, ..Range::default() });
    let page = page.map_err(Status::internal)?;
    let mut marked = Vec::new();
    for entry in &page.entries {
        // An unreadable class might be the default, so the write is refused.
        let class: Value = storage::read(entry)?;
        let metadata = &class["metadata"];
        if metadata["annotations"][DEFAULT] == "true" {
            let created = metadata["creationTimestamp"].as_str().unwrap_or_default().to_owned();
            marked.push((Reverse(created), entry.header.name.to_string()));
        }
    }
    Ok(marked.into_iter().min().map(|(_, name)| name))
}
