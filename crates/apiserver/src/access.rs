//! The question that authorization answers, and who may answer it.

use crate::User;
use crate::authorize::Rule;

/// What a request wants to do, in the words of RBAC.
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    /// Who asks.
    pub user: &'a User,
    /// `get`, `list`, `create`, …; for a path that is no resource, the method in lower case.
    pub verb: &'a str,
    /// What is asked for.
    pub target: Target<'a>,
}

/// What a request is aimed at.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// Objects of the API.
    Resource {
        /// The API group, empty for core.
        group: &'a str,
        /// The API version.
        version: &'a str,
        /// The plural name.
        resource: &'a str,
        /// The part of the object, else empty.
        subresource: &'a str,
        /// The namespace, else empty.
        namespace: &'a str,
        /// The name, else empty. A list or watch by `metadata.name` has it too.
        name: &'a str,
    },
    /// Any other path, such as `/healthz`.
    Path(&'a str),
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may; the reason is shown in access reviews and may be empty.
    Allow(String),
    /// It may not; the reason is shown to the client and may be empty.
    Deny(String),
}

/// Decides whether a request may be served.
pub trait Authorizer: Send + Sync {
    /// Decides on one request. It must not block: it reads what the store has in memory.
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision;

    /// Every rule that is known to hold for a user in a namespace, as far as the authorizer works by rules.
    fn rules(&self, user: &User, namespace: &str) -> Vec<Rule> {
        let _ = (user, namespace);
        Vec::new()
    }

    /// The rules that a binding in `namespace` to this Role or ClusterRole grants; none where there is no such role.
    fn role(&self, kind: &str, name: &str, namespace: &str) -> Option<Vec<Rule>> {
        let _ = (kind, name, namespace);
        None
    }
}

/// Allows everything to everybody.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllowAll;

impl Authorizer for AllowAll {
    fn authorize(&self, _: &Attributes<'_>) -> Decision {
        Decision::Allow(String::new())
    }
}
