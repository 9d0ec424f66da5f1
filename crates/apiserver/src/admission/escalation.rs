//! Writes of roles and bindings: nobody grants what they do not hold.

use serde_json::Value;

use super::{Admission, Operation, Plugin};
use crate::authorize::{Grant, check_grant};
use crate::status::Result;

/// Refuses a role or binding that would give more than its writer has. It looks after all that change objects.
pub(crate) struct Escalation;

impl Plugin for Escalation {
    fn mutate(&self, admission: &Admission<'_>, object: &mut Value) -> Result<()> {
        let ctx = admission.ctx;
        if ctx.info.group != "rbac.authorization.k8s.io" || admission.operation == Operation::Delete {
            return Ok(());
        }
        let grant = Grant {
            user: ctx.user,
            resource: &ctx.info.plural,
            namespace: &ctx.path.namespace,
            name: &ctx.path.name,
            object,
            old: admission.old,
        };
        check_grant(&*ctx.server.inner().authorizer, &grant)
    }
}
