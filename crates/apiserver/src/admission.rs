//! Admission: plugins, policies, webhooks and quotas that may change or refuse an object before it is stored.
//!
//! All of them stand in one ordered list, [`CHAIN`], in the order of Kubernetes. A write passes the list twice: once to
//! [`mutate`] the object before it is validated, and once to [`validate`] the object when it is valid otherwise.

mod default_ingress_class;
mod escalation;
mod limit_range;
mod namespace_lifecycle;
mod node;
mod plugin;
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
use crate::conversion;
use crate::status::Result;

use plugin::Plugin;
pub(crate) use plugin::{Admission, Operation};

/// A member of the admission chain.
enum Step {
    /// A plugin, which answers at once.
    Plugin(&'static dyn Plugin),
    /// The mutating webhooks, which are asked one after another.
    MutatingWebhooks,
    /// The validating webhooks, which are asked all at once.
    ValidatingWebhooks,
    /// The quotas of the namespace. They are charged last, when everything else has agreed.
    ResourceQuota,
}

/// The members of the chain in their order.
static CHAIN: [Step; 18] = [
    Step::Plugin(&namespace_lifecycle::NamespaceLifecycle),
    Step::Plugin(&limit_range::LimitRanger),
    Step::Plugin(&pod::ServiceAccount),
    Step::Plugin(&pod_security::PodSecurity),
    Step::Plugin(&pod::Priority),
    Step::Plugin(&pod::TolerationSeconds),
    Step::Plugin(&node::TaintByCondition),
    Step::Plugin(&storage::DefaultStorageClass),
    Step::Plugin(&storage::InUseProtection),
    Step::Plugin(&storage::Resize),
    Step::Plugin(&runtime_class::RuntimeClass),
    Step::Plugin(&default_ingress_class::DefaultIngressClass),
    Step::Plugin(&policy::MutatingPolicies),
    Step::Plugin(&escalation::Escalation),
    Step::MutatingWebhooks,
    Step::Plugin(&policy::ValidatingPolicies),
    Step::ValidatingWebhooks,
    Step::ResourceQuota,
];

/// Lets the chain change an object before it is validated, or refuse the write.
pub(crate) async fn mutate(admission: &Admission<'_>, object: &mut Value) -> Result<()> {
    for step in &CHAIN {
        match step {
            Step::Plugin(plugin) => mutate_by(*plugin, admission, object)?,
            Step::MutatingWebhooks => webhook::mutate(admission, object, mutate_again).await?,
            Step::ValidatingWebhooks | Step::ResourceQuota => {}
        }
    }
    Ok(())
}

/// Runs the plugins again over an object that a webhook has changed.
fn mutate_again(admission: &Admission<'_>, object: &mut Value) -> Result<()> {
    let plugins = CHAIN.iter().filter_map(|step| match step {
        Step::Plugin(plugin) => Some(*plugin),
        _ => None,
    });
    plugins.into_iter().try_for_each(|plugin| mutate_by(plugin, admission, object))
}

fn mutate_by(plugin: &dyn Plugin, admission: &Admission<'_>, object: &mut Value) -> Result<()> {
    if plugin.handles().includes(admission) { plugin.mutate(admission, object) } else { Ok(()) }
}

/// Lets the chain refuse the write of a valid object, and charges the quotas for it.
pub(crate) async fn validate(admission: &Admission<'_>, object: &Value) -> Result<()> {
    for step in &CHAIN {
        match step {
            Step::Plugin(plugin) if plugin.handles().includes(admission) => {
                plugin.validate(admission, object)?;
            }
            Step::ValidatingWebhooks => webhook::validate(admission, object).await?,
            Step::ResourceQuota => quota::charge(admission, object).await?,
            Step::Plugin(_) | Step::MutatingWebhooks => {}
        }
    }
    Ok(())
}

/// Lets the chain refuse the deletion of an object.
pub(crate) async fn admit_deletion(
    ctx: &RequestContext<'_>,
    entry: &Entry<Header>,
    dry_run: bool,
) -> Result<()> {
    // Only policies and webhooks look at the object: without them it is not parsed.
    let old = match policy::registered(ctx, &entry.header.name)?.sees_deletions() {
        true => Some(conversion::object(&ctx.services.objects, ctx.info, entry)?),
        false => None,
    };
    let admission = Admission {
        ctx,
        operation: Operation::Delete,
        name: &entry.header.name,
        generate_name: "",
        old: old.as_deref(),
        part: None,
        dry_run,
    };
    mutate(&admission, &mut Value::Null).await?;
    validate(&admission, &Value::Null).await
}
