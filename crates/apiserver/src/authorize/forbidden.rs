//! The messages of refused requests, in Kubernetes' words.

use evenkeel_schema::go::quote_list;

use crate::access::{Attributes, Rule, Target};
use crate::status::{Details, Status, quote};

/// Returns the `Status` for a request that is not allowed; `reason` may be empty.
pub(crate) fn forbidden(attributes: &Attributes<'_>, reason: &str) -> Status {
    let why = match reason {
        "" => sanitize(&sentence(attributes)),
        reason => format!("{}: {reason}", sanitize(&sentence(attributes))),
    };
    match attributes.target {
        Target::Path(_) => {
            Status::new(403, "Forbidden", format!("forbidden: {why}")).with(Details::default())
        }
        Target::Resource { group, resource: "", name, .. } => {
            Status::forbidden(group, "", name, format!("forbidden: {why}"))
        }
        Target::Resource { group, resource, name, .. } => {
            let subject = crate::status::qualified(resource, group);
            let subject = if name.is_empty() { subject } else { format!("{subject} {}", quote(name)) };
            Status::forbidden(group, resource, name, format!("{subject} is forbidden: {why}"))
        }
    }
}

/// The middle of the message: who cannot do what, and where.
fn sentence(attributes: &Attributes<'_>) -> String {
    let Attributes { user, verb, target } = attributes;
    let user = quote(&user.name);
    match target {
        Target::Path(path) => format!("User {user} cannot {verb} path {}", quote(path)),
        Target::Resource { group, resource, subresource, namespace, .. } => {
            let resource = match *subresource {
                "" => (*resource).to_owned(),
                part => format!("{resource}/{part}"),
            };
            let place = match *namespace {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {}", quote(namespace)),
            };
            let (resource, group) = (quote(&resource), quote(group));
            format!("User {user} cannot {verb} resource {resource} in API group {group} {place}")
        }
    }
}

/// Escapes HTML: names and paths come from the client, and a browser must not render them.
fn sanitize(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The message for a role that must not be granted because the user does not hold all its permissions.
pub(super) fn escalation(user: &crate::User, missing: &[Rule]) -> String {
    let mut lines: Vec<String> = missing.iter().map(ToString::to_string).collect();
    lines.sort();
    lines.dedup();
    format!(
        "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        user.name,
        quote_list(&user.groups),
        lines.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::User;

    fn check(verb: &str, target: Target<'_>, expected: &str) {
        let user = User::new("alice", ["devs"]);
        assert_eq!(forbidden(&Attributes { user: &user, verb, target }, "").message, expected);
    }

    #[test]
    fn refusals_are_worded_as_kubernetes_does() {
        let target = |group, resource, subresource, namespace, name| Target::Resource {
            group,
            version: "v1",
            resource,
            subresource,
            namespace,
            name,
        };
        check(
            "list",
            target("", "pods", "", "ns", ""),
            r#"pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "ns""#,
        );
        check(
            "get",
            target("rbac.authorization.k8s.io", "clusterroles", "", "", "view"),
            "clusterroles.rbac.authorization.k8s.io \"view\" is forbidden: User \"alice\" cannot get resource \
             \"clusterroles\" in API group \"rbac.authorization.k8s.io\" at the cluster scope",
        );
        check(
            "patch",
            target("apps", "deployments", "scale", "ns", "d"),
            "deployments.apps \"d\" is forbidden: User \"alice\" cannot patch resource \"deployments/scale\" in API \
             group \"apps\" in the namespace \"ns\"",
        );
        check("get", Target::Path("/a<b>"), r#"forbidden: User "alice" cannot get path "/a&lt;b&gt;""#);
    }
}
