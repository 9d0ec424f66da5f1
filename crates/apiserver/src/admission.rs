//! Admission: what may change or refuse an object between its decoding and its storing.

mod escalation;
mod ingress;
mod limit_range;
mod namespace_lifecycle;
mod node;
mod pod;
mod pod_security;
mod policy;
mod quota;
mod runtime_class;
mod storage;
mod webhook;

use evenkeel_store::Entry;
use serde_json::Value;

use crate::Header;
use crate::context::RequestContext;
use crate::status::Result;

use escalation::Escalation;
use limit_range::LimitRanger;
use namespace_lifecycle::NamespaceLifecycle;
use pod_security::PodSecurity;
pub(crate) use policy::{Policies, examine_deletion};
pub(crate) use quota::charge;
pub(crate) use webhook::{ask, ask_deletion, ask_to_mutate};

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

/// One write on its way through admission.
pub(crate) struct Admission<'a> {
    pub(crate) ctx: &'a RequestContext<'a>,
    pub(crate) operation: Operation,
    /// The name of the object; empty where it has none, or none yet.
    pub(crate) name: &'a str,
    /// What the name will be made from, where it is still to be generated; else empty.
    pub(crate) generate_name: &'a str,
    /// The object before; none for creations.
    pub(crate) old: Option<&'a Value>,
}

impl<'a> Admission<'a> {
    /// The deletion of an object.
    fn deletion(ctx: &'a RequestContext<'a>, entry: &'a Entry<Header>, old: &'a Value) -> Self {
        let name = &entry.header.name;
        Self { ctx, operation: Operation::Delete, name, generate_name: "", old: Some(old) }
    }

    /// The name as plugins tell it.
    fn shown_name(&self) -> &str {
        match (self.name, self.generate_name) {
            ("", "") => "Unknown",
            ("", base) => base,
            (name, _) => name,
        }
    }
}

/// A plugin. It may change an object before it is validated, and look at it when all else has agreed.
pub(crate) trait Plugin: Send + Sync {
    /// Changes the object, or refuses the write.
    fn mutate(&self, _: &Admission<'_>, _: &mut Value) -> Result<()> {
        Ok(())
    }

    /// Refuses the write of an object that is valid otherwise, or warns of it. The object of a deletion is null; what it was is `old`.
    fn validate(&self, _: &Admission<'_>, _: &Value) -> Result<()> {
        Ok(())
    }
}

/// The plugins in their order.
pub(crate) fn plugins() -> Vec<Box<dyn Plugin>> {
    vec![
        Box::new(NamespaceLifecycle),
        Box::new(LimitRanger),
        Box::new(pod::ServiceAccount),
        Box::new(PodSecurity),
        Box::new(pod::Priority),
        Box::new(pod::TolerationSeconds),
        Box::new(node::TaintByCondition),
        Box::new(storage::DefaultStorageClass),
        Box::new(storage::InUseProtection),
        Box::new(storage::Resize),
        Box::new(runtime_class::RuntimeClass),
        Box::new(ingress::DefaultIngressClass),
        Box::new(policy::MutatingPolicies),
        Box::new(Escalation),
        Box::new(policy::ValidatingPolicies),
    ]
}

/// Runs an object through all plugins.
pub(crate) fn admit(admission: &Admission<'_>, object: &mut Value) -> Result<()> {
    let plugins = &admission.ctx.server.inner().plugins;
    plugins.iter().try_for_each(|plugin| plugin.mutate(admission, object))
}

/// Shows a valid object to all plugins.
pub(crate) fn examine(admission: &Admission<'_>, object: &Value) -> Result<()> {
    let plugins = &admission.ctx.server.inner().plugins;
    plugins.iter().try_for_each(|plugin| plugin.validate(admission, object))
}

/// Several errors as Go tells them together; none where there are none.
fn aggregate(errors: &[String]) -> Option<String> {
    let mut told: Vec<&str> = Vec::new();
    for error in errors {
        if !told.contains(&error.as_str()) {
            told.push(error);
        }
    }
    match told.as_slice() {
        [] => None,
        [one] => Some((*one).to_owned()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}
