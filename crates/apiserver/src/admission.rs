//! Admission: plugins, policies, webhooks and quotas that may change or refuse an object before it is stored.
//!
//! All of them are in one ordered list, [`CHAIN`], in Kubernetes' order. A write passes the list twice:
//! [`mutate`] may change the object before validation, and [`validate`] may refuse it after validation.

mod access;
mod admission_policy;
mod certificates;
mod default_ingress_class;
mod escalation;
mod limit_range;
mod namespace_lifecycle;
mod node;
mod plugin;
mod pod;
mod pod_security;
mod quota;
mod runtime_class;
mod storage;
mod webhook;

use evenkeel_schema::json::Value;

use crate::context::RequestContext;
use crate::conversion::{self, Served};
use crate::status::Result;

use plugin::Plugin;
pub(crate) use plugin::{Admission, Operation};

/// A step of the admission chain.
enum Step {
    /// A plugin, which decides without waiting.
    Plugin(&'static dyn Plugin),
    /// The mutating webhooks, which are called one after the other.
    MutatingWebhooks,
    /// The validating webhooks, which are called concurrently.
    ValidatingWebhooks,
    /// The quotas of the namespace. They are charged last, after all other steps have accepted the write.
    ResourceQuota,
}

/// The steps of the chain, in order.
static CHAIN: [Step; 21] = [
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
    Step::Plugin(&certificates::Approval),
    Step::Plugin(&certificates::Signing),
    Step::Plugin(&certificates::SubjectRestriction),
    Step::Plugin(&default_ingress_class::DefaultIngressClass),
    Step::Plugin(&admission_policy::MutatingPolicies),
    Step::Plugin(&escalation::Escalation),
    Step::MutatingWebhooks,
    Step::Plugin(&admission_policy::ValidatingPolicies),
    Step::ValidatingWebhooks,
    Step::ResourceQuota,
];

/// Runs the mutating steps of the chain, which may change the object or refuse the write.
pub(crate) async fn mutate(admission: &Admission<'_>, object: &mut Value) -> Result<()> {
    admission_policy::prepare(admission.ctx, admission.shown_name()).await?;
    for step in &CHAIN {
        match step {
            Step::Plugin(plugin) => mutate_by(*plugin, admission, object)?,
            Step::MutatingWebhooks => webhook::mutate(admission, object, mutate_again).await?,
            Step::ValidatingWebhooks | Step::ResourceQuota => {}
        }
    }
    Ok(())
}

/// Runs the plugins again after a webhook has changed the object.
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

/// Runs the validating steps of the chain, which may refuse the write, and charges the quotas.
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

/// Runs the chain for a deletion.
pub(crate) async fn admit_deletion(ctx: &RequestContext<'_>, entry: &Served, dry_run: bool) -> Result<()> {
    // The object is parsed only if a policy or webhook will look at it.
    let old = match admission_policy::registered(ctx, &entry.header.name)?.sees_deletions() {
        true => Some(conversion::tree(&ctx.services.objects, ctx.info, entry)?),
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
