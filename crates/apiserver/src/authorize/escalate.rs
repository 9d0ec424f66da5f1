//! Prevention of privilege escalation: a user can grant only permissions that the user holds.

use evenkeel_schema::json::Value;

use super::rbac_index::RoleRef;
use super::{MASTERS, forbidden};
use crate::User;
use crate::access::{Attributes, Authorizer, Decision, Rule, Target, missing};
use crate::status::{Result, Status};

const GROUP: &str = "rbac.authorization.k8s.io";

/// A write of a Role, ClusterRole, RoleBinding or ClusterRoleBinding.
pub(crate) struct Grant<'a> {
    pub(crate) user: &'a User,
    /// The plural name of the resource.
    pub(crate) resource: &'a str,
    pub(crate) namespace: &'a str,
    /// The name in the path; empty for a create.
    pub(crate) name: &'a str,
    /// The object to be stored, with defaults applied.
    pub(crate) object: &'a Value,
    /// The stored object, if it exists.
    pub(crate) old: Option<&'a Value>,
}

/// Refuses a write that would grant more permissions than its user holds.
pub(crate) fn check_grant(authorizer: &dyn Authorizer, grant: &Grant<'_>) -> Result<()> {
    if grant.user.is_in(MASTERS)
        || grant.old.is_some_and(|old| differ_only_for_garbage_collection(old, grant.object))
    {
        return Ok(());
    }
    match grant.resource {
        "roles" | "clusterroles" => check_role(authorizer, grant),
        "rolebindings" | "clusterrolebindings" => check_binding(authorizer, grant),
        _ => Ok(()),
    }
}

fn check_role(authorizer: &dyn Authorizer, grant: &Grant<'_>) -> Result<()> {
    let Grant { user, resource, namespace, name, object, old } = *grant;
    if is_allowed(authorizer, user, "escalate", resource, namespace, name) {
        return Ok(());
    }
    let held = authorizer.rules(user, namespace);
    refuse_missing(grant, &held, &rules_of(object))?;
    if aggregates(object) || old.is_some_and(aggregates) {
        let refusal = "must have cluster-admin privileges to use the aggregationRule";
        if !missing(&held, &everything()).is_empty() {
            return Err(Status::not_admitted(GROUP, resource, object_name(object), refusal));
        }
    }
    Ok(())
}

fn check_binding(authorizer: &dyn Authorizer, grant: &Grant<'_>) -> Result<()> {
    let Grant { user, resource, namespace, object, .. } = *grant;
    let reference: RoleRef = object
        .get("roleRef")
        .and_then(|reference| evenkeel_schema::json::from_value(reference.clone()).ok())
        .unwrap_or_default();
    let roles = match reference.kind.as_str() {
        "ClusterRole" => "clusterroles",
        "Role" => "roles",
        // Validation refuses any other kind.
        _ => return Ok(()),
    };
    if is_allowed(authorizer, user, "bind", roles, namespace, &reference.name) {
        return Ok(());
    }
    // As in Kubernetes, the error about a missing role names the binding's resource, because that is the
    // resource of the request.
    let wanted = authorizer
        .role(&reference.kind, &reference.name, namespace)
        .ok_or_else(|| Status::not_found(GROUP, resource, &reference.name))?;
    refuse_missing(grant, &authorizer.rules(user, namespace), &wanted)
}

fn refuse_missing(grant: &Grant<'_>, held: &[Rule], wanted: &[Rule]) -> Result<()> {
    let missing = missing(held, wanted);
    if missing.is_empty() {
        return Ok(());
    }
    let why = forbidden::escalation(grant.user, &missing);
    Err(Status::not_admitted(GROUP, grant.resource, object_name(grant.object), &why))
}

fn is_allowed(
    authorizer: &dyn Authorizer,
    user: &User,
    verb: &str,
    resource: &str,
    namespace: &str,
    name: &str,
) -> bool {
    let target = Target::Resource { group: GROUP, version: "*", resource, subresource: "", namespace, name };
    matches!(authorizer.authorize(&Attributes { user, verb, target }), Decision::Allow(_))
}

fn rules_of(role: &Value) -> Vec<Rule> {
    role.get("rules")
        .and_then(|rules| evenkeel_schema::json::from_value(rules.clone()).ok())
        .unwrap_or_default()
}

fn object_name(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

fn aggregates(role: &Value) -> bool {
    let selectors = role.pointer("/aggregationRule/clusterRoleSelectors").and_then(Value::as_array);
    selectors.is_some_and(|selectors| !selectors.is_empty())
}

/// Rules that grant all verbs on all resources and all paths.
fn everything() -> [Rule; 2] {
    let star = || vec!["*".to_owned()];
    [
        Rule { verbs: star(), api_groups: star(), resources: star(), ..Rule::default() },
        Rule { verbs: star(), non_resource_urls: star(), ..Rule::default() },
    ]
}

/// Whether two versions of an object differ only in fields that the garbage collector changes. It may change
/// them without holding the role's permissions.
fn differ_only_for_garbage_collection(old: &Value, new: &Value) -> bool {
    let strip = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in ["ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation"] {
                metadata.remove(field);
            }
        }
        object
    };
    strip(old) == strip(new)
}
