//! Admission: what may change or refuse an object between its decoding and its storing.

mod escalation;
mod lifecycle;
mod node;
mod pod;

use serde_json::Value;

use crate::call::Call;
use crate::status::Result;

use escalation::Escalation;
use lifecycle::NamespaceLifecycle;

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

/// One write on its way through admission.
pub(crate) struct Admission<'a> {
    pub(crate) call: &'a Call<'a>,
    pub(crate) operation: Operation,
    /// The name of the object; empty where it is still to be generated.
    pub(crate) name: &'a str,
    /// The object before; none for creations.
    pub(crate) old: Option<&'a Value>,
}

/// A plugin. Those that change objects run before all that only look.
pub(crate) trait Plugin: Send + Sync {
    /// Changes the object, or refuses the write.
    fn admit(&self, admission: &Admission<'_>, object: &mut Value) -> Result<()>;
}

/// The plugins in their order.
pub(crate) fn plugins() -> Vec<Box<dyn Plugin>> {
    vec![
        Box::new(NamespaceLifecycle),
        Box::new(pod::ServiceAccount),
        Box::new(pod::Priority),
        Box::new(pod::TolerationSeconds),
        Box::new(node::TaintByCondition),
        Box::new(Escalation),
    ]
}

/// Runs an object through all plugins.
pub(crate) fn admit(admission: &Admission<'_>, object: &mut Value) -> Result<()> {
    let plugins = &admission.call.server.inner().plugins;
    plugins.iter().try_for_each(|plugin| plugin.admit(admission, object))
}
