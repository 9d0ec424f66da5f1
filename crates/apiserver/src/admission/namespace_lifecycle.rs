//! The NamespaceLifecycle plugin: nothing is created in a namespace that does not exist or is being deleted,
//! and some namespaces cannot be deleted.

use evenkeel_schema::json::Value;

use super::plugin::{Admission, Handles, Operation, Plugin};
use crate::registry::{GroupResource, storage_prefix};
use crate::status::{Cause, Result, Status};
use crate::storage;

/// The namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

#[derive(Debug)]
pub(crate) struct NamespaceLifecycle;

impl Plugin for NamespaceLifecycle {
    fn handles(&self) -> Handles {
        Handles::EVERYTHING
    }

    fn mutate(&self, admission: &Admission<'_>, _: &mut Value) -> Result<()> {
        let info = &admission.ctx.info;
        let namespace = &admission.ctx.path.namespace;
        if admission.is_about(GroupResource::NAMESPACES) {
            return refuse_immortal(admission);
        }
        // Access reviews name a namespace without being created in it.
        let reviews = info.group == "authorization.k8s.io";
        if namespace.is_empty() || reviews {
            return Ok(());
        }
        let key = format!("{}{namespace}", storage_prefix("", "namespaces"));
        let found = admission.ctx.services.store.get(&key);
        // The labels of a namespace determine which rules apply to it, so writes to an unreadable namespace
        // are refused.
        found.as_deref().map_or(Ok(()), storage::check_readable)?;
        if admission.operation != Operation::Create {
            return Ok(());
        }
        match found {
            None => Err(Status::not_found("", "namespaces", namespace)),
            Some(entry) if entry.header.deleting => Err(terminating(admission)),
            Some(_) => Ok(()),
        }
    }
}

fn refuse_immortal(admission: &Admission<'_>) -> Result<()> {
    if admission.operation == Operation::Delete && IMMORTAL.contains(&admission.name) {
        let why = "this namespace may not be deleted";
        return Err(Status::not_admitted("", "namespaces", admission.name, why));
    }
    Ok(())
}

fn terminating(admission: &Admission<'_>) -> Status {
    let info = &admission.ctx.info;
    let namespace = &admission.ctx.path.namespace;
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut status = Status::not_admitted(&info.group, &info.plural, admission.shown_name(), &why);
    let cause = Cause {
        reason: "NamespaceTerminating".to_owned(),
        message: format!("namespace {namespace} is being terminated"),
        field: "metadata.namespace".to_owned(),
    };
    if let Some(details) = &mut status.details {
        details.causes.push(cause);
    }
    status
}
