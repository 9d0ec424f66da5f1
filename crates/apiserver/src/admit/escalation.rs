//! Writes of roles and bindings: nobody grants what they do not hold.

use serde_json::Value;

use super::{Admission, Operation, Plugin};
use crate::authorize::{Grant, check_grant};
use crate::status::Result;

/// Refuses a role or binding that would give more than its writer has. It looks after all that change objects.
pub(crate) struct Escalation;

impl Plugin for Escalation {
    fn admit(&self, admission: &Admission<'_>, object: &mut Value) -> Result<()> {
        let call = admission.call;
        if call.info.group != "rbac.authorization.k8s.io" || admission.operation == Operation::Delete {
            return Ok(());
        }
        let grant = Grant {
            user: call.user,
            resource: &call.info.plural,
            namespace: &call.path.namespace,
            name: &call.path.name,
            object,
            old: admission.old,
        };
        check_grant(&*call.server.inner().authorizer, &grant)
    }
}
