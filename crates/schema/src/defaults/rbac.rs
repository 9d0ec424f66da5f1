//! The API group `rbac.authorization.k8s.io`: RoleBindings and ClusterRoleBindings.

use super::{Object, child, set_text, text};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn rules(name: &str, object: &mut Object) {
    match name {
        "ClusterRoleBinding" | "RoleBinding" => set_text(child(object, "roleRef"), "apiGroup", GROUP),
        "Subject" if matches!(text(object, "kind"), "User" | "Group") => set_text(object, "apiGroup", GROUP),
        _ => {}
    }
}
