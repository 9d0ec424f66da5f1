//! The check of writes of roles and bindings: a user can grant only permissions that the user holds.

use evenkeel_schema::json::Value;

use super::plugin::{Admission, Handles, Operation, Plugin};
use crate::authorize::{Grant, check_grant};
use crate::registry::GroupResource;
use crate::status::Result;

/// Refuses a role or binding that would grant more than its writer holds. It runs after all plugins that
/// change objects.
pub(crate) struct Escalation;

const GROUP: &str = "rbac.authorization.k8s.io";
const RESOURCES: [GroupResource; 4] = [
    GroupResource::new(GROUP, "roles"),
    GroupResource::new(GROUP, "rolebindings"),
    GroupResource::new(GROUP, "clusterroles"),
    GroupResource::new(GROUP, "clusterrolebindings"),
];

impl Plugin for Escalation {
    fn handles(&self) -> Handles {
        Handles {
            operations: &[Operation::Create, Operation::Update],
            resources: &RESOURCES,
            subresources: true,
        }
    }

    fn mutate(&self, admission: &Admission<'_>, object: &mut Value) -> Result<()> {
        let ctx = admission.ctx;
        let grant = Grant {
            user: ctx.user,
            resource: &ctx.info.plural,
            namespace: &ctx.path.namespace,
            name: &ctx.path.name,
            object,
            old: admission.old,
        };
        check_grant(&*ctx.services.authorizer, &grant)
    }
}
